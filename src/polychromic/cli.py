"""The `polychromic` command: one line per subcommand, each loaded only when it is called."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from polychromic import __version__
from polychromic.errors import Notice, UserError, missing, problem_with_file
from polychromic.memory import keep_freed_memory
from polychromic.trust import from_arguments, limited_to

# name -> (module:function that tyro turns into a parser, what the overview says of it)
COMMANDS = {
    "demos": ("polychromic.pretrain.command:demos", "record demonstrations of a task"),
    "import-minari": ("polychromic.pretrain.minari_files:import_minari", "demonstrations from a Minari dataset"),
    "export-minari": ("polychromic.pretrain.minari_files:export_minari", "demonstrations to a Minari dataset"),
    "pretrain": ("polychromic.pretrain.command:pretrain", "make a base policy: demonstrations, cloning, scores"),
    "finetune": ("polychromic.finetuning.command:finetune_command", "fine-tune a policy: poly-ppo, ppo, reinforce, …"),
    "sweep": (
        "polychromic.sweep.command:sweep_command",
        "many runs: tasks × methods × seeds, locally, on Ray or on Slurm",
    ),
    "evaluate": ("polychromic.evaluate.command:evaluate", "score a run or a policy: success, pass@k, strategies, …"),
    "report": ("polychromic.report.command:report", "compare runs and policies on one page that opens offline"),
    "watch": ("polychromic.report.watch:watch", "see a policy act, in the terminal or as a GIF"),
    "demo": ("polychromic.demo:demo", "PPO against Poly-PPO in a few minutes, ending in a report"),
    "theory": ("polychromic.theory.lab:theory", "why policies collapse, and the paper's claims checked by enumeration"),
    "bandit": ("polychromic.theory.play:play", "why policies collapse: a small bandit, and a page to play with"),
    "check-env": ("polychromic.envs.forkcheck.command:check_env", "prove that a Gymnasium environment can be forked"),
    "check-grid": ("polychromic.envs.grid.command:check_grid", "compare the grid engine with minigrid, step by step"),
    "verl-check": ("polychromic.integrations.verl_check:verl_check", "has verl loaded the plug-in, and with what?"),
}

# The extra that a command needs if it is not `rl`.
EXTRAS = {"import-minari": "minari", "export-minari": "minari", "verl-check": "verl"}

# Names that used to be commands, and what to do instead.
GONE = {"reproduce": "run `python -m reproduction` in a clone of the repository"}

# Commands whose defaults depend on other arguments parse their arguments themselves.
PARSE_THEMSELVES = {"finetune", "sweep"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; a user's mistake ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without γ shows a question mark instead of failing
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        print(overview())
        return 0
    if args[0] == "--version":
        print(f"polychromic {__version__}")
        return 0
    name, *given = args
    if name.startswith("-"):
        print(f"polychromic: no option '{name}'; a command comes first, see polychromic --help", file=sys.stderr)
        return 2
    if name in GONE:
        print(f"polychromic: no command '{name}'; {GONE[name]}", file=sys.stderr)
        return 2
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(COMMANDS)}."
        print(f"polychromic: no command '{name}'; {hint}", file=sys.stderr)
        return 2
    # The author of the working folder must not decide what is imported, here or in the processes that we start.
    os.environ["PYTHONSAFEPATH"] = "1"
    trust, rest = from_arguments(given)
    try:
        keep_freed_memory()
        # tyro is imported here so that `polychromic --help` answers at once.
        import tyro

        module, function = COMMANDS[name][0].split(":")
        command = getattr(importlib.import_module(module), function)
        with limited_to(trust), warnings.catch_warnings():
            warnings.showwarning = _show_notices(name)
            warnings.simplefilter("always", Notice)
            if name in PARSE_THEMSELVES:
                return int(command(rest))
            return int(tyro.cli(command, args=rest, prog=f"polychromic {name}") or 0)
    except ModuleNotFoundError as error:
        failure = missing("this command", error, EXTRAS.get(name, "rl"))
        if not isinstance(failure, UserError):
            raise
        print(f"polychromic {name}: {failure}", file=sys.stderr)
        return 2
    except UserError as error:
        print(f"polychromic {name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        problem = problem_with_file(error)
        if not problem:
            raise
        print(f"polychromic {name}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"polychromic {name}: interrupted", file=sys.stderr)
        return 130


def _show_notices(name: str) -> Any:
    """Notices in one line each; other warnings as they are always shown."""
    shown = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, Notice):
            print(f"polychromic {name}: {message}", file=sys.stderr)
        else:
            shown(message, category, *where, **more)

    return show


def overview() -> str:
    """The text of `polychromic --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: polychromic COMMAND [options]",
            "",
            "Set reinforcement learning: fine-tune a pretrained policy with RL without collapsing it.",
            "",
            *lines,
            "",
            "`polychromic COMMAND --help` explains every option of a command.",
            "",
            "Files may name functions and tasks, as package.module:name. A command imports them, and so runs",
            "their code, only if the name is among its arguments, or with --trust.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
