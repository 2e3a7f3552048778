"""Sweeps of tiny runs: a walker on four FourRooms, four iterations of twenty trajectories."""

import contextlib
import io

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from sweep_tools import TINY

import polychromic
from polychromic.cli import main
from polychromic.policies.files import save_policy
from walkers import walker

MIN_COMPILE_SECONDS = "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture(scope="session", autouse=True)
def shared_code(tmp_path_factory):
    """What one process has compiled, this one included, serves all others: compiling is most of what tiny runs cost."""
    folder = tmp_path_factory.mktemp("compiled")
    kept = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", MIN_COMPILE_SECONDS)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
        patch.setenv(MIN_COMPILE_SECONDS.upper(), "0")
        patch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")  # part of what compiled code is kept under
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update(MIN_COMPILE_SECONDS, 0.0)
        compilation_cache.reset_cache()
        yield
    for name, value in kept.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory):
    """The walker as a file."""
    path = tmp_path_factory.mktemp("policy") / "walker.safetensors"
    saved = walker(polychromic.make("fourrooms", seeds=range(4)))
    save_policy(path, saved.policy, saved.params, saved.info)
    return path


@pytest.fixture(scope="session")
def calm(policy_file, tmp_path_factory):
    """An undisturbed sweep of six cells on one worker."""
    folder = tmp_path_factory.mktemp("calm")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(["sweep", *TINY, "--policy", str(policy_file), "--out", str(folder), "--workers", "1"])
    assert code == 0
    assert "6 of 6 cells done" in printed.getvalue()
    return folder
