"""Several seeds on several devices: every seed is an ordinary run, and one call updates all of them.

Worlds run on the host, seed after seed. The most expensive part, the update, is vectorised over the seeds of a device
with `jax.vmap`, and the seeds are sharded over the devices.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.finetuning.config import Config
from polychromic.finetuning.loop import (
    ActiveRun,
    Experience,
    Result,
    check_run,
    chosen_config,
    describe_run,
    read_result,
    train,
)
from polychromic.finetuning.run import Run, is_done
from polychromic.finetuning.settle import settle
from polychromic.finetuning.update import (
    COMPILER_OPTIONS,
    Coefficients,
    Learner,
    UpdateData,
    init_learner,
    prepare,
    step_means,
    update_function,
)
from polychromic.policies.files import SavedPolicy
from polychromic.policies.inference import pad_rows
from polychromic.policies.protocol import Policy

AXIS = "seed"
OVER_SEEDS, EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()  # type: ignore[no-untyped-call]


def finetune_seeds(
    world: World,
    saved: SavedPolicy,
    config: Config | None = None,
    *,
    seeds: Sequence[int],
    out: Path | str,
    devices: Sequence[Any] | None = None,
    **settings: Any,
) -> list[Result]:
    """Fine-tune a policy with several seeds at once, sharded over devices.

    Each seed gets the run directory `out`/SEED, the same that `polychromic.finetune(…, seed=SEED)` makes, and either
    resumes what the other began. With one seed per device the results are bit-identical; several seeds on one
    device are batched, which rounds differently (about 1e-7 in an update).

    Args:
        world: any world.
        saved: the policy to start from.
        config: the settings of all runs, its seed is ignored; or give `method` and any fields as further arguments.
        seeds: a seed per run; their number must be a multiple of the number of devices.
        out: the folder of the runs. The same call resumes interrupted runs.
        devices: JAX devices. Not given: all.
    """
    config = chosen_config(config, settings, world)
    devices = list(devices or jax.devices())
    if not seeds or len(set(seeds)) != len(seeds) or len(seeds) % len(devices):
        raise UserError(
            f"seeds is {list(seeds)}; give distinct seeds, a multiple of {len(devices)} (the number of devices)"
        )
    config = settle(world, saved, config)
    folders = {seed: Path(out) / str(seed) for seed in seeds}
    for seed, folder in folders.items():
        check_run(world, saved, replace(config, seed=seed), folder)
    with contextlib.ExitStack() as opened:
        runs = []
        for seed, folder in folders.items():
            if not is_done(folder):
                seed_config = replace(config, seed=seed)
                run = opened.enter_context(Run(folder, describe_run(world, saved, seed_config)))
                runs.append(ActiveRun(seed_config, run, run.resume(init_learner(saved.params, seed_config))))
        train(world, saved, runs, update_all=functools.partial(_update_all, devices))
    return [read_result(folder, saved) for folder in folders.values()]


def _update_all(
    devices: Sequence[Any], policy: Policy, runs: Sequence[ActiveRun], experiences: Sequence[Experience]
) -> list[tuple[Learner, dict[str, float]]]:
    """The updates of all runs in one call."""
    data = [
        prepare(policy, got.rollouts, got.targets, active.config, got.rng)
        for active, got in zip(runs, experiences, strict=True)
    ]
    coefficients = experiences[0].coefficients  # depend only on the iteration
    updated = update_seeds(policy, [active.learner for active in runs], data, runs[0].config, coefficients, devices)
    return [
        (learner, step_means(sums, part.num_updates, got.rollouts, got.targets))
        for part, got, (learner, sums) in zip(data, experiences, updated, strict=True)
    ]


def update_seeds(
    policy: Policy,
    learners: Sequence[Learner],
    data: Sequence[UpdateData],
    config: Config,
    coefficients: Coefficients,
    devices: Sequence[Any],
) -> list[tuple[Learner, Any]]:
    """One update of each learner on its own data: new learners, and sums of the statistics over the gradient steps."""
    # Fewer learners than devices while some runs catch up: the other devices stay idle.
    used = devices[: max(size for size in range(1, len(devices) + 1) if len(learners) % size == 0)]
    mesh = Mesh(np.array(used), (AXIS,))
    stacked = _stack([(learner, part) for learner, part in zip(learners, _same_sizes(data), strict=True)])
    placed = jax.device_put(stacked, NamedSharding(mesh, OVER_SEEDS))
    new, sums = _sharded(policy, config, mesh, len(learners) // len(used))(placed, coefficients)
    new, sums = jax.device_get((new, sums))
    # Forward passes and checkpoints expect each learner on the first device, as in a single run.
    apart = [jax.tree.map(lambda leaf, at=number: leaf[at], new) for number in range(len(learners))]
    return [(jax.device_put(learner, used[0]), sums[number]) for number, learner in enumerate(apart)]


@functools.lru_cache(maxsize=16)
def _sharded(policy: Policy, config: Config, mesh: Mesh, seeds_each: int) -> Any:
    """The update of all seeds: sharded over the devices, on each of them vectorised over its seeds."""
    update_one = update_function(policy, config)

    def on_device(stacked: Any, coefficients: Coefficients) -> Any:
        if seeds_each == 1:  # nothing to vectorise: the same program, and the same bits, as a single run
            learner, data = jax.tree.map(lambda leaf: leaf[0], stacked)
            return jax.tree.map(lambda leaf: leaf[None], update_one(learner, data, coefficients))
        return jax.vmap(update_one, in_axes=(0, 0, None))(*stacked, coefficients)

    sharded = jax.shard_map(
        on_device, mesh=mesh, in_specs=(OVER_SEEDS, EVERYWHERE), out_specs=OVER_SEEDS, check_vma=False
    )
    return jax.jit(sharded, compiler_options=COMPILER_OPTIONS)


def _same_sizes(data: Sequence[UpdateData]) -> list[UpdateData]:
    """Pad all to the largest; padding is never read, and each keeps its own number of gradient steps."""
    rows = max(len(part.batch["actions"]) for part in data)
    room = max(len(part.minibatches) for part in data)
    shapes = {name: np.max([np.shape(part.tables[name]) for part in data], axis=0) for name in data[0].tables}
    return [
        UpdateData(
            {name: pad_rows(np.asarray(value), rows) for name, value in part.batch.items()},
            {name: _filled(np.asarray(value), shapes[name]) for name, value in part.tables.items()},
            np.concatenate(
                [part.minibatches, np.full((room - len(part.minibatches), *part.minibatches.shape[1:]), -1, np.int32)]
            ),
            np.int32(part.num_updates),  # type: ignore[arg-type]
        )
        for part in data
    ]


def _filled(table: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """With zeros at the end of its axes up to this shape."""
    return np.pad(table, [(0, size - given) for size, given in zip(shape, table.shape, strict=True)])


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)
