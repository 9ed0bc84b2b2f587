"""Annotated functions that other modules call in the manual view: which view that is, and where nothing tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine.regions import Regions
from shardlint.import_graph import mapped_from_nowhere, mapping_importers
from shardlint.jax_version import Version
from shardlint.logical_rules import RuleList
from shardlint.ops.sharding.view import View
from shardlint.project import FROM_NOWHERE, MAPPED, MAPPING, Project
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
        f"{MAPPED} {it.target}",
        lambda: _search(it, analysis),
        meanwhile={},
        keeps=True,
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
        FROM_NOWHERE, lambda: mapped_from_nowhere(it.project), meanwhile=none
    )
    return (node.name in names) or it.target.rpartition(".")[2] in names


#: What is only called, or put around a function, outside of manual code.
_GLOBAL = frozenset(
    """with_sharding_constraint reshard device_put jit pjit NamedSharding make_mesh set_mesh use_mesh shard_map
    typed_shard_map pmap""".split()
)


def _last(node: ir.Name | ir.Attr) -> str:
    return node.id if isinstance(node, ir.Name) else node.name


def _search(it: Interpreter, analysis: Analysis) -> Views:
    """The views in which every other module that maps functions, and may call some of this one, calls them."""
    found: dict[int, dict[View, None]] = {}
    importers = it.project.note(
        f"{MAPPING} {it.target}", lambda: mapping_importers(it.project, it.target)
    )
    for name in importers:
        for node, views in _called_by(it, name, analysis).items():
            found.setdefault(node, {}).update(views)
    return {node: tuple(views) for node, views in found.items()}


def _called_by(
    it: Interpreter, name: str, analysis: Analysis
) -> Mapping[int, Mapping[View, None]]:
    """What a module calls of all others in manual code: analysed once, however many of those ask."""
    project, settings = it.project, Settings(it.mesh, it.rules, it.jax)
    return project.note(
        f"{MAPPED} by {name}",
        lambda: analysis(project, project.modules[name], settings).elsewhere,
        meanwhile={},
        keeps=True,
    )
