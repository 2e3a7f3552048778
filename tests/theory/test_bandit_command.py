"""The bandit to play with: what is printed, that draws estimate the exact gradient, that the page computes the same."""

import numpy as np
import pytest

from polychromic.cli import main
from polychromic.theory import bandit, dynamics
from polychromic.theory.collapse import DRAWS, Bandit

LOGITS, REWARDS = np.array([0.8, -0.3, 0.1]), np.array([1.0, 1.0, 0.0])


def test_the_command_shows_who_collapses(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["bandit", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for line in (
        "REINFORCE           success 0.559 → 0.998, right arms in 16 draws 3.7 → 1.2 of 5. It ends on arm 1.",
        "PPO-style           success 0.559 → 1.000, right arms in 16 draws 3.7 → 1.0 of 5. It ends on arm 1.",
        "polychromic, n = 4  success 0.559 → 0.983, right arms in 16 draws 3.7 → 4.8 of 5. It keeps 5 of 5 right arms.",
    ):
        assert line in printed
    assert len([line for line in printed.splitlines() if line.startswith(("●", "○"))]) == 10
    assert "@OPEN@" not in out.read_text(encoding="utf-8")


def test_options_change_the_outcome(tmp_path, capsys):
    def ends(*options):
        assert main(["bandit", "--out", str(tmp_path / "page.html"), *options]) == 0
        return capsys.readouterr().out

    assert "It spends 44% on wrong arms." in ends("--right", "1", "--method", "polychromic")
    assert "It keeps 5 of 5 right arms." in ends("--unevenness", "0", "--method", "ppo")
    drawn = ["--unevenness", "0", "--method", "ppo", "--rollouts", "8", "--step-size", "0.5"]
    assert "It ends on arm 5." in ends(*drawn, "--seed", "1")  # chance breaks the tie
    assert ends(*drawn, "--seed", "3") == ends(*drawn, "--seed", "3")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--right", "11"], "right is 11; it must be between 1 and 10"),
        (["--arms", "1"], "arms is 1; it must be between 2 and 20"),
        (["--set-size", "0"], "set_size is 0; it must be between 1 and 16"),
        (["--unevenness", "nan"], "unevenness is nan; it must be between 0 and 3"),
        (["--rollouts", "4"], "rollouts is 4; it must be at least 5"),
        (["--rollouts", "1", "--method", "ppo"], "rollouts is 1; it must be at least 2"),
        (["--seed", "-1"], "seed is -1; it must be at least 0"),
        (["--out", "/dev/null/page.html"], "out: cannot write /dev/null/page.html"),
    ],
)
def test_a_wrong_option_gets_one_line(options, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["bandit", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"polychromic bandit: {told}")


@pytest.mark.parametrize(("method", "set_size"), [("reinforce", 1), ("polychromic", 2), ("polychromic", 3)])
def test_draws_estimate_the_exact_gradient(method, set_size):
    update = dynamics.from_draws(method, set_size, num_rollouts=6, seed=0)
    steps = np.array([update(LOGITS, REWARDS, 1.0) - LOGITS for _ in range(3000)])
    exact = dynamics.exact(method, set_size)(LOGITS, REWARDS, 1.0) - LOGITS
    error = steps.std(axis=0) / np.sqrt(len(steps))
    assert (np.abs(steps.mean(axis=0) - exact) < 4 * error).all()
    assert (4 * error < 0.2 * np.abs(exact).max()).all()  # or the line above would say nothing


def test_drawn_ppo_steps_up_on_what_paid_and_stops_at_the_clip():
    one, many = (dynamics.from_draws("ppo", 1, num_rollouts=64, seed=0)(LOGITS, REWARDS, size) for size in (0.1, 1e9))
    assert bandit.softmax(one) @ REWARDS > bandit.softmax(LOGITS) @ REWARDS
    assert np.isfinite(many).all()


@pytest.mark.parametrize("set_size", [2, 3])
def test_the_push_on_an_arm_is_its_scaffold_value(set_size):
    """Λ of a set of copies of one arm is the gradient of its logit over n; of distinct arms it is their mean."""
    policy, sets = bandit.softmax(LOGITS), bandit.action_sets(3, set_size)
    scores = bandit.polychromic_scores(REWARDS, sets)
    gradient = dynamics.polychromic_gradient(policy, REWARDS, set_size)
    for arm in range(3):
        copies = np.full(set_size, arm)
        assert bandit.scaffold_value(policy, scores, sets, copies) == pytest.approx(gradient[arm] / set_size, abs=1e-14)
    distinct = np.arange(set_size)
    assert bandit.scaffold_value(policy, scores, sets, distinct) == pytest.approx(gradient[distinct].mean(), abs=1e-14)


class Page:
    """The page in a browser."""

    def __init__(self, opened):
        self.opened = opened

    def move(self, **sliders):
        for name, value in sliders.items():
            self.opened.evaluate(
                "([name, value]) => { const slider = document.getElementById(name); slider.value = value;"
                " slider.dispatchEvent(new Event('input')); }",
                [name, value],
            )

    def numbers(self, method):
        shown = self.opened.locator(f"figure[data-method={method}] [data-number]").evaluate_all(
            "all => all.map(one => [one.dataset.number, Number(one.dataset.value), one.textContent])"
        )
        for _, value, text in shown:
            assert abs(float(text) - value) <= 0.0051
        return {name: value for name, value, _ in shown}


@pytest.fixture(params=[1400, 400])
def page(browser, tmp_path, request):
    out = tmp_path / "page.html"
    assert main(["bandit", "--out", str(out)]) == 0
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    troubles, requests = [], []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda asked: requests.append(asked.url))
    opened.goto(out.as_uri())
    yield Page(opened)
    assert troubles == []
    assert requests == [out.as_uri()]
    assert opened.evaluate("document.documentElement.scrollWidth") <= request.param
    opened.close()


