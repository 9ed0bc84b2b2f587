"""What the functions of a file lack in annotations, and what they are known to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardlint import ir, messages
from shardlint.annotating.spelling import Spelling, may_hold_arrays
from shardlint.engine import run
from shardlint.engine.annotations import resolve
from shardlint.engine.classes import decorator_names
from shardlint.engine.conditions import bound_in
from shardlint.engine.joining import join_all
from shardlint.engine.strings import names_in
from shardlint.engine.types import ArrayType
from shardlint.signatures import Returned, Signatures
from shardlint.values import Unknown, Value
from shardlint.walking import functions, nodes_of

_UNLIKE_OTHERS = frozenset({"overload", "abstractmethod", "contextmanager"})
"""Decorators of functions whose bodies do not say what they give."""


@dataclass
class Lacking:
    """What one function lacks: annotations of parameters, and of its result. ``dtypes`` are the names that have to be
    imported for them. ``why`` says what is not known."""

    name: str
    node: ir.Function
    parameters: dict[str, str] = field(default_factory=dict)
    result: str | None = None
    dtypes: frozenset[str] = frozenset()
    why: str | None = None


_BARE = frozenset({"Array", "ndarray"})
"""Names of all arrays, whatever their shapes."""


def lacking(analysis: run) -> Iterator[Lacking]:
    """What each function of a file lacks, methods included, in order."""
    seen = analysis.it.signatures
    assert seen is not None
    for name, node in functions(analysis.module.body, nested=True):
        parameters = list(_open_parameters(analysis, node))
        if not parameters and not _is_open(analysis, node.returns):
            continue
        found = Lacking(name, node)
        found.why = _why_not(node, seen)
        if found.why is None:
            _infer(analysis, found, parameters, seen.returned[node.at])
        yield found


def _open_parameters(analysis: run, node: ir.Function) -> Iterator[ir.Param]:
    for number, param in enumerate(node.params):
        is_receiver = number == 0 and param.name in ("self", "cls")
        if is_receiver or "*" in param.kind:
            continue
        if _is_open(analysis, param.annotation):
            yield param


def _is_open(analysis: run, annotation: ir.Expr | None) -> bool:
    """Whether there is no annotation, or one that says no more than ``jax.Array`` does."""
    if annotation is None:
        return True
    type_ = resolve(analysis.it, annotation, analysis.module.name)
    if not isinstance(type_, ArrayType) or type_.shape is not None:
        return False
    return type_.dtype is None and type_.text in _BARE


def _why_not(node: ir.Function, seen: Signatures) -> str | None:
    """Why nothing can be said of a function."""
    if node.at not in seen.finished:
        return messages.not_followed_to_its_end()
    if node.at not in seen.returned:
        is_manual = node.at in seen.manual
        return messages.in_manual_code() if is_manual else messages.never_returns()
    if node.is_generator or node.is_async:
        return messages.result_not_of_its_body()
    if not _UNLIKE_OTHERS.isdisjoint(decorator_names(node)):
        return messages.result_not_of_its_body()
    return None


def _infer(
    analysis: run,
    found: Lacking,
    parameters: list[ir.Param],
    returned: list[Returned],
) -> None:
    it = analysis.it
    node = found.node
    module = analysis.module.name
    names: set[str] = set()
    for param in node.params:
        type_ = resolve(it, param.annotation, module)
        names |= names_in(it, type_)
    fields = returned[0].names - names
    spelling = Spelling(
        names=frozenset(names),
        fields=fields,
        numbers=_numbers(node),
    )
    assigned = frozenset(bound_in(node.body))
    for param in parameters:
        if param.name in assigned:  # it may hold something else by then
            continue
        held = [one.parameters[param.name] for one in returned]
        text = spelling.parameter(join_all(held))
        if text is not None:
            found.parameters[param.name] = text
    if _is_open(analysis, node.returns):
        results = [one.result for one in returned]
        _infer_result(found, spelling, results)
    found.dtypes = frozenset(spelling.used)


def _infer_result(found: Lacking, spelling: Spelling, results: list[Value]) -> None:
    result = join_all(results)
    found.result = spelling.result(result)
    if isinstance(result, Unknown) and any(map(may_hold_arrays, results)):
        reason = result.reason or "unknown"
        found.why = messages.result_not_known(reason)


def _numbers(node: ir.Function) -> frozenset[int]:
    """Those that a function writes out itself: others come from settings, and may be changed there."""
    found = [one.value for one in nodes_of(node.body, ir.Const)]
    return frozenset(one for one in found if isinstance(one, int))
