"""The linter in a process beside mypy's, which reads JAX meanwhile.

A cold run of mypy reads the user's files first, then for seconds what they import, and asks for the findings when it
has come back to them. The process is asked for one group of files after another through its input, and ends with it:
when mypy ends, whichever way.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO

from shardlint.config import Config

if TYPE_CHECKING:
    from shardlint.mypy_plugin.checked import Checked

_Request = tuple[Sequence[str], Config, bool]
"""The arguments of ``checked``."""
_Answer = Future["Checked | None"]


class LinterBeside:
    """The process, and what was asked of it."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[_Request, _Answer] | None] = SimpleQueue()
        # nobody waits for it when mypy ends
        Thread(target=self._serve, daemon=True).start()

    def ask(self, paths: Sequence[str], config: Config, keeps: bool) -> _Answer:
        """``checked`` of these, as soon as it is known; None where the process ended before it was."""
        answer: _Answer = Future()
        others = max(1, _processors() - 1)
        request = (paths, replace(config, jobs=config.jobs or others), keeps)
        self._waiting.put((request, answer))
        return answer

    def end(self) -> None:
        """Let the process end when it has answered: it is asked no more."""
        self._waiting.put(None)

    def _serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        for request, answer in iter(self._waiting.get, None):
            try:
                process = process or _started()
                answer.set_result(_answered(process, request))
            except (OSError, EOFError, pickle.PickleError):
                # mypy's process does it, and tells what is wrong there
                answer.set_result(None)
            except Exception as error:  # noqa: BLE001  raised again for who waits for the answer
                answer.set_exception(error)
        if process is not None:
            _end(process)


def is_worth_it() -> bool:
    """Whether there is a processor for it."""
    return _processors() > 1


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what fails here is done again in mypy's process
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(BrokenPipeError):  # it has ended
        process.communicate()


def _answered(process: subprocess.Popen[bytes], request: _Request) -> Checked:
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(request, process.stdin, pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
    answer: Checked = pickle.load(process.stdout)  # of a process of our own
    return answer


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    from shardlint.mypy_plugin.checked import checked

    while True:
        try:
            paths, config, keeps = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(checked(paths, config, keeps), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a rule of the user's may print
    main(sys.stdin.buffer, answers)
