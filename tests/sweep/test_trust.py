"""Received files: nothing that they name, and nothing that lies beside them, is imported without consent."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_tools import CHOICES, SETTINGS, attempts, without_checksum

import polychromic
from polychromic import UserError
from polychromic.cli import main
from polychromic.errors import Untrusted
from polychromic.files import write_json
from polychromic.policies.files import load_policy, save_policy
from polychromic.sweep.cells import find_cells, make_cells, write_cells
from polychromic.sweep.run_cell import one_thread
from polychromic.trust import EVERYTHING, NOTHING, Trust, consent, from_arguments, import_named, limited_to

EVIL = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
SPEC = None
def boom(returns, diversity):
    return returns.mean(axis=-1) * diversity
"""


@pytest.fixture
def received(tmp_path, monkeypatch):
    """A folder from somebody else, in which a command is typed."""
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / "evil.py").write_text(EVIL)
    monkeypatch.chdir(folder)
    paths = list(sys.path)
    yield folder
    sys.path[:] = paths
    sys.modules.pop("evil", None)


def cell_with(folder, policy_file, **changes):
    """A sweep of one cell with other settings."""
    settings = {**SETTINGS, **changes}
    cells = make_cells(["fourrooms"], ["poly-ppo"], [0], settings=settings, policy=str(policy_file))
    return write_cells(folder, cells)[0]


def objective_in_cell(folder, policy_file, _run, _evaluation):
    cell_with(folder / "sweep", policy_file, objective="evil:boom")
    return ["sweep", "--out", "sweep", "--workers", "1", "--retries", "0"]


def task_in_cell(folder, policy_file, run, evaluation):
    task_in_policy(folder, policy_file, run, evaluation)
    cell = cell_with(folder / "sweep", policy_file)
    described = without_checksum((cell / "cell.json").read_text())
    write_json(cell / "cell.json", {**described, "task": "evil:SPEC", "policy": str(folder / "p.safetensors")})
    return ["sweep", "--out", "sweep", "--workers", "1", "--retries", "0"]


def plan(folder, policy_file, _run, _evaluation):
    plan = {"tasks": ["fourrooms"], "methods": ["poly-ppo"], "seeds": [0], "policy": str(policy_file)}
    plan["settings"] = {**SETTINGS, "objective": "evil:boom"}
    (folder / "plan.json").write_text(json.dumps(plan))
    return ["sweep", "--file", "plan.json", "--attempts", "0", "--workers", "1", "--retries", "0"]


def varied_in_plan(folder, policy_file, run, evaluation):
    command = plan(folder, policy_file, run, evaluation)
    found = json.loads((folder / "plan.json").read_text())
    del found["settings"]["objective"]
    (folder / "plan.json").write_text(json.dumps({**found, "vary": {"objective": ["evil:boom"]}}))
    return command


def settings(folder, policy_file, _run, _evaluation):
    lines = [f"{name} = {value}" for name, value in SETTINGS.items()]
    (folder / "settings.toml").write_text("\n".join([*lines, 'objective = "evil:boom"']))
    return ["finetune", "fourrooms", "--policy", str(policy_file), "--settings", "settings.toml", "--out", "new"]


def task_in_policy(folder, policy_file, _run, _evaluation):
    saved = load_policy(policy_file)
    save_policy(folder / "p.safetensors", saved.policy, saved.params, replace(saved.info, task="evil:SPEC"))
    return ["evaluate", "p.safetensors", "--attempts", "2"]


def task_in_watched_policy(*given):
    task_in_policy(*given)
    return ["watch", "p.safetensors"]


def task_in_config(folder, _policy_file, run, _evaluation):
    (folder / "run").mkdir()
    for name in ("policy.safetensors", "metrics.jsonl", "evaluations.jsonl", "done.json"):
        (folder / "run" / name).write_bytes((run / name).read_bytes())
    described = without_checksum((run / "config.json").read_text())
    write_json(folder / "run" / "config.json", {**described, "task": "evil:SPEC"})
    return ["evaluate", "run", "--attempts", "2"]


def task_in_evaluation(folder, _policy_file, _run, evaluation):
    found = without_checksum(evaluation.read_text())
    write_json(folder / "evaluation.json", {**found, "task": "evil:SPEC"})
    return ["report", "evaluation.json"]


KINDS = [
    objective_in_cell, task_in_cell, plan, varied_in_plan, settings,
    task_in_policy, task_in_watched_policy, task_in_config, task_in_evaluation,
]  # fmt: skip


@pytest.fixture
def asked(request, received, policy_file, calm):
    run = find_cells(calm)[0]
    return request.param(received, policy_file, run, run / "evaluation.json")


