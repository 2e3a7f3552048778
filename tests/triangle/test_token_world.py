"""The token world keeps the protocol of worlds; answers of any form are read without a crash."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polychromic as poly
from polychromic.envs.protocol import World, WorldState
from polychromic.errors import UserError
from polychromic.tasks.triangle.answers import (
    ANSWER_LENGTH,
    END,
    FIRST_NODE,
    NUM_TOKENS,
    SEPARATOR,
    VOCABULARY,
    read_answers,
    triangle_answers,
)
from polychromic.tasks.triangle.graphs import graph_of


@pytest.fixture(scope="module")
def world():
    return poly.make("triangle")


def play(world, state, answers):
    """Feed answers [B, L]; returns the total reward and the last result."""
    paid = np.zeros(len(state), np.float32)
    for tokens in np.asarray(answers).T:
        result = world.step(state, tokens)
        paid += result.reward
    return paid, result


def test_it_is_a_world_with_the_sizes_of_the_paper(world):
    assert isinstance(world, World)
    assert isinstance(world.start([0]), WorldState)
    assert (world.num_actions, world.num_configurations, world.horizon, world.context) == (1017, 3, 9, 11)
    assert len(VOCABULARY) == NUM_TOKENS == len(set(VOCABULARY))
    assert world.missions == ("graph0 tri:", "graph1 tri:", "graph2 tri:")
    obs = world.observe(world.start([2, 0]))
    assert obs["tokens"].shape == (2, 11)
    assert obs["length"].tolist() == [2, 2]


def test_every_ordering_of_every_kind_of_triangle_pays(world):
    triples = np.array(list(itertools.permutations(graph_of(1).triangles[7])))
    paid, result = play(world, world.start([1] * 6), triangle_answers(triples))
    assert paid.tolist() == [1.0] * 6
    assert result.terminated.all()
    assert not result.truncated.any()


def test_a_triangle_of_another_graph_pays_nothing(world):
    own = {tuple(row) for row in graph_of(0).triangles}
    foreign = np.array([row for row in graph_of(1).triangles if tuple(row) not in own])
    paid, _ = play(world, world.start([0] * len(foreign)), triangle_answers(foreign))
    assert paid.sum() == 0


def spoiled(good):
    """Answers that are almost right."""
    a, b, c = good[0], good[1], good[4]
    return {
        "early end": [a, b, END, b, c, SEPARATOR, c, a, END],
        "no end": [a, b, SEPARATOR, b, c, SEPARATOR, c, a, a],
        "wrong separator": [a, b, SEPARATOR, b, c, a, c, a, END],
        "node for a separator": [a, b, c, b, c, SEPARATOR, c, a, END],
        "repeated node": [a, b, SEPARATOR, b, a, SEPARATOR, a, a, END],
        "pairs that do not fit": [a, b, SEPARATOR, c, b, SEPARATOR, c, a, END],
        "not closed": [a, b, SEPARATOR, b, c, SEPARATOR, c, b, END],
        "third pair reversed": [a, b, SEPARATOR, b, c, SEPARATOR, a, c, END],
        "special for a node": [0, b, SEPARATOR, b, c, SEPARATOR, c, 0, END],
    }


@pytest.mark.parametrize("kind", spoiled(range(9)))
def test_malformed_answers_pay_nothing(world, kind):
    good = triangle_answers(graph_of(0).triangles[:1])[0].tolist()
    paid, result = play(world, world.start([0]), [spoiled(good)[kind]])
    assert paid.tolist() == [0.0]
    assert (result.terminated | result.truncated).all()


TOKENS = st.one_of(
    st.sampled_from([END, SEPARATOR, 0]), st.integers(0, NUM_TOKENS - 1), st.integers(FIRST_NODE, FIRST_NODE + 4)
)


@settings(max_examples=150, deadline=None)
@given(answers=st.lists(st.lists(TOKENS, min_size=ANSWER_LENGTH, max_size=ANSWER_LENGTH), min_size=1, max_size=5))
def test_any_tokens_are_played_to_an_end_and_paid_by_the_definition(world, answers):
    state = world.start([0] * len(answers))
    paid, result = play(world, state, answers)
    assert (result.terminated | result.truncated).all()
    graph = graph_of(0)
    edges = graph.adjacent
    for answer, reward in zip(answers, paid, strict=True):
        said = answer[: answer.index(END) + 1] if END in answer else answer
        nodes = [token - FIRST_NODE for token in said]
        right = len(said) == 9 and said[2] == said[5] == SEPARATOR and said[8] == END
        right = right and min(nodes[i] for i in (0, 1, 3, 4, 6, 7)) >= 0
        right = right and nodes[1] == nodes[3] and nodes[4] == nodes[6] and nodes[7] == nodes[0]
        right = right and edges[nodes[0], nodes[1]] and edges[nodes[3], nodes[4]] and edges[nodes[6], nodes[7]]
        assert reward == float(right)
    stopped = state.rows.copy()
    again = world.step(state, [5] * len(answers))
    assert again.reward.sum() == 0
    assert (state.rows == stopped).all()


@settings(max_examples=60, deadline=None)
@given(
    answers=st.lists(st.lists(st.integers(-1, 2000), min_size=0, max_size=12), min_size=1, max_size=4),
    counting=st.sampled_from(["strict", "original"]),
)
def test_arrays_of_any_numbers_and_lengths_can_be_read(answers, counting):
    width = max(map(len, answers))
    table = np.array([answer + [-1] * (width - len(answer)) for answer in answers], np.int64).reshape(
        len(answers), width
    )
    named = read_answers(graph_of(0), table, counting)
    assert (named.numbers[~named.valid] == -1).all()
    assert not (named.novel & ~named.valid).any()


def test_the_two_ways_of_counting_differ_as_they_should():
    graph = graph_of(0)
    seen = graph.triangle_samples[0]
    orderings = triangle_answers(np.array(list(itertools.permutations(seen))))
    strict, original = read_answers(graph, orderings), read_answers(graph, orderings, "original")
    assert strict.valid.all()
    assert len(set(strict.numbers.tolist())) == 1
    assert not strict.novel.any()
    assert len(set(original.numbers.tolist())) == 6
    assert not original.novel[0]
    loose = orderings[:1].copy()
    loose[0, 6:8] = FIRST_NODE
    assert not read_answers(graph, loose).valid[0]
    assert read_answers(graph, loose, "original").valid[0]
    with pytest.raises(UserError, match="counting"):
        read_answers(graph, loose, "lax")


def test_novel_is_what_no_sample_shows():
    graph = graph_of(2)
    named = read_answers(graph, triangle_answers(graph.triangles))
    assert named.valid.all()
    assert named.novel.sum() == graph.num_undiscovered


def test_a_fork_is_a_copied_prefix(world):
    state = world.start([0, 1])
    world.step(state, [20, 30])
    fork = state[[1, 1, 0]]
    before = state.rows.copy()
    world.step(fork, [40, 41, 42])
    assert (state.rows == before).all()
    assert world.observe(fork)["tokens"][:, 2:4].tolist() == [[30, 40], [30, 41], [20, 42]]
    joined = world.concatenate([state, fork])
    assert len(joined) == 5
    assert world.configurations(joined).tolist() == [0, 1, 1, 1, 0]


def test_the_place_is_the_node_named_last(world):
    state = world.start([0])
    seen = [world.places(state)[0]]
    for token in (FIRST_NODE + 7, SEPARATOR, FIRST_NODE + 8, END):
        world.step(state, [token])
        seen.append(world.places(state)[0])
    assert seen == [-1, 7, 7, 8, 8]


def sums_to_ten(configurations, answers):
    del configurations
    return [float(sum(answer[answer > 0]) == 10) for answer in answers]


def test_a_task_of_ones_own_with_labels_instead_of_places():
    world = poly.token_world(
        prompts=[[1], [2, 3]],
        num_tokens=10,
        end=0,
        max_tokens=3,
        reward=sums_to_ten,
        label=lambda _, answers: answers.max(axis=1),
    )
    state = world.start([0, 1])
    assert world.step(state, [4, 9]).reward.tolist() == [0.0, 0.0]
    assert world.places(state).tolist() == [0, 0]
    result = world.step(state, [6, 0])
    assert result.terminated.tolist() == [False, True]
    assert world.places(state).tolist() == [0, 9]
    result = world.step(state, [0, 5])
    assert result.reward.tolist() == [1.0, 0.0]
    assert world.places(state).tolist() == [6, 9]
    assert world.answers(state).tolist() == [[4, 6, 0], [9, 0, -1]]


def test_an_answer_without_an_end_is_cut_off():
    world = poly.token_world(prompts=[[1]], num_tokens=4, end=0, max_tokens=2, reward=sums_to_ten)
    state = world.start([0])
    world.step(state, [1])
    result = world.step(state, [2])
    assert result.truncated.tolist() == [True]
    assert not result.terminated.any()
    assert not world.names_places


GOOD = {"prompts": [[1]], "num_tokens": 4, "end": 0, "max_tokens": 2, "reward": sums_to_ten}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": []}, "prompts is empty"),
        ({"prompts": [[]]}, r"prompts\[0\] is empty"),
        ({"prompts": [[4]]}, r"prompts\[0\] is 4"),
        ({"end": 4}, "end is 4"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"vocabulary": ("a",)}, "vocabulary has 1"),
        ({"seeds": (1, 2)}, "seeds has 2"),
        ({"place": lambda token: token, "label": sums_to_ten}, "place and label"),
        ({"place": lambda token: -token}, "place is -1"),
    ],
)
def test_a_task_that_cannot_work_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        poly.token_world(**{**GOOD, **changes})


def test_wrong_calls_are_refused_in_words(world):
    state = world.start([0, 1])
    with pytest.raises(UserError, match="one per row"):
        world.step(state, [1])
    with pytest.raises(UserError, match="0 to 1016"):
        world.step(state, [1, 1017])
    with pytest.raises(UserError, match="from 0 to 2"):
        world.start([3])
    with pytest.raises(UserError, match="last digit"):
        poly.make("triangle", seeds=(1, 11))
    with pytest.raises(UserError, match="horizon is 5, which triangle does not know; it has no options"):
        poly.make("triangle", horizon=5)
    bad = poly.token_world(**{**GOOD, "reward": lambda *_: [0.0] * 7})
    with pytest.raises(UserError, match="reward returned"):
        bad.step(bad.start([0]), [0])
