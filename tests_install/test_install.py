"""Fresh environments, each with nothing but what its extra brings: `make test-install`. It needs a registry."""

import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADVANTAGES = (
    "import polychromic, sys; "
    "print(polychromic.polychromic_advantages([1.0, 1.0, 0.0], ['a', 'b', 'b'], set_size=2).round(3).tolist()); "
    "print(sorted({'jax', 'numba', 'minigrid', 'matplotlib', 'scipy'} & set(sys.modules)))"
)


def installed(folder, extra=""):
    """A new environment with this package in it, from its source."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", f"{ROOT}{extra}"]
    subprocess.run(pip, check=True)
    return folder / "bin"


def run(bin_folder, *command, code=0, cwd=None):
    shown = subprocess.run([str(bin_folder / command[0]), *command[1:]], capture_output=True, text=True, cwd=cwd)
    assert shown.returncode == code, shown.stderr
    return shown.stdout + shown.stderr


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("base"))


def test_the_core_needs_numpy_alone(base):
    assert run(base, "python", "-c", ADVANTAGES).splitlines() == ["[0.25, 0.0, -0.25]", "[]"]
    names = run(base, "pip", "list", "--format=freeze", "--disable-pip-version-check").splitlines()
    others = {name.partition("==")[0].lower() for name in names} - {"pip", "setuptools"}
    assert others == {"numpy", "polychromic"}


def test_what_is_missing_names_its_extra(base):
    assert "pip install 'polychromic[rl]'" in run(base, "polychromic", "finetune", "fourrooms", code=2)
    told = run(base, "python", "-c", "import polychromic; polychromic.finetune", code=1)
    assert told.splitlines()[-1].endswith("pip install 'polychromic[rl]'")
    assert "fine-tune" in run(base, "polychromic", "--help")


def test_the_extra_for_rl_fine_tunes(tmp_path):
    folder = installed(tmp_path / "rl", "[rl]")
    small = ["--iterations", "1", "--budget", "12", "--configurations-per-iteration", "1", "--evaluation-rollouts", "1"]
    told = run(folder, "polychromic", "finetune", "fourrooms", "--method", "ppo", *small, cwd=tmp_path)
    assert "success" in told
