"""When completions count as the same, and what is made of groups of them; no trainer needed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polychromic import UserError, kernel_from_embeddings, polychromic_advantages, polychromic_kernel_advantages
from polychromic.integrations.answers import Comparison, Likeness, NoAnswer, rewards_of
from polychromic.integrations.completions import Completion
from polychromic.integrations.group_sets import PRESETS, SetSettings, group_advantages, group_metrics, scaled

TEXTS = ["a 1", "b 1", " ", "a 2", ""]


def last_word(text):
    return text.split()[-1]


def test_key_never_sees_an_empty_completion():
    items = Comparison(key=last_word).of_completions(TEXTS)
    assert items == ["1", "1", NoAnswer.EMPTY, "2", NoAnswer.EMPTY]
    np.testing.assert_array_equal(Comparison(key=last_word).likeness([items]).labels, [[0, 0, 1, 2, 1]])


def test_none_is_a_label():
    assert Comparison(key=lambda _: None).of_completions(["a", "b"]) == [None, None]
    assert polychromic_advantages([1.0, 0, 1], [None, None, 1], set_size=2).sum() == pytest.approx(0)


def test_any_hashable_is_a_label():
    comparison = Comparison(key=lambda text: (text[0], frozenset(text)))
    likeness = comparison.likeness([comparison.of_completions(["ab", "aab", "b"])])
    np.testing.assert_array_equal(likeness.labels, [[0, 0, 1]])
    np.testing.assert_array_equal(likeness.distinct(), [2])


def test_judge_sees_a_group_once_without_its_empty_completions():
    seen = []

    def judge(prompt, completions):
        seen.append((prompt, completions))
        return [text[0] for text in completions]

    labels = Comparison(judge=judge).labels_of_groups(["q"], [TEXTS])[0].labels
    assert labels == ["a", "b", NoAnswer.EMPTY, "a", NoAnswer.EMPTY]
    assert seen == [("q", ["a 1", "b 1", "a 2"])]
    assert Comparison(judge=judge).labels_of_groups(["q"], [["", " "]])[0].labels == [NoAnswer.EMPTY] * 2
    assert len(seen) == 1


def test_equivalence_asks_one_representative_of_each_class_once():
    asked = []

    def equivalent(_prompt, first, second):
        asked.append((first, second))
        return first[0] == second[0]

    assert Comparison(equivalent=equivalent).labels_of_groups(["q"], [["a1", "b1", "a1", "a2", "b2"]])[0].labels == [
        0,
        1,
        0,
        0,
        1,
    ]
    assert asked == [("a1", "b1"), ("a1", "a2"), ("a1", "b2"), ("b1", "b2")]


def letters(texts):
    return [[text.count("a"), text.count("b")] for text in texts]


def test_embeddings_make_a_kernel_in_which_empty_completions_are_alike_and_apart():
    comparison = Comparison(embed=letters)
    kernel = comparison.likeness([comparison.of_completions(["a", "aa", "", "b", " "])]).kernel[0]
    expected = np.zeros((5, 5))
    expected[np.ix_([0, 1], [0, 1])] = expected[np.ix_([2, 4], [2, 4])] = expected[3, 3] = 1
    np.testing.assert_allclose(kernel, expected, atol=1e-12)
    assert comparison.likeness([comparison.of_completions(["", ""])]).kernel.tolist() == [[[1, 1], [1, 1]]]


def test_a_threshold_turns_embeddings_into_labels():
    comparison = Comparison(embed=letters, similarity_threshold=0.99)
    likeness = comparison.likeness([comparison.of_completions(["a", "aa", "", "b", "ab"])])
    assert likeness.kernel is None
    np.testing.assert_array_equal(likeness.labels, [[0, 0, 2, 3, 4]])


def test_effective_number_of_answers():
    comparison = Comparison(embed=letters)
    likeness = comparison.likeness([comparison.of_completions(["a", "b"]), comparison.of_completions(["a", "a"])])
    np.testing.assert_allclose(likeness.distinct(), [2, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "none of key"),
        ({"key": last_word, "embed": letters}, "key and embed"),
        ({"key": "last"}, "key is 'last'"),
        ({"key": last_word, "similarity_threshold": 0.9}, "similarity_threshold is 0.9 without embed"),
    ],
)
def test_exactly_one_way_to_compare(arguments, message):
    with pytest.raises(UserError, match=message):
        Comparison(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": lambda text: text.split()[3]}, "key raised IndexError: .* on the completion 'a 1'"),
        ({"key": lambda text: [text]}, "key returned list for the completion 'a 1'"),
        ({"key": lambda _: float("nan")}, "what key returned for the completion 'a 1' holds NaN"),
        ({"key": lambda _: object()}, "compared by identity"),
        ({"embed": lambda _: np.zeros((3, 2))}, "a vector of zeros or with NaN for 'a 1'"),
        ({"embed": lambda _: np.ones((2, 2))}, r"embed returned shape \(2, 2\)"),
        ({"embed": lambda _: 1 / 0}, "embed raised ZeroDivisionError"),
    ],
)
def test_mistakes_in_the_users_functions_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        Comparison(**arguments).of_completions(TEXTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"judge": lambda *_: ["x"]}, "judge returned 1 labels for 3 completions"),
        ({"judge": lambda *_: 1 / 0}, "judge raised ZeroDivisionError"),
        ({"judge": lambda *_: [[1], [2], [3]]}, "judge returned list"),
        ({"equivalent": lambda *_: 1 / 0}, "equivalent raised ZeroDivisionError: .* the first 'a 1'"),
    ],
)
def test_mistakes_in_functions_of_groups_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        Comparison(**arguments).labels_of_groups(["q"], [TEXTS])[0]


def test_rewards_are_checked_and_rescaled():
    raw, returns = rewards_of([-1, 0, 3], 3, (-1, 3), "f")
    np.testing.assert_allclose(raw, [-1, 0, 3])
    np.testing.assert_allclose(returns, [0, 0.25, 1])


@pytest.mark.parametrize(
    ("values", "reward_range", "message"),
    [
        ([0, 2], (0, 1), r"f returned 2 for completion 1; .* \[0, 1\] .*reward_range"),
        ([0, None], (-1, 1), "None or NaN for completion 1; .* return a number for each, -1 for one that"),
        ([float("nan"), 0], (0, 1), "None or NaN for completion 0"),
        ([0], (0, 1), "1 rewards for 2 completions"),
        (0.5, (0, 1), "must return one number per completion"),
        ([0, 0], (1, 1), "lowest < highest"),
        ([0, 1], (0, float("inf")), "reward_range is .* two finite numbers"),
        ([0, 1], (0, 1, 2), "reward_range is .* two finite numbers"),
        ([0, 1], 5, "reward_range is 5"),
        (["a", 1], (0, 1), "must return one number per completion"),
    ],
)
def test_bad_rewards_are_refused(values, reward_range, message):
    with pytest.raises(UserError, match=message):
        rewards_of(values, 2, reward_range, "f")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"set_size": 1}, "no diversity"),
        ({"num_sets": "some"}, "num_sets is 'some'"),
        ({"num_sets": 1}, "its own baseline"),
        ({"credit": "mean", "num_sets": 4}, "do not add up to zero"),
        ({"credit": "last", "num_sets": 4}, "do not add up to zero"),
        ({"credit": "most"}, "choose one of"),
    ],
)
def test_settings_that_a_trainer_would_change_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        SetSettings(**arguments)


@pytest.mark.parametrize(
    ("settings", "group_size", "by_kernel", "message"),
    [
        ({}, 3, False, "need groups of more than 4"),
        ({}, 4, False, "every advantage is 0"),
        ({"num_sets": "all"}, 100, True, "no closed form"),
        ({"credit": "mean"}, 32, True, "35,960 sets in a group, of which some are drawn"),
    ],
)
def test_group_sizes_without_a_signal_are_refused(settings, group_size, by_kernel, message):
    with pytest.raises(UserError, match=message):
        SetSettings(**settings).check_group_size("num_generations", group_size, by_kernel=by_kernel)


def test_presets_are_settings():
    assert SetSettings(**PRESETS["paper"]) == SetSettings(4, 4, "sum", True)
    assert SetSettings(**PRESETS["poly-epo"]) == SetSettings(4, "all", "mean", False)
    SetSettings(**PRESETS["paper"]).check_group_size("num_generations", 8, by_kernel=True)


def test_metrics_of_a_group_by_hand():
    # Group 1: two right answers (a, b), one wrong (c), one empty; group 2: all the same and right.
    comparison = Comparison(key=str)
    likeness = comparison.likeness([comparison.of_completions(["a", "b", "c", ""]), ["a"] * 4])
    returns = np.array([[1.0, 1, 0, 0], [1, 1, 1, 1]])
    metrics = group_metrics(returns, likeness, SetSettings(set_size=2), returns > 0)
    assert metrics == {
        "diversity": pytest.approx((1 + 0) / 2),
        "set_score": pytest.approx((0.5 + 0) / 2),
        "distinct_answers": pytest.approx((4 + 1) / 2),
        "distinct_right_answers": pytest.approx((2 + 1) / 2),
        "pass@2": pytest.approx((1 - 1 / 6 + 1) / 2),
    }


def test_metrics_of_a_kernel_and_of_large_groups():
    comparison = Comparison(embed=letters)
    likeness = comparison.likeness([comparison.of_completions(["a", "b"] * 8)])
    metrics = group_metrics(np.ones((1, 16)), likeness, SetSettings(), np.ones((1, 16)))
    assert "distinct_right_answers" not in metrics
    assert metrics["distinct_answers"] == pytest.approx(2)
    assert metrics["diversity"] == metrics["set_score"] > 0


def test_advantages_of_groups_are_the_cores():
    rng = np.random.default_rng(0)
    returns, labels = rng.random((3, 8)), rng.integers(0, 4, (3, 8))
    likeness = Comparison(key=str).likeness(labels.tolist())
    for name, sets in PRESETS.items():
        expected = polychromic_advantages(returns, labels, **sets, rng=7)
        found = group_advantages(returns, likeness, SetSettings(**sets), 7)
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("threshold", [85, float("nan"), -3, "0.9"])
def test_a_threshold_that_is_no_cosine_is_refused(threshold):
    with pytest.raises(UserError, match="similarity_threshold is"):
        Comparison(embed=lambda texts: np.ones((len(texts), 2)), similarity_threshold=threshold)


def test_the_rule_for_labels_is_refused_where_there_are_none():
    with pytest.raises(UserError, match="homogeneous_zero is False with embed"):
        SetSettings(set_size=4, homogeneous_zero=False).check_group_size("n", 8, by_kernel=True)


def random_kernel(groups=2, size=32, seed=0):
    rng = np.random.default_rng(seed)
    return kernel_from_embeddings(rng.normal(size=(groups, size, 8)) + 2 * rng.normal(size=(groups, 1, 8)))


def test_sets_of_embeddings_are_all_or_drawn():
    assert SetSettings().sets_of_kernel(8) == SetSettings().sets_of_kernel(16) == "all"  # 70 and 1,820
    assert SetSettings().sets_of_kernel(32) == 2000  # of 35,960
    assert SetSettings(num_sets="all").sets_of_kernel(32) == "all"
    assert SetSettings(num_sets=5).sets_of_kernel(32) == 5
    kernel = random_kernel()
    returns = np.random.default_rng(1).random((2, 32))
    drawn = group_advantages(returns, Likeness(None, kernel), SetSettings(), 3)
    np.testing.assert_array_equal(
        drawn, polychromic_kernel_advantages(returns, kernel, set_size=4, num_sets=2000, rng=3)
    )
    np.testing.assert_allclose(drawn.sum(axis=1), 0, atol=1e-12)
    exact = group_advantages(returns, Likeness(None, kernel), SetSettings(num_sets="all"), 3)
    assert np.corrcoef(drawn.ravel(), exact.ravel())[0, 1] > 0.97


def test_scale_changes_the_size_of_advantages_and_nothing_else():
    rng = np.random.default_rng(0)
    likeness = Likeness(rng.integers(0, 3, (4, 8)), None)
    plain = group_advantages(rng.integers(0, 2, (4, 8)).astype(float), likeness, SetSettings(), 0)
    np.testing.assert_array_equal(scaled(plain, 16.0), 16 * plain)
    by_batch = scaled(plain, "batch")
    assert by_batch.std() == pytest.approx(1, abs=0.01)
    nonzero = plain != 0
    ratios = by_batch[nonzero] / plain[nonzero]
    np.testing.assert_allclose(ratios, ratios[0])  # one factor for all groups, though they differ in spread
    assert len(set(plain.std(axis=1).round(6))) > 1
    assert not scaled(np.zeros((2, 4)), "batch").any()


@pytest.mark.parametrize("scale", ["group", 0.0, -1.0, float("nan"), True])
def test_scales_that_make_no_sense_are_refused(scale):
    with pytest.raises(UserError, match="scale is"):
        SetSettings(scale=scale)


def test_groups_smaller_than_a_set_have_metrics_without_sets():
    for size in (1, 2, 3):
        for likeness in (Likeness(np.zeros((2, size), np.int64), None), Likeness(None, np.ones((2, size, size)))):
            returns = np.ones((2, size))
            assert not group_advantages(returns, likeness, SetSettings(), 0).any()
            metrics = group_metrics(returns, likeness, SetSettings(), returns)
            assert metrics.pop("distinct_right_answers", 1.0) == 1.0
            assert metrics == {"distinct_answers": pytest.approx(1.0)}


def test_wrong_answers_can_count_as_one():
    right = np.array([[True, True, False, False]])
    labels = Likeness(np.array([[0, 1, 2, 3]]), None).of_wrong(right, "alike")
    np.testing.assert_array_equal(labels.labels, [[0, 1, -1, -1]])
    kernel = np.full((1, 4, 4), 0.5) + 0.5 * np.eye(4)
    expected = [[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    np.testing.assert_array_equal(Likeness(None, kernel).of_wrong(right, "alike").kernel[0], expected)
    assert Likeness(None, kernel).of_wrong(right, "compared").kernel is kernel


def test_wrong_answers_can_count_as_the_most_common_right_one():
    right = np.array([[True, False, True, True, False], [False] * 5])
    labels = Likeness(np.array([[0, 1, 2, 2, 3], [0, 1, 1, 1, 4]]), None)
    merged = labels.of_wrong(right, "never-different")
    np.testing.assert_array_equal(merged.labels[0], [0, 2, 2, 2, 2])
    assert len(set(merged.labels[1])) == 1
    # By degrees: the right completion most like the other right ones (here 2) stands in for each wrong one.
    kernel = np.eye(4)
    kernel[0, 2] = kernel[2, 0] = 0.5
    kernel[2, 1] = kernel[1, 2] = 0.4
    found = Likeness(None, kernel[None]).of_wrong(np.array([[True, True, True, False]]), "never-different").kernel[0]
    np.testing.assert_array_equal(found[3], kernel[2][[0, 1, 2, 2]])
    np.testing.assert_array_equal(found[:3, :3], kernel[:3, :3])
    np.testing.assert_array_equal(found, found.T)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_the_most_common_right_answer_is_found_by_counting(completions):
    labels, right = (np.array([column]) for column in zip(*completions, strict=True))
    counted = Counter(label for label, good in completions if good).most_common(1)
    expected = [label if good else counted[0][0] for label, good in completions] if counted else []
    merged = Likeness(labels, None).of_wrong(right, "never-different").labels[0].tolist()
    assert merged == (expected if counted else [labels[0, 0]] * len(completions))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=5, max_size=8), st.booleans())
def test_a_wrong_answer_that_is_never_different_gets_no_more_than_the_most_common_right_one(completions, zero):
    labels, right = (np.array([column]) for column in zip(*completions, strict=True))
    merged = Likeness(labels, None).of_wrong(right, "never-different")
    advantages = group_advantages(right.astype(float), merged, SetSettings(homogeneous_zero=zero), 0)[0]
    if right.any() and not right.all():
        common = merged.labels[0, (~right[0]).argmax()]
        assert advantages[~right[0]].max() <= advantages[right[0] & (merged.labels[0] == common)].min() + 1e-12


def test_a_key_that_sees_wrong_answers_pays_for_them_unless_they_count_as_one():
    """One right answer, three of eight wrong in different ways: the failure mode that the guide names."""
    returns = np.array([[1.0, 1, 1, 1, 1, 0, 0, 0]])
    likeness = Likeness(np.array([[0, 0, 0, 0, 0, 1, 2, 3]]), None)
    paid = group_advantages(returns, likeness, SetSettings(), 0)
    assert paid[0, 5] > 0 > paid[0, 0]
    merged = likeness.of_wrong(returns > 0, "alike")
    assert group_advantages(returns, merged, SetSettings(homogeneous_zero=False), 0)[0, 0] > 0


def test_a_key_that_asks_for_a_missing_column_is_told_the_columns():
    comparison = Comparison(key=lambda completion: completion.columns["topic"])
    with pytest.raises(UserError, match=r"key raised KeyError: 'topic' .* the columns of a completion are 'subject'"):
        comparison.of_completions([Completion("text", "prompt", {"subject": 1})])
