"""Polychromic training with TRL: a reward function for the unmodified `GRPOTrainer` and `RLOOTrainer`.

GRPO subtracts the mean reward of a group. Polychromic advantages add up to zero in every group, so handed over as
rewards they come out of the trainer as they went in, provided that nothing else is done to them; `check_trainer` makes
sure of that. RLOO subtracts the mean of the others, which multiplies them by N/(N − 1), so it gets them divided by it.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Hashable
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import one_of, whole_number
from polychromic.errors import UserError, missing
from polychromic.integrations.answers import (
    WRONG_ANSWERS,
    Comparison,
    GroupLabels,
    reward_bounds,
    rewards_of,
    right_answers,
    threshold_of,
)
from polychromic.integrations.calls import Calls, is_asynchronous, run_in_loop
from polychromic.integrations.completions import Completion, content_of
from polychromic.integrations.group_sets import (
    PRESETS,
    SetSettings,
    group_advantages,
    group_metrics,
    grpo_advantages,
    homogeneous_rule,
    scaled,
    silent_groups,
)
from polychromic.integrations.rewards import columns_of, combine, each_completion, named_call

try:
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer  # isort: skip
    from accelerate.utils import gather_object
except ModuleNotFoundError as error:
    raise missing("polychromic.integrations.trl", error, "trl") from error

__all__ = [
    "PRESETS",
    "Calls",
    "Completion",
    "PolychromicReward",
    "check_grpo_trainer",
    "check_trainer",
    "combine",
    "each_completion",
    "polychromic_grpo_config",
    "polychromic_rloo_config",
]

logger = logging.getLogger(__name__)


class _Trainer(NamedTuple):
    """A trainer of TRL, what it must be told for advantages to come out as they went in, and what it does to them."""

    name: str
    required: dict[str, Any]
    factor: Callable[[int], float]


TRAINERS: dict[type, _Trainer] = {
    GRPOTrainer: _Trainer(
        "grpo", {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}, lambda _: 1.0
    ),
    RLOOTrainer: _Trainer("rloo", {"normalize_advantages": False, "reward_clip_range": None}, lambda n: n / (n - 1)),
}
# Before the first generation of a run: (global step, number within it), apart for training and evaluation.
NO_GENERATION = {True: (-1, 0), False: (-1, 0)}
# What the presets say of GRPO itself; anything else stays as TRL has it.
TRAINER_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"num_generations": 8},
    "poly-epo": {
        "num_generations": 8,
        "learning_rate": 1e-6,
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
    },
}


class PolychromicReward:
    """A reward function for `GRPOTrainer` or `RLOOTrainer` that returns the polychromic advantage of every completion.

    Use it through three lines:

        reward = PolychromicReward(reward_fn, key=answer_of)
        args = polychromic_grpo_config(output_dir="out", num_generations=8)
        trainer = check_trainer(GRPOTrainer(model, reward_funcs=reward.funcs, args=args, train_dataset=data))

    It gathers the completions of all processes, so groups may span them; a mistake in one process is raised in all.
    Random sets are seeded by `seed`, the global step and the generation within it, so a resumed run draws the sets
    that the uninterrupted one would have drawn.

    Args:
        reward_fn: a reward function as TRL calls it, `reward_fn(prompts=, completions=, **columns)`, one number per
            completion, in `reward_range`; asynchronous or not. `combine` makes one of several.
        key, judge, equivalent, embed, similarity_threshold: when two completions count as the same; exactly one of
            the four, as in `polychromic.integrations.answers.Comparison`. They are given a `Completion`, the text with
            its prompt, columns, messages and tool calls.
        calls, on_failure: how a judge is called, and what becomes of a group for which it fails: 'error', 'skip' or
            'text'.
        wrong_answers: how completions below `success_threshold` are compared. 'compared': like right ones, as in the
            paper. 'alike': all of them are one answer. 'never-different': each counts as the group's most common right
            answer, so that no wrong completion makes a set more diverse.
        set_size, num_sets, credit, homogeneous_zero: the sets and their credit, as in
            `polychromic.integrations.group_sets.SetSettings`. `homogeneous_zero` is True if not given, but False with
            'never-different', where a group with one kind of right answer would teach nothing. `**PRESETS["paper"]`
            and `**PRESETS["poly-epo"]` set them all.
        scale: what advantages are multiplied by: a number, or 'batch' to make their standard deviation 1, as TRL
            does with its own, so that `beta` and learning rates mean what they mean there.
        anneal: the share of the run over which the weight of the sets falls linearly from 1 to 0, while that of GRPO's
            own advantages rises from 0 to 1, so that training ends as stock GRPO; 0: not at all. Needs
            `scale="batch"`.
        reward_range: (lowest, highest) reward; rewards are mapped linearly from it to [0, 1].
        success_threshold: the reward from which on a completion counts as right in `pass@n`,
            `distinct_right_answers` and `wrong_answers`; not given, the highest reward.
        seed: of the random sets.
    """

    def __init__(
        self,
        reward_fn: Callable[..., Any],
        *,
        key: Callable[[Completion], Hashable] | None = None,
        judge: Callable[[Any, list[Completion]], Any] | None = None,
        equivalent: Callable[[Any, Completion, Completion], Any] | None = None,
        embed: Callable[[list[Completion]], ArrayLike] | None = None,
        similarity_threshold: float | None = None,
        calls: Calls | None = None,
        on_failure: str = "error",
        wrong_answers: str = "compared",
        set_size: int = 4,
        num_sets: int | str = "auto",
        credit: str = "sum",
        homogeneous_zero: bool | None = None,
        scale: float | str = 1.0,
        anneal: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        success_threshold: float | None = None,
        seed: int = 0,
    ) -> None:
        if not callable(reward_fn) or hasattr(reward_fn, "parameters"):
            raise UserError(f"reward_fn is {type(reward_fn).__name__}; it must be a function that returns rewards")
        self.reward_fn = reward_fn
        self.comparison = Comparison(key, judge, equivalent, embed, similarity_threshold, calls, on_failure)
        self.wrong_answers = one_of("wrong_answers", wrong_answers, WRONG_ANSWERS)
        rule = homogeneous_rule(homogeneous_zero, self.wrong_answers, by_kernel=self.comparison.by_kernel)
        self.sets = SetSettings(set_size, num_sets, credit, rule, scale, anneal)
        self.reward_range = reward_bounds(reward_range)
        self.success_threshold = threshold_of(success_threshold, self.reward_range)
        self.seed = whole_number("seed", seed, at_least=0)
        self.__name__ = "polychromic"  # TRL names the columns of its logs by it
        self.raw = _RawReward(self, getattr(reward_fn, "__name__", "raw_reward"))
        self._trainer: Callable[[], Any] = _no_trainer
        self._factor: Callable[[int], float] = _unchanged
        # Generations seen within the current global step, apart for training and evaluation.
        self._generation = dict(NO_GENERATION)
        self._last: tuple[Any, list[float]] = (None, [])

    @property
    def funcs(self) -> list[Any]:
        """`reward_funcs` for the trainer: this one, and the raw reward beside it for the logs, with weight 0."""
        return [self, self.raw]

    def attach(self, trainer: Any, factor: Callable[[int], float]) -> None:
        """Take the group sizes from `trainer`, for `check_trainer`, which has checked the rest.

        factor: what the trainer multiplies the advantages of a group of N with.
        """
        self._trainer = weakref.ref(trainer)
        self._factor = factor
        self._generation = dict(NO_GENERATION)

    def __call__(self, prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        """The advantages of this process's completions, [local batch]."""
        trainer = self._trainer()
        if trainer is None:
            raise UserError("this reward has no trainer: call check_trainer(trainer) before trainer.train()")
        training = bool(trainer.model.training)
        group_size = trainer.num_generations if training else trainer.num_generations_eval

        parts = _in_every_process(lambda: self._read(prompts, completions, columns))
        rows = [row for part in parts for row in part]
        groups = _groups([row[0] for row in rows], group_size, "num_generations" + ("" if training else "_eval"))
        raw, returns = (np.array([row[column] for row in rows]).reshape(-1, group_size) for column in (1, 2))
        advantages, metrics = self._advantages(
            raw, returns, [[rows[i][3] for i in group] for group in groups], [rows[group[0]][4] for group in groups],
            self._generator(training, trainer.state.global_step),
        )  # fmt: skip
        if self.sets.anneal and training:
            passed = trainer.state.global_step / trainer.state.max_steps
            metrics["set_weight"] = weight = self.sets.weight_after(passed)
            advantages = weight * advantages + (1 - weight) * grpo_advantages(raw)
        _log(trainer, training, metrics)
        first = sum(len(part) for part in parts[: trainer.accelerator.process_index])
        here = slice(first, first + len(completions))
        self._last = (completions, raw.reshape(-1)[here].tolist())
        handed_over = advantages.reshape(-1)[here] / (self._factor(group_size) if group_size > 1 else 1.0)
        return [float(advantage) for advantage in handed_over]

    def of_group(self, completions: list[Completion], rewards: list[float], draw: int) -> tuple[Any, dict[str, float]]:
        """Advantages [N] of one group with these rewards, and what to log of it, for a trainer that has no batches.

        With `on_failure="skip"`, a group for which the judge fails has advantages of 0, however many groups in a row
        that happens to: `failed_groups` is 1 for each of them.

        draw: a number that no other group of the run has, for the random sets.
        """
        raw, returns = rewards_of(rewards, len(completions), self.reward_range, f"reward_fn '{self.raw.__name__}'")
        items = self.comparison.of_completions(completions)
        prompts = [completions[0].prompt if completions else None]
        rng = np.random.default_rng([self.seed, 1, draw])
        advantages, metrics = self._advantages(raw[None], returns[None], [items], prompts, rng, may_skip_all=True)
        return advantages[0], metrics

    def __getstate__(self) -> dict[str, Any]:
        """For a process that is started with a copy: without the trainer of this one."""
        return vars(self) | {"_trainer": _no_trainer, "_factor": _unchanged, "_last": (None, [])}

    def _advantages(
        self,
        raw: Any,
        returns: Any,
        items: list[Any],
        prompts: list[Any],
        rng: np.random.Generator,
        *,
        may_skip_all: bool = False,
    ) -> tuple[Any, dict[str, float]]:
        """Advantages [G, N] of all groups, and what to log of them.

        may_skip_all: whether there may be no group with a judge's answer; in a batch, that is a judge out of order.
        """
        metrics = {"raw_reward": float(raw.mean())}
        kept = np.ones(len(items), bool)
        if self.comparison.needs_whole_groups:
            judged = self._labels_of_groups(prompts, items)
            items = [group.labels for group in judged]
            kept = np.array([labels is not None for labels in items])
            metrics["failed_groups"] = float(np.mean([group.failed for group in judged]))
            if not kept.any():
                if may_skip_all:
                    return np.zeros_like(returns), metrics | {"advantage_std": 0.0, "silent_groups": 1.0}
                raise UserError("the judge gave no answer for any group of this step; on_failure='skip' is for some")
        right = right_answers(raw[kept], self.success_threshold)
        likeness = self.comparison.likeness([labels for labels in items if labels is not None])
        likeness = likeness.of_wrong(right, self.wrong_answers)
        advantages = np.zeros_like(returns)
        advantages[kept] = group_advantages(returns[kept], likeness, self.sets, rng)
        metrics |= group_metrics(returns[kept], likeness, self.sets, right)
        metrics["advantage_std"] = float(advantages.std())
        metrics["silent_groups"] = float(silent_groups(advantages).mean())
        return scaled(advantages, self.sets.scale), metrics

    def _read(self, prompts: list[Any], completions: list[Any], columns: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Per completion of this process: prompt text, reward, reward in [0, 1], item to compare by, prompt."""
        name = f"reward_fn '{self.raw.__name__}'"
        values = named_call(name, self.reward_fn, prompts=prompts, completions=completions, **columns)
        if is_asynchronous(self.reward_fn):
            values = named_call(name, run_in_loop, values)
        raw, returns = rewards_of(values, len(completions), self.reward_range, name)
        items = self.comparison.of_completions(columns_of(prompts, completions, columns))
        shared_prompts = prompts if self.comparison.needs_whole_groups else [None] * len(prompts)
        return list(zip(map(_prompt_text, prompts), raw, returns, items, shared_prompts, strict=True))

    def _labels_of_groups(self, prompts: list[Any], groups: list[list[str]]) -> list[GroupLabels]:
        """Each group judged by one process only, then shared."""
        trainer = self._trainer()
        if trainer is None:
            return self.comparison.labels_of_groups(prompts, groups)
        rank, world = trainer.accelerator.process_index, trainer.accelerator.num_processes
        mine = range(rank, len(groups), world)
        parts = _in_every_process(
            lambda: self.comparison.labels_of_groups([prompts[g] for g in mine], [groups[g] for g in mine])
        )
        return [parts[g % world][g // world] for g in range(len(groups))]

    def _generator(self, training: bool, step: int) -> np.random.Generator:
        last_step, index = self._generation[training]
        index = index + 1 if step == last_step else 0
        self._generation[training] = (step, index)
        return np.random.default_rng([self.seed, int(training), step, index])


def _no_trainer() -> None:
    """In the place of a reference to a trainer."""


def _unchanged(_: int) -> float:
    """What a trainer multiplies advantages with that leaves them as they are."""
    return 1.0


class _RawReward:
    """The rewards that a `PolychromicReward` was given for the same completions, for the trainer's own logs."""

    def __init__(self, polychromic: PolychromicReward, name: str) -> None:
        self.polychromic = polychromic
        self.__name__ = name

    def __call__(self, prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:  # noqa: ARG002
        seen, rewards = self.polychromic._last
        if seen is not completions:
            raise UserError("the raw reward was asked first; use reward_funcs=reward.funcs, where it comes second")
        return rewards


def polychromic_grpo_config(*, preset: str | None = None, num_monitors: int = 1, **settings: Any) -> GRPOConfig:
    """A `GRPOConfig` under which `GRPOTrainer` leaves polychromic advantages as they are.

    Args:
        preset: 'paper' or 'poly-epo', the trainer's side of the preset of that name.
        num_monitors: reward functions beside the polychromic one, which are logged with weight 0: one, the raw reward,
            in `reward.funcs`.
        settings: anything else of `GRPOConfig`; it wins over the preset. Values that would change the objective are
            refused.
    """
    if preset is not None:
        one_of("preset", preset, tuple(TRAINER_PRESETS))
    if settings.get("scale_rewards") is False:
        settings["scale_rewards"] = "none"
    chosen = (TRAINER_PRESETS[preset] if preset else {}) | settings
    return GRPOConfig(**_checked(chosen, TRAINERS[GRPOTrainer], num_monitors))


def polychromic_rloo_config(*, num_monitors: int = 1, **settings: Any) -> RLOOConfig:
    """The same for `RLOOTrainer`; its KL term, in the reward with weight `beta`, acts beside the set objective."""
    return RLOOConfig(**_checked(settings, TRAINERS[RLOOTrainer], num_monitors))


def _checked(settings: dict[str, Any], trainer: _Trainer, num_monitors: int) -> dict[str, Any]:
    """The settings with those that are required; others in their place are refused."""
    weights = [1.0] + [0.0] * whole_number("num_monitors", num_monitors, at_least=0)
    required = {**trainer.required, "reward_weights": weights}
    for name, value in required.items():
        if settings.get(name, value) != value:
            raise UserError(
                f"{name} is {settings[name]!r}; it must be {value!r}, or the objective would silently change"
            )
    return settings | required


def check_trainer(trainer: Any) -> Any:
    """Refuse a trainer whose settings would silently change the objective; tell its reward the group sizes.

    Returns:
        The same trainer. A `PolychromicReward` does not work in a trainer that was not checked.
    """
    base = next((base for base in TRAINERS if isinstance(trainer, base)), None)
    if base is None:
        if type(trainer).__name__ == "AsyncGRPOTrainer":
            from polychromic.integrations.trl_async import check_async_trainer

            check_async_trainer(trainer)
            return trainer
        raise UserError(
            f"trainer is {type(trainer).__name__}; polychromic rewards are made for trl.GRPOTrainer and trl.RLOOTrainer"
        )
    if type(trainer)._generate_and_score_completions is not base._generate_and_score_completions:  # type: ignore[attr-defined]
        raise UserError(
            f"trainer is {type(trainer).__name__}, which overrides _generate_and_score_completions, where rewards "
            f"become advantages; polychromic rewards need {base.__name__}'s own"
        )
    where = [i for i, function in enumerate(trainer.reward_funcs) if isinstance(function, PolychromicReward)]
    if len(where) != 1:
        raise UserError(f"reward_funcs holds {len(where)} PolychromicReward; it must hold exactly one")
    reward: PolychromicReward = trainer.reward_funcs[where[0]]
    for name, value in TRAINERS[base].required.items():
        if getattr(trainer, name) != value:
            raise UserError(
                f"{name} is {getattr(trainer, name)!r}; it must be {value!r}, or the trainer rescales the advantages "
                f"and with them the objective: make the arguments with polychromic_{TRAINERS[base].name}_config(...)"
            )
    for index, weight in enumerate(trainer.reward_weights.tolist()):
        needed = 1.0 if index == where[0] else 0.0
        if weight != needed:
            raise UserError(
                f"reward_weights[{index}] ({trainer.reward_func_names[index]}) is {weight:g}; it must be {needed:g}: "
                "rewards are combined inside reward_fn, before sets are scored (combine does it), and all others are "
                "logged only"
            )
    if (anneal := reward.sets.anneal) and base is not GRPOTrainer:
        raise UserError(f"anneal is {anneal:g} with {base.__name__}; it ends in GRPO's advantages: give 0 here")
    size, by_kernel = trainer.num_generations, reward.comparison.by_kernel
    reward.sets.check_group_size("num_generations", size, by_kernel=by_kernel)
    if by_kernel and isinstance(drawn := reward.sets.sets_of_kernel(size), int) and reward.sets.num_sets == "auto":
        total = comb(size, reward.sets.set_size)
        logger.warning("polychromic: %s of the %s sets of a group are drawn; num_sets='all' takes all", drawn, total)
    if started_alone(trainer.accelerator.num_processes):
        logger.warning(
            "polychromic: 'accelerate launch --cpu' has started one process, whatever --num_processes says; "
            "torchrun --nproc-per-node=… starts several"
        )
    reward.attach(trainer, TRAINERS[base].factor)
    return trainer


check_grpo_trainer = check_trainer


def started_alone(num_processes: int) -> bool:
    """Whether `accelerate launch --cpu` was told several processes and has started one.

    It passes the number on to mpirun only, which it uses if it was given a host file. It sets MASTER_ADDR for several
    processes, but a process that is one of several has a WORLD_SIZE too.
    """
    said = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true" and "MASTER_ADDR" in os.environ
    return said and num_processes == 1 and "WORLD_SIZE" not in os.environ


def _in_every_process(work: Callable[[], list[Any]]) -> list[list[Any]]:
    """The result of `work` of every process; if it fails in one, it fails in all, so that none waits for ever."""
    failure: Exception | None = None
    result: list[Any] = []
    try:
        result = work()
    except Exception as error:
        failure = error
    outcomes = gather_object([(None if failure is None else f"{type(failure).__name__}: {failure}", result)])
    if failure is not None:
        raise failure
    for process, (message, _) in enumerate(outcomes):
        if message is not None:
            raise UserError(f"process {process} failed: {message}")
    return [part for _, part in outcomes]


def _groups(prompt_texts: list[str], group_size: int, name: str) -> list[range]:
    """Consecutive blocks of `group_size` completions, which is how TRL lays groups out, with a check that they are."""
    if len(prompt_texts) % group_size:
        raise UserError(f"{len(prompt_texts)} completions do not make whole groups of {name} = {group_size}")
    groups = [range(start, start + group_size) for start in range(0, len(prompt_texts), group_size)]
    for group in groups:
        if any(prompt_texts[i] != prompt_texts[group[0]] for i in group):
            raise UserError(
                f"completions {group[0]} to {group[-1]} answer different prompts; with {name} = {group_size} "
                "they should be one group: a sampler or collator has mixed or dropped completions"
            )
    return groups


def _prompt_text(prompt: Any) -> str:
    """What prompts of one group have in common; images are left out, as copies of them do not compare equal."""
    return prompt if isinstance(prompt, str) else "\n".join(f"{m.get('role')}: {content_of(m)}" for m in prompt)


def _log(trainer: Any, training: bool, metrics: dict[str, float]) -> None:
    """Put metrics where the trainer keeps its own until it logs them.

    `log_metric`, which newer versions hand to reward functions, would gather each number from all processes, and these
    are the same in all.
    """
    store = trainer._metrics["train" if training else "eval"]
    for name, value in metrics.items():
        store[f"polychromic/{name}"].append(value)
