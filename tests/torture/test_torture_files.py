"""A short part of `make torture`: damaged files, a kill, planted modules, and the page that shows the results."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import polychromic
from polychromic.errors import UserError
from polychromic.policies.files import save_policy
from polychromic.pretrain.demonstrations import record, save_demonstrations
from torture import damage, kills, page, trust
from walkers import walker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A policy and demonstrations."""
    scratch = tmp_path_factory.mktemp("files")
    world = polychromic.make("fourrooms", seeds=range(4))
    saved = walker(world)
    for name in ("policy", "demonstrations"):
        (scratch / name).mkdir()
    save_policy(scratch / "policy" / "policy.safetensors", saved.policy, saved.params, saved.info)
    demos = record(world, [[2, 2, 0, 2]] * 4, {"expert": "nobody"})
    save_demonstrations(scratch / "demonstrations" / "demos.npz", demos)
    return scratch


@pytest.mark.parametrize("target", [one for one in damage.TARGETS if one.name in ("policy", "demonstrations")])
def test_damaged_policies_and_demonstrations(files, target):
    expected = getattr(damage, target.read)(files / target.folder)
    outcomes = [damage.damage_one(str(files), target, index, expected) for index in range(120)]
    bad = [one for one in outcomes if one[2] in damage.FAILURES]
    assert not bad, bad[:5]
    assert sum(one[2] == "refused" for one in outcomes) > 60


def test_mutations_change_something_and_outcomes_are_told_apart(tmp_path):
    content = json.dumps({"a": [1, 2.5, "x"], "b": {"c": None}}).encode() + b"\n"
    names = set()
    for index in range(300):
        name, changed = damage.mutate(content, random.Random(index))
        assert changed != content
        names.add(name)
    assert names == {name for name, _ in damage.MUTATIONS}

    def fails(error):
        def read(_folder):
            raise error

        return read

    def outcome(read):
        return damage._outcome(read, tmp_path, 1, UserError)[0]

    assert outcome(lambda _: 1) == "the same results"
    assert outcome(lambda _: 2) == "silently different"
    assert outcome(lambda _: "named") == "named and left out"
    assert outcome(fails(UserError("x is broken"))) == "refused"
    assert outcome(fails(damage.Refused("Traceback (most recent call last)"))) == "traceback"
    assert outcome(fails(KeyError("x"))) == "traceback"


@pytest.mark.slow
def test_a_kill_amid_a_run(tmp_path):
    (story,) = [one for one in kills.stories(tmp_path) if one.name == "finetune"]
    told = kills.tell(tmp_path, story, 1)
    assert told["kills"] >= 1
    assert not told["bad"]


@pytest.mark.slow
def test_planted_modules():
    found = trust.attack(small=True)
    assert found["attacks"] >= 3
    assert not found["bad"]


def test_the_page_shows_the_results(tmp_path):
    results = json.loads((ROOT / "torture" / "results.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert page.table(results) in text
    copy = tmp_path / "page.md"
    copy.write_text(f"a\n{page.BEGIN}\nold\n{page.END}\nb\n", encoding="utf-8")
    page.fill_page(copy, results)
    assert copy.read_text(encoding="utf-8") == f"a\n{page.BEGIN}\n{page.table(results)}\n{page.END}\nb\n"
