"""The pages on language models say what the stored runs say; their tables against small cases by hand."""

import json
import re
from pathlib import Path

import pytest
from examples.language_model import open_questions_figure, study_tables

ROOT = Path(__file__).parents[1]
ANSWERS = ROOT / "results/open-questions.json"


def marks(page):
    found = re.findall(r"<!-- ([\w-]+) -->\n(.*?)<!-- end -->", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)
    return {name: text.strip() for name, text in found}


def test_the_overview_says_what_the_demonstration_found():
    stored = json.loads(ANSWERS.read_text())
    assert marks("language-models.md")["answers"] == open_questions_figure.table(stored)


def test_the_picture_shows_what_the_demonstration_found():
    stored = json.loads(ANSWERS.read_text())
    assert open_questions_figure.equal_success(stored) == "0.6"
    drawn = (ROOT / "docs/figures/language-answers.svg").read_text("utf-8")
    rows = open_questions_figure.rows(stored)
    assert len(rows) == 4
    for name, _, given in rows:
        for question in stored["settings"]["questions"]:
            success, different = open_questions_figure.shares(given, question)
            assert f">{name}: {success:.0%} right, {different} different word" in drawn


def test_the_readme_says_what_the_demonstration_found():
    stored = json.loads(ANSWERS.read_text())
    by_method = {m: [run for run in stored["runs"] if run["method"] == m] for m in ("grpo", "polychromic")}
    told = []
    for given in (
        [run["answers"] for run in by_method["grpo"]],
        [run["answers"] for run in by_method["polychromic"]],
        [run["temperatures"]["0.6"] for run in by_method["polychromic"]],
    ):
        success, different = open_questions_figure.means(given, stored["settings"]["questions"])
        told.append((f"{different:.1f}", f"{success:.0%}"))
    (stock, always), (sets, mostly), (cooler, often) = told
    for page in ("README.md", "docs/language-models.md"):
        text = " ".join((ROOT / page).read_text("utf-8").split())
        assert f"{stock} after stock GRPO ({always} right), {sets} after polychromic training ({mostly})" in text
        assert f"{cooler} at temperature 0.6 ({often})" in text


def test_the_demonstration_earns_its_claim():
    """Equal success, and at least twice as many different right answers, in the mean of three seeds."""
    stored = json.loads(ANSWERS.read_text())
    runs = {m: [run for run in stored["runs"] if run["method"] == m] for m in ("grpo", "polychromic")}
    assert [len(own) for own in runs.values()] == [3, 3]
    questions = stored["settings"]["questions"]
    assert len(questions) == 3
    stock = open_questions_figure.means([run["answers"] for run in runs["grpo"]], questions)
    sets = open_questions_figure.means([run["temperatures"]["0.6"] for run in runs["polychromic"]], questions)
    assert sets[0] >= stock[0]
    assert sets[1] >= 2 * stock[1]


def test_the_page_of_the_study_says_what_its_cells_say():
    folder = ROOT / "results/language"
    assert marks("language-study.md") == study_tables.blocks(folder, study_tables.read(folder))


