"""Policies on disk: safetensors with a JSON header. Loading reads numbers and text, never code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from polychromic.errors import UserError
from polychromic.policies.networks import NETWORKS, build_policy
from polychromic.policies.protocol import Params, Policy

FORMAT = "polychromic-policy-1"


@dataclass(frozen=True)
class PolicyInfo:
    """What the header of a policy file says, beside the architecture."""

    task: str = ""  # the Gymnasium id of the level it was trained on
    observation: str = ""  # "partial" or "full"
    vocabulary: tuple[str, ...] = ()  # word of each token id
    words_seen: tuple[str, ...] = ()  # the words that occurred in its training missions
    made: Mapping[str, Any] = field(default_factory=dict)  # command, demonstrations, seed, versions, scores
    source: str = "<memory>"  # the file it came from, for messages


@dataclass(frozen=True)
class SavedPolicy:
    """A policy with its parameters (NumPy arrays) and what is known about it."""

    policy: Policy
    params: Params
    info: PolicyInfo


def save_policy(path: str | os.PathLike[str], policy: Policy, params: Params, info: PolicyInfo | None = None) -> None:
    """Write parameters and header; the file appears whole or not at all."""
    info = info or PolicyInfo()
    header = {
        "architecture": dict(policy.architecture),
        "name": policy.name,
        "task": info.task,
        "observation": info.observation,
        "vocabulary": list(info.vocabulary),
        "words_seen": list(info.words_seen),
        "made": dict(info.made),
    }
    metadata = {"format": FORMAT, "header": json.dumps(header, ensure_ascii=False)}
    write_tensors(path, named_arrays(params), metadata)


def load_policy(name: str | os.PathLike[str], policy: Policy | None = None) -> SavedPolicy:
    """A shipped base policy by name (`available_policies()`), or the policy in a file.

    policy: your own network, if the file holds one; its architecture and its parameters' names and shapes must match.
    """
    path = policy_path(name)
    tensors, metadata = read_tensors(path, FORMAT)
    header = parse_header(path, metadata["header"])
    recorded = header["architecture"]
    if policy is None:
        if recorded.get("network") not in NETWORKS:
            raise UserError(
                f"{path}: architecture: network is {recorded.get('network')!r}, which is not one of ours "
                f"({', '.join(NETWORKS)}); give your own with load_policy(path, policy)"
            )
        try:
            policy = build_policy(recorded)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
    else:
        _compare_architectures(path, recorded, json.loads(json.dumps(dict(policy.architecture))))
    expected = jax.eval_shape(policy.init, jax.random.key(0))
    params = fill_tree(path, expected, tensors)
    info = PolicyInfo(
        task=header["task"],
        observation=header["observation"],
        vocabulary=tuple(header["vocabulary"]),
        words_seen=tuple(header["words_seen"]),
        made=header["made"],
        source=str(path),
    )
    return SavedPolicy(policy, params, info)


def check_fits(saved: SavedPolicy, world: Any, *, other_task: bool = False) -> None:
    """Refuse a world that the policy was not made for, naming the file and the field.

    world: a grid world (`task`, `observation`, `num_actions`, `missions`, `mission_tokens`).
    other_task: accept another level with the same observation and words that the policy has seen.
    """
    source, info, architecture = saved.info.source, saved.info, saved.policy.architecture
    if info.task and info.task != world.task and not other_task:
        raise UserError(f"{source}: task is {info.task}, the world runs {world.task}")
    if info.observation and info.observation != world.observation:
        raise UserError(f"{source}: observation is '{info.observation}', the world shows '{world.observation}'")
    if architecture.get("num_actions", world.num_actions) != world.num_actions:
        raise UserError(f"{source}: num_actions is {architecture['num_actions']}, the world has {world.num_actions}")
    width, height = world.image_shape[:2]
    cells = architecture.get("cells") or architecture.get("width", width) * architecture.get("height", height)
    if cells != width * height:
        raise UserError(f"{source}: the network sees {cells} cells, the world shows {width} × {height}")
    triples = architecture.get("code_triples")
    if triples is not None and not np.array_equal(triples, world.code_triples):
        raise UserError(f"{source}: code_triples differ from those of the world: its codes mean something else")
    if "num_words" in architecture:
        check_words(source, info, world.missions, world.mission_tokens)


def check_words(source: str, info: PolicyInfo, missions: Sequence[str], tokens: Any) -> None:
    """Refuse missions with a word that the policy has no token for, or never saw while it was trained."""
    seen = {index for index, word in enumerate(info.vocabulary) if word in info.words_seen}
    seen = seen or set(range(len(info.vocabulary)))
    for mission, row in zip(missions, np.asarray(tokens), strict=True):
        words = [token for token in row.tolist() if token]
        strange = [place for place, token in enumerate(words) if token not in seen]
        if strange:
            word = info.vocabulary[words[strange[0]]] if words[strange[0]] < len(info.vocabulary) else "?"
            raise UserError(
                f"{source}: words_seen has no '{word}', word {strange[0] + 1} of the mission '{mission}'; "
                "the policy was never trained on it"
            )


def available_policies() -> list[str]:
    """The names of the base policies shipped with the package."""
    folder = resources.files("polychromic.policies") / "base"
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(".safetensors") for file in folder.iterdir() if file.name.endswith(".safetensors"))


def policy_path(name: str | os.PathLike[str]) -> Path:
    """The file of a shipped policy, or the path that was given."""
    if isinstance(name, str) and name in available_policies():
        return Path(str(resources.files("polychromic.policies") / "base" / f"{name}.safetensors"))
    path = Path(name)
    if not path.is_file():
        raise UserError(f"{path}: no such file, and no shipped policy of this name; shipped are {available_policies()}")
    return path


# ---------------------------------------------------------------------- files of named arrays


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """A safetensors file beside the target, then renamed over it: a reader never sees half of it."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        save_file(arrays, partial, metadata=dict(metadata))
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def read_tensors(path: str | os.PathLike[str], expected_format: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file of the given format; anything else is refused by name."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            found = metadata.get("format")
            if found != expected_format or "header" not in metadata:
                raise UserError(f"{path}: format is {found!r}, expected '{expected_format}'")
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error})") from error


