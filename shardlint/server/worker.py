"""Runs of the linter in a process of its own, which ends when it is told to: the editor does not wait for them."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from pathlib import Path
from typing import BinaryIO

from shardlint.server.checking import Answer, Request, answer, given, start_with

#: Runs of one process: what a run leaves behind goes with it.
_MOST_RUNS = 200
_LENGTH = 8


class Worker:
    """A process that answers one request after another, started when one is there."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._runs = 0

    async def answer(self, request: Request) -> Answer:
        """What the linter finds. Where the task that waits for it is cancelled, the process ends."""
        try:
            return await self._answer(request)
        except BaseException:
            self.stop()
            raise

    async def _answer(self, request: Request) -> Answer:
        if self._runs >= _MOST_RUNS:
            self.stop()
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # modules of the folder that is open are not ours
                "-m",
                __name__,
                *given(),
                env={**os.environ, "PYTHONPATH": _search_path()},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            self._runs = 0
        self._runs += 1
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        data = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        length = len(data).to_bytes(_LENGTH, "little")
        process.stdin.write(length + data)
        await process.stdin.drain()
        size = int.from_bytes(await process.stdout.readexactly(_LENGTH), "little")
        found = pickle.loads(await process.stdout.readexactly(size))
        assert isinstance(found, Answer)
        return found

    def stop(self) -> None:
        """End the process, and whatever it does."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()


def _search_path() -> str:
    """Where the process finds this program, however it was started."""
    here = str(Path(__file__).parents[2])
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(one for one in (here, given) if one)


def main(source: BinaryIO, target: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while True:
        size = source.read(_LENGTH)
        if len(size) < _LENGTH:
            return
        request = pickle.loads(source.read(int.from_bytes(size, "little")))
        assert isinstance(request, Request)
        data = pickle.dumps(answer(request), pickle.HIGHEST_PROTOCOL)
        length = len(data).to_bytes(_LENGTH, "little")
        target.write(length + data)
        target.flush()


if __name__ == "__main__":
    start_with(sys.argv[1:])
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # the pipe is for answers
    main(sys.stdin.buffer, output)
