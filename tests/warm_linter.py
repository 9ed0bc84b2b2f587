"""A process that has imported the linter, and forks a child for each command that it is told: most of what a command
costs is importing.

Each line of its input is a command in JSON: ``arguments``, ``cwd``, ``env``, and the files for ``stdout`` and
``stderr``. Each line of its output is the exit status of one.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import sys
from collections.abc import Mapping
from typing import Any

import shardlint

#: Packages of the linter that need more than the base has, or are no part of the command.
_LEFT_OUT = ("shardlint.mypy_plugin", "shardlint.server", "shardlint.__main__")


def main() -> None:
    """Serve until the input ends."""
    _import_all()
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if not child:
            _run(command)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_all() -> None:
    for module in pkgutil.walk_packages(shardlint.__path__, "shardlint."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)


def _run(command: Mapping[str, Any]) -> None:
    """Be the command ``shardlint`` in this process, and end with it."""
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
    sys.argv = ["shardlint", *command["arguments"]]
    runpy.run_module("shardlint", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
