"""Episodes to look at, of worlds without a picture: as text, and only if the replay is the attempt."""

import base64
import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

import polychromic as poly
from polychromic.evaluate.recordings import PICTURE_CONFIGURATIONS, TEXT_CONFIGURATIONS, record, viewer_of
from polychromic.finetuning.attempts import Attempts


class Line(poly.World):
    """Walk to the end of a line; `slip` is a coin of the world's own that turns a step around."""

    num_actions, num_configurations, horizon = 2, 14, 9
    names_places = True
    slip = 0.0
    luck = np.random.default_rng(0)

    def start(self, configurations):
        rows = np.zeros((len(configurations), 3), np.int64)
        rows[:, 0] = np.asarray(configurations) % 3 - 1
        return rows

    def observe(self, state):
        return {"cell": state[:, 0].copy()}

    def step(self, state, actions):
        live = state[:, 2] == 0
        turned = np.where(self.luck.random(len(state)) < self.slip, -1, 1)
        state[live, 0] += ((2 * np.asarray(actions) - 1) * turned)[live]
        state[live, 1] += 1
        terminated = np.abs(state[:, 0]) == 4
        truncated = (state[:, 1] == self.horizon) & ~terminated
        state[:, 2] = terminated | truncated
        return poly.StepResult((live & terminated).astype(np.float32), terminated, truncated)

    def concatenate(self, states):
        return np.concatenate(list(states))

    def places(self, state):
        return state[:, 0].copy()


def played(world, each=6, known=True):
    """Random attempts, six at each configuration."""
    count = world.num_configurations * each
    state = world.start(np.repeat(np.arange(world.num_configurations), each))
    rng = np.random.default_rng(1)
    actions = np.full((count, world.horizon), -1, np.int32)
    places = np.zeros((count, world.horizon + 1), np.int64)
    places[:, 0] = world.places(state)
    rewards, lengths, live = np.zeros(count, np.float32), np.zeros(count, np.int64), np.ones(count, bool)
    for step in range(world.horizon):
        taken = rng.integers(0, 2, count)
        actions[live, step] = taken[live]
        lengths += live
        result = world.step(state, taken)
        rewards += result.reward
        places[:, step + 1] = world.places(state)
        live &= ~(result.terminated | result.truncated)
    visited = [frozenset(row[: length + 1].tolist()) for row, length in zip(places, lengths, strict=True)]
    kinds = {one: number for number, one in enumerate(dict.fromkeys(visited))}
    strategies = np.array([kinds[one] for one in visited], np.uint64)
    success = rewards > 0 if known else None
    return Attempts(rewards, success, lengths, strategies, np.zeros(count), places, actions)


def test_a_world_without_a_picture_is_recorded_as_text():
    world = Line()
    attempts = played(world)
    recordings = record(world, attempts)
    assert viewer_of(world) == "text"
    assert len(recordings) == world.num_configurations
    assert all(not one["strategies"] for one in recordings[TEXT_CONFIGURATIONS:])
    for number, recording in enumerate(recordings[:TEXT_CONFIGURATIONS]):
        assert 1 <= len(recording["strategies"]) <= min(3, recording["distinct"])
        for one in recording["strategies"]:
            cell = number % 3 - 1
            assert one["at"] == list(range(one["steps"] + 1))
            for action, text in zip([None, *one["actions"]], one["texts"], strict=True):
                cell += 0 if action is None else 2 * action - 1
                assert text == f"cell: {cell}"
            assert one["solved"] == (abs(cell) == 4) == (one["return"] == 1)


