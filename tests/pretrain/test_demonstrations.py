"""Experts, recording and files: the experts are right, recordings repeat, damaged files are refused."""

import json
import zipfile

import numpy as np
import pytest

import polychromic
from polychromic.envs.grid.load import make_minigrid, quiet
from polychromic.errors import UserError
from polychromic.pretrain.demonstrations import (
    NO_SEED,
    concatenate,
    content_hash,
    first_episodes,
    load_demonstrations,
    save_demonstrations,
    see_as,
    take,
)
from polychromic.tasks.grids.experts import shortest_path
from polychromic.tasks.grids.record import CHUNK, Recording, record_demonstrations


def episode(demos, k):
    return slice(int(demos.offsets[k]), int(demos.offsets[k + 1]))


def distances(walls, goal):
    """Steps to the goal from every (x, y, direction), by sweeping the Bellman equation to its fixed point."""
    width, height = walls.shape
    best = np.full((width, height, 4), np.inf)
    best[goal] = 0
    for _ in range(4 * width * height):
        ahead = np.full_like(best, np.inf)
        ahead[:-1, :, 0], ahead[:, :-1, 1] = best[1:, :, 0], best[:, 1:, 1]
        ahead[1:, :, 2], ahead[:, 1:, 3] = best[:-1, :, 2], best[:, :-1, 3]
        options = np.minimum(np.minimum(ahead, np.roll(best, 1, axis=2)), np.roll(best, -1, axis=2)) + 1
        new = np.where(walls[..., None], np.inf, np.minimum(best, options))
        if np.array_equal(new, best):
            break
        best = new
    return best


def test_shortest_paths_are_shortest():
    rng = np.random.default_rng(0)
    for _ in range(20):
        walls = np.pad(rng.random((6, 7)) < 0.3, 1, constant_values=True)
        free = np.argwhere(~walls)
        goal, start = (tuple(map(int, free[rng.integers(len(free))])) for _ in range(2))
        direction = int(rng.integers(4))
        expected = distances(walls, goal)[(*start, direction)]
        actions = shortest_path(walls, (*start, direction), {goal})
        assert (np.inf if actions is None else len(actions)) == expected


def test_demonstrations_are_what_minigrid_shows_and_they_succeed(fourrooms):
    env = make_minigrid("MiniGrid-FourRooms-v0")
    triples = polychromic.make("fourrooms", seeds=[0]).code_triples
    for k in range(0, 60, 15):
        with quiet():
            seen, _ = env.reset(seed=int(fourrooms.seeds[k]))
        assert seen["mission"] == fourrooms.missions[k]
        for step in range(episode(fourrooms, k).start, episode(fourrooms, k).stop):
            np.testing.assert_array_equal(triples[fourrooms.codes[step]].reshape(7, 7, 3), seen["image"])
            assert seen["direction"] == fourrooms.directions[step]
            seen, reward, terminated, _, _ = env.step(int(fourrooms.actions[step]))
        assert terminated
        assert reward > 0


def test_the_bot_succeeds_within_the_horizon(tmp_path):
    demos = record_demonstrations(Recording("goto", 8, horizon=40), tmp_path / "goto.npz", workers=1)
    assert demos.lengths.max() <= 40
    assert demos.made["levels_tried"] == demos.seeds[-1] + 1
    assert demos.made["levels_unsolved"] == demos.made["levels_tried"] - 8
    world = polychromic.make("goto", seeds=demos.seeds.tolist(), horizon=40)
    assert demos.missions == tuple(world.missions)
    state = world.start(np.arange(8))
    rewards = np.zeros(8)
    for time in range(40):
        moves = [demos.actions[demos.offsets[k] + time] if time < demos.lengths[k] else 6 for k in range(8)]
        rewards += world.step(state, np.array(moves, np.int64)).reward
        np.testing.assert_array_equal(rewards > 0, demos.lengths <= time + 1)
    full = see_as(demos, "full", chunk=3)
    assert full.image_size == (22, 22)
    np.testing.assert_array_equal(full.actions, demos.actions)
    np.testing.assert_array_equal(see_as(full, "partial").codes, demos.codes)


