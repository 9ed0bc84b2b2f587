"""How far a long run is, on one line of a terminal that is gone when the run ends."""

from __future__ import annotations

import time
from typing import TextIO

#: Seconds after which a run is a long one, and between two looks of the line.
_PATIENCE = 1.0
_STEP = 0.1
_CLEAR = "\r\033[2K"


class Progress:
    """Writes to a terminal, and nowhere else."""

    def __init__(self, stream: TextIO, is_quiet: bool = False) -> None:
        self._stream = stream
        self._next = float("inf")
        self._is_shown = False
        if stream.isatty() and not is_quiet:
            self._next = time.monotonic() + _PATIENCE

    def __call__(self, what: str, done: int, total: int) -> None:
        """``what`` has been done with so many of the files: ``checked 3 of 20 files``."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _STEP
        self._is_shown = True
        self._stream.write(f"{_CLEAR}{what} {done} of {total} files")
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away, before anything else is written."""
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._is_shown = False
