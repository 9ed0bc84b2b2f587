"""The lines of the user's program that operations of JAX come from."""

from __future__ import annotations

import functools
import os
import sysconfig
from typing import Any

from jax._src import source_info_util  # no public way from an equation to its line

_HOME = os.path.dirname(os.path.abspath(__file__))
_OURS = (_HOME + os.sep, os.path.join(os.path.dirname(_HOME), "pytest_shardtypes") + os.sep)
_LIBRARIES = tuple({sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.lru_cache(maxsize=4096)
def frames_of(traceback: Any) -> tuple[Any, ...]:
    """The frames of the user's own files, the innermost first."""
    frames = source_info_util.user_frames(traceback)
    return tuple(frame for frame in frames if not frame.file_name.startswith((*_OURS, *_LIBRARIES)))


@functools.lru_cache(maxsize=4096)
def frame_of(traceback: Any) -> Any:
    """The innermost frame of the user's own files, else the innermost that is not ours; None where there is none."""
    others = (frame for frame in source_info_util.user_frames(traceback) if not frame.file_name.startswith(_OURS))
    return next(iter(frames_of(traceback)), None) or next(others, None)


def is_of_library(jaxpr: Any) -> bool:
    """Whether the program of a function is JAX's own, or an installed library's.

    JAX keeps such programs as they were traced first, so that their operations have the lines of that call: the call
    itself has the one that is meant.
    """
    about = getattr(jaxpr, "debug_info", None)
    where = str(getattr(about, "func_src_info", "") or "").partition(" at ")[2]
    return where.startswith(_LIBRARIES)
