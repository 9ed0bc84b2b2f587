"""Parallel runs (``mypy -n 4``), in which this process sees a file's imports only and a worker process the rest.

No hook is called when a worker has read a file. So the file gets a statement in front, in mypy's serialized form, whose
analysis calls a hook in the worker before any other statement is looked at: there the file is rewritten.
"""

from __future__ import annotations

from typing import Final

from mypy.nodes import MypyFile
from mypy.options import Options

from shardlint.mypy_plugin.names import FINDINGS, PREPARE, STATIC
from shardlint.mypy_plugin.rewrite import STUB_IMPORT, local_name

STATEMENTS: Final = 4
"""How many a file begins with that are not its own, in a worker."""
_SOURCE: Final = f"""\
{STUB_IMPORT}
from {STATIC} import {PREPARE.rpartition(".")[2]} as _shardtypes_prepare
_shardtypes_prepared = _shardtypes_prepare()
{local_name(FINDINGS)}()
"""


def is_serialized(file: MypyFile) -> bool:
    """Whether a worker will read the file's statements."""
    # mypy before 2.0 has no such thing
    return getattr(file, "raw_data", None) is not None


def ask_for_preparation(file: MypyFile, options: Options) -> None:
    """Put the statements in front that make a worker call the hook of ``prepare``."""
    from librt.internal import ReadBuffer, WriteBuffer
    from mypy.cache import read_int, write_int
    from mypy.nativeparse import native_parse

    raw = file.raw_data
    ours = native_parse("shardtypes", options, _SOURCE)[0].raw_data
    assert raw is not None
    assert ours is not None

    def counted(count: int) -> bytes:
        buffer = WriteBuffer()
        write_int(buffer, count)
        return bytes(buffer.getvalue())

    count = read_int(ReadBuffer(raw.defs))
    if not (
        raw.defs.startswith(counted(count))
        and ours.defs.startswith(counted(STATEMENTS))
    ):
        raise ValueError(
            "mypy's serialized files do not begin with their number of statements"
        )
    own = ours.defs[len(counted(STATEMENTS)) :]
    raw.defs = counted(count + STATEMENTS) + own + raw.defs[len(counted(count)) :]


def report_in(file: MypyFile, message: str, code: str) -> None:
    """Let the worker report a message where the file begins."""
    assert file.raw_data is not None
    file.raw_data.raw_errors.append(
        {"line": 1, "column": 0, "message": message, "blocker": False, "code": code}
    )
