"""The notebook runs from top to bottom and prints what it shows."""

import contextlib
import io
import json
import time
from pathlib import Path

import matplotlib
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples/notebook.ipynb"


@pytest.fixture
def pyplot(monkeypatch):
    matplotlib.use("agg")
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: None)
    yield pyplot
    pyplot.close("all")


def test_every_cell_runs_and_prints_what_the_notebook_shows(pyplot):
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    began = time.process_time()
    for cell in cells:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), "notebook", "exec"), names)
        shown = "".join(line for output in cell["outputs"] for line in output.get("text", []))
        assert printed.getvalue() == shown
    assert time.process_time() - began < 15
    assert pyplot.get_fignums()
    assert names["ordinary"][-1].max() > 0.9 > 0.3 > names["sets"][-1].max()
