"""What a policy's outputs mean: the distribution that its actions are drawn from.

A policy says it with `Policy.distribution`. Actions are drawn on the host, in NumPy; losses are computed in JAX, from
`at(parameters)`, the distribution of every row of a batch. `parameters` are what `Policy.apply` returns first, and what
arrays called `logits` hold: logits for a choice, means and log standard deviations for a vector of numbers.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError


class Given(Protocol):
    """The distributions of a batch, [...], in JAX; differentiable by the parameters."""

    def log_prob(self, actions: Any) -> Any:
        """log π(a), [...]."""
        ...

    def entropy(self) -> Any:
        """In nats, [...]."""
        ...

    def kl(self, other: Any) -> Any:
        """KL(self ‖ other), [...]."""
        ...


class Distribution(abc.ABC):
    """A family of distributions over actions."""

    name: ClassVar[str]

    @abc.abstractmethod
    def tempered(self, parameters: Any, temperature: float) -> Any:
        """The parameters of the same distributions at a temperature above 0; NumPy or JAX."""

    @abc.abstractmethod
    def at(self, parameters: Any, temperature: float = 1.0) -> Given:
        """The distributions with these parameters, [..., outputs]."""

    @abc.abstractmethod
    def mode(self, parameters: NDArray[Any]) -> NDArray[Any]:
        """The most likely action of each row."""

    @abc.abstractmethod
    def draw(self, parameters: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """An action per row and its log-probability (density), [B, …] and [B]."""

    @abc.abstractmethod
    def entropies(self, parameters: NDArray[Any]) -> NDArray[np.float64]:
        """In nats, [B]; on the host, in the precision of the parameters."""

    def sample(
        self, parameters: NDArray[Any], rng: np.random.Generator, temperature: float = 1.0
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Draw an action per row at a temperature; 0 takes the most likely one, and calls its log-probability 0."""
        if temperature < 0:
            raise UserError(f"temperature is {temperature}; it must be at least 0")
        if temperature == 0:
            return self.mode(parameters), np.zeros(len(parameters), np.float32)
        return self.draw(parameters if temperature == 1 else self.tempered(parameters, temperature), rng)

    def entropy(self, parameters: NDArray[Any], temperature: float = 1.0) -> NDArray[np.float64]:
        """Entropy of each row in nats, in double precision: float64 [B]. 0 at temperature 0: nothing is drawn."""
        if temperature == 0:
            return np.zeros(len(parameters))
        return self.entropies(self.tempered(parameters.astype(np.float64), temperature))


