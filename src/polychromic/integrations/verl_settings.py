"""The `polychromic` section of a verl configuration, and which of verl's own settings must go with it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from polychromic.core.checks import one_of, whole_number
from polychromic.errors import UserError
from polychromic.integrations.answers import WRONG_ANSWERS, Comparison, reward_bounds, threshold_of
from polychromic.integrations.calls import Calls
from polychromic.integrations.group_sets import PRESETS, SetSettings, homogeneous_rule

# The name of the estimator, of the trainer and of the section.
NAME = "polychromic"
# trainer.v1.trainer_mode -> which trainer of verl it is.
TRAINER_MODES = {
    NAME: "sync",
    f"{NAME}_colocate_async": "colocate_async",
    f"{NAME}_separate_async": "separate_async",
}
# What verl's data sets have beside the prompt.
COLUMNS = ("data_source", "reward_model", "extra_info")


@dataclass(frozen=True)
class VerlSettings:
    """The section, read.

    Attributes:
        comparison: when two responses count as the same: `key`, `judge`, `equivalent` or `embed`, each written
            `package.module:function`, `similarity_threshold`, `on_failure`, and `calls`, a section of its own.
        wrong_answers: how responses below `success_threshold` are compared: 'compared', like right ones; 'alike', all
            as one answer; 'never-different', each as the group's most common right answer.
        columns: the fields of the data set that these functions find as `completion.columns`.
        sets: `set_size`, `num_sets`, `credit`, `homogeneous_zero`, `scale`, `anneal`, or a `preset` of them.
        reward_range: (lowest, highest) reward; rewards are mapped linearly from it to [0, 1].
        success_threshold: the reward from which on a response counts as right, in the logs and for `wrong_answers`; by
            default the highest.
        incomplete_groups: what to do with a group that has lost so many responses that its sets carry no signal:
            'error', or 'skip' to give its sets the advantage 0 and count it in the logs.
        seed: of random sets.
    """

    comparison: Comparison
    wrong_answers: str
    columns: tuple[str, ...]
    sets: SetSettings
    reward_range: tuple[float, float]
    success_threshold: float
    incomplete_groups: str
    seed: int


def section_settings(section: Mapping[str, Any]) -> VerlSettings:
    """Read the `polychromic` section of a configuration."""
    ways = ("key", "judge", "equivalent", "embed")
    set_names = tuple(field.name for field in fields(SetSettings))
    others = (
        "similarity_threshold", "calls", "on_failure", "wrong_answers", "columns", "preset", "reward_range",
        "success_threshold", "incomplete_groups", "seed",
    )  # fmt: skip
    unknown = sorted(set(section) - {*ways, *set_names, *others})
    if unknown:
        raise UserError(f"{NAME}.{unknown[0]} is not a setting; choose from {', '.join((*ways, *set_names, *others))}")
    functions = {way: _function(way, section[way]) for way in ways if section.get(way) is not None}
    preset = section.get("preset")
    if preset is not None:
        one_of(f"{NAME}.preset", preset, tuple(PRESETS))
    chosen: dict[str, Any] = dict(PRESETS[preset]) if preset is not None else {}
    chosen |= {name: section[name] for name in set_names if section.get(name) is not None}
    comparison = Comparison(
        **functions,
        similarity_threshold=section.get("similarity_threshold"),
        calls=_calls(section.get("calls")),
        on_failure=section.get("on_failure", "error"),
    )
    wrong_answers = one_of(f"{NAME}.wrong_answers", section.get("wrong_answers", "compared"), WRONG_ANSWERS)
    chosen["homogeneous_zero"] = homogeneous_rule(
        chosen.get("homogeneous_zero"), wrong_answers, by_kernel=comparison.by_kernel
    )
    low, high = reward_bounds(section.get("reward_range") or (0.0, 1.0))
    return VerlSettings(
        comparison=comparison,
        wrong_answers=wrong_answers,
        columns=tuple(map(str, section.get("columns", COLUMNS))),
        sets=SetSettings(**chosen),
        reward_range=(low, high),
        success_threshold=threshold_of(section.get("success_threshold"), (low, high)),
        incomplete_groups=one_of(
            f"{NAME}.incomplete_groups", section.get("incomplete_groups", "error"), ("error", "skip")
        ),
        seed=whole_number(f"{NAME}.seed", section.get("seed", 0), at_least=0),
    )


def settings_of(config: Any) -> VerlSettings:
    """The section of a whole verl configuration, after a check that nothing in the rest changes the objective."""
    required: dict[tuple[str, ...], tuple[Any, ...]] = {
        ("algorithm", "adv_estimator"): (NAME,),
        ("trainer", "use_v1"): (True,),
        ("trainer", "v1", "trainer_mode"): tuple(TRAINER_MODES),
    }
    for path, values in required.items():
        if _at(config, path) not in values:
            needed = " or ".join(map(repr, values))
            raise UserError(f"{'.'.join(path)} is {_at(config, path)!r}; polychromic training needs {needed}")
    if _at(config, ("algorithm", "use_kl_in_reward")):
        raise UserError(
            "algorithm.use_kl_in_reward is True; it takes the reward out of its range before sets are scored: use "
            "actor_rollout_ref.actor.use_kl_loss=True instead"
        )
    if _at(config, ("algorithm", "filter_groups", "enable")):
        raise UserError(
            "algorithm.filter_groups.enable is True; it drops the groups whose responses are all right, which are "
            "those in which diversity can be learnt: set it to False"
        )
    if _at(config, (NAME,)) is None:
        raise UserError(f"there is no section {NAME}; add at least +{NAME}.key=package.module:function")
    settings = section_settings(_plain(config[NAME]))
    if settings.sets.anneal and _at(config, ("algorithm", "norm_adv_by_std_in_grpo")) is False:
        raise UserError(
            f"algorithm.norm_adv_by_std_in_grpo is False with {NAME}.anneal {settings.sets.anneal:g}; it must be True, "
            "so that the advantages of GRPO are as large as those of sets whose place they take"
        )
    settings.sets.check_group_size(
        "actor_rollout_ref.rollout.n",
        int(_at(config, ("actor_rollout_ref", "rollout", "n"))),
        by_kernel=settings.comparison.by_kernel,
    )
    return settings


def _at(config: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        config = config.get(name) if config is not None else None
    return config


def _plain(section: Any) -> dict[str, Any]:
    """A section of OmegaConf (or any mapping) as a dictionary."""
    if not isinstance(section, Mapping) and not hasattr(section, "items"):
        raise UserError(f"{NAME} is {section!r}; it must be a section of settings")
    return {str(name): _plain_value(value) for name, value in section.items()}


def _plain_value(value: Any) -> Any:
    if hasattr(value, "items"):
        return {str(name): inner for name, inner in value.items()}
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else value


def _calls(section: Any) -> Calls | None:
    if section is None or isinstance(section, Calls):
        return section
    if not isinstance(section, Mapping):
        raise UserError(f"{NAME}.calls is {section!r}; it must be a section, calls.timeout=60 for example")
    names = [field.name for field in fields(Calls)]
    for name in section:
        if name not in names:
            raise UserError(f"{NAME}.calls.{name} is not a setting; choose from {', '.join(names)}")
    return Calls(**section)


def _function(name: str, reference: Any) -> Any:
    if callable(reference):
        return reference
    module_name, _, attribute = str(reference).partition(":")
    if not module_name or not attribute:
        raise UserError(f"{NAME}.{name} is {reference!r}; it must be package.module:function")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{NAME}.{name} is {reference!r}, which cannot be loaded: {error}") from error