def parse_header(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: header is not JSON ({error})") from error
    kinds = {"architecture": dict, "task": str, "observation": str, "vocabulary": list, "words_seen": list, "made": dict}
    for name, kind in kinds.items():
        if not isinstance(header.get(name), kind):
            raise UserError(f"{path}: header: '{name}' is {header.get(name)!r}, expected a {kind.__name__}")
    return header


def named_arrays(params: Params) -> dict[str, Any]:
    """The leaves of a pytree under names such as "actor/conv/0/kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def fill_tree(path: Path, expected: Params, tensors: Mapping[str, Any]) -> Params:
    """The arrays of a file in the shape of the expected pytree; every difference is refused by name."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(expected)
    names = [jax.tree_util.keystr(where, simple=True, separator="/") for where, _ in leaves]
    missing, extra = sorted(set(names) - set(tensors)), sorted(set(tensors) - set(names))
    if missing or extra:
        raise UserError(f"{path}: the network has other parameters: missing {missing or 'none'}, unknown {extra or 'none'}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        found = tensors[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise UserError(f"{path}: '{name}' is {found.dtype} {found.shape}, expected {leaf.dtype} {leaf.shape}")
    return jax.tree_util.tree_unflatten(treedef, [tensors[name] for name in names])


def _compare_architectures(path: Path, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name in sorted({*recorded, *given}):
        if recorded.get(name) != given.get(name):
            raise UserError(
                f"{path}: architecture: '{name}' is {recorded.get(name)!r} in the file, {given.get(name)!r} in your policy"
            )
