"""The report in a real Chromium: no errors, no requests, figures drawn, viewer steps, text stays text."""

import contextlib
import csv
import re

import pytest
from nasty import NASTY

from polychromic import write_report

KINDS = ("grid", "triangle", "own")
SIZES = {"desktop": (1400, 900), "phone": (400, 860)}
TABLES = """() => [...document.querySelectorAll('table')].map(table => {
    const box = table.parentElement;
    const hint = box.nextElementSibling;
    return {wide: table.scrollWidth > box.clientWidth + 1, fits: box.clientWidth <= innerWidth,
            scrolls: getComputedStyle(box).overflowX === 'auto' && box.tabIndex === 0,
            hint: getComputedStyle(hint).display !== 'none' && hint.textContent.includes('scroll')};
})"""
# Everything that can be operated or is a picture has a name for those who do not see it.
UNNAMED = """() => [...document.querySelectorAll('button, select, input, a, [tabindex="0"], svg, [role="img"]')]
    .filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length))
    .map(one => one.outerHTML.slice(0, 80))"""
# Texts of one picture that cover each other.
OVERLAPS = """() => [...document.querySelectorAll('svg')].flatMap(picture => {
    const boxes = [...picture.querySelectorAll('text:not(.room)')].filter(one => one.textContent.trim())
        .map(one => [one.textContent, one.getBoundingClientRect()]);
    const across = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = (a, b) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return boxes.flatMap(([text, a], at) => boxes.slice(at + 1)
        .filter(([, b]) => across(a, b) > 2 && down(a, b) > 4).map(([other]) => `${text} | ${other}`));
})"""
# What every download button would save: the file's type and its text.
SAVED = """async () => {
    const blobs = [];
    const original = URL.createObjectURL;
    URL.createObjectURL = blob => { blobs.push(blob); return original(blob); };
    HTMLAnchorElement.prototype.click = () => {};
    const buttons = [...document.querySelectorAll('.downloads button')];
    for (const button of buttons) button.click();
    URL.createObjectURL = original;
    return await Promise.all(buttons.map(async (button, at) =>
        ({name: button.getAttribute('aria-label'), type: blobs[at].type, text: await blobs[at].text()})));
}"""


@pytest.fixture
def path_of(request):
    return lambda kind: request.getfixturevalue(f"{kind}_page")


@contextlib.contextmanager
def opened(browser, path, size="desktop", scheme="light", **options):
    """A page that must neither complain nor ask for anything else."""
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    troubles, requests = [], []
    page.on("console", lambda message: troubles.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".part")
    yield page
    assert troubles == []
    assert [url for url in requests if not url.startswith("blob:")] == [path.as_uri()]
    page.close()


@pytest.fixture
def page(browser, grid_page):
    with opened(browser, grid_page) as shown:
        yield shown


