"""The page with sliders becomes part of the site; a public name that the API page does not document fails the build."""

from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

import polychromic
from polychromic.theory.collapse import Bandit, page


def on_files(files, config):
    """`polychromic bandit`'s page, which the page about theory shows."""
    files.append(File.generated(config, "bandit.html", content=page(Bandit())))
    return files


def on_pre_build(config):  # noqa: ARG001
    """Every public name needs a docstring and an entry in docs/api.md."""
    page = (Path(__file__).parent / "api.md").read_text(encoding="utf-8")
    problems = []
    for name in sorted([*polychromic.__all__, *polychromic._LAZY]):
        thing = getattr(polychromic, name)
        if not (thing.__doc__ or "").strip():
            problems.append(f"{name} has no docstring")
        if f"::: {thing.__module__}.{name}\n" not in page:
            problems.append(f"docs/api.md has no line '::: {thing.__module__}.{name}'")
    if problems:
        raise PluginError("undocumented public names: " + "; ".join(problems))
