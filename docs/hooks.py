"""Fails the build of the documentation on a public name that the API page does not document."""

from pathlib import Path

from mkdocs.exceptions import PluginError

import polychromic


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
