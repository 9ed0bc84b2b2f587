"""Mesh axes that the code of a project makes besides the configured mesh: those of other meshes, and what ``pmap`` and
``vmap`` name. Read from the texts of its files, so that the linter and the mypy plugin know the same ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from shardlint.config import Config
from shardlint.discovery import Discovery

#: A folder of more files is more than one project.
MAX_FILES = 5_000
_MAKERS = frozenset({"Mesh", "AbstractMesh", "make_mesh", "pmap", "filter_pmap", "vmap", "filter_vmap"})
_MAKING = re.compile(rb"\b(?:" + "|".join(sorted(_MAKERS)).encode() + rb")\b")


def made_axes(config: Config) -> frozenset[str]:
    """Every text in the arguments of a call that makes axes, and in the module's constants that are named there."""
    found: set[str] = set()
    for path in islice(Discovery(lambda _: config).walk(config.root), MAX_FILES):
        try:
            source = path.read_bytes()
        except OSError:  # a run over the file says so
            continue
        if _MAKING.search(source):
            found |= _in_source(source)
    return frozenset(found)


@lru_cache(maxsize=1024)
def _in_source(source: bytes) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    constants = {
        target.id: set(_texts(node.value))
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(_last_name(part) in _MAKERS for part in (node.func, *given)):  # partial(jax.pmap, …) as well
                for part in given:
                    found.update(_texts(part))
                    for name in ast.walk(part):
                        found |= constants.get(name.id, set()) if isinstance(name, ast.Name) else set()
    return frozenset(found)


def _texts(node: ast.expr) -> Iterator[str]:
    return (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
