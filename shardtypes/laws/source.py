"""The user's line that an operation comes from."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax._src import source_info_util  # no public way to ask for the frames of an equation

import shardtypes

_OURS = os.path.dirname(str(shardtypes.__file__)) + os.sep
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


def place_of(eqn: Any) -> Place:
    """The innermost line of an equation that is neither ours nor a library's, else the innermost that is not ours."""
    name = eqn.primitive.name
    frames = list(source_info_util.user_frames(_traceback(eqn.source_info)))
    mine = [frame for frame in frames if not frame.file_name.startswith(_OURS)]
    users = [frame for frame in mine if not frame.file_name.startswith(_LIBRARIES)]
    for frame in (*users, *mine):
        return Place(name, frame.file_name, frame.start_line, frame.function_name)
    return Place(name)


def _traceback(info: Any) -> Any:
    return getattr(info, "traceback", info)
