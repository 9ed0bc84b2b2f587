"""Questions to a process of their own: it ends when nobody waits for its answer any more, or when time is over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shardlint import messages

#: Of what a process said before it failed.
_MOST_SAID = 2_000


class NoAnswer(Exception):
    """There is no answer; the text says why, and what to do."""


async def ask(
    command: Sequence[str],
    question: Mapping[str, Any],
    environment: Mapping[str, str],
    seconds: float | None = None,
) -> Any:
    """The answer of a process to a question, JSON on its standard input and output.

    Raises:
        NoAnswer: it gave an error, ended without an answer, or took longer than ``seconds``.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(environment),
            start_new_session=True,  # so that what it starts ends with it
        )
    except OSError as error:
        raise NoAnswer(messages.not_started(command[0], str(error))) from None
    data = json.dumps(question).encode()
    try:
        answered, said = await asyncio.wait_for(process.communicate(data), seconds)
    except TimeoutError:
        assert seconds is not None
        raise NoAnswer(messages.out_of_time(seconds)) from None
    finally:
        _stop(process)
    if process.returncode:
        text = said.decode("utf-8", "replace").strip()[-_MOST_SAID:]
        raise NoAnswer(messages.ended_without_answer(process.returncode, text))
    answer = json.loads(answered)
    if isinstance(answer, dict) and set(answer) == {"error"}:
        raise NoAnswer(answer["error"])
    return answer


def with_this_program(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a process finds this program, however it was started."""
    here = str(Path(__file__).parents[2])
    given = environment.get("PYTHONPATH", "")
    path = os.pathsep.join(one for one in (here, given) if one)
    return {**environment, "PYTHONPATH": path}


def _stop(process: Process) -> None:
    """End a process and what it has started."""
    if process.returncode is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
