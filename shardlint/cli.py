"""The command line: the front door, which is through before anything large is imported.

Exit status: 0 nothing found, 1 findings, 2 the work could not be done, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

#: What shells make of a process that an interrupt ended.
INTERRUPTED = 130


_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""What NumPy's products take for the number of threads. Ours are small: threads cost more than they gain."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from shardlint import messages
    from shardlint.commands import run

    try:
        status = run(arguments)
        if not sys.stdout.closed:  # the server closes it when its editor says exit
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise  # a file, and none of those that are read or written: these have their own words
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 2  # nobody reads what is written
        reason = error.strerror or str(error)
        sys.stderr.write(f"shardlint: {messages.no_output(reason)}\n")
        return 2
    return status
