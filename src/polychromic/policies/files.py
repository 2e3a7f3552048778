"""Policies on disk: safetensors with a JSON header. Loading reads numbers and text, never code."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypedDict

import jax

from polychromic.errors import UserError
from polychromic.files import Int, checked
from polychromic.policies.networks import NETWORKS, build_policy
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import (
    check_finite,
    fill_tree,
    named_arrays,
    parameters_hash,
    parse_object,
    read_tensors,
    write_tensors,
)

FORMAT = "polychromic-policy-1"


@dataclass(frozen=True)
class PolicyInfo:
    """The header of a policy file, without the architecture."""

    task: str = ""  # the Gymnasium id of the level that it was trained on
    observation: str = ""  # "partial" or "full"
    vocabulary: tuple[str, ...] = ()  # word of each token id
    words_seen: tuple[str, ...] = ()  # the words that occurred in its training missions
    configurations: tuple[int, ...] = ()  # level seeds to fine-tune and score it on
    made: Mapping[str, Any] = field(default_factory=dict)  # command, demonstrations, seed, versions, scores
    source: str = "<memory>"  # the file it came from, for messages


@dataclass(frozen=True)
class SavedPolicy:
    """A policy with its parameters (NumPy arrays) and what is known about it."""

    policy: Policy
    params: Params
    info: PolicyInfo


def save_policy(
    path: str | os.PathLike[str],
    policy: Policy | SavedPolicy,
    params: Params = None,
    info: PolicyInfo | None = None,
) -> None:
    """Write parameters and header; the file appears whole or not at all.

    policy: a network, whose `params` and `info` follow; or all three in one, as `polychromic.finetune` gives them.
    """
    if isinstance(policy, SavedPolicy):
        if params is not None or info is not None:
            raise UserError("params and info are part of the policy that is given; leave them out")
        save_policy(path, policy.policy, policy.params, policy.info)
        return
    info = info or PolicyInfo()
    header = {
        "architecture": dict(policy.architecture),
        "name": policy.name,
        "task": info.task,
        "observation": info.observation,
        "vocabulary": list(info.vocabulary),
        "words_seen": list(info.words_seen),
        "configurations": list(info.configurations),
        "made": dict(info.made),
    }
    metadata = {"format": FORMAT, "header": json.dumps(header, ensure_ascii=False)}
    write_tensors(path, named_arrays(params), metadata)


def load_policy(name: str | os.PathLike[str], policy: Policy | None = None) -> SavedPolicy:
    """A shipped base policy by name (`available_policies()`), or the policy in a file.

    policy: your own network, if the file was saved with one; architecture and parameters' names and shapes must match.
    """
    path = policy_path(name)
    tensors, metadata = read_tensors(path, FORMAT)
    header = _parse_header(path, metadata["header"])
    recorded = header["architecture"]
    check_finite(path, tensors)
    if policy is None:
        _check_size(path, recorded, len(tensors))
        policy, expected = _build_recorded(path, recorded)
    else:
        _compare_architectures(path, recorded, json.loads(json.dumps(dict(policy.architecture))))
        expected = jax.eval_shape(policy.init, jax.random.key(0))
    return SavedPolicy(policy, fill_tree(path, expected, tensors), _info(path, header))


def read_identity(name: str | os.PathLike[str]) -> tuple[PolicyInfo, str]:
    """The header of a policy file and its `parameters_hash`; no network is built. Files are read once."""
    path = policy_path(name)
    changed = path.stat()
    return _read_identity(path, changed.st_mtime_ns, changed.st_size)


@functools.lru_cache(maxsize=256)
def _read_identity(path: Path, _changed: int, _size: int) -> tuple[PolicyInfo, str]:
    tensors, metadata = read_tensors(path, FORMAT)
    return _info(path, _parse_header(path, metadata["header"])), parameters_hash(tensors)


def _info(path: Path, header: Mapping[str, Any]) -> PolicyInfo:
    return PolicyInfo(
        task=header["task"],
        observation=header["observation"],
        vocabulary=tuple(header["vocabulary"]),
        words_seen=tuple(header["words_seen"]),
        configurations=tuple(header["configurations"]),
        made=header["made"],
        source=str(path),
    )


@functools.lru_cache(maxsize=32)
def _network(architecture: str) -> Policy:
    """Files with the same architecture share one policy, and with it the compiled code."""
    return build_policy(json.loads(architecture))


def available_policies() -> list[str]:
    """The names of the base policies shipped with the package."""
    folder = resources.files("polychromic.policies") / "base"
    if not folder.is_dir():
        return []
    return sorted(
        file.name.removesuffix(".safetensors") for file in folder.iterdir() if file.name.endswith(".safetensors")
    )


def policy_path(name: str | os.PathLike[str]) -> Path:
    """The file of a shipped policy, or the given path."""
    if isinstance(name, str) and name in available_policies():
        return Path(str(resources.files("polychromic.policies") / "base" / f"{name}.safetensors"))
    path = Path(name)
    if not path.is_file():
        raise UserError(f"{path}: no such file, and no shipped policy of this name; shipped are {available_policies()}")
    return path


def _build_recorded(path: Path, recorded: Mapping[str, Any]) -> tuple[Policy, Any]:
    """The policy of an architecture from a file, and the shapes of its parameters."""
    network = recorded.get("network")
    if not isinstance(network, str) or network not in NETWORKS:
        raise UserError(
            f"{path}: architecture: network is {network!r}, which is not a built-in network "
            f"({', '.join(NETWORKS)}); give your own with load_policy(path, policy)"
        )
    try:
        policy = _network(json.dumps(recorded, sort_keys=True))
        return policy, jax.eval_shape(policy.init, jax.random.key(0))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:  # bad options can fail in any layer
        raise UserError(f"{path}: architecture: these options do not fit a '{network}' network ({error})") from error


def _check_size(path: Path, recorded: Mapping[str, Any], num_tensors: int) -> None:
    """Refuse an architecture of more layers than the file has tensors before any of them is built."""
    for name, value in recorded.items():
        layers = len(value) if isinstance(value, list) and name != "code_triples" else 0
        layers = value if "layers" in name and isinstance(value, int) else layers
        if layers > num_tensors:
            raise UserError(f"{path}: architecture: '{name}' makes {layers} layers, the file has {num_tensors} tensors")


class _Header(TypedDict):
    task: str
    observation: str
    architecture: dict[str, Any]
    made: dict[str, Any]
    vocabulary: list[str]
    words_seen: list[str]
    configurations: list[Int]


def _parse_header(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    return checked(parse_object(path, text), _Header, f"{path}: header")  # type: ignore[no-any-return]


def _compare_architectures(path: Path, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name in sorted({*recorded, *given}):
        if recorded.get(name) != given.get(name):
            raise UserError(
                f"{path}: architecture: '{name}' is {recorded.get(name)!r} in the file, "
                f"{given.get(name)!r} in your policy"
            )
