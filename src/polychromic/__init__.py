"""Set reinforcement learning: fine-tune a pretrained policy with RL without collapsing it.

The core (sets, diversity, objectives, credit, returns, metrics) is NumPy and is imported at once; everything heavier
is imported when its name is first used.
"""

import importlib
import sys
from typing import Any

from polychromic.core.credit import leave_one_out_advantages, set_advantages
from polychromic.core.diversity import (
    clusters_from_kernel,
    distinct_fraction,
    kernel_from_embeddings,
    kernel_from_places,
    mean_pairwise_distance,
    vendi_diversity,
)
from polychromic.core.intervals import bootstrap_interval
from polychromic.core.metrics import (
    coverage,
    distinct_at_k,
    interquartile_mean,
    pass_at_k,
)
from polychromic.core.objectives import (
    ConditionFigures,
    PolychromicConditionWarning,
    ProductObjective,
    best_of,
    mean_return,
    polychromic_objective,
    product_objective,
    score_sets,
)
from polychromic.core.polychromic import (
    DegenerateSetsWarning,
    mean_set_score,
    polychromic_advantages,
    polychromic_kernel_advantages,
)
from polychromic.core.returns import discounted_return, gae
from polychromic.core.sets import all_sets, disjoint_sets, random_sets
from polychromic.errors import Diverged, MissingExtra, Untrusted, UserError, missing

__version__ = "0.1.0"

# Public names whose modules need more than NumPy: name -> module.
_LAZY: dict[str, str] = {
    "check_fork": "polychromic.envs.forkcheck.check",
    "from_gymnasium": "polychromic.envs.gymnasium.world",
    "Config": "polychromic.finetuning.config",
    "evaluate_policy": "polychromic.evaluate.policy",
    "perturbed_starts": "polychromic.evaluate.perturbed",
    "write_report": "polychromic.report.page",
    "exact_scores": "polychromic.tasks.grids.exact",
    "finetune": "polychromic.finetuning.loop",
    "finetune_seeds": "polychromic.finetuning.seeds",
    "make_config": "polychromic.finetuning.config",
    "make": "polychromic.envs.registry",
    "register": "polychromic.envs.registry",
    "TaskSpec": "polychromic.envs.registry",
    "Metric": "polychromic.envs.registry",
    "task_names": "polychromic.envs.registry",
    "World": "polychromic.envs.protocol",
    "Starts": "polychromic.envs.protocol",
    "PolicyInfo": "polychromic.policies.files",
    "SavedPolicy": "polychromic.policies.files",
    "check_fits": "polychromic.policies.fit",
    "Section": "polychromic.envs.registry",
    "Viewer": "polychromic.envs.registry",
    "Result": "polychromic.finetuning.loop",
    "Attempts": "polychromic.finetuning.attempts",
    "StepResult": "polychromic.envs.protocol",
    "Episode": "polychromic.envs.protocol",
    "Policy": "polychromic.policies.protocol",
    "Normal": "polychromic.policies.distributions",
    "Evaluator": "polychromic.policies.inference",
    "available_policies": "polychromic.policies.files",
    "load_policy": "polychromic.policies.files",
    "policy_for": "polychromic.finetuning.default_policy",
    "clone": "polychromic.pretrain.anywhere",
    "task_from_gymnasium": "polychromic.tasks.gymnasium",
    "save_policy": "polychromic.policies.files",
    "token_world": "polychromic.envs.tokens.world",
    "transformer_policy": "polychromic.policies.transformer",
    "load_demonstrations": "polychromic.pretrain.demonstrations",
}

__all__ = [
    "ConditionFigures",
    "DegenerateSetsWarning",
    "Diverged",
    "MissingExtra",
    "PolychromicConditionWarning",
    "ProductObjective",
    "Untrusted",
    "UserError",
    "all_sets",
    "best_of",
    "bootstrap_interval",
    "clusters_from_kernel",
    "coverage",
    "discounted_return",
    "disjoint_sets",
    "distinct_at_k",
    "distinct_fraction",
    "gae",
    "interquartile_mean",
    "kernel_from_embeddings",
    "kernel_from_places",
    "leave_one_out_advantages",
    "mean_pairwise_distance",
    "mean_return",
    "mean_set_score",
    "pass_at_k",
    "polychromic_advantages",
    "polychromic_kernel_advantages",
    "polychromic_objective",
    "product_objective",
    "random_sets",
    "score_sets",
    "set_advantages",
    "vendi_diversity",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        try:
            return getattr(importlib.import_module(_LAZY[name]), name)
        except ModuleNotFoundError as error:
            raise missing(f"polychromic.{name}", error, "rl") from error
    raise AttributeError(f"module 'polychromic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "__version__"])


# Gymnasium users have imported it by now: make `gymnasium.make("polychromic/goto-v0")` work. Without it, stay light.
if "gymnasium" in sys.modules:
    importlib.import_module("polychromic.gym")
