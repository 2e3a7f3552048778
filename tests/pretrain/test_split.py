"""The split: no level in both parts, the same every time, and back from its file."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from polychromic.errors import UserError
from polychromic.policies.files import load_policy
from polychromic.pretrain.demonstrations import NO_SEED, Demonstrations, content_hash
from polychromic.pretrain.split import FORMAT, Split, save_split, split_episodes


def test_the_split_is_by_episode_and_comes_back_from_its_file(fourrooms, tmp_path):
    split = split_episodes(fourrooms, num_configurations=10)
    assert len(split.train) == 48
    assert sorted(split.train + split.test) == list(range(60))
    assert set(split.configurations) <= {int(fourrooms.seeds[k]) for k in split.test}
    assert len(set(split.configurations)) == 10
    assert split_episodes(fourrooms, num_configurations=10) == split
    assert split_episodes(fourrooms, num_configurations=10, seed=1) != split
    whole = split_episodes(fourrooms, num_configurations=50, source="all")
    assert whole.train == tuple(range(60))
    assert not set(whole.configurations) <= {int(fourrooms.seeds[k]) for k in whole.test}
    path = tmp_path / "configurations.json"
    save_split(path, split)
    written = json.loads(path.read_text())
    assert written.pop("format") == FORMAT
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    assert Split(**values) == split
    assert split.task == "MiniGrid-FourRooms-v0"
    assert split.demonstrations == content_hash(fourrooms)


def test_too_few_episodes_for_the_configurations(fourrooms):
    with pytest.raises(UserError, match=r"npz: 50 .*the test part has 12 different levels.*record at least 250"):
        split_episodes(fourrooms)
    foreign = dataclasses.replace(fourrooms, seeds=np.full(60, NO_SEED))
    with pytest.raises(UserError, match=r"npz: .* has 0 different levels with a known seed"):
        split_episodes(foreign, num_configurations=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(NO_SEED, 12), min_size=8, max_size=40), st.integers(0, 5))
def test_no_level_is_in_both_parts_however_often_it_was_demonstrated(seeds, seed):
    demos = episodes_on(seeds)
    try:
        split = split_episodes(demos, seed=seed, num_configurations=1)
    except UserError:  # one level makes up nearly everything, or the test part knows no level seed
        reject()
    assert sorted(split.train + split.test) == list(range(len(seeds)))
    assert len(split.test) >= max(1, round(0.2 * len(seeds)))
    levels = [{seeds[k] for k in part} - {NO_SEED} for part in (split.train, split.test)]
    assert not levels[0] & levels[1]
    assert set(split.configurations) <= levels[1]
    everything = len(set(seeds) - {NO_SEED})
    whole = split_episodes(demos, seed=seed, num_configurations=everything, source="all")
    assert len(set(whole.configurations)) == everything
    with pytest.raises(UserError, match=f"has {everything} different levels"):
        split_episodes(demos, seed=seed, num_configurations=everything + 1, source="all")


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 60), st.integers(0, 5))
def test_levels_that_occur_once_are_split_by_one_permutation(count, seed):
    split = split_episodes(episodes_on(range(100, 100 + count)), seed=seed, num_configurations=1)
    order = np.random.default_rng([seed, 0]).permutation(count)
    test = np.sort(order[: max(1, round(0.2 * count))])
    assert split.test == tuple(test.tolist())
    assert split.configurations == (100 + np.random.default_rng([seed, 1]).choice(test, 1, replace=False)[0],)


def test_the_shipped_configurations_come_out_again():
    every_level = episodes_on(range(2000))  # all 2,000 levels of FourRooms are solved
    assert split_episodes(every_level).configurations == load_policy("fourrooms").info.configurations


def episodes_on(seeds):
    """One step on each level."""
    count = len(seeds)
    return Demonstrations(
        task="MiniGrid-FourRooms-v0",
        observation="partial",
        image_size=(7, 7),
        codes=np.zeros((count, 49), np.uint8),
        directions=np.zeros(count, np.uint8),
        actions=np.zeros(count, np.uint8),
        offsets=np.arange(count + 1),
        seeds=np.array(seeds, np.int64),
        missions=("reach the goal",) * count,
    )
