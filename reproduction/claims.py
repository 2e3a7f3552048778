"""What the paper claims, as data: add a claim here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polychromic.sweep.cells import PRETRAINED
from reproduction.plan import Plan
from reproduction.plans import CHOSEN, CONVERGENCE, PAPER, TABLES
from reproduction.words import SEEDS

SLIGHT = 0.2  # the largest difference that can be called slight
AS_MUCH = 0.05  # the largest difference that counts as none
MANY = "pass@128"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about the grid tasks: the first of two methods is above (sign 1) or below (−1) the other."""

    text: str
    metric: str
    pairs: tuple[tuple[str, str], ...]
    sign: Literal[1, -1] = 1
    plan: Plan = TABLES
    part: str = CHOSEN
    paper: str = ""  # what the paper says, where it prints no numbers
    seeds: int = SEEDS
    somewhere: bool = False  # the claim is that it holds on some tasks, not on their mean
    tasks: tuple[str, ...] = ()  # if it names some
    equal_steps: bool = False  # compared after equally many environment steps, not trajectories
    margin: float = 0.0  # how much less counts as much, if it claims as much or more


@dataclass(frozen=True)
class TriangleClaim:
    """A claim about triangle discovery: Poly-PPO with vines against another line at temperature 1, over seeds."""

    text: str
    metric: str
    paper: str
    sign: Literal[1, -1] = 1
    scale: float = 1.0
    digits: int = 1
    slight: bool = False  # whether the paper calls the difference slight
    against: str = "PPO"  # label of the other line


CLAIMS = (
    Claim("Poly-PPO succeeds more often than PPO", "success", (("poly-ppo", "ppo"),)),
    Claim("… at equal environment steps", "success", (("poly-ppo", "ppo"),), equal_steps=True),
    Claim("… with the paper's literal hyperparameters", "success", (("poly-ppo", "ppo"),), part=PAPER),
    Claim("Poly-PPO succeeds more often than REINFORCE", "success", (("poly-ppo", "reinforce"),)),
    Claim("PPO succeeds less often than REINFORCE", "success", (("ppo", "reinforce"),), sign=-1),
    Claim(
        "… with the literal hyperparameters, 4,000 iterations, two seeds",
        "success",
        (("ppo", "reinforce"),),
        sign=-1,
        plan=CONVERGENCE,
        part=PAPER,
        seeds=2,
    ),
    Claim(
        "At 128 attempts Poly-PPO solves more than PPO",
        MANY,
        (("poly-ppo", "ppo"),),
        paper="more, on BossLevel around 15 (curves)",
    ),
    Claim(
        "At 128 attempts Poly-PPO solves more than REINFORCE",
        MANY,
        (("poly-ppo", "reinforce"),),
        paper="more (curves)",
    ),
    Claim(
        f"At 128 attempts Poly-PPO solves as much as the pretrained policy (at most {100 * AS_MUCH:.0f} less) or more",
        MANY,
        (("poly-ppo", PRETRAINED),),
        paper="as much or more (curves)",
        margin=AS_MUCH,
    ),
    Claim(
        "At 128 attempts PPO solves less than the pretrained policy",
        MANY,
        (("ppo", PRETRAINED),),
        sign=-1,
        paper="less (curves)",
    ),
    Claim(
        "At 128 attempts REINFORCE solves less than the pretrained policy",
        MANY,
        (("reinforce", PRETRAINED),),
        sign=-1,
        paper="less (curves)",
    ),
    Claim("From perturbed starts Poly-PPO succeeds more often than PPO", "perturbed", (("poly-ppo", "ppo"),)),
    Claim(
        "From perturbed starts Poly-PPO succeeds more often than REINFORCE", "perturbed", (("poly-ppo", "reinforce"),)
    ),
    Claim(
        "From perturbed starts PPO succeeds less often than the pretrained policy",
        "perturbed",
        (("ppo", PRETRAINED),),
        sign=-1,
    ),
    Claim(
        "UCB helps REINFORCE and PPO on some tasks",
        "success",
        (("reinforce-ucb", "reinforce"), ("ppo-ucb", "ppo")),
        somewhere=True,
    ),
    Claim(
        "UCB helps Poly-PPO on Pickup and BossLevel",
        "success",
        (("poly-ppo-ucb", "poly-ppo"),),
        tasks=("pickup", "bosslevel"),
    ),
)
TRIANGLE_CLAIMS = (
    TriangleClaim(
        "Triangles: Poly-PPO is slightly less valid than PPO", "validity", "slightly less", -1, 100, slight=True
    ),
    TriangleClaim("Triangles: Poly-PPO is more diverse than PPO", "distinct_of_100", "more"),
    TriangleClaim("Triangles: Poly-PPO is more creative than PPO", "creative_of_100", "more", digits=2),
    TriangleClaim(
        "Triangles: Poly-PPO is more diverse than the pretrained policy", "distinct_of_100", "more", against=PRETRAINED
    ),
    TriangleClaim(
        "Triangles: Poly-PPO is more creative than the pretrained policy",
        "creative_of_100",
        "more",
        digits=2,
        against=PRETRAINED,
    ),
)
