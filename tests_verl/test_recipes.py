"""The recipes for other trainers, against the real hooks of those packages that import without a GPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = Path(sys.prefix) / "recipes"

SKYRL = """
import typing, typing_extensions
typing.TypedDict = typing_extensions.TypedDict  # SkyRL is written for Python 3.12, where these are the same
import numpy as np, torch
from types import SimpleNamespace
import skyrl_recipe
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_advantages_and_returns
from polychromic import polychromic_advantages

TEXTS = ["1+1", "1+2", "1+1", "", "3+1", "1+1", "2+2", "1+2", "5+1", "1+5"] * 2
rng = np.random.default_rng(0)
rewards, uids = rng.random(20), np.array(["a"] * 10 + ["b"] * 10, dtype=object)[rng.permutation(20)]
tokens = torch.tensor([[0, 0, *map(ord, text.ljust(4, "~"))] for text in TEXTS])
mask = (tokens[:, 2:] != ord("~")).long()
scores = torch.zeros(20, 4, dtype=torch.float64)
scores[:, 0] = torch.tensor(rewards)


class Trainer:  # what SkyRL's own does in this method
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "".join(map(chr, ids.tolist())))

    def compute_advantages_and_returns(self, data):
        return compute_advantages_and_returns(
            token_level_rewards=data["rewards"], response_mask=data["response_mask"], index=uids,
            adv_estimator="polychromic", config=None, values=None)


class Polychromic(skyrl_recipe.ShowsResponses, Trainer):
    pass


found, _ = Polychromic().compute_advantages_and_returns(
    {"sequences": tokens, "response_mask": mask, "rewards": scores})
expected = polychromic_advantages(rewards, [skyrl_recipe.key(t) for t in TEXTS], group_ids=uids, set_size=4)
assert np.abs(expected).max() > 1e-2
np.testing.assert_allclose(found, expected[:, None] * mask.numpy(), atol=1e-6)
print("agrees")
"""

TRINITY = """
import numpy as np, torch
import trinity_recipe
from trinity.algorithm.advantage_fn import ADVANTAGE_FN
from trinity.common.experience import EID, Experience
from polychromic import polychromic_advantages

rng = np.random.default_rng(0)
rewards = rng.random(16)
texts = [f"{a}+1" for a in rng.integers(0, 3, 16)]
groups = rng.permutation([0] * 8 + [1] * 8)
exps = [
    Experience(eid=EID(batch=0, task=int(g)), tokens=[1, 2, 3, 4], prompt_length=2, reward=float(r), response_text=t,
               logprobs=[0.0, 0.0])
    for g, r, t in zip(groups, rewards, texts)
]
function = ADVANTAGE_FN.get("polychromic")
exps_out, metrics = function(**function.default_args())(exps)
assert not function.compute_in_trainer()
expected = polychromic_advantages(rewards, [trinity_recipe.key(t) for t in texts], group_ids=groups, set_size=4)
assert np.abs(expected).max() > 1e-2
for exp, advantage in zip(exps, expected):
    np.testing.assert_allclose(exp.advantages, advantage * np.ones(2), atol=1e-6)
assert any("distinct_answers" in name for name in metrics)
print("agrees")
"""


@pytest.mark.parametrize(("name", "program"), [("skyrl", SKYRL), ("trinity", TRINITY)])
def test_recipe(name, program, tmp_path):
    assert (PACKAGES / name).is_dir(), "make .venv-verl/recipes/.ready"
    # By another name: inside the file, `skyrl` is the package.
    (tmp_path / f"{name}_recipe.py").write_text((ROOT / "examples" / "recipes" / f"{name}.py").read_text())
    paths = [tmp_path, PACKAGES, PACKAGES / "skyrl-gym", ROOT / "src"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VERL_USE_EXTERNAL_PLUGINS": "none",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1] == "agrees"


def test_recipes_that_were_only_read_are_python():
    for path in sorted((ROOT / "examples" / "recipes").glob("*.py")):
        compile(path.read_text(), str(path), "exec")
    assert importlib.util.find_spec("nemo_rl") is None  # else it could be run here
