"""The line of the user's program that an operation comes from."""

from __future__ import annotations

import functools
import linecache
import os
import sysconfig
from dataclasses import dataclass
from typing import Any

from jax._src import source_info_util  # no public way from an equation to its line

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = (_HOME + os.sep, os.path.join(os.path.dirname(_HOME), "pytest_shardtypes") + os.sep)
_LIBRARIES = tuple({sysconfig.get_path(kind) + os.sep for kind in ("purelib", "platlib", "stdlib")})


@dataclass(frozen=True)
class Place:
    """A line of a file; empty where JAX does not say."""

    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "an unknown line"

    @property
    def text(self) -> str:
        """What is written there."""
        return linecache.getline(self.file, self.line).strip()


def place_of(eqn: Any) -> Place:
    """The innermost frame that is neither JAX's, ours, nor an installed library's; any user's frame where all are."""
    return _place(eqn.source_info.traceback)


def callers_of(eqn: Any) -> list[Place]:
    """Where the user's program called the function in which an operation is, nearest first."""
    return list(_frames(eqn.source_info.traceback)[1:])


def is_of_library(jaxpr: Any) -> bool:
    """Whether the program of a function is JAX's own, or an installed library's. JAX keeps such programs as they were
    traced first, so that its operations have the lines of that call."""
    about = getattr(jaxpr, "debug_info", None)
    where = "" if about is None else str(about.func_src_info).partition(" at ")[2]
    return where.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=4096)
def _place(traceback: Any) -> Place:
    own = _frames(traceback)
    if own:
        return own[0]
    frames = (frame for frame in source_info_util.user_frames(traceback) if not frame.file_name.startswith(_OURS))
    return next((Place(frame.file_name, frame.start_line, frame.function_name) for frame in frames), Place())


@functools.lru_cache(maxsize=4096)
def _frames(traceback: Any) -> tuple[Place, ...]:
    """The frames of the user's own files."""
    return tuple(
        Place(frame.file_name, frame.start_line, frame.function_name)
        for frame in source_info_util.user_frames(traceback)
        if not frame.file_name.startswith((*_OURS, *_LIBRARIES))
    )
