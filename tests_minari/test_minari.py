"""Demonstrations through real Minari datasets, written and read back locally."""

import gymnasium
import minari
import numpy as np
import pytest

from polychromic.envs.grid.load import make_minigrid, quiet
from polychromic.errors import UserError
from polychromic.integrations.minari import read_minari, write_minari
from polychromic.pretrain.demonstrations import NO_SEED, content_hash, see_as
from polychromic.pretrain.minari_files import export_minari, from_minari, import_minari, to_minari
from polychromic.tasks.grids.record import Recording, record_demonstrations


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture(scope="module", params=["fourrooms", "pickup"])
def demos(request, tmp_path_factory):
    return record_demonstrations(Recording(request.param, 6), tmp_path_factory.mktemp("d") / "demos.npz", workers=1)


@pytest.mark.parametrize("observation", ["partial", "full"])
def test_demonstrations_come_back_as_they_were(demos, observation):
    demos = see_as(demos, observation)
    to_minari(demos, "test/round/trip-v0")
    again = from_minari("test/round/trip-v0")
    assert content_hash(again) == content_hash(demos)
    assert again.made == {"minari": "test/round/trip-v0", "seeds_confirmed": 6}


def test_a_dataset_is_what_minigrid_shows_and_pays(demos):
    to_minari(demos, "test/exact-v0")
    env = make_minigrid(demos.task, max_steps=100)
    dataset = minari.load_dataset("test/exact-v0")
    assert dataset.spec.env_spec.id == demos.task
    for k, episode in enumerate(dataset.iterate_episodes()):
        with quiet():
            seen, _ = env.reset(seed=int(demos.seeds[k]))
        for step, action in enumerate(episode.actions):
            np.testing.assert_array_equal(episode.observations["image"][step], seen["image"])
            assert episode.observations["mission"][step] == seen["mission"]
            seen, reward, terminated, truncated, _ = env.step(int(action))
            assert episode.rewards[step] == pytest.approx(reward)
            assert bool(episode.terminations[step]) == terminated
            assert bool(episode.truncations[step]) == truncated
        np.testing.assert_array_equal(episode.observations["image"][-1], seen["image"])
        assert terminated


def test_seeds_of_other_levels_are_not_believed(demos):
    to_minari(demos, "test/source-v0")
    level, episodes = read_minari("test/source-v0")
    shifted = [episode._replace(seed=episode.seed + 1) for episode in episodes]
    write_minari("test/shifted-v0", gymnasium.make(level), shifted, "nobody")
    again = from_minari("test/shifted-v0")
    assert (again.seeds == NO_SEED).all()
    np.testing.assert_array_equal(again.codes, demos.codes)
    with pytest.raises(UserError, match="do not know their level seeds"):
        to_minari(again, "test/again-v0")


def test_commands(demos, tmp_path, capsys):
    from polychromic.pretrain.demonstrations import load_demonstrations, save_demonstrations

    save_demonstrations(tmp_path / "a.npz", demos)
    assert export_minari(tmp_path / "a.npz", "test/command-v0") == 0
    assert import_minari("test/command-v0", tmp_path / "b.npz") == 0
    assert content_hash(load_demonstrations(tmp_path / "b.npz")) == content_hash(demos)
    assert "6 level seeds confirmed" in capsys.readouterr().out
    with pytest.raises(UserError, match="there is a local Minari dataset of this name"):
        export_minari(tmp_path / "a.npz", "test/command-v0")


def test_foreign_datasets_are_refused_by_name(demos):
    with pytest.raises(UserError, match=r"test/absent-v0: Minari cannot load"):
        from_minari("test/absent-v0")
    to_minari(demos, "test/source-v0")
    level, episodes = read_minari("test/source-v0")
    zebra = episodes[1]._replace(mission="go to the zebra")
    write_minari("test/zebra-v0", gymnasium.make(level), [episodes[0], zebra], "nobody")
    with pytest.raises(UserError, match=r"test/zebra-v0: .*episode 1 .*'go to the zebra', whose word 'zebra'"):
        from_minari("test/zebra-v0")
    strange = episodes[0]._replace(images=np.full_like(episodes[0].images, 14))
    write_minari("test/strange-v0", gymnasium.make(level), [strange], "nobody")
    with pytest.raises(UserError, match=r"test/strange-v0: 'image' of episode 0, step 0 has a cell \[14, 14, 14\]"):
        from_minari("test/strange-v0")
