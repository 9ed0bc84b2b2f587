"""Findings as text, one module a format. Each has ``render(outcome) -> str``, '' or ending in a newline."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from shardlint.render.style import PLAIN, Style
from shardtypes.lang.diagnostics import Diagnostic, Place
from shardtypes.lang.frozen import frozen

Lines: TypeAlias = Callable[[Place], Sequence[str]]


@frozen
class Outcome:
    """What a run has to show. ``lines`` gives the source lines that a place counts; ``problems`` are sentences about
    work that could not be done."""

    diagnostics: Sequence[Diagnostic]
    lines: Lines
    problems: Sequence[str] = ()
    style: Style = PLAIN


Renderer: TypeAlias = Callable[[Outcome], str]

FORMATS = ("full", "concise", "json", "github", "gitlab", "junit", "sarif")
#: Formats that people read; the others are for programs.
FOR_READING = ("full", "concise")


def renderer(name: str) -> Renderer:
    """The renderer of one of ``FORMATS``."""
    found: Renderer = importlib.import_module(f"{__name__}.{name}").render
    return found


def in_cell(place: Place) -> str:
    """A place in a notebook, for services that count the lines of the file that holds the cells."""
    return f"cell {place.cell}, line {place.line}, column {place.column}"
