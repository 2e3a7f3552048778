"""Masked cross-entropy on token sequences: only what follows the prompt is learned. Hundreds of steps per jitted call.

Sequences of one length are one corpus. Every minibatch takes its share of each corpus, so nothing is ever padded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from polychromic.errors import UserError
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import (
    fill_tree,
    named_arrays,
    parameters_hash,
    parse_object,
    read_tensors,
    write_tensors,
)

CHECKPOINT = "polychromic-sequences-1"


class Corpus(NamedTuple):
    """Sequences of one length, [N, L]; the first `prompt` tokens of each are given, the others are learned."""

    tokens: NDArray[np.int32]
    prompt: int


@dataclass(frozen=True)
class SequenceCloning:
    """How to learn sequences. Only the actor is trained; the critic keeps its initial weights."""

    steps: int = 20_000
    """Gradient steps."""
    batch: int = 64
    """Sequences per gradient step."""
    learning_rate: float = 2e-3
    """Of Adam at the start; it falls along a cosine towards a fifth of that at twice `steps`, and then cools down."""
    cooldown: float = 0.4
    """The share of the steps, at the end, in which the learning rate falls linearly to 0."""
    steps_per_call: int = 250
    """Gradient steps between two reports; must divide `steps`."""
    seed: int = 0
    """Of the initial weights and of the minibatches."""

    def check(self) -> None:
        """Refuse invalid settings."""
        for name in ("steps", "batch", "steps_per_call"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if self.steps % self.steps_per_call:
            raise UserError(f"steps: expected a multiple of steps_per_call ({self.steps_per_call}), got {self.steps}")
        if not self.learning_rate > 0:
            raise UserError(f"learning_rate: expected more than 0, got {self.learning_rate}")
        if not 0 <= self.cooldown <= 1:
            raise UserError(f"cooldown: expected a share between 0 and 1, got {self.cooldown}")


class _Progress(NamedTuple):
    actor: Params
    optimizer: Any
    losses: NDArray[np.float32]  # one per call so far


def learn_sequences(
    policy: Policy,
    corpora: Sequence[Corpus],
    settings: SequenceCloning,
    *,
    checkpoint: Path | None = None,
    on_call: Callable[[int, float], None] | None = None,
) -> tuple[Params, NDArray[np.float32]]:
    """Train the actor on the corpora; returns all parameters and the mean loss of each call, in nats per token.

    checkpoint: written ten times per run; if it exists, the run resumes from it and ends in the same weights, bit for
    bit.
    on_call: called with the steps done and the last loss.
    """
    settings.check()
    _check_corpora(policy, corpora)
    shares = _shares([len(corpus.tokens) for corpus in corpora], settings.batch)
    params = policy.init(jax.random.key(settings.seed))
    progress = _Progress(params["actor"], _optimizer(settings).init(params["actor"]), np.zeros(0, np.float32))
    identity = _identity(policy, corpora, settings)
    if checkpoint is not None and checkpoint.exists():
        progress = _load(checkpoint, progress, identity)
    calls = settings.steps // settings.steps_per_call
    every = max(1, calls // 10)
    arrays = tuple(jnp.asarray(corpus.tokens) for corpus in corpora)
    prompts = tuple(corpus.prompt for corpus in corpora)
    for call in range(len(progress.losses), calls):
        rng = np.random.default_rng([settings.seed, call])
        rows = tuple(
            rng.integers(0, len(corpus.tokens), (settings.steps_per_call, share), np.int32)
            for corpus, share in zip(corpora, shares, strict=True)
        )
        actor, optimizer, loss = _learn(
            policy, settings, prompts, progress.actor, params["critic"], progress.optimizer, arrays, rows
        )
        if not np.isfinite(loss):
            raise UserError(f"the training loss became {loss} in step {call * len(rows[0])}; lower learning_rate")
        progress = _Progress(actor, optimizer, np.append(progress.losses, np.float32(loss)))
        if checkpoint is not None and ((call + 1) % every == 0 or call + 1 == calls):
            _save(checkpoint, progress, identity)
        if on_call is not None:
            on_call((call + 1) * settings.steps_per_call, float(loss))
    return {"actor": jax.tree.map(np.asarray, progress.actor), "critic": jax.tree.map(np.asarray, params["critic"])}, (
        progress.losses
    )


def sequence_losses(policy: Policy, params: Params, tokens: Any, prompt: int) -> Any:
    """−log π of every token after the prompt, [B, L − prompt], of sequences [B, L]."""
    length = tokens.shape[1]
    lengths = jnp.arange(prompt, length)
    shown = jnp.arange(length - 1) < lengths[:, None]
    obs = {
        "tokens": jnp.where(shown, tokens[:, None, :-1], 0),
        "length": jnp.broadcast_to(lengths, (len(tokens), len(lengths))),
    }
    assert policy.sequences is not None
    logs = jax.nn.log_softmax(policy.sequences(params, obs)[0])
    return -jnp.take_along_axis(logs, tokens[:, prompt:, None], axis=-1)[..., 0]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _learn(
    policy: Policy,
    settings: SequenceCloning,
    prompts: tuple[int, ...],
    actor: Params,
    critic: Params,
    state: Any,
    corpora: tuple[Any, ...],
    rows: tuple[Any, ...],
) -> tuple[Params, Any, Any]:
    """Many gradient steps: the new actor and optimiser state, and the mean loss."""
    optimizer = _optimizer(settings)

    def loss(actor: Params, chosen: tuple[Any, ...]) -> Any:
        params = {"actor": actor, "critic": critic}
        parts = [
            sequence_losses(policy, params, corpus[index], prompt)
            for corpus, index, prompt in zip(corpora, chosen, prompts, strict=True)
        ]
        return sum(part.sum() for part in parts) / sum(part.size for part in parts)

    def step(carry: Any, chosen: tuple[Any, ...]) -> tuple[Any, Any]:
        actor, state = carry
        value, grads = jax.value_and_grad(loss)(actor, chosen)
        updates, state = optimizer.update(grads, state, actor)
        return (optax.apply_updates(actor, updates), state), value

    (actor, state), losses = jax.lax.scan(step, (actor, state), rows)
    return actor, state, losses.mean()


def _optimizer(settings: SequenceCloning) -> optax.GradientTransformation:
    falling = optax.cosine_decay_schedule(settings.learning_rate, 2 * settings.steps, alpha=0.2)
    cooling = max(1.0, settings.cooldown * settings.steps)

    def rate(step: Any) -> Any:
        return falling(step) * jnp.clip((settings.steps - step) / cooling, 0.0, 1.0)

    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))


def _check_corpora(policy: Policy, corpora: Sequence[Corpus]) -> None:
    """Refuse sequences that the policy cannot read."""
    num_tokens, context = (policy.architecture.get(name) for name in ("num_tokens", "context"))
    if policy.sequences is None or num_tokens is None or context is None:
        raise UserError(f"policy: expected one for sequences, such as transformer_policy, got '{policy.name}'")
    for number, (tokens, prompt) in enumerate(corpora):
        length = tokens.shape[1] if tokens.ndim == 2 else 0
        if not 2 <= length <= context:
            raise UserError(f"corpora[{number}]: expected tokens [N, 2 … {context}], got shape {tokens.shape}")
        if not 1 <= prompt < length:
            raise UserError(f"corpora[{number}]: expected a prompt of 1 … {length - 1} tokens, got {prompt}")
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < num_tokens:
            raise UserError(
                f"corpora[{number}]: tokens run from 0 to {num_tokens - 1}, got {tokens.min()} … {tokens.max()}"
            )


def _shares(sizes: Sequence[int], batch: int) -> list[int]:
    """How many sequences of each corpus are in a minibatch: in proportion, at least one, `batch` in total."""
    if not sizes or min(sizes) < 1:
        raise UserError(f"corpora: expected at least one sequence in each, got {list(sizes)}")
    if batch < len(sizes):
        raise UserError(f"batch: expected {len(sizes)} or more, one for each length of sequences, got {batch}")
    shares = [max(1, batch * size // sum(sizes)) for size in sizes]
    shares[int(np.argmax(shares))] += batch - sum(shares)
    return shares


def _identity(policy: Policy, corpora: Sequence[Corpus], settings: SequenceCloning) -> dict[str, Any]:
    """What must not change when a run resumes."""
    data = parameters_hash([corpus.tokens for corpus in corpora])
    architecture = json.loads(json.dumps(dict(policy.architecture)))
    return {**asdict(settings), "data": data, "architecture": architecture}


def _save(path: Path, progress: _Progress, identity: dict[str, Any]) -> None:
    tree = {"actor": progress.actor, "optimizer": progress.optimizer, "losses": progress.losses}
    write_tensors(path, named_arrays(tree), {"format": CHECKPOINT, "header": json.dumps(identity)})


def _load(path: Path, fresh: _Progress, identity: dict[str, Any]) -> _Progress:
    tensors, metadata = read_tensors(path, CHECKPOINT)
    header = parse_object(path, metadata["header"])
    for name, value in identity.items():
        if header.get(name) != value:
            raise UserError(
                f"{path}: the checkpoint has {name} = {header.get(name)!r}, this run has {value!r}; "
                "remove the file or choose another --out"
            )
    losses = tensors.pop("losses")
    tree = fill_tree(path, {"actor": fresh.actor, "optimizer": fresh.optimizer}, tensors)
    return _Progress(tree["actor"], tree["optimizer"], losses)
