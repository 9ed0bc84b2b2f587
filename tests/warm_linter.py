"""A process that has imported the linter, and forks a child for each of its commands."""

from __future__ import annotations

import importlib
import pkgutil
import runpy
import sys
from collections.abc import Mapping
from typing import Any

import shardlint
from tests.warm import serve

#: Packages of the linter that need more than the base has, or are no part of the command.
_LEFT_OUT = (
    "shardlint.mcp_server",
    "shardlint.mypy_plugin",
    "shardlint.server",
    "shardlint.__main__",
)


def _import_all() -> None:
    for module in pkgutil.walk_packages(shardlint.__path__, "shardlint."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)


def _run(command: Mapping[str, Any]) -> None:
    sys.argv = ["shardlint", *command["arguments"]]
    runpy.run_module("shardlint", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _import_all()
    serve(_run)
