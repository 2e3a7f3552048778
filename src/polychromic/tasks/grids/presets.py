"""The recipe of each base policy: demonstrations, network, training; tuned to match the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.envs.grid.missions import WORDS
from polychromic.envs.grid.step import NUM_ACTIONS
from polychromic.envs.grid.tasks import TASKS, level_id
from polychromic.policies.networks import build_policy
from polychromic.policies.protocol import Policy
from polychromic.pretrain.cloning import Cloning
from polychromic.pretrain.split import Source


@dataclass(frozen=True)
class Preset:
    """One base policy."""

    task: str
    paper_success: float | None = None  # of the paper's pretrained policy, as a share
    episodes: int = 2000
    source: Source = "test"
    split_seed: int = 0
    observation: Literal["partial", "full"] = "partial"
    network: Mapping[str, Any] = field(default_factory=lambda: {"network": "cnn"})
    cloning: Cloning = field(default_factory=Cloning)


_FOURROOMS = Preset(
    "fourrooms",
    paper_success=0.704,
    episodes=2000,
    network={"network": "mlp", "hidden": [64, 64]},
    cloning=Cloning(epochs=30, patience=0, pieces=64, piece_steps=1),
)
_GOTO = Preset("goto", paper_success=0.342, episodes=3000, cloning=Cloning(epochs=20, patience=5))
# The paper trains on all demonstrations of these two, so there is no validation set for early stopping.
_SEQUENCES = Preset("synthseq", episodes=1000, source="all", cloning=Cloning(epochs=8, patience=0))

PRESETS = {
    "fourrooms": _FOURROOMS,
    "goto": _GOTO,
    "pickup": Preset("pickup", paper_success=0.214, episodes=2000, cloning=Cloning(epochs=15, patience=5)),
    "synthseq": replace(_SEQUENCES, paper_success=0.202, cloning=Cloning(epochs=3, patience=0)),
    "bosslevel": replace(_SEQUENCES, task="bosslevel", paper_success=0.206),
    "fourrooms-full": replace(_FOURROOMS, observation="full"),
    "goto-full": replace(
        _GOTO,
        observation="full",
        network={"network": "cnn", "pools": [0, 1]},
        cloning=Cloning(epochs=8, patience=3),
    ),
    "goto-memory": replace(
        _GOTO,
        network={"network": "cnn", "memory_units": 64},
        cloning=Cloning(epochs=8, patience=3, pieces=8),
    ),
}
BASE = tuple(TASKS)  # the five that are shipped


def preset_for(name: str) -> Preset:
    """A preset by name, or the general one for any other level that has an expert."""
    if name in PRESETS:
        return PRESETS[name]
    return Preset(level_id(name))


def preset_policy(preset: Preset, image_size: tuple[int, int]) -> Policy:
    """The network of a preset for observations of this many cells (width, height)."""
    options = {"num_actions": NUM_ACTIONS, "code_triples": CODE_TRIPLES.tolist(), **preset.network}
    if options["network"] == "mlp":
        options.setdefault("cells", image_size[0] * image_size[1])
    else:
        options = {"width": image_size[0], "height": image_size[1], "num_words": len(WORDS), **options}
    return build_policy(options)
