"""The report in a real Chromium: no errors, no requests, figures drawn, viewer steps, text stays text."""

import csv
import json
import re

import pytest
from nasty import NASTY

from polychromic import write_report


@pytest.fixture(scope="module")
def report(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    runs = [results["base"], results["ppo"], results["poly-ppo"], path.parent / "missing"]
    write_report(runs, path, title="a <i>title</i> @DATA@", summary=["<u>in words</u>"])
    return path


@pytest.fixture
def page(browser, report):
    opened = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
    opened.troubles, opened.requests = [], []
    opened.on("console", lambda message: opened.troubles.append(message.text) if message.type != "log" else None)
    opened.on("pageerror", lambda error: opened.troubles.append(str(error)))
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(report.as_uri())
    opened.wait_for_selector("svg.level")
    yield opened
    assert opened.troubles == []
    assert opened.requests == [report.as_uri()]
    opened.close()


def test_everything_is_drawn(page):
    assert page.title() == "a <i>title</i> @DATA@"
    charts = page.locator("figure.chart")
    titles = charts.locator("h3").all_text_contents()
    assert titles[:2] == ["pass@k", "Success against sampling temperature"]
    assert len(titles) == 6
    # pass@k: four methods with intervals, and each exactly, as this is FourRooms.
    assert charts.nth(0).locator("path.curve").count() == 8
    assert charts.nth(0).locator("path.band").count() == 4
    for number in range(2, 6):
        assert charts.nth(number).locator("path.curve").count() == 2
    assert "NaN" not in page.content().replace(page.locator("#data").inner_html(), "")
    assert page.locator("rect.cell").count() == 4 * 4
    assert page.locator("table").count() == 2
    assert "missing does not exist" in page.locator(".problems").inner_text()


def test_against_environment_steps(page):
    label = page.locator("figure.chart").nth(2).locator("svg text").filter(has_text="trajectories")
    assert label.count() == 1
    page.get_by_role("combobox", name="Against").select_option("steps")
    chart = page.locator("figure.chart").nth(2)
    assert chart.locator("svg text").filter(has_text="environment steps").count() == 1


def test_text_stays_text(page):
    page.get_by_role("combobox", name="Configuration").select_option("1")
    assert page.locator("#viewer .mission").inner_text() == NASTY
    assert page.locator(".summary").inner_text() == "<u>in words</u>"
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_the_viewer_steps_and_compares(page):
    panels = page.locator(".panel")
    assert panels.count() == 2
    assert panels.nth(0).locator("select option:checked").inner_text() == "pretrained"
    assert panels.nth(1).locator("select option:checked").inner_text() == "poly-ppo"
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
    panels.nth(0).locator("select").select_option(label="ppo")
    assert panels.nth(0).locator("select option:checked").inner_text() == "ppo"
    page.get_by_role("button", name="Play").click()
    page.locator(".step").filter(has_not_text="step 0 of").wait_for()
    page.get_by_role("button", name="Pause").click()


def test_the_viewer_by_keyboard_and_what_it_saves(page, tmp_path):
    grids = page.get_by_role("group", name="Rollouts")
    grids.focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play").wait_for()
    page.locator(".panel").first.locator(".strategies button").first.click()
    grids.focus()
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


def test_a_heat_map_of_few_configurations_is_not_blown_up(page):
    label = page.locator("section svg:has(rect.cell) text").first
    assert label.bounding_box()["height"] < 25


def test_a_world_without_grids(browser, results, tmp_path):
    found = json.loads(results["base"].read_text())
    found |= {"task": "Own", "level_seeds": [], "grid_shape": [], "legend": {}, "strategies": "tunes"}
    for part in ("result", "best"):
        del found[part]["recordings"]
    (tmp_path / "own.json").write_text(json.dumps(found))
    write_report([tmp_path / "own.json"], tmp_path / "own.html")
    opened = browser.new_page()
    troubles = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.goto((tmp_path / "own.html").as_uri())
    opened.get_by_text("No episodes were recorded").wait_for()
    assert opened.get_by_role("heading", name="Distinct tunes per configuration").count() == 1
    opened.locator("section svg:has(rect.cell)").focus()
    opened.keyboard.press("ArrowRight")
    assert "level seed" not in opened.locator("main").inner_text()
    assert troubles == []
    opened.close()


def test_the_heat_map_opens_the_viewer_by_keyboard(page):
    heat = page.locator("section svg:has(rect.cell)")
    heat.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.get_by_role("combobox", name="Configuration").input_value() == "2"
    assert page.locator(".panel").nth(1).locator("select option:checked").inner_text() == "ppo"


def test_charts_are_read_by_keyboard(page):
    chart = page.locator("figure.chart").first
    chart.locator("svg").focus()
    page.keyboard.press("Home")
    shown = chart.locator(".readout").inner_text()
    assert re.match(r"attempts k 1: pretrained 0\.\d{3} \[0\.\d{3}, \d\.\d{3}\]", shown)
    page.keyboard.press("ArrowRight")
    assert chart.locator(".readout").inner_text().startswith("attempts k 2:")


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


def test_light_dark_and_phone(browser, report):
    grounds = {}
    for scheme in ("light", "dark"):
        with browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme) as small:
            small.goto(report.as_uri())
            small.wait_for_selector("svg.level")
            assert small.evaluate("document.documentElement.scrollWidth <= innerWidth")
            grounds[scheme] = small.evaluate("getComputedStyle(document.body).backgroundColor")
            small.get_by_role("button", name="Switch to").click()
            assert small.evaluate("getComputedStyle(document.body).backgroundColor") != grounds[scheme]
    assert grounds["light"] != grounds["dark"]
