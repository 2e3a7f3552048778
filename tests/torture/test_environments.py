"""The gallery of hostile environments, played shortly; `make torture` plays it at full length."""

from __future__ import annotations

import pytest

import polychromic
from polychromic.envs.gymnasium.probe import maker_of
from polychromic.errors import Notice
from torture import environments, gallery

SHORT = {"seeds": [0], "steps": 12}
FAULTY, SOUND = gallery.faulty(), gallery.sound()


@pytest.mark.parametrize("row", FAULTY, ids=lambda row: row.name)
def test_faults_that_can_be_seen_are(row):
    ok, report = environments.judge(row.make, row.options | SHORT)
    assert ok == (row.seen == gallery.NEVER), report
    assert bool(row.reason) == (row.seen == gallery.NEVER)
    if row.seen == gallery.OUTSIDE:
        assert "FAILED nothing outside of it changes" in report
    if row.seen == gallery.FIELDS and row.name != "unseeded":
        assert "FAILED the copy has every field" in report


@pytest.mark.parametrize("row", SOUND, ids=lambda row: row.name)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sound_environments_are_not_refused(row):
    ok, report = environments.judge(maker_of(row.make), SHORT)
    assert ok, report


def test_the_gallery_is_large_enough():
    assert len(FAULTY) - len(gallery.UNSEEN) >= 60
    assert len(SOUND) >= 25
    assert len({row.name for row in (*FAULTY, *SOUND)}) == len(FAULTY) + len(SOUND)


@pytest.mark.parametrize("make", [gallery.ModuleObject, gallery.ClassNumber, gallery.Unseeded])
def test_from_gymnasium_does_not_fork_what_the_check_refuses(make):
    with pytest.warns(Notice, match="cannot be forked faithfully"):
        world = polychromic.from_gymnasium(make, range(3), horizon=64)
    assert not world.can_fork