def test_what_the_pages_say_in_words_follows_from_the_cells():
    cells = study_tables.read(ROOT / "results/language")
    earned = [
        f for f in study_tables.FAMILIES if study_tables.verdict(cells, f, "polychromic-4-annealed")[2:8] == "earned"
    ]
    alone = [f for f in study_tables.FAMILIES if study_tables.verdict(cells, f)[2:8] == "earned"]
    assert (earned, alone) == (["countdown", "chains"], [])
    seeds = {len(cells[family, "stock"]) for family in study_tables.FAMILIES}
    assert seeds == {8}
    page = " ".join((ROOT / "docs/language-study.md").read_text("utf-8").split())
    assert "eight seeds." in page
    sets = {f: study_tables.verdict(cells, f) for f in study_tables.FAMILIES}
    assert [f for f, words in sets.items() if words.count("ahead on") == 2] == ["countdown", "chains"]
    assert "they are ahead at 32 attempts on countdown and chains" in page
    assert "**Sets of 4 miss the claim on all three families**" in page
    assert "**Annealed sets meet it on countdown and chains**" in page
    assert "on two families of three" in " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_what_the_study_says_of_temperatures_follows_from_the_cells():
    cells = study_tables.read(ROOT / "results/language")
    resolved, behind = {}, {}
    for family in study_tables.FAMILIES:
        one, _, harder, distinct = map(study_tables.mean_and_interval, study_tables.cooler(cells, family, "0.6"))
        assert one[0] >= -study_tables.CLOSE
        assert distinct[1] > 0
        resolved[family] = "more" if harder[1] > 0 else "fewer" if harder[2] < 0 else "not resolved"
        for row in ("polychromic-4", "polychromic-4-annealed"):
            _, gaps, asked = study_tables.at_equal_success(cells, family, row, "stock")
            assert asked == 5
            assert study_tables.mean_and_interval([own[2] for own in gaps])[1] > 0  # stock GRPO, hotter: fewer answers
        _, gaps, asked = study_tables.at_equal_success(cells, family, "polychromic-4-annealed", "pretrained")
        assert asked == 8
        assert bool(gaps) == (family == "programs")  # elsewhere it never reaches their success
        for rival in (study_tables.STOCK, study_tables.SETS, study_tables.ANNEALED):
            behind[family, rival] = [
                study_tables.mean_and_interval(gaps) for gaps in at_low_temperature(cells, family, rival)
            ]
    assert resolved == {"countdown": "not resolved", "chains": "more", "programs": "fewer"}
    one, _, harder, _ = map(study_tables.mean_and_interval, study_tables.cooler(cells, "countdown", "0.8"))
    assert round(100 * one[0]) == -1
    assert harder[1] > 0
    annealed = {family: behind[family, study_tables.ANNEALED] for family in study_tables.FAMILIES}
    assert all(harder[1] > 0 for _, harder in annealed.values())
    assert sorted(round(100 * harder[0]) for _, harder in annealed.values()) == [7, 10, 24]
    assert [round(100 * annealed[family][0][0]) for family in ("countdown", "chains")] == [-5, -6]
    programs = [
        behind["programs", rival][0] for rival in (study_tables.STOCK, study_tables.SETS, study_tables.ANNEALED)
    ]
    assert all(one[1] > 0 for one in programs)
    assert [round(100 * one[0]) for one in programs] == [3, 9, 4]
    assert all(behind["programs", rival][1][1] > 0 for rival in (study_tables.STOCK, study_tables.SETS))
    for page in ("docs/language-study.md", "docs/language-models.md"):
        assert "5 to 6 points" in " ".join((ROOT / page).read_text("utf-8").split())


def test_what_the_study_says_of_the_other_rows_follows_from_the_cells():
    cells = study_tables.read(ROOT / "results/language")
    page = " ".join((ROOT / "docs/language-study.md").read_text("utf-8").split())

    def gaps(family, row, other="stock"):
        """pass@1, pass@32, harder pass@32 and distinct right answers of a row minus another."""
        return [study_tables.differences(cells, family, row, *c[1:], other=other) for c in study_tables._COMPARED]

    families = study_tables.FAMILIES
    for row in study_tables.OTHERS:
        assert {len(cells[family, row]) for family in families} == {5}
    earned = {
        (family, row)
        for family in families
        for row in study_tables.OTHERS
        if study_tables.verdict(cells, family, row)[2:8] == "earned"
    }
    assert earned == {("programs", "stock-entropy"), ("chains", "stock-kl")}
    assert sorted(round(-100 * gaps(family, "stock-entropy")[0][0]) for family in families) == [2, 3, 4]
    bonus = {family: gaps(family, study_tables.ANNEALED, "stock-entropy") for family in families}
    assert all(low < 0 < high for _, low, high in bonus["countdown"])
    for family, points, answers in (("chains", 3, 1.7), ("programs", 2, 1.1)):
        one, _, _, distinct = bonus[family]
        assert one[1] > 0
        assert round(100 * one[0]) == points
        assert distinct[2] < 0
        assert round(-distinct[0], 1) == answers
    assert bonus["programs"][2][2] < 0 < bonus["chains"][2][2]
    assert "by 1.7 and 1.1, for 3 and 2 points of success" in page
    cooled = {}
    for family in families:
        _, found, asked = study_tables.at_equal_success(cells, family, "stock-entropy", study_tables.SETS)
        assert len(found) == asked == 5
        cooled[family] = [study_tables.mean_and_interval(column) for column in zip(*found, strict=True)]
    assert round(-cooled["countdown"][2][0], 1) == 0.7
    assert cooled["countdown"][2][2] < 0
    assert round(-100 * cooled["chains"][1][0]) == 14
    assert cooled["chains"][1][2] < 0
    assert round(100 * cooled["programs"][1][0]) == 6
    assert cooled["programs"][1][1] > 0
    batch = {family: gaps(family, "stock-entropy-batch") for family in families}
    assert all(own[0][0] > -0.02 and own[3][1] > 0 for own in batch.values())
    assert [round(batch[family][3][0], 2) for family in families] == [0.25, 1.86, 0.68]
    unscaled = [gaps(family, "polychromic-4-kl-unscaled", "polychromic-4-kl")[0][0] for family in families]
    assert [round(-100 * points) for points in unscaled] == [7, 2, 3]
    for row in ("stock-entropy-batch", "polychromic-4-kl-unscaled"):
        assert {len(cells[family, row]) for family in families} == {3}
    assert all(gaps(family, "stock-kl")[0][2] > 0 for family in families)
    assert round(gaps("chains", study_tables.ANNEALED, "stock-kl")[3][0], 1) == 1.2
    for family in families:
        assert gaps(family, "best-of-4", study_tables.SETS)[3][2] < 0
        assert gaps(family, "best-of-4")[0][0] < -study_tables.CLOSE
        assert gaps(family, "polychromic-16", study_tables.SETS)[3][1] > 0
        assert (gaps(family, "polychromic-16", study_tables.SETS)[0][2] < 0) == (family != "countdown")
        assert abs(gaps(family, "polychromic-4-kl", study_tables.SETS)[0][0]) < 0.01


