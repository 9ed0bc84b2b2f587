"""Writing files whole or not at all: a full disk takes neither a user's source nor an entry of the cache."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

#: Windows would end lines in another way.
_BINARY = getattr(os, "O_BINARY", 0)


def write_whole(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file beside itself, and put it in its place in one step. Raises ``OSError``, and then nothing changed.

    What a link names is written, not the link. A file that was there keeps its mode, a new one has the usual.
    ``durable`` waits for the disk, which may only then say that it is full.
    """
    place = Path(os.path.realpath(path))
    # named before it is there, so that an interrupt at any moment leaves none
    made = place.with_name(f".{place.name}.{os.urandom(8).hex()}")
    # what others may not read they may not read meanwhile
    mode = 0o600 if place.exists() else 0o666
    try:
        number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
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
