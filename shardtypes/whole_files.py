"""Writing files whole or not at all: what was there stays where the disk is full."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: str | bytes, durable: bool = True) -> None:
    """Write a file, a text as UTF-8, making its folder. Raises ``OSError``, and then leaves what was there before.

    What a link names is written, not the link. ``durable`` waits for the disk, which may only then say that it is full.
    """
    if isinstance(data, str):
        data = data.encode()
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    number, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(made, path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise


def _umask() -> int:
    """The process's: it can be read by setting it only."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
