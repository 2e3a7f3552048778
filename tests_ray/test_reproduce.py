"""A table of the paper from sweep to report, on a scale of seconds."""

from polychromic import reproduce
from polychromic.cli import main


def test_a_table_is_made_and_made_again_from_the_same_runs(tmp_path, monkeypatch, capsys):
    small = {
        "iterations": 1,
        "configurations_per_iteration": 1,
        "budget": 4,
        "rollouts_per_state": 4,
        "evaluation_rollouts": 1,
    }
    everywhere = dict.fromkeys(reproduce.ITEMS, ("fourrooms",))
    monkeypatch.setattr(reproduce, "FULL", reproduce.Scale(("ppo",), 1, 2, small, everywhere))
    for item in ("table1", "table2", "passk"):
        monkeypatch.setitem(reproduce.ITEMS, item, (("fourrooms",), ("ppo",)))
    folder = tmp_path / "out"
    assert main(["reproduce", "table1", "--out", str(folder), "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 cells to run: about" in shown
    assert "| fourrooms | pretrained |" in shown
    assert "89.2" in shown  # the paper's PPO
    assert (folder / "table1.html").exists()
    for item, heading in (("table2", "Success from perturbed starts"), ("passk", "pass@k")):
        assert main(["reproduce", item, "--out", str(folder)]) == 0
        shown = capsys.readouterr().out
        assert "0 of 2 cells to run" in shown
        assert f"## {heading}" in shown
        assert (folder / f"{item}.md").exists()
