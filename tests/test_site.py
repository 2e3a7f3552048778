"""The documentation as a reader sees it: built, opened in a real Chromium, on a desktop and on a phone."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESKTOP, PHONE = 1400, 400

WIDER_THAN_THEIR_BOX = """() => {
  document.querySelectorAll('details').forEach((one) => { one.open = true; });
  return [...document.querySelectorAll('.md-typeset table')].filter((table) => {
    const box = table.closest('.md-typeset__scrollwrap') ?? table.parentElement;
    return table.scrollWidth > box.clientWidth + 1;
  }).map((table) => table.innerText.slice(0, 60));
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the built documentation, and its pages."""
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("index.html"))
    yield f"http://127.0.0.1:{server.server_port}", pages
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_nothing_is_wider_than_the_window_and_no_table_wider_than_its_box(browser, site, width):
    address, pages = site
    assert len(pages) > 20
    opened = browser.new_page(viewport={"width": width, "height": 900})
    troubles = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    for page in pages:
        opened.goto(f"{address}/{page}/")
        assert opened.evaluate("document.documentElement.scrollWidth") <= width, page
        # On a phone tables scroll inside their box.
        assert width == PHONE or opened.evaluate(WIDER_THAN_THEIR_BOX) == [], page
        missing = opened.evaluate("[...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)")
        assert missing == [], page
    assert troubles == []
    opened.close()


@pytest.mark.slow
def test_the_page_about_theory_has_its_sliders(browser, site):
    address, _ = site
    opened = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    opened.goto(f"{address}/theory/")
    lab = opened.frame_locator("iframe")
    assert lab.locator("#headline").inner_text().startswith("PPO ends on 1.0 of 5 right arms")
    opened.close()
