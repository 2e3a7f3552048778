"""Behaviour cloning: cross-entropy with an entropy regulariser, each epoch one jitted scan over its minibatches."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from polychromic.errors import UserError
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import fill_tree, named_arrays, parse_object, read_tensors, write_tensors
from polychromic.pretrain.batches import Batches, Minibatch, Steps, device_steps, epoch_batches, gather
from polychromic.pretrain.demonstrations import Demonstrations, content_hash

CHECKPOINT = "polychromic-cloning-1"


@dataclass(frozen=True)
class Cloning:
    """How to clone. Only the actor is trained; the critic keeps its initial weights."""

    epochs: int = 30
    """Passes over the training episodes, at most."""
    patience: int = 5
    """Stop after this many epochs without a better validation loss; 0 never stops early and keeps the last weights."""
    learning_rate: float = 1e-3
    """Of Adam."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW)."""
    entropy: float = 0.01
    """The policy's mean entropy, times this, is subtracted from the loss."""
    pieces: int = 16
    """Pieces of episodes per minibatch (whole episodes for a policy with memory)."""
    piece_steps: int = 16
    """Steps per piece; the mission is encoded once per piece."""
    seed: int = 0
    """Of the initial weights and of the order of the minibatches."""

    def check(self) -> None:
        for name in ("epochs", "pieces", "piece_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        for name in ("patience", "weight_decay", "entropy", "seed"):
            if getattr(self, name) < 0:
                raise UserError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise UserError(f"learning_rate: expected more than 0, got {self.learning_rate}")


class Epoch(NamedTuple):
    """What an epoch reports; losses are mean cross-entropies in nats, accuracies shares of steps."""

    epoch: int
    train_loss: float
    validation_loss: float
    validation_accuracy: float
    entropy: float


class Progress(NamedTuple):
    """Everything that a cloning run carries from epoch to epoch."""

    params: Params
    best: Params
    optimizer: Any
    epochs: tuple[Epoch, ...]


def clone(
    policy: Policy,
    train: Demonstrations,
    validation: Demonstrations,
    settings: Cloning,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[Params, tuple[Epoch, ...]]:
    """Train the actor on the demonstrations; returns the parameters and what each epoch reported.

    checkpoint: written after every epoch; if it is there, the run resumes from it to the same weights, bit for bit.
    With patience the parameters of the best validation loss are returned, without it the last.
    """
    settings.check()
    optimizer = _optimizer(settings)
    train_steps, validation_steps = device_steps(train), device_steps(validation)
    piece_steps = settings.piece_steps
    if policy.memory_size:
        piece_steps = int(max(train.lengths.max(), validation.lengths.max()))
    validation_batches = epoch_batches(
        validation.offsets, settings.pieces, piece_steps, None, in_order=policy.memory_size > 0
    )
    key = jax.random.key(settings.seed)
    params = policy.init(key)
    progress = Progress(params, params, optimizer.init(params["actor"]), ())
    identity = _identity(settings, policy, train, validation)
    if checkpoint is not None and checkpoint.exists():
        progress = _load_progress(checkpoint, progress, identity)
        _check_not_past_the_end(checkpoint, progress.epochs, settings)
    for done in progress.epochs:
        if on_epoch is not None:
            on_epoch(done)
    # What is compiled does not depend on these: other values need no other program.
    compiled = replace(settings, epochs=1, patience=0, seed=0)
    while not finished(progress.epochs, settings):
        number = len(progress.epochs)
        rng = np.random.default_rng([settings.seed, number])
        batches = epoch_batches(train.offsets, settings.pieces, piece_steps, rng, in_order=policy.memory_size > 0)
        params, opt_state, losses = _train_epoch(
            policy, compiled, progress.params, progress.optimizer, train_steps, batches
        )
        loss, accuracy, entropy = validate(policy, params, validation_steps, validation_batches)
        report = Epoch(number + 1, float(losses.mean()), loss, accuracy, entropy)
        better = all(loss < earlier.validation_loss for earlier in progress.epochs)
        best = params if better or settings.patience == 0 else progress.best
        progress = Progress(params, best, opt_state, (*progress.epochs, report))
        if not np.isfinite(losses).all():
            raise UserError(f"the training loss became {report.train_loss} in epoch {number + 1}; lower learning_rate")
        if checkpoint is not None:
            _save_progress(checkpoint, progress, identity)
        if on_epoch is not None:
            on_epoch(report)
    return jax.tree.map(np.asarray, progress.best), progress.epochs


def finished(epochs: tuple[Epoch, ...], settings: Cloning) -> bool:
    """Whether all epochs are done, or `patience` of them passed since the best validation loss."""
    if len(epochs) >= settings.epochs:
        return True
    if not settings.patience or not epochs:
        return False
    losses = [epoch.validation_loss for epoch in epochs]
    return len(losses) - 1 - int(np.argmin(losses)) >= settings.patience


def kept_epoch(epochs: tuple[Epoch, ...], settings: Cloning) -> Epoch:
    """The epoch whose weights a run keeps: the one of the best validation loss, or without patience the last."""
    return epochs[int(np.argmin([epoch.validation_loss for epoch in epochs]))] if settings.patience else epochs[-1]


def validate(policy: Policy, params: Params, steps: Steps, batches: Batches) -> tuple[float, float, float]:
    """Mean cross-entropy, accuracy of the most likely action, and mean entropy, over all steps of the batches."""
    sums, count = _validate(policy, params, steps, batches)
    loss, accuracy, entropy = (np.asarray(sums, np.float64) / count).tolist()
    return loss, accuracy, entropy


# ---------------------------------------------------------------------- what is compiled


def batch_logits(policy: Policy, params: Params, batch: Minibatch) -> Any:
    """Logits [pieces, piece_steps, actions] of one minibatch."""
    pieces, piece_steps = batch.actions.shape
    obs = {"codes": batch.codes, "direction": batch.directions}
    mission = jnp.arange(pieces, dtype=jnp.int32)
    if not policy.memory_size:
        flat = {name: value.reshape(pieces * piece_steps, *value.shape[2:]) for name, value in obs.items()}
        flat["mission"] = jnp.repeat(mission, piece_steps)
        logits = policy.apply(params, {**flat, "missions": batch.missions})[0]
        return logits.reshape(pieces, piece_steps, -1)
    table = {"missions": batch.missions}
    if policy.encode is not None:
        table = dict(policy.encode(params, table))

    def step(memory: Any, now: Any) -> tuple[Any, Any]:
        logits, _, memory = policy.apply(params, {**now, "mission": mission, **table}, memory)
        return memory, logits

    in_time = jax.tree.map(lambda value: value.swapaxes(0, 1), obs)
    _, logits = jax.lax.scan(step, jnp.zeros((pieces, policy.memory_size)), in_time)
    return logits.swapaxes(0, 1)


def step_losses(logits: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cross-entropy −log π(a|s) and entropy −Σ_b π(b|s) log π(b|s) of each step."""
    logs = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(logs, actions[..., None].astype(jnp.int32), axis=-1)[..., 0]
    return -chosen, -(jnp.exp(logs) * logs).sum(axis=-1)


def cloning_loss(
    policy: Policy, settings: Cloning, actor: Params, critic: Params, batch: Minibatch
) -> tuple[jax.Array, jax.Array]:
    """The loss of one minibatch, mean(cross-entropy) − entropy · mean(H), and the cross-entropy alone."""
    params = {"actor": actor, "critic": critic}
    losses, entropies = step_losses(batch_logits(policy, params, batch), batch.actions)
    weights = jnp.arange(losses.shape[1]) < batch.lengths[:, None]
    total = jnp.maximum(weights.sum(), 1)
    cross_entropy = (losses * weights).sum() / total
    return cross_entropy - settings.entropy * (entropies * weights).sum() / total, cross_entropy


@functools.partial(jax.jit, static_argnums=(0, 1))
def _train_epoch(
    policy: Policy, settings: Cloning, params: Params, opt_state: Any, steps: Steps, batches: Batches
) -> tuple[Params, Any, jax.Array]:
    """One epoch: the next parameters and optimiser state, and the cross-entropy of each minibatch."""
    optimizer = _optimizer(settings)
    critic = params["critic"]
    gradient = jax.grad(functools.partial(cloning_loss, policy, settings), has_aux=True)

    def minibatch(carry: Any, batch: Minibatch) -> tuple[Any, jax.Array]:
        actor, state = carry
        grads, loss = gradient(actor, critic, batch)
        updates, state = optimizer.update(grads, state, actor)
        return (optax.apply_updates(actor, updates), state), loss

    (actor, opt_state), losses = jax.lax.scan(minibatch, (params["actor"], opt_state), gather(steps, batches))
    return {"actor": actor, "critic": critic}, opt_state, losses


@functools.partial(jax.jit, static_argnums=0)
def _validate(policy: Policy, params: Params, steps: Steps, batches: Batches) -> tuple[jax.Array, jax.Array]:
    def minibatch(_: None, batch: Minibatch) -> tuple[None, tuple[jax.Array, jax.Array]]:
        logits = batch_logits(policy, params, batch)
        losses, entropies = step_losses(logits, batch.actions)
        right = (logits.argmax(axis=-1) == batch.actions).astype(jnp.float32)
        weights = jnp.arange(losses.shape[1]) < batch.lengths[:, None]
        sums = jnp.stack([(part * weights).sum() for part in (losses, right, entropies)])
        return None, (sums, weights.sum())

    _, (sums, counts) = jax.lax.scan(minibatch, None, gather(steps, batches))
    return sums.sum(axis=0), counts.sum()


def _optimizer(settings: Cloning) -> optax.GradientTransformation:
    return optax.adamw(settings.learning_rate, weight_decay=settings.weight_decay)


# ---------------------------------------------------------------------- checkpoints


def _identity(settings: Cloning, policy: Policy, train: Demonstrations, validation: Demonstrations) -> dict[str, Any]:
    """What must not change between a run and its continuation (more epochs or patience are welcome)."""
    kept = {name: value for name, value in asdict(settings).items() if name not in ("epochs", "patience")}
    kept["keeps"] = "the best weights" if settings.patience else "the last weights (patience = 0)"
    data = {"train": content_hash(train), "validation": content_hash(validation)}
    return {**kept, **data, "architecture": json.loads(json.dumps(dict(policy.architecture)))}


def _save_progress(path: Path, progress: Progress, identity: dict[str, Any]) -> None:
    header = {"identity": identity, "epochs": progress.epochs}
    tree = {"params": progress.params, "best": progress.best, "optimizer": progress.optimizer}
    write_tensors(path, named_arrays(tree), {"format": CHECKPOINT, "header": json.dumps(header)})


def _load_progress(path: Path, fresh: Progress, identity: dict[str, Any]) -> Progress:
    tensors, metadata = read_tensors(path, CHECKPOINT)
    header = parse_object(path, metadata["header"])
    found = header.get("identity")
    if not isinstance(found, dict):
        raise UserError(f"{path}: header: 'identity' is {found!r}, expected a JSON object")
    for name, value in identity.items():
        if found.get(name) != value:
            raise UserError(
                f"{path}: the checkpoint has {name} = {found.get(name)!r}, this run has {value!r}; "
                "remove the file or choose another --out"
            )
    expected = {"params": fresh.params, "best": fresh.best, "optimizer": fresh.optimizer}
    tree = fill_tree(path, expected, tensors)
    return Progress(tree["params"], tree["best"], tree["optimizer"], _read_epochs(path, header.get("epochs")))


def _read_epochs(path: Path, rows: Any) -> tuple[Epoch, ...]:
    """The reports in the header of a checkpoint: one or more rows of numbers, for the epochs 1, 2, …"""
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: header: 'epochs' is {rows!r}, expected a list of one row per epoch")
    for number, row in enumerate(rows, start=1):
        numbers = isinstance(row, list) and all(type(entry) in (int, float) for entry in row)
        if not numbers or len(row) != len(Epoch._fields) or row[0] != number:
            raise UserError(f"{path}: header: row {number} of 'epochs' is {row!r}, expected {', '.join(Epoch._fields)}")
    return tuple(Epoch(*row) for row in rows)


def _check_not_past_the_end(path: Path, epochs: tuple[Epoch, ...], settings: Cloning) -> None:
    """Refuse to go on from where this run would never have come: its kept weights may be those of a later epoch."""
    end = next((count for count in range(1, len(epochs)) if finished(epochs[:count], settings)), None)
    if end is not None:
        reason = f"epochs = {settings.epochs}" if end == settings.epochs else f"patience = {settings.patience}"
        raise UserError(
            f"{path}: the checkpoint has {len(epochs)} epochs, a run with {reason} ends after {end}; "
            "give more, remove the file, or choose another --out"
        )
