"""The names of modules that functions, or other modules, change: what these hold when they are used is not what their
module wrote.

Functions that change what they are given, and attributes that hold it, are told apart by name alone, so too many count
rather than too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from shardlint import ir
from shardlint.changes import (
    CALLED,
    ITEM,
    Change,
    Changes,
    Path,
    bound_paths,
    returned_paths,
)
from shardlint.project import Definition, ModuleRef, Project, is_library

Changed: TypeAlias = Mapping[str, Mapping[str, bool]]
"""By modules, the names that are changed; True for those that are given other values."""
Reached: TypeAlias = tuple[str, str, bool]
"""A module, a name in it, and whether the name is given another value."""
_MOST_STEPS = 4  # from one name, or from what a function gives, to another


def changed_modules(project: Project) -> Changed:
    """What is changed in each module of a project."""
    outlines = {
        name: project.outline(name).changes
        for name in project.modules
        if not is_library(name)
    }
    ways = _ways(outlines.values())
    reach = _Reach(project)
    found: dict[str, dict[str, bool]] = {}
    for module, changes in outlines.items():
        for change in changes.made:
            if change.by and change.by not in ways:
                continue
            for where, name, sets in reach.reached(module, change):
                names = found.setdefault(where, {})
                names[name] = names.get(name, False) or sets
    return found


def _ways(outlines: Iterable[Changes]) -> frozenset[str]:
    """Which ways to hand something on lead to a change of it: ``name()``, ``.name``."""
    every = list(outlines)
    found = {f"{name}{CALLED}" for one in every for name in one.functions}
    found |= {f".{name}" for one in every for name in one.attributes}
    while True:
        new = {
            f"{name}{CALLED}"
            for one in every
            for name, by in one.keeping
            if by in found
        } - found
        if not new:
            return frozenset(found)
        found |= new


class _Reach:
    """What changes are made to. Each is followed once, and each body read once, however many changes lead there."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: dict[tuple[str, Change, int], Mapping[Reached, None]] = {}
        self._returned: dict[int, tuple[ir.Function, tuple[Path, ...]]] = {}
        self._bound: dict[tuple[int, str], tuple[ir.Stmt, tuple[Path, ...]]] = {}

    def reached(
        self, module: str, change: Change, depth: int = 0
    ) -> Mapping[Reached, None]:
        """The modules and the names in them that a change is made to, after ``depth`` steps."""
        key = (module, change, depth)
        if key not in self._found:
            self._found[key] = dict.fromkeys(self._follow(module, change, depth))
        return self._found[key]

    def _follow(self, module: str, change: Change, depth: int) -> Iterator[Reached]:
        project = self._project
        at: str | None = module
        if change.source:
            at = project.source(module, change.source)
        path = change.path
        for index, name in enumerate(path):
            if at is None or name in (CALLED, ITEM):
                return
            target = (
                project.lookup(module, name)
                if not change.source and not index
                else project.member(at, name)
            )
            rest = path[index + 1 :]
            if isinstance(target, ModuleRef):
                at = target.name
                continue
            if not isinstance(target, Definition):
                return
            if isinstance(target.node, ir.Function):
                if rest[:1] == (CALLED,) and depth < _MOST_STEPS:
                    for one in self._returned_by(target.node):
                        yield from self.reached(
                            target.module, Change("", (*one, *rest[1:])), depth + 1
                        )
                if rest:
                    return
            if (
                isinstance(target.node, (ir.Assign, ir.AnnAssign))
                and depth < _MOST_STEPS
                and not change.sets
            ):
                for one in self._bound_by(target.node, target.name):
                    yield from self.reached(
                        target.module, Change("", (*one, *rest)), depth + 1
                    )
            yield target.module, target.name, change.sets and not rest
            return

    def _returned_by(self, node: ir.Function) -> tuple[Path, ...]:
        known = self._returned.get(id(node))
        if known is None:
            known = self._returned[id(node)] = (
                node,
                tuple(dict.fromkeys(returned_paths(node))),
            )
        return known[1]

    def _bound_by(self, node: ir.Assign | ir.AnnAssign, name: str) -> tuple[Path, ...]:
        key = (id(node), name)
        known = self._bound.get(key)
        if known is None:
            known = self._bound[key] = (
                node,
                tuple(dict.fromkeys(bound_paths(node, name))),
            )
        return known[1]