def test_the_page_computes_what_the_library_computes(page):
    settings = (
        {},
        {"set_size": 8, "arms": 12, "right": 7, "unevenness": 0.3},
        {"set_size": 1, "steps": 300},
        {"arms": 4, "right": 1, "set_size": 16, "step_size": 0.9},
        {"arms": 20, "right": 20, "unevenness": 3, "set_size": 2, "steps": 5000},
        {"unevenness": 0, "right": 5, "arms": 10, "set_size": 4, "step_size": 0.2},
    )
    now = {}
    for changed in settings:
        now |= changed
        page.move(**changed)
        for method in dynamics.METHODS:
            curve = Bandit(**now).train(method)
            numbers = page.numbers(method)
            assert numbers["success"] == pytest.approx(curve.success[-1], abs=1e-9)
            assert numbers["distinct"] == pytest.approx(curve.distinct_right[-1], abs=1e-9)
    assert f"in {DRAWS} draws" in page.opened.inner_text("#panels")


def test_steps_buttons_and_the_headline(page):
    opened = page.opened
    assert opened.inner_text("#headline") == "PPO ends on 1.0 of 5 right arms; sets of 4 end on 4.8."
    assert opened.locator("#headline").bounding_box()["y"] < 200
    page.move(step=0)
    start = Bandit().train("ppo").success[0]
    assert page.numbers("ppo")["success"] == pytest.approx(start, abs=1e-12)
    opened.get_by_role("button", name="One right arm").click()
    assert opened.inner_text("#headline").startswith("One right arm")
    opened.get_by_role("button", name="A perfect tie").click()
    assert opened.inner_text("#headline").startswith("PPO ends on 4.9 of 5")
    opened.get_by_role("button", name="As it opened").click()
    assert opened.inner_text("#right-shown") == "5"
    opened.get_by_role("button", name="Play").click()
    opened.wait_for_function("Number(document.getElementById('step').value) > 50")
    opened.get_by_role("button", name="Pause").click()
    assert opened.get_by_role("button", name="Play").count() == 1
    page.move(arms=3)  # fewer arms than right ones
    assert opened.inner_text("#right-shown") == "3"
