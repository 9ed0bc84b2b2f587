"""Findings as text, one module a format. Each has ``render(diagnostics, lines) -> str``, '' or ending in a newline.

``lines`` gives the source lines that a place counts, for those formats that show them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from shardtypes.lang.diagnostics import Diagnostic, Place

Lines: TypeAlias = Callable[[Place], Sequence[str]]
Renderer: TypeAlias = Callable[[Sequence[Diagnostic], Lines], str]

FORMATS = ("full", "concise", "json", "github", "sarif")


def renderer(name: str) -> Renderer:
    """The renderer of one of ``FORMATS``."""
    found: Renderer = importlib.import_module(f"{__name__}.{name}").render
    return found
