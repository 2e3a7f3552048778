"""Slow and failing judges and rewards: at the same time, within limits, tried again, remembered, with a fallback."""

import asyncio
import pickle
import threading
import time

import numpy as np
import pytest

from polychromic import UserError
from polychromic.integrations.answers import Comparison
from polychromic.integrations.calls import Calls
from polychromic.integrations.rewards import combine, each_completion

GROUPS = [[f"{letter}{i % 2}" for i in range(4)] for letter in "abcdef"]
PROMPTS = list(range(6))
EXPECTED = [[text[1] for text in group] for group in GROUPS]


def labels_by(comparison):
    return [group.labels for group in comparison.labels_of_groups(PROMPTS, GROUPS)]


class Together:
    """How many calls were under way at once."""

    def __init__(self):
        self.now = self.most = self.calls = 0
        self.lock = threading.Lock()

    def __enter__(self):
        with self.lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self.lock:
            self.now -= 1


@pytest.fixture(params=["asynchronous", "synchronous"])
def judge(request):
    """A judge that takes 50 ms, with a count of its calls."""
    together = Together()

    async def later(_prompt, texts):
        with together:
            await asyncio.sleep(0.05)
        return [text[1] for text in texts]

    def now(_prompt, texts):
        with together:
            time.sleep(0.05)
        return [text[1] for text in texts]

    function = later if request.param == "asynchronous" else now
    function.together = together
    return function


def test_groups_are_judged_at_the_same_time_up_to_a_number(judge):
    found = labels_by(Comparison(judge=judge, calls=Calls(concurrency=3)))
    assert found == EXPECTED
    assert judge.together.most == 3


def test_asynchronous_judges_need_no_settings_and_others_stay_in_their_thread():
    threads = []

    async def later(_prompt, texts):
        await asyncio.sleep(0)
        return [text[1] for text in texts]

    def now(_prompt, texts):
        threads.append(threading.current_thread())
        return [text[1] for text in texts]

    assert labels_by(Comparison(judge=later)) == EXPECTED
    assert labels_by(Comparison(judge=now)) == EXPECTED
    assert set(threads) == {threading.main_thread()}


def test_judges_work_inside_a_running_event_loop(judge):
    async def notebook():
        return labels_by(Comparison(judge=judge, calls=Calls()))

    assert asyncio.run(notebook()) == EXPECTED


def test_equivalence_may_be_asynchronous():
    async def equivalent(_prompt, first, second):
        await asyncio.sleep(0)
        return first[1] == second[1]

    found = labels_by(Comparison(equivalent=equivalent))
    assert found == [[0, 1, 0, 1]] * 6


class Failing:
    """Fails for some prompts, the first `times` times or always."""

    def __init__(self, prompts, times=10**9, error=None):
        self.prompts, self.times, self.error = prompts, times, error or ConnectionError("no route")
        self.calls = 0

    def __call__(self, prompt, texts):
        if prompt in self.prompts:
            self.calls += 1
            if self.calls <= self.times:
                raise self.error
        return [text[1] for text in texts]


def test_failures_are_tried_again():
    judge = Failing([2], times=2)
    calls = Calls(retries=2, wait=0.001)
    assert labels_by(Comparison(judge=judge, calls=calls)) == EXPECTED
    assert judge.calls == 3


@pytest.mark.parametrize("calls", [None, Calls(retries=1, wait=0.001)])
def test_what_becomes_of_a_group_without_an_answer_is_said(calls):
    def labels(on_failure):
        comparison = Comparison(judge=Failing([2]), calls=calls, on_failure=on_failure)
        failed = [group.failed for group in comparison.labels_of_groups(PROMPTS, GROUPS)]
        assert failed == [False, False, True, False, False, False]
        return labels_by(comparison)

    with pytest.raises(UserError, match="judge raised ConnectionError: no route on 4 completions, the first 'c0'"):
        labels("error")
    assert labels("skip") == [*EXPECTED[:2], None, *EXPECTED[3:]]
    assert labels("text") == [*EXPECTED[:2], GROUPS[2], *EXPECTED[3:]]


def test_an_answer_that_makes_no_sense_is_a_failure_and_tried_again():
    asked = []

    def judge(prompt, texts):
        asked.append(prompt)
        return [text[1] for text in texts][: 3 if len(asked) == 1 else None]

    calls = Calls(concurrency=1, retries=1, wait=0.001)
    assert labels_by(Comparison(judge=judge, calls=calls)) == EXPECTED
    assert len(asked) == 7


def test_a_judge_that_never_answers_does_not_hold_up_the_run(judge):
    done = threading.Event()

    async def later(prompt, texts):
        if prompt == 1:
            await asyncio.sleep(60)
        return await judge(prompt, texts)

    def now(prompt, texts):
        if prompt == 1:
            done.wait(60)
        return judge(prompt, texts)

    slow = later if asyncio.iscoroutinefunction(judge) else now
    start = time.monotonic()
    found = labels_by(Comparison(judge=slow, calls=Calls(timeout=0.4), on_failure="skip"))
    done.set()
    assert time.monotonic() - start < 10
    assert found == [EXPECTED[0], None, *EXPECTED[2:]]
    with pytest.raises(UserError, match=r"TimeoutError: no answer within 0.01 s"):
        labels_by(Comparison(judge=judge, calls=Calls(timeout=0.01)))


def test_answers_are_remembered(judge):
    comparison = Comparison(judge=judge, calls=Calls(cache_size=4))
    for groups, calls in ((GROUPS[:3], 3), (GROUPS[:3], 3), (GROUPS[3:], 6), (GROUPS[:1], 7)):
        comparison.labels_of_groups([0] * len(groups), groups)
        assert judge.together.calls == calls
    comparison.labels_of_groups([1], GROUPS[:1])  # another prompt
    assert judge.together.calls == 8


