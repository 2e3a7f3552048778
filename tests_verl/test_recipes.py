"""The recipes for other trainers, against the real hooks of those packages that import without a GPU."""

import importlib.util
import os
import platform
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

OPENRLHF = """
import sys, types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
import numpy as np, peft, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, Trainer


class NotHere(MetaPathFinder, Loader):  # imported at the top of OpenRLHF's files; its advantages need none of them
    def find_spec(self, name, path=None, target=None):
        absent = name.split(".")[0] in ("deepspeed", "flash_attn", "vllm", "pylatexenc")
        return ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, NotHere())
import openrlhf_recipe
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from polychromic import polychromic_advantages

rng = np.random.default_rng(0)
rewards = rng.random(16)
texts = [f"{a}+1" if a < 3 else f"{a}+10" for a in rng.integers(0, 4, 16)]
places = rng.permutation(16)  # OpenRLHF balances its batches; groups of 8 are places 0 to 7 and 8 to 15
args = SimpleNamespace(
    rollout=SimpleNamespace(n_samples_per_prompt=8), reward=SimpleNamespace(clip_range=None),
    algo=SimpleNamespace(advantage=SimpleNamespace(estimator="dr_grpo", gamma=1.0)))
maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
maker.args, maker.strategy, maker.kl_ctl = args, SimpleNamespace(args=args), SimpleNamespace(value=0.0)
maker.advantage_estimator = "dr_grpo"
maker.tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "".join(map(chr, ids.tolist())))
experiences = []
for rows in np.split(np.arange(16), 4):
    answers = [texts[row].ljust(4, "~") for row in rows]
    tokens = torch.tensor([[0, 0, *map(ord, text)] for text in answers])
    experiences.append(Experience(
        sequences=tokens, action_mask=tokens[:, 2:] != ord("~"), kl=torch.zeros(4, 4, dtype=torch.float64),
        rewards=torch.tensor(rewards[rows]), index=[int(places[row]) for row in rows], info={}))
maker.compute_advantages_and_returns(experiences)
expected = polychromic_advantages(
    rewards, [openrlhf_recipe.key(text) for text in texts], group_ids=(places // 8).tolist(), set_size=4)
assert np.abs(expected).max() > 1e-2
found = torch.cat([experience.advantages for experience in experiences])
masks = torch.cat([experience.action_mask for experience in experiences])
np.testing.assert_allclose(found * masks, expected[:, None] * masks.numpy(), atol=1e-6)
print("agrees")
"""


PROGRAMS = {"skyrl": SKYRL, "trinity": TRINITY, "openrlhf": OPENRLHF}


@pytest.mark.parametrize("name", PROGRAMS)
def test_recipe(name, tmp_path):
    program = PROGRAMS[name]
    if name == "openrlhf" and (sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64"):
        pytest.skip("its package is built for Python 3.11 on x86-64 alone")
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
