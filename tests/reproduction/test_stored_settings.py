"""Stored results keep their meaning as settings come and go."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from reproduction.cells import missing
from reproduction.lines import Stored
from reproduction.plan import expand, make_cell
from reproduction.plans import FULL, GRID_READINGS, PLANS
from reproduction.records import Results, check_same, resolved
from reproduction.stored_settings import complete, current_settings

from polychromic.finetuning.config import Config, make_config
from reproduction import stored_settings

ROOT = Path(__file__).parents[2]


def cell():
    own = {"forks_per_rollout": 0, "num_sets": 0}
    return make_cell("goto", "poly-ppo", 0, own, 240, FULL, readings=GRID_READINGS)


def read_back(path, change):
    """A result as an earlier version wrote it, read by this one."""
    about = {"task": "goto", "method": "poly-ppo", "base": "", "seed": 0, "attempts": 160}
    record = {**about, "settings": dict(cell().settings), **resolved(cell())}
    change(record)
    path.write_text(json.dumps({"format": "polychromic-results-1", "cells": [record]}))
    [found] = Results(path).cells.values()
    return found


def test_no_forks_was_once_a_fork_rule(tmp_path):
    now = {"fork_rule": "spaced", "forks_per_rollout": 0, "window": 3}
    assert current_settings({"fork_rule": "none", "window": 3}) == now
    assert current_settings({"fork_rule": "spaced"}) == {"fork_rule": "spaced"}

    def earlier(record):
        record["config"]["fork_rule"] = record["settings"]["fork_rule"] = "none"

    found = read_back(tmp_path / "runs.json", earlier)
    assert found["config"]["fork_rule"] == found["settings"]["fork_rule"] == "spaced"
    check_same(found, cell())


def test_a_field_that_came_later_counts_as_the_value_that_runs_had_before(tmp_path, monkeypatch):
    def earlier(record):
        del record["config"]["time_limit"]

    check_same(read_back(tmp_path / "runs.json", earlier), cell())
    monkeypatch.setitem(stored_settings.ADDED, "time_limit", "bootstrap")  # as if the default had changed since
    with pytest.raises(ValueError, match="was run with time_limit 'bootstrap'; this version"):
        check_same(read_back(tmp_path / "runs.json", earlier), cell())
    assert complete({}).keys() == {field.name for field in fields(Config)}


def test_a_field_that_is_gone_is_ignored_where_it_changed_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(stored_settings.REMOVED, "old_trick", 0.0)

    def with_trick(value):
        return lambda record: record["config"].update(old_trick=value)

    check_same(read_back(tmp_path / "runs.json", with_trick(0.0)), cell())
    with pytest.raises(ValueError, match=r"was run with old_trick 0\.5; this version would run it with None"):
        check_same(read_back(tmp_path / "runs.json", with_trick(0.5)), cell())


def test_a_complete_configuration_stays_as_it_is():
    config = json.loads(json.dumps(asdict(make_config("ppo", "goto"))))
    assert complete(config) == config


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_stored_result_is_what_would_be_run_today(plan):
    """The results of the repository are read, are found by their plans, and have today's settings."""
    stored = Stored(ROOT / "results", FULL)
    results = stored.files[plan.results]
    known = {record["task"] for record in results.cells.values()}
    tasks = [task for task in plan.tasks(FULL) if task in known]
    bases = {base: f"{base}/policy" for task in tasks for base in FULL.tasks[task].bases}
    planned = expand(plan, FULL, stored.chosen_for(plan), tasks, plan.parts, bases)
    absent = [one.cell for one in missing(planned, results, Path("nowhere"))]
    assert [cell.name for cell in absent] == []


def test_results_from_before_set_credit_are_of_the_paper_s_window():
    cells = Results(ROOT / "results" / "runs.json").cells.values()
    before = [one for one in cells if one["method"] == "poly-ppo" and "set_credit" not in one["settings"]]
    assert {one["config"]["set_credit"] for one in before if "config" in one} == {"window"}
    assert {one["config"]["polychromic_schedule"] for one in before if "config" in one} == {"constant"}
    raw = json.loads((ROOT / "results" / "runs.json").read_text())["cells"]
    assert any("set_credit" not in one.get("config", {}) for one in raw)
