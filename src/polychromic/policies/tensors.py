"""Pytrees of arrays in safetensors files: written with a checksum, read with errors that name every difference."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from polychromic.errors import UserError
from polychromic.files import CHECKSUM, decode_json, write_bytes


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """A safetensors file of named arrays with a checksum; metadata must have `format` and `header` for `read_tensors`.

    Equal content gives equal bytes: safetensors does not order its metadata, so it is sorted here.
    """
    arrays = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    described = {name: text for name, text in metadata.items() if name != CHECKSUM}
    data = save(arrays, {**described, CHECKSUM: _checksum(arrays, described)})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    write_bytes(path, b"".join([len(text).to_bytes(8, "little"), text, data[8 + length :]]))


def read_tensors(path: str | os.PathLike[str], expected_format: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file of the given format; anything else is refused.

    If the file has a checksum, it must match. Files of earlier versions have none.
    """
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            file_format = metadata.get("format")
            if file_format != expected_format:
                raise UserError(f"{path}: format is {file_format!r}, expected '{expected_format}'")
            if "header" not in metadata:
                raise UserError(f"{path}: 'header' is missing from the metadata")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (SafetensorError, OSError, TypeError, AttributeError) as error:  # the last two: a dtype that NumPy lacks
        raise UserError(f"{path}: not a complete safetensors file ({error})") from error
    described = {name: text for name, text in metadata.items() if name != CHECKSUM}
    if metadata.get(CHECKSUM, "") not in ("", _checksum(tensors, described)):
        raise UserError(f"{path}: the checksum does not match: the file was damaged or changed; use another copy of it")
    return tensors, metadata


def _checksum(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """SHA-256 over metadata and tensors, with their names, types and shapes."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name, array in sorted(tensors.items()):
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_finite(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Refuse infinite and NaN values."""
    for name, array in sorted(tensors.items()):
        if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
            raise UserError(f"{path}: '{name}' has numbers that are infinite or NaN; use another copy of the file")


def parse_object(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    """The JSON object in the header of a file."""
    header = decode_json(text, f"{path}: header is not JSON")
    if not isinstance(header, dict):
        raise UserError(f"{path}: header is a {type(header).__name__}, expected a JSON object")
    return header


def named_arrays(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree under names such as "actor/conv/0/kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def parameters_hash(params: Any) -> str:
    """A hash of these parameters: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, array in sorted(named_arrays(params).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()[:16]


def fill_tree(path: str | os.PathLike[str], expected: Any, tensors: Mapping[str, Any]) -> Any:
    """The arrays of a file in the structure of the expected pytree; errors name every difference."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(expected)
    names = [_name(where) for where, _ in leaves]
    missing, extra = sorted(set(names) - set(tensors)), sorted(set(tensors) - set(names))
    if missing or extra:
        raise UserError(
            f"{path}: the network's parameters differ: missing {missing or 'none'}, unknown {extra or 'none'}"
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        array = tensors[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise UserError(f"{path}: '{name}' is {array.dtype} {array.shape}, expected {leaf.dtype} {leaf.shape}")
    return jax.tree_util.tree_unflatten(treedef, [tensors[name] for name in names])


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
