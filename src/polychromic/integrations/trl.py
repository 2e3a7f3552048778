"""Polychromic training with TRL: a reward function for the unmodified `GRPOTrainer`.

GRPO subtracts the mean reward of a group. Polychromic advantages add up to zero in every group, so handed over as
rewards they come out of the trainer as they went in, provided that nothing else is done to them; `check_grpo_trainer`
makes sure of that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from inspect import iscoroutinefunction
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from numpy.typing import ArrayLike
from trl import GRPOConfig, GRPOTrainer

from polychromic.core.checks import one_of, whole_number
from polychromic.errors import UserError
from polychromic.integrations.answers import Comparison, rewards_of, right_answers
from polychromic.integrations.group_sets import PRESETS, SetSettings, group_advantages, group_figures

__all__ = ["PRESETS", "PolychromicReward", "check_grpo_trainer", "polychromic_grpo_config"]

# What GRPO must be told for the advantages to come out as they went in.
REQUIRED = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
# Before the first generation of a run: (global step, number within it), apart for training and evaluation.
NO_GENERATION = {True: (-1, 0), False: (-1, 0)}
# What the presets say of the trainer itself; anything else stays as TRL has it.
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
    """A reward function for `GRPOTrainer` that returns the polychromic advantage of every completion.

    Use it through three lines:

        reward = PolychromicReward(reward_fn, key=answer_of)
        args = polychromic_grpo_config(output_dir="out", num_generations=8)
        trainer = check_grpo_trainer(GRPOTrainer(model, reward_funcs=reward.funcs, args=args, train_dataset=data))

    It gathers the completions of all processes, so groups may span them; a mistake in one process is raised in all.
    Random sets are seeded by `seed`, the global step and the generation within it, so a resumed run draws the sets
    that the uninterrupted one would have drawn.

    Args:
        reward_fn: a reward function as TRL calls it, `reward_fn(prompts=, completions=, **columns)`, one number per
            completion, in `reward_range`.
        key, judge, equivalent, embed, similarity_threshold: when two completions count as the same; exactly one of
            the four, as in `polychromic.integrations.answers.Comparison`. They are given the text of a completion;
            of a conversation, the contents of its assistant messages.
        set_size, num_sets, credit, homogeneous_zero: the sets and their credit, as in
            `polychromic.integrations.group_sets.SetSettings`. `**PRESETS["paper"]` and `**PRESETS["poly-epo"]` set
            them all.
        reward_range: (lowest, highest) reward; rewards are mapped linearly from it to [0, 1].
        success_threshold: the reward from which on a completion counts as right in `pass@n` and
            `distinct_right_answers`; not given, the highest reward. It touches the logs only.
        seed: of the random sets.
    """

    def __init__(
        self,
        reward_fn: Callable[..., Sequence[float]],
        *,
        key: Callable[[str], Hashable] | None = None,
        judge: Callable[[Any, list[str]], Sequence[Hashable]] | None = None,
        equivalent: Callable[[Any, str, str], bool] | None = None,
        embed: Callable[[list[str]], ArrayLike] | None = None,
        similarity_threshold: float | None = None,
        set_size: int = 4,
        num_sets: int | str = "all",
        credit: str = "sum",
        homogeneous_zero: bool = True,
        reward_range: tuple[float, float] = (0.0, 1.0),
        success_threshold: float | None = None,
        seed: int = 0,
    ) -> None:
        if not callable(reward_fn) or hasattr(reward_fn, "parameters"):
            raise UserError(f"reward_fn is {type(reward_fn).__name__}; it must be a function that returns rewards")
        if iscoroutinefunction(reward_fn) or iscoroutinefunction(getattr(reward_fn, "__call__", None)):  # noqa: B004
            raise UserError("reward_fn is asynchronous; give a function that returns when the rewards are there")
        self.reward_fn = reward_fn
        self.comparison = Comparison(key, judge, equivalent, embed, similarity_threshold)
        self.sets = SetSettings(set_size, num_sets, credit, homogeneous_zero)
        self.reward_range = reward_range
        rewards_of([], 0, reward_range, "")
        self.success_threshold = float(max(reward_range) if success_threshold is None else success_threshold)
        self.seed = whole_number("seed", seed, at_least=0)
        self.__name__ = "polychromic"  # TRL names the columns of its logs by it
        self.raw = _RawReward(self, getattr(reward_fn, "__name__", "raw_reward"))
        self._trainer: Callable[[], GRPOTrainer | None] = lambda: None
        # Generations seen within the current global step, apart for training and evaluation.
        self._generation = dict(NO_GENERATION)
        self._last: tuple[Any, list[float]] = (None, [])

    @property
    def funcs(self) -> list[Any]:
        """`reward_funcs` for the trainer: this one, and the raw reward beside it for the logs, with weight 0."""
        return [self, self.raw]

    @property
    def by_kernel(self) -> bool:
        """Whether completions are compared by degrees (Vendi) rather than as the same or not."""
        return self.comparison.embed is not None and self.comparison.similarity_threshold is None

    def attach(self, trainer: GRPOTrainer) -> None:
        """Take the group sizes from `trainer`, for `check_grpo_trainer`, which has checked the rest."""
        self._trainer = weakref.ref(trainer)
        self._generation = dict(NO_GENERATION)

    def __call__(self, prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        """The advantages of this process's completions, [local batch]."""
        trainer = self._trainer()
        if trainer is None:
            raise UserError("this reward has no trainer: call check_grpo_trainer(trainer) before trainer.train()")
        training = bool(trainer.model.training)
        group_size = trainer.num_generations if training else trainer.num_generations_eval

        parts = _in_every_process(lambda: self._read(prompts, completions, columns))
        rows = [row for part in parts for row in part]
        groups = _groups([row[0] for row in rows], group_size, "num_generations" + ("" if training else "_eval"))
        raw, returns = (np.array([row[column] for row in rows]).reshape(-1, group_size) for column in (1, 2))
        items = [[rows[i][3] for i in group] for group in groups]
        if self.comparison.needs_whole_groups:
            items = self._labels_of_groups([rows[group[0]][4] for group in groups], items)
        likeness = self.comparison.likeness(items)

        advantages = group_advantages(
            returns, likeness, self.sets, self._generator(training, trainer.state.global_step)
        )
        figures = {"raw_reward": float(raw.mean())}
        figures |= group_figures(returns, likeness, self.sets, right_answers(raw, self.success_threshold))
        _log(trainer, training, columns.get("log_metric"), figures)
        first = sum(len(part) for part in parts[: trainer.accelerator.process_index])
        here = slice(first, first + len(completions))
        self._last = (completions, raw.reshape(-1)[here].tolist())
        return [float(advantage) for advantage in advantages.reshape(-1)[here]]

    def _read(self, prompts: list[Any], completions: list[Any], columns: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Per completion of this process: prompt text, reward, reward in [0, 1], item to compare by, prompt."""
        values = self.reward_fn(prompts=prompts, completions=completions, **columns)
        raw, returns = rewards_of(values, len(completions), self.reward_range, f"reward_fn '{self.raw.__name__}'")
        items = self.comparison.of_completions([_text(completion) for completion in completions])
        shared_prompts = prompts if self.comparison.needs_whole_groups else [None] * len(prompts)
        return list(zip(map(_prompt_text, prompts), raw, returns, items, shared_prompts, strict=True))

    def _labels_of_groups(self, prompts: list[Any], texts: list[list[str]]) -> list[list[Hashable]]:
        """Each group judged by one process only, then shared."""
        trainer = self._trainer()
        assert trainer is not None
        rank, world = trainer.accelerator.process_index, trainer.accelerator.num_processes
        mine = range(rank, len(texts), world)
        parts = _in_every_process(lambda: [self.comparison.labels_of_group(prompts[g], texts[g]) for g in mine])
        return [parts[g % world][g // world] for g in range(len(texts))]

    def _generator(self, training: bool, step: int) -> np.random.Generator:
        last_step, index = self._generation[training]
        index = index + 1 if step == last_step else 0
        self._generation[training] = (step, index)
        return np.random.default_rng([self.seed, int(training), step, index])


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
    weights = [1.0] + [0.0] * whole_number("num_monitors", num_monitors, at_least=0)
    for name, value in {**REQUIRED, "reward_weights": weights}.items():
        given = settings.get(name, value)
        if given != value and not (name == "scale_rewards" and given is False):
            raise UserError(f"{name} is {given!r}; it must be {value!r}, or the objective would silently change")
    return GRPOConfig(**(TRAINER_PRESETS[preset] if preset else {}) | settings | REQUIRED | {"reward_weights": weights})


def check_grpo_trainer(trainer: GRPOTrainer) -> GRPOTrainer:
    """Refuse a trainer whose settings would silently change the objective; tell its reward the group sizes.

    Returns:
        The same trainer. A `PolychromicReward` does not work in a trainer that was not checked.
    """
    if not isinstance(trainer, GRPOTrainer):
        raise UserError(f"trainer is {type(trainer).__name__}; polychromic rewards are made for trl.GRPOTrainer")
    if type(trainer)._generate_and_score_completions is not GRPOTrainer._generate_and_score_completions:
        raise UserError(
            f"trainer is {type(trainer).__name__}, which overrides _generate_and_score_completions, where rewards "
            "become advantages; polychromic rewards need GRPOTrainer's own"
        )
    where = [i for i, function in enumerate(trainer.reward_funcs) if isinstance(function, PolychromicReward)]
    if len(where) != 1:
        raise UserError(f"reward_funcs holds {len(where)} PolychromicReward; it must hold exactly one")
    reward: PolychromicReward = trainer.reward_funcs[where[0]]
    for name, value in REQUIRED.items():
        if getattr(trainer, name) != value:
            raise UserError(
                f"{name} is {getattr(trainer, name)!r}; it must be {value!r}, or GRPO rescales the advantages and with "
                "them the objective: make the arguments with polychromic_grpo_config(...)"
            )
    for index, weight in enumerate(trainer.reward_weights.tolist()):
        needed = 1.0 if index == where[0] else 0.0
        if weight != needed:
            raise UserError(
                f"reward_weights[{index}] ({trainer.reward_func_names[index]}) is {weight:g}; it must be {needed:g}: "
                "rewards are combined inside reward_fn, before sets are scored, and all others are logged only"
            )
    for name, trains in (("num_generations", True), ("num_generations_eval", False)):
        reward.sets.check_group_size(name, getattr(trainer, name), trains=trains, by_kernel=reward.by_kernel)
    reward.attach(trainer)
    return trainer


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


def _text(message_or_text: Any) -> str:
    """A completion as text: itself, or the contents of the assistant's messages."""
    if isinstance(message_or_text, str):
        return message_or_text
    return "\n".join(
        _content(message) for message in message_or_text if message.get("role", "assistant") == "assistant"
    )


def _prompt_text(prompt: Any) -> str:
    """What prompts of one group have in common; images are left out, as copies of them do not compare equal."""
    return prompt if isinstance(prompt, str) else "\n".join(f"{m.get('role')}: {_content(m)}" for m in prompt)


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _log(trainer: GRPOTrainer, training: bool, log_metric: Any, figures: dict[str, float]) -> None:
    for name, value in figures.items():
        if log_metric is not None:
            log_metric(f"polychromic/{name}", value)
        else:
            # TRL 0.29 has no `log_metric`; this is the store that it writes to.
            trainer._metrics["train" if training else "eval"][f"polychromic/{name}"].append(value)
