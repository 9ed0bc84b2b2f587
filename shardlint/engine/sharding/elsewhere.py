"""Annotated functions that other modules call in the manual view: which view that is, and where nothing tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine.regions import Regions
from shardlint.jax_version import Version
from shardlint.logical_rules import RuleList
from shardlint.ops.sharding.view import View
from shardlint.project import MAPPED, Project
from shardlint.walking import walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

Views: TypeAlias = "Mapping[int, tuple[View, ...]]"
#: Analyses a module of a project with settings, and gives what it found to be manual.
Analysis: TypeAlias = "Callable[[Project, ir.Module, Settings], Regions]"


@dataclass(frozen=True, slots=True)
class Settings:
    """What another module is analysed with: axes that are explicit are of no matter in manual code."""

    mesh: dict[str, int | None]
    logical_rules: tuple[RuleList, ...]
    jax: Version
    explicit_axes: tuple[str, ...] = ()


def views_of(
    it: Interpreter, node: ir.Function, analysis: Analysis
) -> tuple[View, ...]:
    """The manual views in which other modules, each analysed for it, call a function of the analysed one."""
    found: Views = it.project.note(
        f"{MAPPED} {it.target}", lambda: _search(it, analysis), meanwhile={}
    )
    return found.get(id(node), ())


def may_be_manual(it: Interpreter, node: ir.Function) -> bool:
    """Whether manual code that is not followed may call a function of the analysed module: code of files that are not
    part of this run, or code that imports it from where no file was found."""
    if any(
        isinstance(n, (ir.Name, ir.Attr)) and _last(n) in _GLOBAL
        for n in walk((node.decorators, node.body))
    ):
        return False
    if not it.project.complete:
        return True
    none = frozenset[str]()
    names = it.project.note(
        f"{MAPPED} from nowhere", lambda: _from_nowhere(it.project), meanwhile=none
    )
    return (node.name in names) or it.target.rpartition(".")[2] in names


#: What is only called, or put around a function, outside of manual code.
_GLOBAL = frozenset(
    """with_sharding_constraint reshard device_put jit pjit NamedSharding make_mesh set_mesh use_mesh shard_map
    typed_shard_map pmap""".split()
)


def _last(node: ir.Name | ir.Attr) -> str:
    return node.id if isinstance(node, ir.Name) else node.name


def _from_nowhere(project: Project) -> frozenset[str]:
    """The last parts of all that modules which map functions import from modules of which no file was found."""
    found: set[str] = set()
    for name in project.modules:
        outline = project.outline(name)
        if not outline.maps_functions:
            continue
        links = project.links.get(name, {})
        for text in outline.imports:
            options = _absolute(name, text)
            heads = {head for one in options for head in (one, one.rpartition(".")[0])}
            if not any(head in project.modules or head in links for head in heads):
                found.add(text.rpartition(".")[2])
    return frozenset(found)


def _search(it: Interpreter, analysis: Analysis) -> Views:
    """Every other module that maps functions and may call some of this one is analysed for what it calls."""
    found: dict[int, dict[View, None]] = {}
    project, settings = it.project, Settings(it.mesh, it.rules, it.jax)
    for name in project.modules:
        if (
            name != it.target
            and project.outline(name).maps_functions
            and it.target in _reached(project, name)
        ):
            regions = analysis(project, project.modules[name], settings)
            for node, views in regions.elsewhere.items():
                found.setdefault(node, {}).update(views)
    return {node: tuple(views) for node, views in found.items()}


def _reached(project: Project, start: str) -> set[str]:
    """The modules that one may import, directly or not: at least those that it does."""
    found, waiting = {start}, [start]
    while waiting:
        importer = waiting.pop()
        names = {
            one
            for text in project.outline(importer).imports
            for one in _absolute(importer, text)
        }
        new = {
            name
            for name in project.modules
            if any(part in names for part in _suffixes(name))
        } - found
        found |= new
        waiting += new
    return found


def _absolute(importer: str, text: str) -> list[str]:
    """What an imported name may be: of a relative one, as the importer is a package or a module of one."""
    name = text.lstrip(".")
    level = len(text) - len(name)
    if not level:
        return [name]
    parts = importer.split(".")
    heads = [parts[: len(parts) - up] for up in (level - 1, level)]
    return [".".join([*head, *([name] if name else [])]) for head in heads]


def _suffixes(name: str) -> list[str]:
    """A module's name, and as scripts of a folder name it that is no package."""
    parts = name.split(".")
    return [".".join(parts[i:]) for i in range(len(parts))]
