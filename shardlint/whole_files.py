"""Writing files whole or not at all: a full disk takes neither a user's source nor an entry of the cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file beside itself, and put it in its place in one step. Raises ``OSError``, and then nothing changed.

    What a link names is written, not the link; a file that was there keeps its mode. ``durable`` waits for the disk,
    which may only then say that it is full.
    """
    place = Path(os.path.realpath(path))
    number, made = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, made)
        os.replace(made, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
