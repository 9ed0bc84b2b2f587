"""The user's line that an operation comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# no public way to find the programs inside a program
from jax._src.core import jaxprs_in_params

from shardtypes.user_lines import Calls, frame_of


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
        return f"{shown(Path(self.file))}:{self.line}"

    def __str__(self) -> str:
        if self.where is None:
            return self.operation
        _, _, function = self.function.rpartition("<locals>.")
        return f"{self.operation} at {self.where} in {function}"


def shown(path: Path) -> Path:
    """Relative to the working directory, where it is in it."""
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return path


def where_of(place: Place | None) -> str | None:
    """The line of a place, if there is one."""
    if place is None:
        return None
    return place.where


def place_of(eqn: Any, calls: Sequence[Any] = ()) -> Place:
    """The innermost line of an equation that is neither ours nor a library's, else the innermost that is not ours.

    ``calls`` are the equations that it is inside of; what is inside of a library's function has the line of its call.
    """
    reading = Calls()
    for call in calls:
        program = next(jaxprs_in_params(call.params), None)
        if program is not None:
            reading = reading.into(call, program)
    name = eqn.primitive.name
    for each in (reading.line_of(eqn), *reversed(calls)):
        frame = frame_of(each.source_info.traceback)
        if frame is not None:
            return Place(name, frame.file_name, frame.start_line, frame.function_name)
    return Place(name)
