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
import sys
import numpy as np, ray, torch
from types import SimpleNamespace
from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch, pad_training_input_batch
from skyrl.backends.skyrl_train.utils.ppo_utils import sync_registries
from skyrl.train.entrypoints import main_base
from skyrl.train.trainer import RayPPOTrainer
from polychromic import polychromic_advantages

# The entry point, up to the models: what starts the cluster and builds them needs GPUs.
sys.argv[1:] = [
    "trainer.override_entrypoint=skyrl_recipe", "trainer.algorithm.advantage_estimator=polychromic",
    "trainer.algorithm.advantage_batch_normalize=false", "generator.n_samples_per_prompt=10"]
import skyrl_recipe
started = []
skyrl_recipe.validate_cfg = skyrl_recipe.initialize_ray = lambda cfg: None
skyrl_recipe.run = SimpleNamespace(remote=started.append)
skyrl_recipe.ray = SimpleNamespace(get=lambda reference: None)
main_base.main()
[cfg] = started
RayPPOTrainer.__init__ = lambda self, **given: vars(self).update(given)
tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "".join(map(chr, ids.tolist())))
exp = skyrl_recipe.PolychromicExp.__new__(skyrl_recipe.PolychromicExp)
trainer = exp.get_trainer(cfg=cfg, tokenizer=tokenizer, all_metrics={})
assert isinstance(trainer, RayPPOTrainer)

# Its own method, with the batch that it would be given, filled up to a multiple of the workers.
TEXTS = ["1+1", "1+2", "1+1", "", "3+1", "1+1", "2+2", "1+2", "5+1", "1+5"] * 2
rng = np.random.default_rng(0)
rewards, uids = rng.random(20), [str(uid) for uid in np.array(["a"] * 10 + ["b"] * 10)[rng.permutation(20)]]
tokens = torch.tensor([[0, 0, *map(ord, text.ljust(4, "~"))] for text in TEXTS])
mask = (tokens[:, 2:] != ord("~")).long()
scores = torch.zeros(20, 4, dtype=torch.float64)
scores[:, 0] = torch.tensor(rewards)
batch = TrainingInputBatch(
    {"sequences": tokens, "response_mask": mask, "loss_mask": mask, "rewards": scores, "values": None})
batch.metadata = {"uids": uids, "avg_response_length": 3.0}
expected = polychromic_advantages(rewards, [skyrl_recipe.key(t) for t in TEXTS], group_ids=uids, set_size=4)
assert np.abs(expected).max() > 1e-2


def agrees(data):
    found = trainer.compute_advantages_and_returns(data)["advantages"]
    np.testing.assert_allclose(found[:20], expected[:, None] * mask.numpy(), atol=1e-6)
    assert not found[20:].any()
    return len(found)


assert agrees(pad_training_input_batch(batch, 0)) == 20
assert agrees(pad_training_input_batch(batch, 4)) == 24
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

NEMO_RL = """
import sys, types
from types import SimpleNamespace
import numpy as np, torch

# Its package on PyPI is a placeholder: a module with the name that the recipe replaces, and batches as it was read.
grpo = types.ModuleType("nemo_rl.algorithms.grpo")
algorithms = types.ModuleType("nemo_rl.algorithms")
algorithms.grpo = grpo
sys.modules |= {"nemo_rl": types.ModuleType("nemo_rl"), "nemo_rl.algorithms": algorithms, grpo.__name__: grpo}
import nemo_rl_recipe
from polychromic import polychromic_advantages

config = SimpleNamespace(grpo=SimpleNamespace(num_generations_per_prompt=8))
estimator = grpo._create_advantage_estimator(config)
rng = np.random.default_rng(0)
rewards = rng.random(24)
texts = [f"{a}+1" if a < 3 else f"{a}+10" for a in rng.integers(0, 4, 24)]
labels = np.array([nemo_rl_recipe.key(text) for text in texts])
prompts = torch.tensor([[5, 6]] * 16 + [[5, 7]] * 8)  # the first two are equal
logs = [[{"role": "user", "content": "9"}, {"role": "assistant", "content": text}] for text in texts]
given = {"prompt_ids": prompts, "rewards": torch.tensor(rewards), "mask": torch.ones(24, 5),
         "repeated_batch": {"message_log": logs}, "logprobs_policy": None}
groups = np.repeat([0, 1, 2], 8)


def expected(rows):
    advantages = np.zeros(24)
    advantages[rows] = polychromic_advantages(rewards[rows], labels[rows], group_ids=groups[rows], set_size=4)
    return np.repeat(advantages[:, None], 5, axis=1)


def refused(message, **changes):
    try:
        estimator.compute_advantage(**{**given, **changes})
    except ValueError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)


everything = expected(np.arange(24))
assert np.abs(everything).max() > 1e-2
np.testing.assert_allclose(estimator.compute_advantage(**given), everything, atol=1e-12)
np.testing.assert_allclose(estimator.compute_advantage(**given, valid_mask=torch.ones(24)), everything, atol=1e-12)
# Of the first group three are not valid; of the second four, so that it has a single set.
valid = np.array([1, 0, 1, 0, 1, 1, 0, 1] + [0, 1] * 4 + [1] * 8)
rows = np.flatnonzero(valid * (groups != 1))
found = estimator.compute_advantage(**given, valid_mask=torch.tensor(valid, dtype=torch.float32))
np.testing.assert_allclose(found, expected(rows), atol=1e-12)
assert np.abs(found[:8] - everything[:8]).max() > 1e-2
assert not estimator.compute_advantage(**given, valid_mask=torch.zeros(24)).any()
refused("answer different prompts", prompt_ids=prompts.roll(1, 0))
refused("does not show responses", repeated_batch={"total_reward": torch.tensor(rewards)})
print("agrees")
"""


PROGRAMS = {"skyrl": SKYRL, "trinity": TRINITY, "openrlhf": OPENRLHF, "nemo_rl": NEMO_RL}


@pytest.mark.parametrize("name", PROGRAMS)
def test_recipe(name, tmp_path):
    program = PROGRAMS[name]
    if name == "openrlhf" and (sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64"):
        pytest.skip("its package is built for Python 3.11 on x86-64 alone")
    assert name == "nemo_rl" or (PACKAGES / name).is_dir(), "make .venv-verl/recipes/.ready"
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