class Categorical(Distribution):
    """One of A actions, by softmax(logits / temperature); parameters are logits, [..., A]."""

    name = "categorical"

    def tempered(self, parameters: Any, temperature: float) -> Any:
        return parameters / temperature

    def at(self, parameters: Any, temperature: float = 1.0) -> GivenLogits:
        return GivenLogits(self.tempered(parameters, temperature))

    def mode(self, parameters: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(np.argmax(parameters, axis=1))

    def draw(self, parameters: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """One uniform number per row is drawn, whatever the number of actions."""
        scaled = parameters - parameters.max(axis=1, keepdims=True)
        weights = np.exp(scaled, dtype=np.float64)
        cumulative = np.cumsum(weights, axis=1)
        total = cumulative[:, -1]
        draws = rng.random(len(parameters)) * total
        actions = (draws[:, None] >= cumulative[:, :-1]).sum(axis=1)
        chosen = np.take_along_axis(scaled, actions[:, None], axis=1)[:, 0]
        return actions, (chosen - np.log(total)).astype(np.float32)

    def entropies(self, parameters: NDArray[Any]) -> NDArray[np.float64]:
        scaled = parameters - parameters.max(axis=1, keepdims=True)
        weights = np.exp(scaled)
        total = weights.sum(axis=1)
        return np.asarray(np.log(total) - (weights * scaled).sum(axis=1) / total)


class GivenLogits:
    """softmax(logits) of every row."""

    def __init__(self, logits: Any) -> None:
        self._logs = jax.nn.log_softmax(logits)

    def log_prob(self, actions: Any) -> Any:
        return jnp.take_along_axis(self._logs, actions[..., None], axis=-1)[..., 0]

    def entropy(self) -> Any:
        return -(jnp.exp(self._logs) * self._logs).sum(axis=-1)

    def kl(self, other: GivenLogits) -> Any:
        return (jnp.exp(self._logs) * (self._logs - other._logs)).sum(axis=-1)


class Categoricals(Distribution):
    """Several independent choices at once; parameters are the logits of the first, then of the second, …"""

    name = "categoricals"

    def __init__(self, sizes: Sequence[int]) -> None:
        ends = [0, *itertools.accumulate(int(size) for size in sizes)]
        self._cuts = [slice(first, last) for first, last in itertools.pairwise(ends)]

    def tempered(self, parameters: Any, temperature: float) -> Any:
        return parameters / temperature

    def at(self, parameters: Any, temperature: float = 1.0) -> GivenChoices:
        scaled = self.tempered(parameters, temperature)
        return GivenChoices([GivenLogits(scaled[..., cut]) for cut in self._cuts])

    def mode(self, parameters: NDArray[Any]) -> NDArray[np.int64]:
        return np.stack([CATEGORICAL.mode(parameters[:, cut]) for cut in self._cuts], axis=1)

    def draw(self, parameters: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        parts = [CATEGORICAL.draw(parameters[:, cut], rng) for cut in self._cuts]
        return np.stack([actions for actions, _ in parts], axis=1), np.sum([logs for _, logs in parts], axis=0)

    def entropies(self, parameters: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(sum(CATEGORICAL.entropies(parameters[:, cut]) for cut in self._cuts))


class GivenChoices:
    """Independent choices: logarithms add up."""

    def __init__(self, parts: Sequence[GivenLogits]) -> None:
        self._parts = parts

    def log_prob(self, actions: Any) -> Any:
        return sum(part.log_prob(actions[..., number]) for number, part in enumerate(self._parts))

    def entropy(self) -> Any:
        return sum(part.entropy() for part in self._parts)

    def kl(self, other: GivenChoices) -> Any:
        return sum(part.kl(its) for part, its in zip(self._parts, other._parts, strict=True))


class Normal(Distribution):
    """A vector of d independent normal numbers.

    Parameters are their means, then their log standard deviations, [..., 2 d]. The temperature multiplies the standard
    deviations. What is drawn is not bounded: a world clips it, and the density is that of what was drawn.
    """

    name = "normal"

    def tempered(self, parameters: Any, temperature: float) -> Any:
        half = parameters.shape[-1] // 2
        return parameters + np.repeat(np.array([0.0, math.log(temperature)], np.float32), half)

    def at(self, parameters: Any, temperature: float = 1.0) -> GivenNormal:
        return GivenNormal(self.tempered(parameters, temperature))

    def mode(self, parameters: NDArray[Any]) -> NDArray[np.float32]:
        return np.array(parameters[:, : parameters.shape[1] // 2], np.float32)

    def draw(
        self, parameters: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A standard normal number per row and entry is drawn."""
        means, logs = np.split(parameters.astype(np.float64), 2, axis=1)
        drawn = means + np.exp(logs) * rng.standard_normal(means.shape)
        actions = drawn.astype(np.float32)  # the density is that of what is stored and played
        off = (actions - means) * np.exp(-logs)
        return actions, (-0.5 * (off**2).sum(axis=1) - logs.sum(axis=1) - _HALF_LOG_2PI * means.shape[1]).astype(
            np.float32
        )

    def entropies(self, parameters: NDArray[Any]) -> NDArray[np.float64]:
        logs = np.split(parameters, 2, axis=1)[1]
        return np.asarray((logs + (0.5 + _HALF_LOG_2PI)).sum(axis=1))


class GivenNormal:
    """Independent normal numbers."""

    def __init__(self, parameters: Any) -> None:
        self._means, self._logs = jnp.split(parameters, 2, axis=-1)

    def log_prob(self, actions: Any) -> Any:
        off = (actions - self._means) * jnp.exp(-self._logs)
        return (-0.5 * off**2 - self._logs - _HALF_LOG_2PI).sum(axis=-1)

    def entropy(self) -> Any:
        return (self._logs + (0.5 + _HALF_LOG_2PI)).sum(axis=-1)

    def kl(self, other: GivenNormal) -> Any:
        wider = other._logs - self._logs
        off = (self._means - other._means) * jnp.exp(-other._logs)
        return (wider + 0.5 * (jnp.exp(-2 * wider) + off**2 - 1)).sum(axis=-1)


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
CATEGORICAL = Categorical()
