"""The mypy plugin: ``plugins = ["shardlint.mypy_plugin"]``.

It gives ``f32['batch/d embed']`` a meaning to mypy: calls of annotated functions unify their arguments with the
parameters, results are expressed in the caller's sizes, operations of ``jax.numpy`` work out theirs, and what certainly
does not fit is reported. What is not known fits everywhere.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from mypy.plugin import Plugin

from shardlint.mypy_plugin.plugin import ShardtypesPlugin

# mypy keeps it with its cache, which another release of ours makes void.
try:
    __version__ = installed_version("shardtypes")
except PackageNotFoundError:  # used from its source tree
    __version__ = "source"


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return ShardtypesPlugin
