"""The user's line that an operation comes from."""

from __future__ import annotations

import itertools
import os
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax._src import source_info_util  # no public way to ask for the frames of an equation
from jax._src.core import jaxprs_in_params  # nor for the programs inside it

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class Place:
    """An operation of JAX and the line that it comes from; ``file`` is empty where that is not known."""

    operation: str
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def where(self) -> str | None:
        """The line, as ``"model.py:31"``, relative to the working directory."""
        if not self.file:
            return None
        path = Path(self.file)
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{shown}:{self.line}"

    def __str__(self) -> str:
        if self.where is None:
            return self.operation
        return f"{self.operation} at {self.where} in {self.function.rpartition('<locals>.')[2]}"


def place_of(eqn: Any, calls: Sequence[Any] = ()) -> Place:
    """The innermost line of an equation that is neither ours nor a library's, else the innermost that is not ours.

    ``calls`` are the equations that it is inside of. JAX traces a function of a library once, so that what is inside
    has the line that called it first: the call itself has the one that is meant.
    """
    name = eqn.primitive.name
    within = list(itertools.takewhile(lambda call: not _is_of_library(call), calls))
    inside = [*within, calls[len(within)] if len(within) < len(calls) else eqn]
    for each in reversed(inside):
        frames = list(source_info_util.user_frames(_traceback(each.source_info)))
        mine = [frame for frame in frames if not frame.file_name.startswith(_OURS)]
        users = [frame for frame in mine if not frame.file_name.startswith(_LIBRARIES)]
        for frame in (*users, *mine):
            return Place(name, frame.file_name, frame.start_line, frame.function_name)
    return Place(name)


def _is_of_library(call: Any) -> bool:
    """Whether what is called was written in a library."""
    for program in jaxprs_in_params(call.params):
        where = str(getattr(getattr(program, "debug_info", None), "func_src_info", "") or "")
        return where.partition(" at ")[2].startswith(_LIBRARIES)
    return False


def _traceback(info: Any) -> Any:
    return getattr(info, "traceback", info)
