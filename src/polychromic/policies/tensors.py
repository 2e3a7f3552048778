"""Pytrees of arrays in safetensors files: written whole or not at all, read with every difference named."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from polychromic.errors import UserError

PARTIAL = ".partial"  # how the names of files end that are being written, or were when their process was killed


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, beside the target; at the end it replaces the target, after an error it is removed.

    A reader sees the old file or the new one, never half of one. A kill leaves a hidden file that ends in .partial.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=PARTIAL)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        # Temporary files are private; the result gets what any new file gets.
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def remove_partial(folder: Path, names: Iterable[str], older_than: float = 0.0) -> None:
    """Remove what kills left of the files with these names, or patterns of them; nobody else may be writing them.

    older_than: seconds; where others may, only what nobody can be writing any more.
    """
    for name in names:
        for partial in folder.glob(f".{name}.*{PARTIAL}"):
            with contextlib.suppress(OSError):
                if time.time() - partial.stat().st_mtime >= older_than:
                    partial.unlink()


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """A safetensors file of named arrays; metadata must have `format` and `header` for `read_tensors`."""
    with whole_file(path) as partial:
        save_file({name: np.asarray(value, order="C") for name, value in tensors.items()}, partial, dict(metadata))
        _sort_metadata(partial)


def _sort_metadata(path: Path) -> None:
    """Put the metadata into one order: safetensors writes it in any, and equal content should be equal bytes."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(length)
        if len(text) != length:
            raise OSError(f"{path}: the header has another length after sorting")
        file.seek(8)
        file.write(text)


def read_tensors(path: str | os.PathLike[str], expected_format: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file of the given format; anything else is refused by name."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            found = metadata.get("format")
            if found != expected_format:
                raise UserError(f"{path}: format is {found!r}, expected '{expected_format}'")
            if "header" not in metadata:
                raise UserError(f"{path}: 'header' is missing from the metadata")
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (SafetensorError, OSError, TypeError, AttributeError) as error:  # the last two: a type that NumPy has not
        raise UserError(f"{path}: not a whole safetensors file ({error})") from error


def parse_object(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    """The JSON object in the header of a file."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise UserError(f"{path}: header is a {type(header).__name__}, expected a JSON object")
    return header


def named_arrays(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree under names such as "actor/conv/0/kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def parameters_hash(params: Any) -> str:
    """A short name for these exact parameters: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, array in sorted(named_arrays(params).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()[:16]


def fill_tree(path: str | os.PathLike[str], expected: Any, tensors: Mapping[str, Any]) -> Any:
    """The arrays of a file in the shape of the expected pytree; every difference is refused by name."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(expected)
    names = [_name(where) for where, _ in leaves]
    missing, extra = sorted(set(names) - set(tensors)), sorted(set(tensors) - set(names))
    if missing or extra:
        raise UserError(
            f"{path}: the network has other parameters: missing {missing or 'none'}, unknown {extra or 'none'}"
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        found = tensors[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise UserError(f"{path}: '{name}' is {found.dtype} {found.shape}, expected {leaf.dtype} {leaf.shape}")
    return jax.tree_util.tree_unflatten(treedef, [tensors[name] for name in names])


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
