"""Which files are the user's, and which belong to installed packages."""

from __future__ import annotations

import os
import re
from functools import cache

_INSTALLED = re.compile(r".*?[/\\](?:site|dist)-packages(?=[/\\])")
_UNTOUCHED = (
    "jax.",
    "jaxlib.",
    "numpy.",
    "builtins.",
    "typing.",
    "typing_extensions.",
    "collections.",
    "functools.",
)
_WHOLE = ("jax", "shardtypes", "shardlint", "pytest_shardtypes")


def installed_in(path: str) -> str | None:
    """The folder of installed packages that a file is below."""
    found = _INSTALLED.match(path)
    return found[0] if found else None


@cache
def packages(folder: str) -> int:
    """What changes whenever a package is installed there, upgraded or removed."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:  # a folder of another system, in a cache that was copied
        return 0


def is_users(module: str, path: str) -> bool:
    """Whether a module may have annotations of ours: no stub, not JAX, none of ours."""
    own = module.startswith(_UNTOUCHED) or module.split(".")[0] in _WHOLE
    return not own and not path.endswith(".pyi")
