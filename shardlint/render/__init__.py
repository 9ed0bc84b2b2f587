"""Findings as text, one module a format. Each has ``render(outcome) -> str``, '' or ending in a newline."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from shardlint.problems import Problem
from shardlint.render.style import PLAIN, Style
from shardtypes.lang.diagnostics import Diagnostic, Place
from shardtypes.lang.frozen import frozen

Lines: TypeAlias = Callable[[Place], Sequence[str]]


@frozen
class Outcome:
    """What a run has to show. ``lines`` gives the source lines that a place counts."""

    diagnostics: Sequence[Diagnostic]
    lines: Lines
    problems: Sequence[Problem] = ()
    style: Style = PLAIN


Renderer: TypeAlias = Callable[[Outcome], str]

FORMATS = ("full", "concise", "json", "github", "gitlab", "junit", "sarif")
#: Formats that people read; the others are for programs.
FOR_READING = ("full", "concise")


def renderer(name: str) -> Renderer:
    """The renderer of one of ``FORMATS``."""
    found: Renderer = importlib.import_module(f"{__name__}.{name}").render
    return found


def from_repository(path: str) -> str:
    """A path as services count it, from the repository: the folder that the job names, or the nearest one that git
    knows. As it is where there is none, or it is elsewhere."""
    top = os.environ.get("CI_PROJECT_DIR") or os.environ.get("GITHUB_WORKSPACE")
    if not top:
        here = Path.cwd()
        above = [one for one in (here, *here.parents) if (one / ".git").exists()]
        if not above:
            return path
        top = str(above[0])
    found = os.path.relpath(path, top).replace(os.sep, "/")
    return path if found.startswith("../") else found


def in_cell(place: Place) -> str:
    """A place in a notebook, for services that count the lines of the file that holds the cells."""
    return f"cell {place.cell}, line {place.line}, column {place.column}"
