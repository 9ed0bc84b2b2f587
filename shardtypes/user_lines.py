"""The lines of the user's program that operations of JAX come from."""

from __future__ import annotations

import functools
import os
import sysconfig
from dataclasses import dataclass
from typing import Any

from jax._src import source_info_util  # no public way from an equation to its line

_HOME = os.path.dirname(os.path.abspath(__file__))
_OURS = (
    _HOME + os.sep,
    os.path.join(os.path.dirname(_HOME), "pytest_shardtypes") + os.sep,
)
_LIBRARIES = tuple(
    {
        sysconfig.get_path(kind) + os.sep
        for kind in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)


def is_of_user(file: str) -> bool:
    """Whether a file is neither ours nor of an installed library."""
    return not file.startswith((*_OURS, *_LIBRARIES))


@functools.lru_cache(maxsize=4096)
def frames_of(traceback: Any) -> tuple[Any, ...]:
    """The frames of the user's own files, the innermost first."""
    frames = source_info_util.user_frames(traceback)
    return tuple(frame for frame in frames if is_of_user(frame.file_name))


@functools.lru_cache(maxsize=4096)
def frame_of(traceback: Any) -> Any:
    """The innermost frame of the user's own files, else the innermost that is not ours; None where there is none."""
    others = (
        frame
        for frame in source_info_util.user_frames(traceback)
        if not frame.file_name.startswith(_OURS)
    )
    return next(iter(frames_of(traceback)), None) or next(others, None)


@dataclass(frozen=True)
class Calls:
    """The program of which function is being read: of a library's, ``caller`` is the equation that calls it, and
    ``library`` the file and line where it begins.

    JAX keeps the programs of library functions as they were traced first, so that their operations have the lines of
    that call: the call itself has the one that is meant. What a library's function was given to call, as ``pmap`` is,
    has lines of its own.
    """

    caller: Any = None
    library: tuple[str, int] | None = None

    def into(self, eqn: Any, jaxpr: Any) -> Calls:
        """In the program that an equation calls."""
        function = _source_of(jaxpr)
        if function is None:
            return self
        return (
            Calls(self.line_of(eqn), function)
            if function[0].startswith(_LIBRARIES)
            else Calls()
        )

    def line_of(self, eqn: Any) -> Any:
        """The equation that has the line which is meant by this one."""
        if self.library is None or _is_called_by(
            eqn.source_info.traceback, self.library
        ):
            return eqn
        return self.caller


def _source_of(jaxpr: Any) -> tuple[str, int] | None:
    """The file and line where the function of a program begins, where JAX says so."""
    about = getattr(jaxpr, "debug_info", None)
    file, _, line = (
        str(getattr(about, "func_src_info", "") or "")
        .partition(" at ")[2]
        .rpartition(":")
    )
    return (file, int(line)) if file and line.isdecimal() else None


@functools.lru_cache(maxsize=4096)
def _is_called_by(traceback: Any, function: tuple[str, int]) -> bool:
    """Whether an operation is in the user's own code which this function calls."""
    for frame in () if traceback is None else traceback.frames:
        if (frame.file_name, frame.function_start_line) == function:
            return False
        if is_of_user(frame.file_name):
            return _has_frame(traceback, function)
    return False


def _has_frame(traceback: Any, function: tuple[str, int]) -> bool:
    return any(
        (frame.file_name, frame.function_start_line) == function
        for frame in traceback.frames
    )