def test_a_judge_that_raises_stop_iteration_is_a_failure_too():
    for calls in (None, Calls()):
        comparison = Comparison(judge=Failing([2], error=StopIteration()), calls=calls, on_failure="skip")
        assert comparison.labels_of_groups(PROMPTS, GROUPS)[2] == (None, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": str, "calls": Calls()}, "calls and on_failure are for judge and equivalent"),
        ({"key": str, "on_failure": "skip"}, "calls and on_failure are for judge and equivalent"),
        ({"judge": str, "on_failure": "ignore"}, "choose one of 'error', 'skip', 'text'"),
        ({"judge": str, "calls": 4}, "calls is 4; it must be a Calls"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        Comparison(**arguments)


@pytest.mark.parametrize(
    "changes", [{"concurrency": 0}, {"retries": -1}, {"timeout": 0}, {"wait": -1}, {"cache_size": -1}]
)
def test_calls_are_checked(changes):
    with pytest.raises(UserError, match=next(iter(changes))):
        Calls(**changes)


# Rewards


def test_a_reward_of_one_completion_sees_its_prompt_and_columns():
    def reward(completion):
        return float(completion == completion.columns["solution"] and completion.prompt == "q")

    function = each_completion(reward)
    assert function.__name__ == "reward"
    columns = {"solution": ["a", "c"], "trainer_state": object()}
    assert function(["q", "q"], ["a", "b"], **columns) == [1.0, 0.0]


def test_rewards_have_limits_retries_and_a_fallback():
    tries = []

    async def reward(completion):
        tries.append(str(completion))
        if completion == "hangs":
            await asyncio.sleep(60)
        if completion == "fails":
            raise ConnectionError("no route")
        return 1

    calls = Calls(timeout=0.2, retries=1, wait=0.001, cache_size=8)
    logged = {}
    function = each_completion(reward, calls=calls, fallback=0.0)
    completions = ["fine", "hangs", "fails", "good"]
    assert function(["q"] * 4, completions, log_metric=logged.__setitem__) == [1.0, 0.0, 0.0, 1.0]
    assert logged == {"polychromic/failed_rewards": 0.5}
    assert sorted(tries) == ["fails"] * 2 + ["fine", "good"] + ["hangs"] * 2
    function(["q"], ["fine"])
    assert tries.count("fine") == 1
    with pytest.raises(UserError, match="reward raised ConnectionError: no route for 1 of 1 completions"):
        each_completion(reward, calls=calls)(["q"], ["fails"])
    with pytest.raises(UserError, match="the reward of 'x' is None"):
        each_completion(lambda _: None)(["q"], ["x"])
    with pytest.raises(UserError, match=r"^str: the reward of 'x' is 'x'; it must be a finite number$"):
        each_completion(str)(["q"], ["x"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: each_completion(3), "each_completion was given 3; it must be a function"),
        (lambda: each_completion(len, calls={"retries": 2}), "calls is {'retries': 2}; it must be a Calls"),
        (lambda: combine([len]), "combine was given .*; give it functions"),
        (lambda: combine(), "combine was given no function"),
    ],
)
def test_what_is_no_function_is_refused_at_once(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_combine_adds_up_what_the_trainer_would_have_added_up():
    def right(completions, **_):
        return [1.0, 0.0, 1.0][: len(completions)]

    async def short(completions, **_):
        await asyncio.sleep(0)
        return [None, 0.5, 1.0][: len(completions)]

    logged = {}
    function = combine(right, short, weights=[0.8, 0.2])
    found = function(prompts=["q"] * 3, completions=["a", "b", "c"], log_metric=logged.__setitem__)
    np.testing.assert_allclose(found, [0.8, 0.1, 1.0])
    assert logged == {"polychromic/rewards/right": pytest.approx(2 / 3), "polychromic/rewards/short": 0.75}
    assert function.__name__ == "right+short"
    assert combine(lambda **_: [None])(prompts=["q"], completions=["a"]) == [None]


def test_combine_is_checked():
    with pytest.raises(UserError, match="no function"):
        combine()
    with pytest.raises(UserError, match="one weight for each"):
        combine(len, weights=[1, 2])
    with pytest.raises(UserError, match="returned 1 rewards for 2 completions"):
        combine(lambda **_: [1.0])(prompts=["q"] * 2, completions=["a", "b"])


def length_share(completion):
    return len(completion) / 4


async def level_share(completions, level, **_):
    await asyncio.sleep(0)
    return [None if completion == "c" else value / 10 for completion, value in zip(completions, level, strict=True)]


@pytest.mark.parametrize("calls", [None, Calls(retries=1, wait=0.001, cache_size=4)])
def test_rewards_can_be_sent_to_another_process(calls):
    """With functions that it can import; a lambda cannot be sent."""
    single = each_completion(length_share, calls=calls, fallback=0.0)
    both = combine(single, level_share, weights=[0.5, 2.0])
    given = {"prompts": ["q"] * 3, "completions": ["a", "bb", "c"], "level": [1, 2, 3]}
    for reward, name, expected in (
        (single, "length_share", [0.25, 0.5, 0.25]),
        (both, "length_share+level_share", [0.325, 0.65, 0.125]),
    ):
        there = pickle.loads(pickle.dumps(reward))
        assert there.__name__ == name
        assert there(**given) == reward(**given) == pytest.approx(expected)
        assert pickle.loads(pickle.dumps(there))(**given) == there(**given)  # with answers that it remembers
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(each_completion(lambda _: 0.0))