def test_recordings_do_not_depend_on_processes_or_interruptions(fourrooms, tmp_path):
    class Stop(Exception):
        pass

    def stop(_):
        raise Stop

    out = tmp_path / "again.npz"
    with pytest.raises(Stop):
        record_demonstrations(Recording("fourrooms", 60), out, workers=1, progress=stop)
    assert not out.exists()
    kept = list((tmp_path / "again.npz.parts").glob("*.npz"))
    assert len(kept) == 1
    with pytest.raises(UserError, match=r"recording.json: an unfinished recording has first_seed = 0, this one has 5"):
        record_demonstrations(Recording("fourrooms", 60, first_seed=5), out, workers=1)
    note = tmp_path / "again.npz.parts" / "recording.json"
    whole = note.read_text()
    for text in ("[]", whole[:20], whole.replace("100", "101")):
        note.write_text(text)
        with pytest.raises(UserError, match=r"recording.json .*; remove the folder to start again"):
            record_demonstrations(Recording("fourrooms", 60), out, workers=1)
    note.write_text(whole)
    made = record_demonstrations(Recording("fourrooms", 60), out, workers=2)
    assert content_hash(made) == content_hash(fourrooms)
    assert [file.name for file in tmp_path.iterdir()] == ["again.npz"]
    loaded = load_demonstrations(out, task="MiniGrid-FourRooms-v0")
    assert content_hash(loaded) == content_hash(fourrooms)
    assert loaded.made == fourrooms.made
    later = record_demonstrations(Recording("fourrooms", 7, first_seed=CHUNK + 3), tmp_path / "later.npz", workers=1)
    assert content_hash(later) == content_hash(take(fourrooms, range(CHUNK + 3, CHUNK + 10)))


def test_a_shorter_recording_counts_its_own_levels(tmp_path):
    out = tmp_path / "goto.npz"
    long = record_demonstrations(Recording("goto", 15, horizon=30), out, workers=1)
    assert long.made["levels_unsolved"] > 0

    class Stop(Exception):
        pass

    def stop(_):
        raise Stop

    again = tmp_path / "again.npz"
    with pytest.raises(Stop):
        record_demonstrations(Recording("goto", 15, horizon=30), again, workers=1, progress=stop)
    short = record_demonstrations(Recording("goto", 4, horizon=30), again, workers=1)
    for part in (short, load_demonstrations(again), first_episodes(load_demonstrations(out), 4)):
        assert content_hash(part) == content_hash(take(long, range(4)))
        assert part.made["levels_tried"] == long.seeds[3] + 1
        assert part.made["levels_unsolved"] == long.seeds[3] + 1 - 4
    assert first_episodes(long, 15).made == long.made


def test_a_horizon_that_the_expert_cannot_meet_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"horizon: of the first 500 levels of MiniGrid-FourRooms-v0 .* within 1 steps"):
        record_demonstrations(Recording("fourrooms", 600, horizon=1), tmp_path / "x.npz", workers=1)
    assert list(tmp_path.iterdir()) == []


def test_taking_and_joining_are_inverse(fourrooms):
    joined = concatenate([take(fourrooms, range(20)), take(fourrooms, range(20, 60))])
    assert content_hash(joined) == content_hash(fourrooms)
    swapped = take(fourrooms, [4, 2])
    np.testing.assert_array_equal(swapped.codes[swapped.offsets[1] :], fourrooms.codes[episode(fourrooms, 2)])
    assert content_hash(swapped) != content_hash(take(fourrooms, [2, 4]))


def test_truncated_and_damaged_files_are_refused_by_name(fourrooms, tmp_path):
    path = tmp_path / "demos.npz"
    save_demonstrations(path, fourrooms)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"demos.npz: not a complete demonstrations file"):
            load_demonstrations(path)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r"demos.npz"):
        load_demonstrations(path)
    with pytest.raises(UserError, match=r"absent.npz: no such file; `polychromic demos"):
        load_demonstrations(tmp_path / "absent.npz")