# ---------------------------------------------------------------------- every kind of page, on every screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_fits_and_its_headline_is_seen_without_scrolling(browser, path_of, kind, size):
    width, height = SIZES[size]
    with opened(browser, path_of(kind), size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h1").count() == 1
        for part in (page.locator("h1"), page.locator(".hero figure svg").first):
            box = part.bounding_box()
            assert box["height"] > 20
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= height
        assert re.search(r"\d", page.locator("h1").inner_text())
        told = page.evaluate(TABLES)
        assert told
        for table in told:
            assert table["fits"]
            assert not table["wide"] or (size == "phone" and table["scrolls"] and table["hint"]), table
        assert page.evaluate(UNNAMED) == []
        assert page.evaluate(OVERLAPS) == []
        text = page.locator("body").inner_text()
        for wrong in ("NaN", "undefined", "[object", "null", "Infinity"):
            assert wrong not in text
        assert not re.search(r"\bfalse\b", text)


@pytest.mark.parametrize("kind", KINDS)
def test_each_question_has_its_section_and_a_way_to_it(browser, path_of, kind):
    expected = ["How good is it?", "How diverse is it?", "How did it get there?", "Who solves what?", "Watch it"]
    missing = {"grid": set(), "triangle": {2, 3}, "own": {2, 3}}[kind]  # no runs, few configurations or no success
    with opened(browser, path_of(kind)) as page:
        expected = [title for at, title in enumerate(expected) if at not in missing]
        assert page.locator(".part h3").all_text_contents() == expected
        links = page.locator(".questions a")
        assert links.all_text_contents() == expected
        for link in links.all():
            assert page.locator(link.get_attribute("href")).count() == 1
        assert page.locator("figure.chart, .viewer").count() >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_every_button_works(browser, path_of, kind):
    with opened(browser, path_of(kind)) as page:
        files = page.evaluate(SAVED)
        for saved in files:
            svg = saved["name"].endswith("SVG")
            assert saved["type"] == ("image/svg+xml" if svg else "text/csv")
            assert saved["text"].startswith("<svg" if svg else "")
            assert "var(" not in saved["text"]
            assert len(saved["text"].splitlines()) > 1 or svg
        assert len({saved["name"] for saved in files}) == len(files) >= 6
        for button in page.locator("button:not(.downloads button)").all():
            if button.is_visible():  # a click on a strategy draws the list again
                button.click()
        assert page.locator(".part").count() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_legend_a_figure_and_never_over_the_data(browser, path_of, kind):
    with opened(browser, path_of(kind)) as page:
        charts = page.locator("figure.chart:has(path.curve)")
        for chart in charts.all():
            keys = chart.locator("text.key")
            low = keys.evaluate_all("all => Math.max(...all.map(one => one.getBoundingClientRect().bottom))")
            drawn = chart.locator("path.curve, circle")
            high = drawn.evaluate_all("all => Math.min(...all.map(one => one.getBoundingClientRect().top))")
            assert low <= high + 3
            names = keys.all_text_contents()
            assert len(set(names)) == len(names)
        assert page.locator(".legend").count() == 0


def test_methods_have_their_colours_to_themselves(browser, grid_page):
    with opened(browser, grid_page) as page:
        names = page.evaluate("""() => {
            const probe = document.createElement('i');
            document.body.append(probe);
            return [...'01234567'].flatMap(at => [`--c${at}`, ...(at < 6 ? [`--s${at}`] : [])]).map(name => {
                probe.style.color = `var(${name})`;
                return [name, getComputedStyle(probe).color];
            });
        }""")
        assert len({colour for _, colour in names}) == len(names) == 14
        strokes = page.locator(".viewer path.path").evaluate_all("all => all.map(one => one.getAttribute('stroke'))")
        assert strokes
        assert all(stroke.startswith("var(--s") for stroke in strokes)
        bars = page.locator("rect.bar").evaluate_all("all => all.map(one => one.getAttribute('fill'))")
        assert all(fill.startswith("var(--c") for fill in bars)


# ---------------------------------------------------------------------- grids


def test_everything_is_drawn(page):
    assert page.title() == "a <i>title</i> @DATA@"
    titles = page.locator("figure.chart h4").all_text_contents()
    assert titles[:2] == ["pass@k", "Success against sampling temperature"]
    assert titles[2] == "Distinct room sets"
    charts = page.locator("figure.chart:has(path.curve)")
    # pass@k: four methods with intervals, and each exactly, as this is FourRooms.
    assert charts.nth(0).locator("path.curve").count() == 8
    assert charts.nth(0).locator("path.band").count() == 4
    for chart in charts.all()[2:]:
        assert chart.locator("path.curve").count() == 2
    assert page.locator("rect.cell").count() == 4 * 4
    assert page.locator("rect.scale").count() == 5
    assert page.locator("table").count() == 4
    assert "missing does not exist" in page.locator(".problems").inner_text()
    assert page.locator("h1").inner_text().startswith("FourRooms: ")


def test_against_environment_steps(page):
    chart = page.locator("figure.chart").filter(has_text="Success during training")
    assert chart.locator("svg text").filter(has_text="trajectories").count() == 1
    page.get_by_role("combobox", name="Against").select_option("steps")
    assert chart.locator("svg text").filter(has_text="environment steps").count() == 1


def test_text_stays_text(page):
    page.get_by_role("combobox", name="Configuration").select_option("1")
    assert page.locator(".viewer .mission").inner_text() == NASTY
    assert page.locator(".summary").inner_text() == "<u>in words</u>"
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_the_viewer_steps_and_compares(page):
    assert page.locator(".step").inner_text().startswith("step 0 of ")
    panels = page.locator(".panel")
    assert panels.count() == 2
    assert panels.nth(0).locator("select option:checked").inner_text() == "PPO"
    assert panels.nth(1).locator("select option:checked").inner_text() == "Poly-PPO"
    assert panels.nth(0).locator("text.room").all_text_contents() == ["1", "2", "3", "4"]
    panels.nth(0).locator("select").select_option(label="pretrained")
    strategies = panels.nth(0).locator(".strategies button")
    assert panels.nth(0).locator("path.path").count() == strategies.count() >= 2
    colours = panels.nth(0).locator("path.path").evaluate_all("paths => paths.map(path => path.getAttribute('stroke'))")
    assert len(set(colours)) == len(colours)
    strategies.nth(1).click()
    assert strategies.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator(".step").inner_text().startswith("step 0 of ")
    agent = panels.nth(0).locator("path.agent")
    seen = {agent.get_attribute("transform")}
    for _ in range(6):
        page.get_by_label("Next step").click()
        seen.add(agent.get_attribute("transform"))
    assert page.locator(".step").inner_text().startswith("step 6 of ")
    assert len(seen) > 2
    page.get_by_label("Next step").press("ArrowLeft")
    assert page.locator(".step").inner_text().startswith("step 5 of ")
    page.get_by_role("button", name="Play").click()
    page.locator(".step").filter(has_not_text="step 5 of").wait_for()
    page.get_by_role("button", name="Pause").click()


def test_the_viewer_by_keyboard_and_what_it_saves(page, tmp_path):
    pictures = page.get_by_role("group", name="Episodes")
    pictures.focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play").wait_for()
    page.locator(".panel").first.locator(".strategies button").first.click()
    pictures.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert page.locator(".step").inner_text().startswith("step 4 of ")
    assert page.evaluate("document.activeElement.className") == "panels"
    # The picture that is saved is the one that is shown.
    shown = page.locator(".panel").first.locator("path.agent").get_attribute("transform")
    with page.expect_download() as download:
        page.locator(".panel").first.get_by_text("SVG", exact=True).click()
    download.value.save_as(tmp_path / "level.svg")
    assert shown in (tmp_path / "level.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("size", "down"), [("desktop", False), ("phone", True)])
def test_the_heat_map_is_read_and_opens_the_viewer_by_keyboard(browser, grid_page, size, down):
    with opened(browser, grid_page, size) as page:
        heat = page.locator("svg:has(rect.cell)")
        assert heat.locator("text").first.bounding_box()["height"] < 40  # few configurations are not blown up
        heat.focus()
        method, configuration = ("ArrowRight", "ArrowDown") if down else ("ArrowDown", "ArrowRight")
        for key in (method, method, configuration, configuration):
            page.keyboard.press(key)
        reading = page.locator(".readout").filter(has_text="solves")
        assert re.match(r"PPO solves \d+\.\d % of its attempts at configuration 3", reading.inner_text())
        page.keyboard.press("Enter")
        assert page.get_by_role("combobox", name="Configuration").input_value() == "2"
        assert page.locator(".panel").nth(1).locator("select option:checked").inner_text() == "PPO"
        assert page.locator(".step").inner_text().startswith("step 0 of ")
        page.get_by_role("combobox", name="Order").select_option("hardest")
        assert heat.locator("rect.cell").count() == 16


def test_charts_are_read_by_keyboard(page):
    chart = page.locator("figure.chart:has(path.curve)").first
    chart.locator("svg").focus()
    page.keyboard.press("Home")
    shown = chart.locator(".readout").inner_text()
    assert re.match(r"attempts k 1: pretrained 0\.\d{3} \[0\.\d{3}, \d\.\d{3}\]", shown)
    page.keyboard.press("ArrowRight")
    assert chart.locator(".readout").inner_text().startswith("attempts k 2:")


def test_the_page_is_walked_by_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")
        )
    assert reached[:2] == ["Download In short as SVG", "Download In short as CSV"]
    assert "How good is it?" in reached
    assert any(name.startswith("pass@k: ") for name in reached)
    # Where the focus is can be seen.
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_figures_and_data_can_be_kept(page, tmp_path):
    for kind, expected in (("SVG", "<svg"), ("CSV", "series,attempts k")):
        with page.expect_download() as download:
            page.get_by_label(f"Download pass@k as {kind}").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        text = path.read_text(encoding="utf-8")
        assert text.startswith(expected)
        assert path.name == f"pass-k.{kind.lower()}"
        assert "var(" not in text
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1 + 8 * 16
    assert rows[1][0] == "pretrained"


def test_light_dark_and_reduced_motion(browser, grid_page):
    grounds = {}
    for scheme in ("light", "dark"):
        with opened(browser, grid_page, "phone", scheme, reduced_motion="reduce") as small:
            ground = "getComputedStyle(document.body).backgroundColor"
            grounds[scheme] = small.evaluate(ground)
            assert small.evaluate("getComputedStyle(document.querySelector('.part')).transitionDuration") == "0s"
            small.get_by_role("button", name="Switch to").click()
            assert small.evaluate(ground) != grounds[scheme]
    assert grounds["light"] != grounds["dark"]


# ---------------------------------------------------------------------- triangles


def test_the_triangles_of_two_policies_are_drawn_side_by_side(browser, triangle_page):
    with opened(browser, triangle_page) as page:
        assert re.match(
            r"Triangle discovery: in 60 answers PPO names \d[\d.]* distinct triangles, Poly-PPO \d+",
            page.locator("h1").inner_text(),
        )
        figure = page.locator(".hero figure")
        assert figure.locator("path.edges").count() == 2
        label = figure.locator("svg").get_attribute("aria-label")
        few, many = map(int, re.search(r"PPO (\d+), Poly-PPO (\d+) distinct", label).groups())
        assert 1 <= few < many
        assert figure.locator("path.named").count() == few + many


def test_an_answer_is_shown_word_by_word(browser, triangle_page):
    with opened(browser, triangle_page) as page:
        panel = page.locator(".panel").nth(1)
        assert page.locator(".step").inner_text() == "step 0 of 9"
        assert panel.locator("text.answer").text_content() == ""
        said = panel.locator(".strategies button").first.inner_text()
        a, b, c = re.search(
            r"(\d+) → (\d+) → (\d+): a triangle, (?:new|seen in pretraining), \d+ answers?", said
        ).groups()
        for _ in range(2):
            page.get_by_label("Next step").click()
        assert panel.locator("text.answer").text_content() == f"{a} {b}"
        assert panel.locator("path.pair").count() == 1
        for _ in range(7):
            page.get_by_label("Next step").click()
        assert panel.locator("text.answer").text_content() == f"{a} {b} <sep> {b} {c} <sep> {c} {a} </a>"
        assert panel.locator("text.verdict").text_content().startswith("a triangle, ")
        assert panel.locator("path.pair[stroke-dasharray]").count() == 0
        # An answer that is none.
        panel.locator("select").select_option(label="pretrained")
        wrong = panel.locator(".strategies button").filter(has_text="not valid").first
        wrong.click()
        page.locator(".viewer input[type=range]").fill("9")
        assert panel.locator("text.verdict").text_content() == "not a triangle of this graph"


def test_either_counting_can_be_chosen(browser, triangle_page):
    with opened(browser, triangle_page) as page:
        chart = page.locator("figure.chart").filter(has_text="diff@k")
        curves = "all => all.map(one => one.getAttribute('d')).join()"
        strict = chart.locator("path.curve").evaluate_all(curves)
        page.get_by_role("combobox", name="Counting").select_option("original")
        assert chart.locator("path.curve").evaluate_all(curves) != strict


def test_damaged_episodes_cost_the_viewer_alone(browser, triangle_page, tmp_path):
    text = triangle_page.read_text(encoding="utf-8")
    assert '"words":' in text
    (tmp_path / "damaged.html").write_text(text.replace('"words":', '"other":'), encoding="utf-8")
    with opened(browser, tmp_path / "damaged.html") as page:
        assert "its data are damaged" in page.locator("section").filter(has_text="Watch it").last.inner_text()
        assert page.locator("figure.chart").count() >= 3


def test_two_tasks_have_a_part_each_the_largest_effect_first(browser, results, triangle_page, tmp_path):
    triangles = [triangle_page.parent / f"{name}.json" for name in ("base", "ppo", "poly-ppo")]
    write_report([results["base"], results["ppo"], results["poly-ppo"], *triangles], tmp_path / "both.html")
    for size in SIZES:
        with opened(browser, tmp_path / "both.html", size) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
            assert page.locator("h1").inner_text().startswith("Triangle discovery: ")
            (other,) = page.get_by_role("navigation", name="Other tasks").get_by_role("link").all()
            assert other.inner_text().startswith("FourRooms: ")
            other.click()
            assert page.locator("#part-1 h2").inner_text().startswith("FourRooms: ")
            assert page.locator("#part-1 h2").bounding_box()["y"] < 200
            # A method has one colour on the whole page, and files say which task they are of.
            drawn = "all => [...new Set(all.map(one => one.getAttribute('fill')))]"
            assert set(page.locator("rect.bar").evaluate_all(drawn)) == {f"var(--c{at})" for at in range(4)}
            with page.expect_download() as download:
                page.get_by_label("Download pass@k as CSV").last.click()
            assert download.value.suggested_filename == "fourrooms-pass-k.csv"


# ---------------------------------------------------------------------- an environment of one's own


def test_an_own_environment_has_its_own_words_and_its_episodes_in_pictures_and_text(browser, own_page):
    with opened(browser, own_page) as page:
        text = page.locator("body").inner_text()
        for foreign in ("paper", "minigrid", "t/H", "room"):
            assert foreign not in text
        assert "no success rate is claimed" in text
        panel = page.locator(".panel").nth(1)
        first = panel.locator("pre").inner_text()
        assert first.startswith("observation: 0")
        assert "next action: " in first
        assert panel.locator("img").evaluate("image => image.complete && image.naturalWidth") == 64
        steps = int(re.search(r"of (\d+)", page.locator(".step").inner_text())[1])
        page.locator(".viewer input[type=range]").fill(str(steps))
        longest = max((panel.locator("pre").inner_text() for panel in page.locator(".panel").all()), key=len)
        assert "the end" in longest
        # Later configurations have text alone.
        page.get_by_role("combobox", name="Configuration").select_option("4")
        assert page.locator(".panel img").count() == 0
        assert panel.locator("pre").inner_text().startswith("observation: 0")
