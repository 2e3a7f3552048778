"""`polychromic evaluate`: a run or a policy, scored and written as JSON."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from polychromic.envs.registry import short_name, spec_of
from polychromic.errors import UserError
from polychromic.evaluate.file import evaluate_to_file
from polychromic.evaluate.policy import TEMPERATURES
from polychromic.evaluate.scores import one_line
from polychromic.evaluate.targets import EVALUATION, find_target, pretrained_of, world_of
from polychromic.files import parse_values


def evaluate(
    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_POLICY")],
    /,
    *,
    attempts: int | None = None,
    temperature: float = 1.0,
    scan: Literal["base", "always", "never"] = "base",
    temperatures: tuple[float, ...] = TEMPERATURES,
    perturbed: bool = False,
    pretrained: str = "",
    configurations: int = 0,
    horizon: int = 0,
    time_penalty: float | None = None,
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    seed: int = 0,
    recordings: bool = True,
    out: Path | None = None,
) -> int:
    """Success, reward, pass@k, coverage, entropy and strategies of a policy, as JSON.

    Args:
        target: a run directory, a policy file, or a shipped base policy by name.
        attempts: attempts at each configuration; pass@k is estimated for k = 1 up to this. Not given: what the task
            has by itself, 160 on grids.
        temperature: sampling temperature.
        scan: whether to find the temperature with the highest success too and evaluate there; `base`: for policies
            that are not the end of a run, whose best temperature is the control of every comparison.
        temperatures: to try in the scan.
        perturbed: also pass@1 from other starts, in the rooms that the pretrained policy visits.
        pretrained: the policy that the run began with, for --perturbed. Not given: the shipped one of the task.
        configurations: only the first so many (0: all).
        horizon: H (0: that of the run, or of the task).
        time_penalty: of grid levels, as `polychromic finetune` takes it. Not given: that of the run, or 0.5.
        option: NAME=VALUE for an option of the task's own; may be repeated. Not given: those of the run.
        seed: of everything random.
        recordings: keep an episode of every distinct strategy for the report's viewer.
        out: the file to write. Not given: evaluation.json in the run directory, or evaluations/NAME.json.
    """
    found = find_target(target)
    world = world_of(
        found,
        configurations=configurations,
        horizon=horizon,
        time_penalty=time_penalty,
        options=parse_values("option", option),
    )
    base = pretrained_of(found, pretrained) if perturbed else None
    path = out or (found.folder / EVALUATION if found.folder else Path("evaluations") / f"{found.name}.json")
    if path.is_dir():
        raise UserError(f"out is {path}, a folder; give the name of a file")
    scanning = scan == "always" or (scan == "base" and not found.is_run)
    spec = spec_of(world.task)
    evaluation = evaluate_to_file(
        found,
        world,
        path,
        command="polychromic " + shlex.join(sys.argv[1:]) if sys.argv else "",
        pretrained=base,
        attempts=attempts if attempts is not None else spec.attempts,
        temperature=temperature,
        temperatures=temperatures if scanning else (),
        seed=seed,
        record=recordings,
    )
    print(f"{found.name} on {short_name(world.task)}: {one_line(evaluation['result'], evaluation['strategies'])}")
    for metric in spec.metrics:
        if metric.name in evaluation["result"]:
            print(metric.sentence(evaluation["result"][metric.name]))
    if "best" in evaluation:
        best = evaluation["best"]
        print(f"at its best temperature, {best['temperature']:g}: {one_line(best, evaluation['strategies'])}")
    if perturbed:
        scored = evaluation["result"]["perturbed"]
        success = scored["success"]
        print(
            f"from {scored['starts']} other starts: success {success['mean']:.3f} "
            f"[{success['low']:.3f}, {success['high']:.3f}]"
        )
    print(f"evaluation: {path}")
    return 0