@pytest.mark.parametrize("asked", KINDS, indirect=True, ids=lambda kind: kind.__name__)
def test_no_module_beside_a_file_is_imported_without_consent(asked, received, capsys):
    before = sorted(path.name for path in received.iterdir())
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "evil:" in said
    assert "--trust" in said
    assert said.count("\n") == 1
    assert "evil" not in sys.modules
    assert sorted(path.name for path in received.iterdir()) == before
    name = "evil:boom" if "evil:boom" in said else "evil:SPEC"
    code = main([*asked, "--trust" if asked[0] == "sweep" else f"--trust={name}"])
    assert (received / "imported").exists()
    # The function is a right objective; the task is none, which is told now that it could be looked at.
    assert code == 0 if name == "evil:boom" else "asks for" not in capsys.readouterr().err


def test_a_name_on_the_command_line_is_consent(received, policy_file, capsys):
    command = plan(received, policy_file, None, None)
    assert main([*command, "--set", "objective=evil:boom"]) == 0
    assert (received / "imported").exists()  # by a worker
    assert "evil" not in sys.modules
    (folder,) = find_cells(received / "sweep")
    assert [line.get("state") for line in attempts(folder)] == [None, "done"]
    capsys.readouterr()


def test_modules_in_the_working_folder_are_not_taken_for_others(received, policy_file):
    """With the names of modules that are imported all the time, and where JAX looks for plug-ins."""
    for name in ("queue.py", "selectors.py", "yaml.py", "wandb.py", "jax_plugins/trap.py", "ray.py"):
        path = received / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from pathlib import Path\nPath({str(received / 'imported')!r}).touch()\n")
    script = "import sys\nfrom polychromic.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", script, "sweep", *CHOICES, "--methods", "ppo", "--seeds", "0"]
    command += ["--policy", str(policy_file), "--out", "sweep", "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(polychromic.__file__).parents[1])}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (received / "imported").exists()


def test_a_cell_is_refused_in_the_worker_too(received, policy_file):
    from polychromic.sweep.run_cell import run_cell

    cell = cell_with(received / "sweep", policy_file, objective="evil:boom")
    outcome = run_cell(cell)
    assert (outcome.state, outcome.hopeless, outcome.kind) == ("failed", True, "untrusted")
    assert attempts(cell)[-1]["kind"] == "untrusted"
    assert not (received / "imported").exists()


def test_consent_is_read_from_arguments_and_ends_with_the_command():
    assert from_arguments(["--set", "objective=a.b:c", "--vary", "diversity=distinct,d:e", "x"]) == (
        Trust(names=frozenset({"a.b:c", "d:e"})),
        ["--set", "objective=a.b:c", "--vary", "diversity=distinct,d:e", "x"],
    )
    assert from_arguments(["run", "--trust"]) == (EVERYTHING, ["run"])
    assert from_arguments(["--trust=a:b", "run"]) == (Trust(names=frozenset({"a:b"})), ["run"])
    with limited_to(NOTHING):
        assert consent() == NOTHING
        with pytest.raises(Untrusted, match="asks for objective = 'json:loads', which would import and run 'json'"):
            import_named("objective", "json:loads")
    assert consent() == EVERYTHING
    assert import_named("objective", "json:loads") is json.loads
    with pytest.raises(UserError, match="objective is 'json:nothing', which cannot be imported"):
        import_named("objective", "json:nothing")


def test_what_is_compiled_is_kept_in_the_users_own_cache():
    found = one_thread({"XDG_CACHE_HOME": "/cache"})["JAX_COMPILATION_CACHE_DIR"]
    assert Path(found).parent == Path("/cache/polychromic/compiled")
    own = one_thread({"JAX_COMPILATION_CACHE_DIR": "/mine"})
    assert own["JAX_COMPILATION_CACHE_DIR"] == "/mine"
    assert one_thread({})["JAX_COMPILATION_CACHE_DIR"].startswith(str(Path.home()))


@pytest.mark.parametrize("name", ["cell.lock", "attempts.jsonl", "log.txt"])
def test_links_in_a_cell_are_not_written_through(received, policy_file, name):
    from polychromic.sweep.run_cell import run_cell

    cell = cell_with(received / "sweep", policy_file)
    precious = received / "precious"
    precious.write_text("mine")
    (cell / name).unlink(missing_ok=True)  # whoever wrote the cell has held it
    (cell / name).symlink_to(precious)
    outcome = run_cell(cell)
    assert precious.read_text() == "mine"
    if name != "attempts.jsonl":  # which no result needs
        assert outcome.kind == "mistake"
        assert "is a symbolic link" in outcome.message