def at_low_temperature(cells, family, rival):
    """Held-out pass@1 and harder pass@32 of the pretrained model at 0.4 minus those of another at 1, by seed."""
    pairs = [
        (cell["temperatures"]["0.4"], cells[family, rival][s]["scores"])
        for s, cell in cells[family, "pretrained"].items()
    ]
    return [
        [low[split]["pass_at_k"][k] - other[split]["pass_at_k"][k] for low, other in pairs]
        for split, k in (("held-out", "1"), ("harder", "32"))
    ]


def scores(one, many, distinct):
    return {"pass_at_k": {"1": one, "32": many}, "distinct_right": {"1": one, "32": distinct, "64": distinct}}


def cell(one, many, distinct, curve=()):
    return {"scores": dict.fromkeys(study_tables.SPLITS, scores(one, many, distinct)), "curve": list(curve)}


STOCK = {seed: cell(0.5, 0.8 + 0.01 * seed, 2.0 + 0.1 * seed) for seed in range(5)}


@pytest.mark.parametrize(
    ("one", "many", "distinct", "word"),
    [
        (0.48, 0.95, 4.0, "**earned**"),
        (0.46, 0.95, 4.0, "more than 3 points behind in one attempt"),
        (0.48, 0.82, 4.0, "in 32 attempts not resolved on held-out prompts, not resolved on harder prompts"),
        (0.48, 0.70, 4.0, "in 32 attempts behind on held-out prompts, behind on harder prompts"),
        (0.48, 0.95, 2.2, "not resolved in distinct answers"),
    ],
)
def test_the_verdict_follows_its_rule(one, many, distinct, word):
    sets = {seed: cell(one, many, distinct) for seed in range(5)}
    cells = {("chains", "stock"): STOCK, ("chains", "polychromic-4"): sets}
    found = study_tables.verdict(cells, "chains")
    assert word in found
    assert found.startswith("**earned**" if word == "**earned**" else "**not earned**")
    assert study_tables.verdict(cells, "programs") == "not run"


def test_one_kind_of_prompts_is_enough_and_the_other_is_named():
    sets = {seed: cell(0.48, 0.95, 4.0) for seed in range(5)}
    for own in sets.values():
        own["scores"] = {**own["scores"], "held-out": scores(0.48, 0.70, 4.0)}
    found = study_tables.verdict({("chains", "stock"): STOCK, ("chains", "polychromic-4"): sets}, "chains")
    assert found.startswith("**earned**")
    assert "behind on held-out prompts, ahead on harder prompts" in found


