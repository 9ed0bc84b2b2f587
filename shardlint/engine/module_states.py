"""``flax.nnx``'s functional API: modules split into a structure and states, and merged again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from shardlint import ir
from shardlint.engine import boxes, objects
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    InstanceValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)

_NNX = "flax.nnx"
_OF = "of"
"""The field of a structure that holds the module it was split from."""


def _made_class(name: str) -> ClassValue:
    return ClassValue(ir.Class(-1, name, (), (), (), -1), _NNX, name)


_STRUCTURE = _made_class("GraphDef")
#: Some of the variables of a module, under the module's names. It is not followed as a tree: what is computed of it is
#: unknown.
_STATE = _made_class("State")


@knows((f"{_NNX}.split",))
def split(site: Site) -> Value | None:
    """``nnx.split(module, *filters)``: the structure, and a state for each filter, or one of all variables."""
    module = _module(site)
    if module is None:
        return None
    states = max(len(site.args) - 1, 1)
    structure = InstanceValue(_STRUCTURE, ((_OF, module),), exact=True)
    return SequenceValue((structure, *[_state(module)] * states))


@knows((f"{_NNX}.graphdef",))
def structure(site: Site) -> Value | None:
    """``nnx.graphdef(module)``."""
    module = _module(site)
    if module is None:
        return None
    return InstanceValue(_STRUCTURE, ((_OF, module),), exact=True)


@knows((f"{_NNX}.state",))
def state(site: Site) -> Value | None:
    """``nnx.state(module, *filters)``: one state, or one for each of several filters."""
    module = _module(site)
    if module is None:
        return None
    if len(site.args) <= 2:
        return _state(module)
    return SequenceValue(tuple(_state(module) for _ in site.args[1:]))


@knows((f"{_NNX}.merge",))
def merge(site: Site) -> Value | None:
    """``nnx.merge(structure, *states)``: a module of the same class.

    Its arrays have the shapes of the states, which may be slices of those that the structure was split from, or stacks.
    """
    if len(site.args) < 2 or site.kwargs:
        return None
    structure, *states = site.args
    module = _split_from(structure)
    if module is None:
        return None
    same = all(one == _state(module) for one in states)
    return _rebuilt(module, _kept if same else _forgotten)


@knows((f"{_NNX}.update", f"{_NNX}.replace_by_pure_dict"))
def update(site: Site) -> Value | None:
    """``nnx.update(module, *states)``: its variables hold other arrays."""
    if not site.args:
        return None
    module, *states = site.args
    if isinstance(module, InstanceValue):
        own = _state(module)
        if not states or any(one != own for one in states):
            other = Unknown("a variable that was updated")
            changes = [(variable, other) for variable in _variables(module)]
            objects.replaced(site.it, site.frame, changes)
    return Literal(None)


@knows((f"{_NNX}.clone",))
def clone(site: Site) -> Value | None:
    """``nnx.clone(module)``: the same, with variables of its own."""
    module = _module(site)
    return None if module is None else _rebuilt(module, boxes.made)


def _module(site: Site) -> InstanceValue | None:
    """The first argument, if it is a module whose class is known."""
    if not site.args or site.kwargs:
        return None
    module = site.args[0]
    if isinstance(module, InstanceValue) and not module.prefix:
        return module
    return None


def _state(module: InstanceValue) -> InstanceValue:
    fields = tuple((name, _rebuilt(held, _kept)) for name, held in module.fields)
    return InstanceValue(_STATE, fields, exact=True)


def _split_from(structure: Value) -> InstanceValue | None:
    """The module that a structure was split from."""
    if not isinstance(structure, InstanceValue) or structure.cls is not _STRUCTURE:
        return None
    module = dict(structure.fields)[_OF]
    return module if isinstance(module, InstanceValue) else None


def _variables(value: Value) -> Iterator[Value]:
    if isinstance(value, ArrayValue):
        yield value
    for part in objects.parts(value):
        yield from _variables(part)


def _kept(variable: ArrayValue) -> Value:
    """A variable that a module and its state, or two modules, have in common."""
    return variable


def _forgotten(variable: ArrayValue) -> Value:
    return Unknown("a variable of a merged module")


def _rebuilt(value: Value, variable: Callable[[ArrayValue], Value]) -> Value:
    """The same modules, lists and dicts as objects of their own, with what a function gives for each variable."""
    match value:
        case ArrayValue():
            return variable(value)
        case InstanceValue(fields=fields):
            held = tuple((name, _rebuilt(item, variable)) for name, item in fields)
            return replace(value, fields=held)
        case SequenceValue(items=items):
            return replace(value, items=tuple(_rebuilt(one, variable) for one in items))
        case DictValue(items=pairs):
            return DictValue(
                tuple((key, _rebuilt(item, variable)) for key, item in pairs)
            )
        case CollectionValue(item=item):
            return replace(value, item=_rebuilt(item, variable))
        case _:
            return value
