"""Files: whole or not at all, every fault in one line, links refused, one process at a time."""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polychromic.errors import UserError
from polychromic.files import (
    Float,
    Int,
    lock_file,
    open_log,
    read_json,
    read_json_or,
    read_lines,
    read_table,
    readable_lines,
    remove_partial,
    whole_file,
    write_json,
    write_text,
)
from polychromic.policies.tensors import read_tensors, write_tensors


class Inner(TypedDict):
    mean: Float
    count: NotRequired[Int]


class Outer(TypedDict):
    name: str
    parts: list[Inner]


NOT_JSON = {
    "nothing": b"",
    "half": b'{"a": [1, 2',
    "more": b'{"a": 1} x',
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "large": b'{"a": 1e999}',
    "deep list": b"[" * 200_000,
    "deep table": b'{"a":' * 200_000,
    "lone surrogate": b'{"a": "\\ud800"}',
    "bytes": b'{"a": "\xff\xfe"}',
    "zeros": b"\0" * 64,
}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_one_line_with_the_name_of_the_file(content, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    for read in (read_json, lambda path: read_table("settings", path)):
        with pytest.raises(UserError, match=r"file\.json") as raised:
            read(path)
        assert "\n" not in str(raised.value)
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"iteration": 0}\n' + content.replace(b"\n", b"") + b"\n")
    if content:
        with pytest.raises(UserError, match=r"log\.jsonl is damaged: line 2"):
            read_lines(log)
    assert readable_lines(log.read_bytes()) == [{"iteration": 0}]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "it is a list; it must be a table"),
        ({"parts": []}, "it has no 'name'"),
        ({"name": 3, "parts": []}, "'name' is a whole number; it must be a string"),
        ({"name": "x", "parts": [{}]}, r"it has no 'parts\[0\].mean'"),
        ({"name": "x", "parts": [{"mean": True}]}, r"'parts\[0\].mean' is true or false; it must be a number"),
        ({"name": "x", "parts": [{"mean": 1e300}]}, r"'parts\[0\].mean' is out of range"),
        ({"name": "x", "parts": [{"mean": 10**400}]}, r"'parts\[0\].mean' is out of range"),
        ({"name": "x", "parts": [{"mean": 1, "count": 1.5}]}, r"'parts\[0\].count' is a number; it must be a whole"),
    ],
)
def test_wrong_entries_are_named(value, message, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(value))
    with pytest.raises(UserError, match=f"file.json is damaged: {message}"):
        read_json(path, Outer)
    assert read_json_or(path, Outer, "other") == "other"


def test_a_right_file_is_read_with_all_of_its_entries(tmp_path):
    value = {"name": "ü", "parts": [{"mean": 1}], "more": None}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json", Outer) == value
    assert read_json_or(tmp_path / "nowhere.json", Outer, 3) == 3


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(value=st.dictionaries(st.text(max_size=5).filter(lambda name: name != "checksum"), json_values, max_size=4))
def test_whatever_is_written_is_read_back(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "file.json"
    for indent in (1, None):
        write_json(path, value, indent=indent)
        assert read_json(path) == value


def test_names_of_files_that_are_not_unicode_can_be_written(tmp_path):
    write_json(tmp_path / "file.json", {"command": os.fsdecode(b"polychromic evaluate \xff")})
    assert read_json(tmp_path / "file.json") == {"command": "polychromic evaluate ?"}


@pytest.mark.parametrize("indent", [1, None])
def test_no_flipped_bit_changes_what_is_read(tmp_path, indent):
    path = tmp_path / "file.json"
    value = {"success": 0.53125, "name": "goto", "seeds": [1, 22], "nested": {"a": True}}
    write_json(path, value, indent=indent)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                found = read_json(path)
            except UserError:
                refused += 1
            else:
                # White space may change, and the name of the checksum, without which a file is as an earlier version's.
                assert {name: found[name] for name in value} == value
    assert refused > 0.8 * 8 * len(whole)


def test_no_flipped_bit_changes_the_tensors_that_are_read(tmp_path):
    path = tmp_path / "file.safetensors"
    tensors = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.array(7, np.int64), "c": np.zeros((0, 2))}
    write_tensors(path, tensors, {"format": "x", "header": '{"iteration": 4}'})
    whole = path.read_bytes()
    read_tensors(path, "x")
    refused = []
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            found, metadata = read_tensors(path, "x")
        except UserError as error:
            refused.append(str(error))
        else:
            assert metadata["header"] == '{"iteration": 4}'
            assert {name: (value.dtype, value.tolist()) for name, value in found.items()} == {
                name: (value.dtype, value.tolist()) for name, value in tensors.items()
            }
    assert len(refused) > 0.9 * len(whole)
    assert not any("\n" in said for said in refused)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as partial:
        partial.write_text("new, but" * (1 // 0))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


KILLED = """
import os, signal, sys
import numpy as np
from polychromic.policies.tensors import write_tensors
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_tensors(sys.argv[1], {"a": np.zeros(1000)}, {"format": "x", "header": "{}"})
"""


def test_a_kill_amid_a_write_leaves_one_kind_of_file_which_is_removed(tmp_path):
    path = tmp_path / "policy.safetensors"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".policy.safetensors.")
    assert left.name.endswith(".partial")
    remove_partial(tmp_path, ("another.safetensors",))
    assert left.exists()
    remove_partial(tmp_path, ("policy*",))
    assert not left.exists()


def test_links_are_refused_where_files_are_changed_in_place(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(precious)
    for opened in (lock_file, open_log):
        with pytest.raises(UserError, match="link is a symbolic link; nothing is written through links"):
            opened(link)
    write_text(link, "another file in its place")
    assert precious.read_text() == "mine"


def test_a_lock_is_held_by_one_and_leaves_the_content_alone(tmp_path):
    path = tmp_path / ".lock"
    path.write_text("who")
    with lock_file(path):
        with pytest.raises(BlockingIOError):
            lock_file(path)
        waited = threading.Thread(target=lambda: lock_file(path, wait=True).close())
        waited.start()
        waited.join(0.2)
        assert waited.is_alive()
    waited.join()
    assert path.read_text() == "who"
