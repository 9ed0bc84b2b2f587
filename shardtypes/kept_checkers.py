"""Compiled checkers of a module that the import hook loads, kept beside its bytecode."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import marshal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType

from shardtypes.whole_files import write_whole


class KeptCheckers:
    """The file ``path``. ``version`` is of Python and of the module's source: what was kept for others is compiled
    anew."""

    def __init__(self, path: str, version: bytes) -> None:
        self._path = Path(path)
        self._version = version
        self._codes: dict[str, CodeType] | None = None
        self._is_new = False

    def code(self, text: str, file: str) -> CodeType:
        """The code of a text whose lines are those of ``file``."""
        if self._codes is None:
            self._codes = dict(self._read())
        key = hashlib.sha256(f"{file}\0{text}".encode()).hexdigest()
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = compile(text, file, "exec")
            self._write_at_exit()
        return found

    def _write_at_exit(self) -> None:
        if not self._is_new and not sys.dont_write_bytecode:
            self._is_new = True
            atexit.register(self.write)

    def write(self) -> None:
        """Keep what was compiled, beside what other processes have kept meanwhile."""
        codes = {**self._read(), **(self._codes or {})}
        data = self._version + marshal.dumps(codes)
        # as with Python's own bytecode: where it cannot be written it is made again
        with contextlib.suppress(OSError):
            write_whole(self._path, data, durable=False)

    def _read(self) -> Mapping[str, CodeType]:
        try:
            data = self._path.read_bytes()
        except OSError:
            return {}
        if not data.startswith(self._version):
            return {}
        # a damaged file is written anew
        with contextlib.suppress(EOFError, ValueError, TypeError):
            found = marshal.loads(data[len(self._version) :])
            if isinstance(found, dict):
                return found
        return {}
