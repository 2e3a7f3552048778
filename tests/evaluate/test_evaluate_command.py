"""`polychromic evaluate` on policy files and runs, and what it says to everything else."""

import json

import pytest

from polychromic import finetune
from polychromic.cli import main


@pytest.fixture(scope="module")
def run(fourrooms, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "ppo"
    finetune(fourrooms, saved, method="ppo", iterations=1, budget=4, evaluation_rollouts=2, out=folder)
    return folder


def test_a_policy_file_gets_a_sweep_and_perturbed_starts(policy_file, tmp_path, capsys):
    out = tmp_path / "walker.json"
    options = ["--attempts", "8", "--configurations", "3", "--temperatures", "1.0", "0.5", "--perturbed"]
    assert main(["evaluate", str(policy_file), *options, "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert len(found["level_seeds"]) == 3
    assert [tried["temperature"] for tried in found["sweep"]] == [1.0, 0.5]
    assert found["policy"]["name"] == "walker"
    assert found["policy"]["method"] == "pretrained"
    assert found["best"]["perturbed"]["starts"] == found["result"]["perturbed"]["starts"] > 0
    printed = capsys.readouterr().out
    for part in ("success", "exactly", "best temperature", "other starts", str(out)):
        assert part in printed


def test_a_run_is_evaluated_into_its_folder(run, policy_file):
    assert main(["evaluate", str(run), "--attempts", "4", "--perturbed", "--pretrained", str(policy_file)]) == 0
    found = json.loads((run / "evaluation.json").read_text())
    assert found["policy"]["method"] == "ppo"
    assert found["policy"]["run_seed"] == 0
    assert "sweep" not in found
    assert len(found["result"]["pass_at_k"]["mean"]) == 4


def test_mistakes_get_one_line(run, policy_file, tmp_path, capsys):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_text((run / "config.json").read_text())
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "config.json").write_text("[]")
    (tmp_path / "broken.safetensors").write_bytes(b"no")
    cases = [
        (["nowhere"], "neither a run directory"),
        ([str(foreign)], "has no config.json"),
        ([str(half)], "has no policy.safetensors"),
        ([str(strange)], "not a run of polychromic finetune"),
        ([str(tmp_path / "broken.safetensors")], "not a whole safetensors file"),
        ([str(policy_file), "--attempts", "0"], "attempts is 0"),
        ([str(policy_file), "--configurations", "99"], "configurations is 99"),
        ([str(policy_file), "--out", str(tmp_path)], "a folder"),
        ([str(run), "--perturbed"], "pretrained is"),
    ]
    for arguments, expected in cases:
        assert main(["evaluate", *arguments]) == 2
        error = capsys.readouterr().err
        assert expected in error, error
        assert error.count("\n") == 1
