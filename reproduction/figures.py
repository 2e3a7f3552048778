"""All figures of the results pages, drawn into one folder."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure as Picture

from polychromic.sweep.cells import PRETRAINED
from reproduction.draw import curves_figure, passk_figure, save, study_figure
from reproduction.lines import Stored, figure_name
from reproduction.pictures import pictures as overview_pictures
from reproduction.plans import OBSERVATION, REFERENCE, STUDY, TABLES


def draw_figures(stored: Stored, folder: Path, *, refer: str = "figures") -> dict[str, str]:
    """Draw the figures that have results; returns their paths by name, relative to a page beside `folder`.

    Figures are results-NAME.svg. A figure without results is not drawn, and an old file of it is left alone.
    """
    pictures: dict[str, Picture] = {}
    for task in TABLES.tasks(stored.scale):
        for part in TABLES.parts:
            own = [line for line in stored.lines(TABLES, task) if line.part == part and line.records]
            trained = [line for line in own if "curve" in line.records[0]]
            base = next((line for line in own if line.method == PRETRAINED), None)
            if trained:
                pictures[figure_name("passk", part, task)] = passk_figure(task, own)
                pictures[figure_name("curves", part, task)] = curves_figure(task, trained, base)
        study = [line for line in stored.lines(STUDY, task) if line.records]
        if any(line.part not in (REFERENCE, OBSERVATION) for line in study):
            pictures[f"study-{task}"] = study_figure(task, study)
    pictures |= overview_pictures(stored)
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        save(picture, folder / f"results-{name}.svg")
    return {name: f"{refer}/results-{name}.svg" for name in pictures}
