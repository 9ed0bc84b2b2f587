"""Which lists of logical rules may be in force: given with the call, by a context, by the settings, or anywhere in the
project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.interpreter import StepLimit
from shardlint.engine.sharding.site import NONE, Site
from shardlint.engine.sharding.specs import axes_of
from shardlint.logical_rules import RuleList
from shardlint.outline import RULES_CONTEXTS, RULES_PARAMETERS
from shardlint.project import RULES, Project
from shardlint.values import ExternalValue, Literal, PartialValue, SequenceValue, Value
from shardlint.walking import nodes_of, walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_LIBRARIES = ("flax", "shardtypes")


def is_library(qualname: str, names: frozenset[str] | None = None) -> bool:
    """Whether this is one of flax's functions, or ours; of these names, if there are any."""
    if qualname.partition(".")[0] not in _LIBRARIES:
        return False
    return names is None or qualname.rpartition(".")[2] in names


def from_value(value: Value, place: tuple[str, int] | None) -> RuleList | None:
    """A list of rules as a value of the program; None where it is not known in full."""
    if not isinstance(value, SequenceValue) or not value.items:
        return None
    rules = []
    for pair in value.items:
        if not isinstance(pair, SequenceValue) or len(pair.items) != 2:
            return None
        name, axes = pair.items
        if not isinstance(name, Literal) or not isinstance(name.value, str):
            return None
        rules.append((name.value, axes_of(axes)))
    return RuleList(tuple(rules), "", place)


def entered(context: Value, before: RuleList | None) -> RuleList | None:
    """The rules in force inside ``with context:``."""
    if isinstance(context, PartialValue) and isinstance(context.func, ExternalValue):
        if is_library(context.func.qualname, RULES_CONTEXTS):
            given = (
                context.args[0]
                if context.args
                else dict(context.kwargs).get("rules", NONE)
            )
            return from_value(given, None)
    return before


def lists(site: Site, given: Value = NONE) -> tuple[RuleList, ...]:
    """The lists one of which is in force at a call; empty where that is not certain. ``given`` is its own argument."""
    if given != NONE:
        own = from_value(given, None)
        return (own,) if own is not None else ()
    if site.frame.rules is not None:
        return (site.frame.rules,)
    return site.it.rules or in_project(site.it)


def in_project(it: Interpreter) -> tuple[RuleList, ...]:
    """All lists that the project puts in force somewhere; empty if it has none, one that is not known, or files that
    were not looked at."""
    return (
        ()
        if not it.project.complete or None in _all(it)
        else tuple(one for one in _all(it) if one is not None)
    )


def may_name_axes(it: Interpreter) -> bool:
    """Whether rules may give axes to dimensions of annotations that are written without any."""
    return bool(it.rules or _all(it))


def _all(it: Interpreter) -> tuple[RuleList | None, ...]:
    """Every list that the project puts in force; None for one that is not known."""
    return noted(it.project, it.mesh, it.rules, type(it))


def noted(
    project: Project,
    mesh: Mapping[str, int | None],
    rules: Sequence[RuleList],
    interpreter: type[Interpreter],
) -> tuple[RuleList | None, ...]:
    """Every list that a project puts in force, looked for once; None for one that is not known."""
    # an interpreter of its own, and nothing while looking, where a module evaluated for this may ask for it again: the
    # answer is the same whoever asks first
    return project.note(
        RULES, lambda: _search(interpreter(project, mesh, rules)), meanwhile=()
    )


def _search(it: Interpreter) -> tuple[RuleList | None, ...]:
    found: dict[RuleList | None, None] = {}
    for name in it.project.modules:
        if not it.project.outline(name).gives_rules:
            continue
        for call, qualname in _calls(it, it.project.modules[name]):
            position, keyword = RULES_PARAMETERS[qualname.rpartition(".")[2]]
            positional = [
                arg.value for arg in call.args if arg.keyword is None and not arg.star
            ]
            given = next(
                (arg.value for arg in call.args if arg.keyword == keyword), None
            )
            if given is None and position < len(positional):
                given = positional[position]
            if given is None:
                continue
            found[_evaluated(it, given, name)] = None
    return tuple(found)


def _evaluated(it: Interpreter, expr: ir.Expr, module: str) -> RuleList | None:
    """The list that an expression gives at the level of its module; None where that is not known."""

    frame = it.module_frame(module)
    frame.silent += 1
    steps, it.steps = it.steps, 0
    try:
        found = from_value(it.evaluate(frame, expr), None)
        return None if found is None else _placed(found, *_origin(it, expr, module))
    except StepLimit:
        return None
    finally:
        it.steps = steps
        frame.silent -= 1


def _calls(it: Interpreter, module: ir.Module) -> Iterator[tuple[ir.Call, str]]:
    """The calls in a module that are given rules, with their qualified names."""
    if not any(_imports(node) for node in module.body):
        return
    for node in walk(module.body):
        if isinstance(node, ir.Call) and isinstance(node.func, (ir.Name, ir.Attr)):
            last = node.func.id if isinstance(node.func, ir.Name) else node.func.name
            if last in RULES_PARAMETERS:
                target = it.resolve_static(node.func, module.name)
                if isinstance(target, ExternalValue) and is_library(
                    target.qualname, frozenset(RULES_PARAMETERS)
                ):
                    yield node, target.qualname


def _imports(node: ir.Stmt) -> bool:
    if isinstance(node, ir.Import):
        return any(name.partition(".")[0] in _LIBRARIES for _, name in node.bindings)
    return (
        isinstance(node, ir.ImportFrom) and node.module.partition(".")[0] in _LIBRARIES
    )


def _placed(rules: RuleList, module: str, written: ir.Expr) -> RuleList:
    """A list that knows where it, and each of its mesh axes, is written."""
    axes_at = tuple(
        (node.value, node.at)
        for node in nodes_of(written, ir.Const)
        if isinstance(node.value, str)
    )
    return replace(rules, place=(module, written.at), axes_at=axes_at)


def _origin(it: Interpreter, expr: ir.Expr, module: str) -> tuple[str, ir.Expr]:
    """The module and the expression in which the list that an expression names is written."""
    found = (
        it.resolve_static(expr, module)
        if isinstance(expr, (ir.Name, ir.Attr))
        else None
    )
    written: ir.Expr | None = getattr(found, "expr", None)
    if written is not None:
        return getattr(found, "module", module), written
    return module, expr
