"""The names of modules that functions, or other modules, change: what these hold when they are used is not what their
module wrote.

Functions that change what they are given, and attributes that hold it, are told apart by name alone, so too many count
rather than too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from shardlint import ir
from shardlint.changes import CALLED, ITEM, Change, Changes, bound_paths, returned_paths
from shardlint.project import Definition, ModuleRef, Project, is_library

Changed: TypeAlias = Mapping[str, Mapping[str, bool]]
"""By modules, the names that are changed; True for those that are given other values."""
_MOST_STEPS = 4  # from one name, or from what a function gives, to another


def changed_modules(project: Project) -> Changed:
    """What is changed in each module of a project."""
    outlines = {name: project.outline(name).changes for name in project.modules if not is_library(name)}
    ways = _ways(outlines.values())
    found: dict[str, dict[str, bool]] = {}
    for module, changes in outlines.items():
        for change in changes.made:
            if change.by and change.by not in ways:
                continue
            for where, name, sets in _reached(project, module, change, 0):
                names = found.setdefault(where, {})
                names[name] = names.get(name, False) or sets
    return found


def _ways(outlines: Iterable[Changes]) -> frozenset[str]:
    """Which ways to hand something on lead to a change of it: ``name()``, ``.name``."""
    every = list(outlines)
    found = {f"{name}{CALLED}" for one in every for name in one.functions}
    found |= {f".{name}" for one in every for name in one.attributes}
    while True:
        new = {f"{name}{CALLED}" for one in every for name, by in one.keeping if by in found} - found
        if not new:
            return frozenset(found)
        found |= new


def _reached(project: Project, module: str, change: Change, depth: int) -> Iterator[tuple[str, str, bool]]:
    """The module and the name in it that a change is made to."""
    at: str | None = module
    if change.source:
        at = project.source(module, change.source)
    path = change.path
    for index, name in enumerate(path):
        if at is None or name in (CALLED, ITEM):
            return
        target = project.lookup(module, name) if not change.source and not index else project.member(at, name)
        rest = path[index + 1 :]
        if isinstance(target, ModuleRef):
            at = target.name
            continue
        if not isinstance(target, Definition):
            return
        if isinstance(target.node, ir.Function):
            if rest[:1] == (CALLED,) and depth < _MOST_STEPS:
                for one in returned_paths(target.node):
                    yield from _reached(project, target.module, Change("", (*one, *rest[1:])), depth + 1)
            if rest:
                return
        if isinstance(target.node, (ir.Assign, ir.AnnAssign)) and depth < _MOST_STEPS and not change.sets:
            for one in bound_paths(target.node, target.name):
                yield from _reached(project, target.module, Change("", (*one, *rest)), depth + 1)
        yield target.module, target.name, change.sets and not rest
        return