def test_a_world_that_draws_itself_is_recorded_in_pictures():
    class Drawn(Line):
        can_draw = True

        def picture(self, state, row=0, *, tile_size=32):
            image = np.zeros((tile_size, 9 * tile_size, 3), np.uint8)
            image[:, (state[row, 0] + 4) * tile_size :][:, :tile_size] = 255
            return image

    world = Drawn()
    recordings = record(world, played(world))
    for number, recording in enumerate(recordings):
        for one in recording["strategies"]:
            assert ("pictures" in one) == (number < PICTURE_CONFIGURATIONS)
    one = recordings[0]["strategies"][0]
    assert len(one["pictures"]) == len(one["at"]) == len(one["texts"])
    with Image.open(io.BytesIO(base64.b64decode(one["pictures"][0].partition(",")[2]))) as image:
        assert image.size[0] == 200
        bright = np.asarray(image)[..., 0].mean(axis=0).argmax()
    assert abs(bright - (-1 + 4 + 0.5) / 9 * 200) < 12


def test_actions_that_are_vectors_are_replayed_too():
    class Push(Line):
        def step(self, state, actions):
            assert np.isfinite(actions).all()
            return super().step(state, (np.asarray(actions)[:, 0] > 0).astype(np.int64))

    attempts = played(Line())
    pushes = np.where(attempts.actions == -1, np.nan, attempts.actions - 0.5)[..., None]
    episodes = [
        one
        for recording in record(Push(), dataclasses.replace(attempts, actions=pushes))
        for one in recording["strategies"]
    ]
    assert all(len(one["texts"]) == one["steps"] + 1 for one in episodes)
    assert {tuple(action) for one in episodes for action in one["actions"]} == {(0.5,), (-0.5,)}


def test_an_episode_that_cannot_be_repeated_has_no_texts():
    world = Line()
    world.slip = 0.5
    episodes = [one for recording in record(world, played(world)) for one in recording["strategies"]]
    untold = [one for one in episodes if not one["texts"]]
    assert len(untold) > len(episodes) / 2
    assert all(len(one["actions"]) == one["steps"] and one["at"] == [] for one in untold)


def test_a_world_that_fails_in_the_replay_costs_the_texts_alone():
    class Once(Line):
        def text(self, *_arguments, **_options):
            raise RuntimeError("no")

    world = Once()
    recordings = record(world, played(world))
    assert not any(one["texts"] for recording in recordings for one in recording["strategies"])


def test_no_success_is_claimed_where_the_environment_does_not_say():
    world = Line()
    for recording in record(world, played(world, known=False)):
        assert all("solved" not in one and one["successes"] == 0 for one in recording["strategies"])


@pytest.mark.parametrize("seed", [0, 7])
def test_rooms_are_numbered_where_the_agent_can_stand(seed):
    world = poly.make("goto", seeds=[seed])
    drawn = world.backdrop(0)
    centres = np.reshape(drawn["rooms"], (-1, 2))
    assert len(centres) == 9
    cells = world.free_cells(0)
    for room, centre in enumerate(centres):
        at = np.flatnonzero((cells.positions == centre).all(axis=1))
        assert cells.rooms[at].tolist() == [room]


def test_answers_are_recorded_as_they_were_given():
    world = poly.make("triangle", seeds=[0])
    viewer = world.spec.viewer
    from polychromic.tasks.triangle.answers import triangle_answers
    from polychromic.tasks.triangle.graphs import graph_of, triangle_numbers

    graph = graph_of(0)
    new = ~np.isin(triangle_numbers(graph.triangles), graph.known_triangles)
    triples = np.concatenate([graph.triangles[new][:2], graph.triangles[~new][:2]])
    answers = triangle_answers(triples)
    told = viewer.replay(world, np.zeros(4, np.int64), answers, np.full(4, 9))
    assert [one["novel"] for one in told] == [True, True, False, False]
    a, b, c = triples[0].tolist()
    assert told[0]["nodes"] == [a, b, b, c, c, a]
    assert told[0]["words"] == f"{a} {b} <sep> {b} {c} <sep> {c} {a} </a>"
    backdrop = viewer.backdrop(0)
    edges = np.reshape(backdrop["edges"], (-1, 2))
    assert backdrop["nodes"] == 999
    assert graph.adjacent[edges[:, 0], edges[:, 1]].all()
    assert len(edges) == graph.adjacent.sum() // 2
