"""Arguments for a function of the program, made from its annotations, or else from the specs by which they are sharded:
random numbers at small sizes.

The numbers follow from the function alone, so each run of a program is given the same.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from shardlint.evaluation.array_annotations import (
    MAPPED_BY_TYPES,
    ArrayType,
    Stacked,
    fields_of,
    names_of,
    resolved,
    with_fields,
)
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import is_users
from shardlint.evaluation.meshes import Mesh
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.placing import Jitted
from shardlint.evaluation.unmade import Guess, Unmade
from shardtypes.lang import Size, dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.primitives.random import random_wrap
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.special import held

MOST_ENTRIES = 1_000_000
_PREFERRED = ("float32", "int32", "bool", "complex64")
_ANY_ARRAYS = frozenset(
    "jax.Array jax.numpy.ndarray jax.typing.ArrayLike jaxtyping.Array jaxtyping.ArrayLike chex.Array typing.Any".split()
)
_MESHES = (
    "jax.sharding.Mesh",
    "jax.sharding.AbstractMesh",
    "jax.Mesh",
    "jax.interpreters.pxla.Mesh",
)


class Sizes(dict[str, int]):
    """A size for each name that is asked for: multiples of ``unit``, or all the same."""

    def __init__(self, unit: int, distinct: bool) -> None:
        super().__init__()
        self.unit = unit
        self.distinct = distinct

    def __missing__(self, name: str) -> int:
        factor = len(self) % 3 + 1 if self.distinct else 1
        self[name] = self.unit * factor
        return self[name]


class Maker:
    """Makes the arguments of one call: what has the same name has the same size. Numbers are normal, or ``positive``
    ones below one. ``mesh`` makes a mesh where the function takes one. What no annotation describes is made by
    ``guess``; ``guessed`` are the names of such arguments."""

    def __init__(
        self,
        sizes: Sizes,
        positive: bool,
        mesh: Callable[[], Mesh],
        guess: Guess,
        guessed: list[str],
    ) -> None:
        self.sizes = sizes
        self.guessed = guessed
        self._positive = positive
        self._mesh = mesh
        self._guess = guess
        self._random = np.random.default_rng(0)

    def arguments(self, function: Any) -> tuple[list[Any], dict[str, Any]]:
        """Those of a call, by position and by name. Raises NotEvaluable where none can be made."""
        names = names_of(function)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in parameters_of(function):
            made = self._argument(parameter, names)
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = made
            else:
                positional.append(made)
        return positional, named

    def method(self, cls: Any, name: str) -> Any:
        """A method of a class of the program, of an object that is made. Raises NotEvaluable where none can be."""
        is_own = isinstance(cls, type) and is_users(cls)
        found = inspect.getattr_static(cls, name, None) if is_own else None
        if isinstance(found, (staticmethod, classmethod)):
            return getattr(cls, name)
        if isinstance(found, Jitted):
            found = found.fun
        is_wrapped = hasattr(found, "__wrapped__")
        is_known = not is_wrapped or hasattr(found, MAPPED_BY_TYPES)
        if not isinstance(found, types.FunctionType) or not is_known:
            raise NotEvaluable("a method that is something else")
        return types.MethodType(found, self._object(cls))

    def _object(self, cls: type) -> Any:
        if is_dataclass(cls) or issubclass(cls, tuple):
            return self._fields(cls, ())
        made = cls.__init__
        if not isinstance(made, types.FunctionType):
            return cls()
        positional, named = self.arguments(types.MethodType(made, cls))
        return cls(*positional, **named)

    def _argument(self, parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
        annotation = parameter.annotation
        if annotation is parameter.empty:
            if parameter.name == "mesh":
                return self._mesh()
            return Unmade(parameter.name, ", which has no annotation", self._guessed)
        try:
            kind = resolved(annotation, names)
            if isinstance(kind, Outside) and kind.qualname in _ANY_ARRAYS:
                return Unmade(
                    parameter.name, ", whose annotation gives no shape", self._guessed
                )
            return self._of(kind, names)
        except NotEvaluable as error:
            raise NotEvaluable(
                f"its argument {parameter.name}: {error.reason}"
            ) from error

    def _guessed(self, name: str, rank: int) -> Array:
        """An array for an argument of which only the rank of its spec is known. All sizes are the same, so that those
        that must agree do."""
        self.guessed.append(name)
        rank = max(rank, 1 if name in self._guess.as_specs else self._guess.rank)
        shape = [self.sizes.unit] * rank
        if math.prod(shape) > MOST_ENTRIES:
            raise NotEvaluable("an array of too many entries")
        return self.array(shape, "int32" if name == self._guess.whole else "float32")

    def _of(
        self, kind: Any, names: dict[str, Any], before: tuple[int, ...] = ()
    ) -> Any:
        """A value of a type; ``before`` are dimensions in front of those of each array in it."""
        if isinstance(kind, ArrayType):
            return self.array((*before, *self._shape(kind)), kind.dtype)
        if isinstance(kind, Stacked):
            return self._of(
                kind.inner, names, (*before, *self._shape(ArrayType(kind.text, None)))
            )
        if (
            isinstance(kind, type)
            and is_users(kind)
            and (is_dataclass(kind) or issubclass(kind, tuple))
        ):
            return self._fields(kind, before)
        if isinstance(kind, types.GenericAlias) and kind.__origin__ is tuple:
            return tuple(self._of(one, names, before) for one in kind.__args__)
        if isinstance(kind, types.UnionType):
            present = [one for one in kind.__args__ if one is not types.NoneType]
            return self._of(present[0], names, before)
        if (
            isinstance(kind, Mesh)
            or (isinstance(kind, Outside) and kind.qualname in _MESHES)
            or kind is Mesh
        ):
            return self._mesh()
        raise NotEvaluable("of a type of which no value is made")

    def _fields(self, cls: type, before: tuple[int, ...]) -> Any:
        """An object of a class of the program: its fields are made, or have their defaults. A configuration, of which
        none can be made, is what the class makes by itself."""
        made_fields: dict[str, Any] = {}
        defaults = _defaults_of(cls)
        for name, kind in fields_of(cls).items():
            try:
                made_fields[name] = self._of(kind, {}, before)
            except NotEvaluable:
                if name not in defaults:
                    raise
        if defaults and not made_fields:
            return cls()
        found = {name: make() for name, make in defaults.items()} | made_fields
        return with_fields(cls, found)

    def _shape(self, kind: ArrayType) -> tuple[int, ...]:
        shape = kind.shape
        if shape.pending:
            raise NotEvaluable("an array that is a partial sum")
        found: list[int] = []
        for dim in shape.dims:
            if dim.kind == "variadic":
                continue  # no dimension is as good as any
            found.append(
                self._size(dim.size) if dim.size is not None else self.sizes.unit
            )
        if math.prod(found) > MOST_ENTRIES:
            raise NotEvaluable("an array of too many entries")
        return tuple(found)

    def _size(self, size: Size) -> int:
        try:
            value = size.evaluate(self.sizes)
        except ZeroDivisionError as error:
            raise NotEvaluable("a size that is divided by zero") from error
        if value <= 0:
            raise NotEvaluable("a size that is not positive")
        return value

    def array(self, shape: Sequence[int], dtype: str | None) -> Array:
        """Random numbers. Whole ones are small, so that they may be indices of any dimension."""
        if dtype == dtypes.KEY:
            words = Simulated.everywhere(self._whole((*shape, 2)))
            return random_wrap(Array((*shape, 2), "uint32", value=words))
        name = _one_of(dtype)
        if name == "bool":
            numbers: Any = self._random.random(shape) > 0.5
        elif dtypes.is_kind(name, "signed", "unsigned"):
            numbers = self._whole(shape)
        elif self._positive:
            numbers = self._random.uniform(0.1, 0.9, shape)
        else:
            numbers = self._random.standard_normal(shape)
        return Array(
            tuple(shape),
            name,
            value=Simulated.everywhere(held(np.asarray(numbers), name)),
        )

    def _whole(self, shape: Sequence[int]) -> Any:
        return self._random.integers(0, self.sizes.unit, tuple(shape))


def _defaults_of(cls: type) -> dict[str, Callable[[], Any]]:
    """What gives the defaults of fields."""
    if issubclass(cls, tuple):
        given: Mapping[str, Any] = getattr(cls, "_field_defaults", {})
        return {name: partial(_same, value) for name, value in given.items()}
    found: dict[str, Callable[[], Any]] = {}
    for one in fields(cast(Any, cls)):
        if one.default is not MISSING:
            found[one.name] = partial(_same, one.default)
        elif one.default_factory is not MISSING:
            found[one.name] = one.default_factory
    return found


def _same(value: Any) -> Any:
    return value


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """The parameters of a function that have no default."""
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if not isinstance(inner, (types.FunctionType, types.MethodType)):
        raise NotEvaluable("something that is no function")
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(inner).parameters.values()
    return [
        one for one in found if one.default is one.empty and one.kind not in optional
    ]


def _one_of(dtype: str | None) -> str:
    """A dtype of a family."""
    if dtype is None:
        return _PREFERRED[0]
    members = dtypes.members(dtype)
    return next((name for name in _PREFERRED if name in members), min(members))
