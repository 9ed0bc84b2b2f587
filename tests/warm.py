"""A process that has imported much, and forks a child for each command that it is told: most of what a command costs
is importing.

Each line of its input is a command in JSON: ``arguments``, ``cwd``, ``env``, and the files for ``stdout`` and
``stderr``. Each line of its output is the exit status of one.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


def serve(run: Callable[[Mapping[str, Any]], None]) -> None:
    """Have a child run each command, until the input ends."""
    gc.freeze()  # collecting what all children share would give each a copy
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if not child:
            _enter(command)
            run(command)
            sys.exit()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _enter(command: Mapping[str, Any]) -> None:
    """The working directory, the environment and the files of a command become those of this process."""
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    for number, (path, flags) in enumerate(
        (
            (os.devnull, os.O_RDONLY),
            (command["stdout"], os.O_WRONLY | os.O_APPEND),
            (command["stderr"], os.O_WRONLY | os.O_APPEND),
        )
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