def test_curves_are_read_where_they_first_reach_a_success():
    def point(one, many, distinct):
        return dict.fromkeys(("held-out", "harder"), scores(one, many, distinct))

    curve = [point(0.2, 1.0, 8.0), point(0.4, 0.9, 4.0), point(0.3, 0.8, 3.0), point(0.5, 0.7, 2.0)]
    assert study_tables.at_success(curve, 0.3) == pytest.approx((0.95, 0.95, 6.0))
    assert study_tables.at_success(curve, 0.45) == pytest.approx((0.725, 0.725, 2.25))
    assert study_tables.at_success(curve, 0.6) is None


def test_equal_success_is_that_of_the_slower_run():
    def point(one, many):
        return dict.fromkeys(("held-out", "harder"), scores(one, many, 1.0))

    stock = {seed: cell(0.6, 0.6, 1, [point(0.2, 1.0), point(0.6, 0.6)]) for seed in range(2)}
    sets = {seed: cell(0.4, 0.95, 1, [point(0.2, 1.0), point(0.4, 0.95)]) for seed in range(2)}
    table = study_tables.equal_success_table({("chains", "stock"): stock, ("chains", "polychromic-4"): sets}, "chains")
    assert "| polychromic, sets of 4 | 2 | 0.400 | +0.150 [+0.150, +0.150] |" in table


def every_split(*numbers):
    return {split: scores(*numbers) for split in study_tables.SPLITS}


def test_models_are_compared_at_the_temperature_with_the_same_success():
    # Success peaks at 0.5, so 0.6 is met twice: on the hot side the model is more diverse.
    scan = {"0.2": (0.5, 0.5, 1.0), "0.5": (0.7, 0.7, 2.0), "1.0": (0.5, 0.9, 4.0), "1.5": (0.1, 0.9, 5.0)}
    asked = cell(0.5, 0.9, 4.0) | {"temperatures": {own: every_split(*numbers) for own, numbers in scan.items()}}
    assert study_tables.at_temperature(asked, 0.6) == pytest.approx((0.75, 0.8, 0.8, 3.0))
    assert study_tables.at_temperature(asked, 0.8) is None
    assert study_tables.at_temperature(cell(0.6, 0.9, 4.0), 0.6) is None  # asked at no other temperature
    sets = {0: cell(0.6, 0.9, 4.0), 1: cell(0.8, 0.9, 4.0), 2: cell(0.6, 0.9, 4.0)}
    cells = {("chains", "stock"): dict.fromkeys(range(2), asked), ("chains", "polychromic-4"): sets}
    (line,) = study_tables.temperature_table(cells).splitlines()[2:]
    assert line == "| chains: polychromic, sets of 4 | stock GRPO | 1 of 2 | 0.75 | +0.100 | +0.100 | +1.000 |"
    assert study_tables.cooler_table(cells).count("\n") == 1  # sets were asked at no other temperature


def test_sets_are_compared_with_stock_at_lower_temperatures():
    stock = {seed: cell(0.5, 0.8, 2.0) for seed in range(3)}
    scan = {"1.0": every_split(0.4, 0.9, 4.0), "0.6": every_split(0.6, 0.9, 3.0)}
    sets = {seed: cell(0.4, 0.9, 4.0) | {"temperatures": scan} for seed in range(2)} | {2: cell(0.4, 0.9, 4.0)}
    (line,) = study_tables.cooler_table({("chains", "stock"): stock, ("chains", "polychromic-4"): sets}).splitlines()[
        2:
    ]
    numbers = " | ".join(f"+{gap:.3f} [+{gap:.3f}, +{gap:.3f}]" for gap in (0.1, 0.1, 0.1, 1.0))
    assert line == f"| chains: polychromic, sets of 4, at 0.6 | 2 | {numbers} |"


def test_the_best_temperature_is_one_that_every_seed_was_asked_at(tmp_path):
    for seed, temperatures in enumerate((("0.2", "0.4", "1.0"), ("0.4", "1.0"))):
        scan = {own: every_split(1 - float(own), 0.9, 1.0) for own in temperatures}  # the cooler the better
        for own in scan.values():
            own["train"]["pass_at_k"]["8"] = 0.5
        stored = {"family": "chains", "row": "pretrained", "seed": seed, **cell(0.1, 0.9, 1.0), "temperatures": scan}
        (tmp_path / f"{seed}.json").write_text(json.dumps(stored))
    found = study_tables.read(tmp_path)["chains", study_tables.COOL]
    assert [own["temperature"] for own in found.values()] == [0.4, 0.4]
