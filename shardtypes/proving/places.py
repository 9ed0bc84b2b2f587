"""The line of the user's program that an operation comes from."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from typing import Any

from shardtypes.user_lines import frame_of, frames_of


@dataclass(frozen=True)
class Place:
    """A line of a file; empty where JAX does not say."""

    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        if self.file:
            return f"{os.path.basename(self.file)}:{self.line}"
        return "an unknown line"

    @property
    def text(self) -> str:
        """What is written there."""
        linecache.checkcache(self.file)
        return linecache.getline(self.file, self.line).strip()


def place_of(eqn: Any) -> Place:
    """The innermost frame that is neither JAX's, ours, nor an installed library's; any user's frame where all are."""
    frame = frame_of(eqn.source_info.traceback)
    if frame is None:
        return Place()
    return _place(frame)


def callers_of(eqn: Any) -> list[Place]:
    """Where the user's program called the function in which an operation is, nearest first."""
    frames = frames_of(eqn.source_info.traceback)
    return [_place(frame) for frame in frames[1:]]


def _place(frame: Any) -> Place:
    return Place(frame.file_name, frame.start_line, frame.function_name)
