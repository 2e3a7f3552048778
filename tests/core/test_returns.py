import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polychromic import UserError, discounted_return, gae


def test_discounted_return_by_hand():
    rewards, offsets = [1.0, 2.0, 4.0, 3.0], [0, 3, 4]
    np.testing.assert_allclose(discounted_return(rewards, offsets), [7.0, 6.0, 4.0, 3.0])
    np.testing.assert_allclose(discounted_return(rewards, offsets, discount=0.5), [3.0, 4.0, 4.0, 3.0])


def test_gae_by_hand_with_a_terminal_and_a_truncated_end():
    # γ = 0.9, λ = 0.5. First trajectory is terminal, the second truncated with a final value of 2.
    rewards, values, offsets = [0.0, 1.0, 0.5], [0.4, 0.6, 0.2], [0, 2, 3]
    delta_0, delta_1 = 0.0 + 0.9 * 0.6 - 0.4, 1.0 - 0.6
    delta_2 = 0.5 + 0.9 * 2.0 - 0.2
    got = gae(rewards, values, offsets, final_values=[5.0, 2.0], terminated=[True, False], discount=0.9, gae_lambda=0.5)
    np.testing.assert_allclose(got, [delta_0 + 0.45 * delta_1, delta_1, delta_2])


ragged = st.lists(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=0, max_size=6), min_size=1, max_size=6
)


def plain_gae(rewards, values, final_value, discount, gae_lambda):
    """One trajectory, as the textbook writes it: A_t = Σ_k (γλ)^k δ_{t+k}."""
    following = [*values[1:], final_value][: len(values)]
    delta = [r + discount * n - v for r, v, n in zip(rewards, values, following, strict=True)]
    return [sum((discount * gae_lambda) ** (k - t) * delta[k] for k in range(t, len(delta))) for t in range(len(delta))]


@given(ragged, st.floats(0, 1), st.floats(0, 1), st.data())
def test_gae_of_a_ragged_batch_is_that_of_each_trajectory(batch, discount, gae_lambda, data):
    ends = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    final = data.draw(st.lists(st.floats(-2, 2), min_size=len(batch), max_size=len(batch)))
    offsets = np.cumsum([0, *map(len, batch)])
    flat = [step for trajectory in batch for step in trajectory]
    rewards, values = [s[0] for s in flat], [s[1] for s in flat]
    got = gae(rewards, values, offsets, final_values=final, terminated=ends, discount=discount, gae_lambda=gae_lambda)
    expected = []
    for trajectory, end, value in zip(batch, ends, final, strict=True):
        expected += plain_gae(
            [s[0] for s in trajectory], [s[1] for s in trajectory], 0.0 if end else value, discount, gae_lambda
        )
    np.testing.assert_allclose(got, expected, atol=1e-10)


@given(ragged)
def test_lambda_one_gives_return_minus_value(batch):
    offsets = np.cumsum([0, *map(len, batch)])
    rewards = [s[0] for t in batch for s in t]
    values = [s[1] for t in batch for s in t]
    got = gae(rewards, values, offsets, gae_lambda=1.0)
    np.testing.assert_allclose(got, discounted_return(rewards, offsets) - np.array(values), atol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"offsets": [0, 2]}, "offsets runs from 0 to 2; it must rise from 0 to the number of steps, 3"),
        ({"offsets": [0, 2, 1, 3]}, "must rise"),
        ({"offsets": [0.0, 3.0]}, "offsets has dtype float64"),
        ({"values": [0.0]}, r"values has shape \(1,\) and rewards \(3,\)"),
        ({"final_values": [1.0, 2.0]}, "final_values has shape"),
        ({"terminated": [False]}, "final_values is not given"),
        ({"offsets": [[0], [1, 2]]}, "offsets cannot be read"),
        ({"rewards": [[0.0, 0.0, 1.0]]}, "rewards has shape.*must be flat"),
        ({"terminated": [True] * 5}, r"terminated has shape \(5,\)"),
        ({"terminated": [7]}, "terminated is"),
        ({"terminated": "no"}, "terminated is 'no'"),
        ({"discount": None}, "discount is None"),
        ({"discount": "0.9"}, "discount is '0.9'"),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"gae_lambda": -0.1}, "gae_lambda is -0.1"),
        ({"rewards": [0.0, np.nan, 0.0]}, r"rewards\[1\] is nan"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given_arguments = {"rewards": [0.0, 0.0, 1.0], "values": [0.0, 0.0, 0.0], "offsets": [0, 3]} | arguments
    with pytest.raises(UserError, match=message):
        gae(
            given_arguments.pop("rewards"),
            given_arguments.pop("values"),
            given_arguments.pop("offsets"),
            **given_arguments,
        )
