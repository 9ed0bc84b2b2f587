"""The mypy plugin: ``plugins = ["shardlint.mypy_plugin"]``.

What the linter finds becomes errors of mypy, and what it knows of arrays is shown in mypy's types. To mypy itself
``f32['batch/d embed']`` and all others are one type, ``jax.Array``.
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
