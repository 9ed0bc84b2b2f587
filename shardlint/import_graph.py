"""Which modules of a project import which, directly or through others.

An import is taken for every module that it may mean: too many count rather than too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from shardlint.project import IMPORTERS, Project

Importers: TypeAlias = Mapping[str, AbstractSet[str]]
"""By module, those that may import it."""


def importers(project: Project) -> Importers:
    """Those that may import each module themselves."""
    named = _modules_by_name(project.modules)
    found: dict[str, set[str]] = {name: set() for name in project.modules}
    for name in project.modules:
        for text in project.outline(name).imports:
            for one in _absolute_names(name, text):
                for module in named.get(one, ()):
                    found[module].add(name)
    return found


def mapping_importers(project: Project, module: str) -> list[str]:
    """The other modules that map functions and may call some of one, in the order of the project."""
    direct = project.note(IMPORTERS, lambda: importers(project))
    importing = _closure(direct, module) - {module}
    return [
        name
        for name in project.modules
        if name in importing and project.outline(name).maps_functions
    ]


def mapped_from_nowhere(project: Project) -> frozenset[str]:
    """The last parts of all that modules which map functions import from modules of which no file was found."""
    found: set[str] = set()
    for name in project.modules:
        outline = project.outline(name)
        if not outline.maps_functions:
            continue
        links = project.links.get(name, {})
        for text in outline.imports:
            options = _absolute_names(name, text)
            heads = {head for one in options for head in (one, one.rpartition(".")[0])}
            if not any(head in project.modules or head in links for head in heads):
                found.add(text.rpartition(".")[2])
    return frozenset(found)


def _absolute_names(importer: str, text: str) -> list[str]:
    """What an imported name may be: of a relative one, as the importer is a package or a module of one."""
    name = text.lstrip(".")
    level = len(text) - len(name)
    if not level:
        return [name]
    parts = importer.split(".")
    heads = [parts[: len(parts) - up] for up in (level - 1, level)]
    return [".".join([*head, *([name] if name else [])]) for head in heads]


def _modules_by_name(modules: Iterable[str]) -> dict[str, list[str]]:
    """By each name that an import may say of a module: its own, and as scripts of a folder name it that is no
    package."""
    found: dict[str, list[str]] = {}
    for module in modules:
        parts = module.split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append(module)
    return found


def _closure(importers: Importers, module: str) -> set[str]:
    """The modules that may import one, directly or not, and itself."""
    found = {module}
    waiting = [module]
    while waiting:
        new = importers[waiting.pop()] - found
        found |= new
        waiting += new
    return found
