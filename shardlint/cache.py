"""Results kept between runs, by content: what a file's text lowers to, and what was found in it.

An entry's name is the hash of all that it depends on, so an entry is never stale and nothing is ever compared. Entries
are pickles of our own frozen data; reading admits those classes and nothing else, because a repository can bring a
cache folder of its own along.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from shardlint.whole_files import write_whole

_ALLOWED_MODULES = frozenset(
    {
        "shardlint.changes",
        "shardlint.found",
        "shardlint.ir",
        "shardlint.knowledge",
        "shardlint.outline",
        "shardtypes.lang.diagnostics",
    }
)
_ALLOWED = frozenset(
    {("builtins", "complex"), ("builtins", "Ellipsis"), ("builtins", "ellipsis")}
)

_HERE = Path(__file__).parent
_SHARED = _HERE.parent / "shardtypes"
#: What the linter is made of: findings of an earlier build are made anew.
OWN_FOLDERS = (_HERE, _SHARED / "lang", _SHARED / "semantics")


class Cache:
    """Entries below ``folder``; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._made: set[str] = set()

    @property
    def keeps(self) -> bool:
        """Whether anything is kept: what an entry would hold need not be made otherwise."""
        return self._folder is not None

    def get(self, key: str) -> Any:
        """The entry, or None. An entry that cannot be read counts as missing."""
        if self._folder is None:
            return None
        try:
            with open(os.path.join(self._folder, key[:2], key), "rb") as file:
                return _Unpickler(file).load()
        except (
            OSError,
            EOFError,
            ValueError,
            AttributeError,
            IndexError,
            pickle.UnpicklingError,
        ):
            return None

    def put(self, key: str, value: object) -> None:
        """Write an entry in one step. A folder that cannot be written only costs time, so that is no error."""
        if self._folder is None:
            return
        parent = os.path.join(self._folder, key[:2])
        try:
            if not self._made:
                self._folder.mkdir(parents=True, exist_ok=True)
                (self._folder / ".gitignore").write_text("*\n")
            if parent not in self._made:
                os.makedirs(parent, exist_ok=True)
                self._made.add(parent)
            data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
            write_whole(Path(parent, key), data, durable=False)
        except (OSError, RecursionError):
            return

    def prune(self) -> None:
        """Once a day, forget the entries that are older than a month; those still in use come back."""
        if self._folder is None or not self._folder.is_dir():
            return
        stamp, now = self._folder / ".pruned", time.time()
        try:
            if stamp.exists() and now - stamp.stat().st_mtime < _DAY:
                return
            stamp.touch()
            for path in self._folder.glob("??/*"):
                if now - path.stat().st_mtime > _KEEP:
                    path.unlink()
        except OSError:
            # Another run is pruning, or the folder is read-only: nothing depends on it.
            return


_DAY = 24 * 3600
_KEEP = 30 * _DAY


def digest(*parts: str | bytes) -> str:
    """A key from all parts, and from the tool itself."""
    state = hashlib.blake2b(_tool(), digest_size=20)
    for part in parts:
        data = (
            part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        )
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


@cache
def _tool() -> bytes:
    """What this build of the linter is: its own files, and Python's version."""
    state = hashlib.blake2b(sys.version.encode(), digest_size=20)
    for folder in OWN_FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            about = path.stat()
            state.update(f"{path}:{about.st_mtime_ns}:{about.st_size}".encode())
    return state.digest()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in _ALLOWED_MODULES or (module, name) in _ALLOWED:
            found = super().find_class(module, name)
            if module in _ALLOWED_MODULES and not (
                isinstance(found, type) and found.__module__ == module
            ):
                raise pickle.UnpicklingError(f"{module}.{name} is no cache data")
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no cache data")
