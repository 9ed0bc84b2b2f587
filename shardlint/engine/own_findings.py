"""What is wrong with a function of another module whatever it is called with: that is told there, not at each call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import parameter_value
from shardlint.engine.frames import Frame
from shardlint.engine.inline import in_place
from shardlint.engine.types import says_something
from shardlint.events import Event
from shardlint.values import FunctionValue

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_Place: TypeAlias = tuple[str, tuple[str, int]]
"""The code of a finding, and where in another module it is."""


@contextmanager
def told_elsewhere(
    it: Interpreter, frame: Frame, func: FunctionValue, at: int
) -> Iterator[None]:
    """While a function is evaluated for a call: of another module's, only what these arguments make of it is found."""
    before = set(it.events)
    yield
    if func.module == it.target or len(it.events) == len(before):
        return
    own = _own(it, frame, func, at)
    for key, event in [*it.events.items()]:
        if key not in before and _place(event) in own:
            del it.events[key]


def _own(
    it: Interpreter, frame: Frame, func: FunctionValue, at: int
) -> frozenset[_Place]:
    """What is found in a function that is called with what its annotations say, and nothing else."""
    types = [
        (param, resolve(it, param.annotation, func.module))
        for param in func.node.params
    ]
    if not any(says_something(type_) for _, type_ in types):
        return frozenset()
    key = (id(func.node), it.view)
    known = it.own_findings.get(key)
    if known is None:
        declared = Frame(func.module)
        given = {
            param.name: parameter_value(it, declared, param, type_)
            for param, type_ in types
        }
        before, it.events = it.events, {}
        in_place(it, frame, func, given, at)
        places = map(_place, it.events.values())
        known = it.own_findings[key] = frozenset(
            place for place in places if place is not None
        )
        it.events = before
    return known


def _place(event: Event) -> _Place | None:
    return (event.code, event.related[-1][:2]) if event.related else None