def test_foreign_files_are_refused_with_the_field(fourrooms, tmp_path):
    path = tmp_path / "demos.npz"
    save_demonstrations(path, fourrooms)
    with pytest.raises(UserError, match=r"demos.npz: task is MiniGrid-FourRooms-v0, expected BabyAI-GoTo-v0"):
        load_demonstrations(path, task="BabyAI-GoTo-v0")
    with np.load(path) as archive:
        good = dict(archive)
    header = json.loads(good["header"].tobytes())

    zebra = [*header["missions"][:3], "go to the Zebra!", *header["missions"][4:]]

    def text(**changes):
        return np.frombuffer(json.dumps({**header, **changes}).encode(), np.uint8)

    cases = [
        ({name: part for name, part in good.items() if name != "header"}, "'header' is missing"),
        ({name: part for name, part in good.items() if name != "seeds"}, "'seeds' is missing"),
        ({**good, "header": text(format="other-1")}, "format is 'other-1'"),
        ({**good, "header": text(image_size=[7])}, "'image_size'.* length 2"),
        ({**good, "header": text(missions="none")}, "'missions' is a string; it must be a list"),
        ({**good, "header": text(missions=[3] * 60)}, "'missions\\[0\\]' is a whole number; it must be a string"),
        ({**good, "header": text(observation="pixels")}, "'observation' is 'pixels'"),
        ({**good, "header": np.frombuffer(b"[1]", np.uint8)}, "format is None"),
        ({**good, "header": text(missions=zebra)}, "episode 3 has the mission 'go to the Zebra!', whose word 'zebra'"),
        ({**good, "seeds": good["seeds"] - 7}, "'seeds' holds -7"),
        ({**good, "codes": good["codes"][:, :48]}, "'codes' is uint8 .*, expected uint8"),
        ({**good, "codes": good["codes"].astype(np.int64)}, "'codes' is int64"),
        ({**good, "actions": np.where(good["actions"] == 2, 7, good["actions"]).astype(np.uint8)}, "'actions' holds 7"),
        ({**good, "offsets": good["offsets"][::-1].copy()}, "'offsets' do not cut"),
        ({**good, "codes": np.array([object()])}, "not a complete demonstrations file"),
    ]
    for arrays, message in cases:
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=f"demos.npz: .*{message}"):
            load_demonstrations(path)


def test_demonstrations_that_were_edited_and_packed_again_are_refused(fourrooms, tmp_path):
    """The sums of an archive are right again then; every value is a possible one."""
    path = tmp_path / "demos.npz"
    save_demonstrations(path, fourrooms)
    with np.load(path) as archive:
        good = dict(archive)
    header = json.loads(good["header"].tobytes())
    turned = good["actions"].copy()
    turned[3] = 1 - min(turned[3], 1)
    seen = good["codes"].copy()
    seen[5, 5] = seen[5, 6] if seen[5, 5] != seen[5, 6] else seen[5, 5] + 1
    edited = [
        {"actions": turned},
        {"codes": seen},
        {"directions": (good["directions"] + 1) % 4},
        {"seeds": good["seeds"] + 1},
        {"header": np.frombuffer(json.dumps({**header, "made": {"expert": "me"}}).encode(), np.uint8)},
    ]
    for change in edited:
        np.savez_compressed(path, **{**good, **change})
        with pytest.raises(UserError, match=r"demos.npz is damaged: its checksum does not match"):
            load_demonstrations(path)
    # Files of earlier versions have no checksum.
    del header["checksum"]
    np.savez_compressed(path, **{**good, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    assert content_hash(load_demonstrations(path)) == content_hash(fourrooms)


def test_parts_of_an_archive_that_are_no_arrays_are_refused(fourrooms, tmp_path):
    path = tmp_path / "demos.npz"
    save_demonstrations(path, fourrooms)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in parts:
        with zipfile.ZipFile(path, "w") as archive:
            for other, content in parts.items():
                archive.writestr(other, b"nothing" if other == name else content)
        with pytest.raises(UserError, match=f"'{name.removesuffix('.npy')}' is not an array"):
            load_demonstrations(path)


def test_no_flipped_bit_changes_the_demonstrations_that_are_read(fourrooms, tmp_path):
    path = tmp_path / "demos.npz"
    few = take(fourrooms, range(3))
    save_demonstrations(path, few)
    whole = path.read_bytes()
    refused = []
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            found = load_demonstrations(path)
        except UserError as error:
            refused.append(str(error))
        else:  # times and attributes of the parts of an archive
            assert content_hash(found) == content_hash(few)
            assert found.made == few.made
    assert len(refused) > 0.7 * len(whole)
    assert not any("\n" in said for said in refused)


def test_episodes_without_a_level_seed_cannot_be_replayed(fourrooms):
    from dataclasses import replace

    foreign = replace(fourrooms, seeds=np.full(60, NO_SEED))
    with pytest.raises(UserError, match=r"fourrooms.npz: seeds: .* do not know their level seeds"):
        see_as(foreign, "full")


def test_wrong_requests_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no expert for MiniGrid-Empty-5x5-v0"):
        record_demonstrations(Recording("MiniGrid-Empty-5x5-v0"), tmp_path / "x.npz")
    with pytest.raises(UserError, match="episodes is 0; it must be at least 1"):
        record_demonstrations(Recording("goto", 0), tmp_path / "x.npz")
    with pytest.raises(UserError, match="did you mean 'goto'"):
        record_demonstrations(Recording("gotto"), tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []
