"""`polychromic evaluate` on policy files and runs, and what it says to everything else."""

import json

from polychromic.cli import main


def test_a_policy_file_gets_a_sweep_and_perturbed_starts(results, tmp_path, capsys):
    out = tmp_path / "walker.json"
    options = ["--attempts", "8", "--configurations", "3", "--temperatures", "1.0", "0.5", "--perturbed"]
    assert main(["evaluate", str(results["policy"]), *options, "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert len(found["level_seeds"]) == 3
    assert [tried["temperature"] for tried in found["sweep"]] == [1.0, 0.5]
    assert found["policy"]["name"] == "walker"
    assert found["policy"]["method"] == "pretrained"
    assert found["best"]["perturbed"]["starts"] == found["result"]["perturbed"]["starts"] > 0
    printed = capsys.readouterr().out
    for part in ("success", "exactly", "best temperature", "other starts", str(out)):
        assert part in printed


def test_a_run_is_evaluated_into_its_folder(results):
    found = json.loads((results["ppo"] / "evaluation.json").read_text())
    assert found["policy"]["method"] == "ppo"
    assert found["policy"]["run_seed"] == 0
    assert "sweep" not in found
    assert len(found["result"]["pass_at_k"]["mean"]) == 16
    base = json.loads(results["base"].read_text())
    perturbed = found["result"]["perturbed"]
    assert perturbed["pretrained"] == base["policy"]["hash"] != found["policy"]["hash"]
    # The same starts for every method.
    assert perturbed["configurations"]["starts"] == base["result"]["perturbed"]["configurations"]["starts"]


def test_mistakes_get_one_line(results, tmp_path, capsys):
    run, policy_file = results["ppo"], results["policy"]
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
        ([str(tmp_path / "broken.safetensors")], "not a complete safetensors file"),
        ([str(policy_file), "--attempts", "0"], "attempts is 0"),
        ([str(policy_file), "--attempts", "1000000000"], "attempts is 1000000000"),
        ([str(policy_file), "--seed", "-1"], "seed is -1"),
        ([str(policy_file), "--configurations", "99"], "configurations is 99"),
        ([str(policy_file), "--out", str(tmp_path)], "a folder"),
        ([str(run), "--perturbed"], "pretrained is"),
    ]
    for arguments, expected in cases:
        assert main(["evaluate", *arguments]) == 2
        error = capsys.readouterr().err
        assert expected in error, error
        assert error.count("\n") == 1
