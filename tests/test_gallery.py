"""The gallery: its page says what the stored results say, its tasks go through the commands, its runs resume."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples.gallery import exits, lake
from examples.gallery.page import at_equal_success, blocks, draw, early_stopped, estimate, finals
from examples.gallery.run import PRETRAINED, best_settings, read, run_study
from examples.gallery.studies import CANDIDATES, SEARCH_SEED, SEEDS, STUDIES

import polychromic as poly

ROOT = Path(__file__).parents[1]
RECORDS = read(ROOT / "results/gallery.json")


def test_the_page_says_what_is_stored():
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    marks = re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->", page, flags=re.DOTALL)
    assert {name: text.strip() for name, text in marks} == blocks(RECORDS)
    assert list(blocks(RECORDS)) == list(STUDIES)


@pytest.mark.parametrize("study", STUDIES)
def test_every_method_had_the_same_search_and_enough_seeds(study):
    for row in CANDIDATES:
        searched = [
            one for one in RECORDS.values() if (one["study"], one["row"], one["role"]) == (study, row, "search")
        ]
        assert sorted(json.dumps(one["settings"]) for one in searched) == sorted(
            json.dumps(one) for one in CANDIDATES[row]
        )
        runs = finals(RECORDS, study, row)
        assert [one["seed"] for one in runs] == list(SEEDS)
        assert len(SEEDS) >= 3
        assert SEARCH_SEED not in SEEDS
        assert all(one["settings"] == best_settings(RECORDS, study, row) for one in runs)
        played = {one["curve"][-1][0] for row in CANDIDATES for one in finals(RECORDS, study, row)}
        assert len(played) == 1  # equal budgets


def test_the_figures_are_those_of_the_stored_results(tmp_path):
    study = STUDIES["exits"]
    draw(RECORDS, study, tmp_path / "exits.svg")
    assert (tmp_path / "exits.svg").read_text() == (ROOT / "docs/figures/gallery-exits.svg").read_text()


def test_intervals_are_students():
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.303 / np.sqrt(3), rel=1e-6)
    assert estimate([0.5]) == (0.5, None)
    run = {"curve": [[1, 0.94, 9.0], [2, 0.95, 4.0], [3, 1.0, 2.0]]}
    assert early_stopped(run) == 4.0
    assert at_equal_success([run, {"curve": [[1, 0.5, 3.0]]}]) == "4.0 (1 of 2 runs)"
    assert at_equal_success([{"curve": [[1, 0.5, 3.0]]}]) == "none of 1 gets there"


def test_a_study_runs_and_what_is_stored_is_not_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("examples.gallery.run.SEEDS", range(1))
    monkeypatch.setattr("examples.gallery.run.ATTEMPTS", 4)
    settings = {"iterations": 1, "budget": 10, "rollouts_per_state": 0, "evaluation_rollouts": 2, "evaluate_every": 1}
    small = replace(
        STUDIES["exits"],
        settings=settings,
        changed=lambda: {"north": poly.from_gymnasium(exits.Exits, [0], place=exits.exit_of, horizon=24, fork="copy")},
    )
    few = {"actor_learning_rate": 1e-3, "forks_per_rollout": 0}
    candidates = {"ppo": [{"method": "ppo", **few}], "poly-ppo": [{"method": "poly-ppo", **few}]}
    monkeypatch.setattr("examples.gallery.run.CANDIDATES", candidates)
    run_study(small, tmp_path / "runs", tmp_path / "results.json")
    stored = read(tmp_path / "results.json")
    assert sorted((one["row"], one["role"]) for one in stored.values()) == [
        ("poly-ppo", "final"),
        ("poly-ppo", "search"),
        ("ppo", "final"),
        ("ppo", "search"),
        (PRETRAINED, "final"),
    ]
    capsys.readouterr()
    run_study(small, tmp_path / "runs", tmp_path / "results.json")
    assert capsys.readouterr().out == ""
    assert read(tmp_path / "results.json") == stored


def test_the_lake_with_one_more_hole_is_another_one():
    world = poly.from_gymnasium(lake.make_lake, [0], **lake.FROZEN)
    changed = STUDIES["lake"].changed()
    assert len(changed) == 13
    act = lake.demonstrator(careless=0.0)
    for one, wet in ((world, False), (changed["1"], True)):
        state = one.start([0])
        for action in (2, 1) if wet else ():
            one.step(state, [action])
        while not wet and not (one.places(state) == 63).all():
            one.step(state, [act(one.observe(state)["observation"][0])])
        assert bool(one.succeeded(state)[0]) == (not wet)
    assert lake.lake.make().num_configurations == 1
    assert exits.exits.make().num_configurations == 1
