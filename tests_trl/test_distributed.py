"""Two processes, with a group spread over both, do what one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trl
from runs import enumerated_batch

SCRIPT = Path(__file__).with_name("distributed_run.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """(rank, number of processes) -> what that process saw.

    24 completions a step, three groups of 8, in every run; of two processes each has one group and half of another.
    """
    folder = tmp_path_factory.mktemp("distributed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)  # the example's folder, and the TRL that is tested here
    for processes in (1, 2):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        done = subprocess.run(
            [*launcher, str(SCRIPT), str(24 // processes), str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
    return {
        (rank, world): json.loads((folder / f"{rank}-of-{world}.json").read_text())
        for rank, world in ((0, 1), (0, 2), (1, 2))
    }


def test_the_processes_use_the_same_trl(results):
    assert {result["trl"] for result in results.values()} == {trl.__version__}


@pytest.mark.parametrize("way", ["key", "random", "judge", "equivalent", "embed", "threshold"])
def test_two_processes_equal_one(results, way):
    one = results[0, 1][way]
    assert len(one["steps"]) == 3
    for rank in (0, 1):
        two = results[rank, 2][way]
        for single, double in zip(one["steps"], two["steps"], strict=True):
            assert single["completions"] == double["completions"]
            assert np.abs(single["advantages"]).max() > 1e-3
            np.testing.assert_allclose(double["advantages"], single["advantages"], rtol=0, atol=1e-6)
            # Each process trains on its own half of the completions.
            mine = single["advantages"][12 * rank : 12 * rank + 12]
            np.testing.assert_allclose(np.sort(double["used_here"]), np.sort(mine), rtol=0, atol=1e-6)
        for name, weights in one["weights"].items():
            np.testing.assert_allclose(two["weights"][name], weights, rtol=0, atol=1e-5, err_msg=name)
    for single, double in zip(one["figures"], results[0, 2][way]["figures"], strict=True):
        assert single == pytest.approx(double, abs=1e-5)


@pytest.mark.parametrize("way", ["key", "judge", "equivalent"])
def test_every_process_ends_up_with_the_enumerated_advantages(results, way):
    for result in results.values():
        for step in result[way]["steps"]:
            expected = enumerated_batch(step["prompts"], step["completions"], 8)
            np.testing.assert_allclose(step["advantages"], expected, rtol=2.5e-7, atol=1e-8)


def test_each_group_is_judged_by_one_process(results):
    # Three groups a step, three steps.
    calls = [results[place]["judge"]["calls"]["judge"] for place in ((0, 1), (0, 2), (1, 2))]
    assert calls == [9, 6, 3]


@pytest.mark.parametrize("way", ["failing_key", "failing_judge"])
def test_a_mistake_in_one_process_is_raised_in_both(results, way):
    here, there = results[0, 2][way]["error"], results[1, 2][way]["error"]
    assert "only the second process fails" in there
    assert here == f"process 1 failed: UserError: {there}"
