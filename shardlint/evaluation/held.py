"""Objects of libraries that programs use as the arrays that they hold: variables, parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.indexing import At


class Held:
    """An object with a ``value``, which is what operators, functions and items of it are of."""

    value: Any

    def __jax_array__(self) -> Array:
        return asarray(self.value)

    def __getitem__(self, item: Any) -> Any:
        return self.value if item is ... else self.value[item]

    def __setitem__(self, item: Any, new: Any) -> None:
        if item is ...:
            self.value = new
        else:
            self.value = At(asarray(self.value))[item].set(new)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)


def content(value: Any) -> Any:
    """What a variable holds; anything else as it is."""
    while isinstance(value, Held):
        value = value.value
    return value


def _of_one(function: Callable[[Any], Any]) -> Callable[[Held], Any]:
    return lambda held: function(content(held))


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[[Held, Any], Any]:
    return lambda held, other: function(content(held), content(other))


def _reversed(function: Callable[[Any, Any], Any]) -> Callable[[Held, Any], Any]:
    return lambda held, other: function(content(other), content(held))


for _name in ("neg", "pos", "abs", "invert"):
    setattr(Held, f"__{_name}__", _of_one(getattr(operator, _name)))
for _name, _function in (("bool", bool), ("int", int), ("float", float)):
    setattr(Held, f"__{_name}__", _of_one(_function))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Held, f"__{_name}__", _of_two(getattr(operator, _name)))
for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
):
    setattr(Held, f"__{_name}__", _of_two(getattr(operator, _name)))
    setattr(Held, f"__r{_name}__", _reversed(getattr(operator, _name)))
