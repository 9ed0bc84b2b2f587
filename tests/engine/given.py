"""Arguments that fit a function's annotations, at the sizes of a witness, for replaying a finding under JAX."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import types
import typing
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.mutation.promises import Described, described

#: More combinations of members of unions, strings and flags than this are not tried.
MOST = 200
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Configuration(dict[str, Any]):
    """An unannotated ``config``: every attribute and every item is a size, by its name."""

    def __missing__(self, name: str) -> int:
        return 5 + len(name)

    def __getattr__(self, name: str) -> int:
        return self[name]


#: What parameters of these names are.
_KNOWN: dict[str, Callable[[], Any]] = {
    "config": Configuration,
    "key": lambda: jax.random.key(0),
    "axis": lambda: 0,
}


@dataclasses.dataclass(frozen=True)
class Given:
    """What parameters may be.

    ``sizes`` are those of the witness, ``others`` those that it does not name, ``leading`` is how many dimensions any
    number of them stands for if the witness does not say; ``literals`` is what the source text mentions.
    """

    sizes: Mapping[str, int]
    others: Callable[[str], int]
    leading: int
    literals: tuple[Any, ...]
    namespace: Mapping[str, Any]

    def calls(self, function: Any, cls: type | None = None) -> Iterator[dict[str, Any]]:
        """Ways to fill the parameters of a function; of a method of ``cls``, those after the first."""
        plain = inspect.unwrap(function)
        hints = typing.get_type_hints(plain, {**self.namespace})
        wanted = [
            p
            for p in inspect.signature(plain).parameters.values()
            if p.kind not in _ANY_NUMBER
        ]
        if cls is not None:
            wanted = wanted[1:]
        for values in self._ways([self._parameter(p, hints) for p in wanted]):
            yield dict(zip((p.name for p in wanted), values, strict=True))

    @staticmethod
    def _ways(choices: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
        return itertools.islice(itertools.product(*choices), MOST)

    def is_open(self, function: Any) -> bool:
        """Whether a function has a parameter that nothing is known of, besides ``self``."""
        plain = inspect.unwrap(function)
        hints = typing.get_type_hints(plain, {**self.namespace})
        return any(
            p.name not in {*hints, *_KNOWN, "self"} and p.default is p.empty
            for p in inspect.signature(plain).parameters.values()
        )

    def _parameter(
        self, parameter: inspect.Parameter, hints: Mapping[str, Any]
    ) -> list[Any]:
        if parameter.name in _KNOWN:
            return [_KNOWN[parameter.name]()]
        if parameter.name in hints:
            return list(self.values(hints[parameter.name]))
        if parameter.default is not parameter.empty:
            return [parameter.default]
        shapes = [
            s
            for s in self.literals
            if isinstance(s, tuple) and s and all(isinstance(n, int) for n in s)
        ]
        return [
            _array(shape)
            for shape in (*shapes, *((3, 5, 7, 11)[:rank] for rank in range(5)))
        ]

    def values(self, hint: Any, owner: str = "") -> Iterator[Any]:
        """What fits an annotation; of a union, what fits each of its members."""
        array = described(hint)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if array is not None:
            yield _array(tuple(self._dims(array, owner)), array.dtype)
        elif hint is jax.Array:
            yield jax.random.key(0)
        elif hint in (None, types.NoneType):
            yield None
        elif hint is bool:
            yield from (False, True)
        elif hint is int:
            yield 2
        elif hint is float:
            yield 0.5
        elif hint is str:
            yield from (s for s in self.literals if isinstance(s, str))
        elif origin in (typing.Union, types.UnionType):
            for member in args:
                yield from self.values(member, owner)
        elif origin is tuple and args[-1] is not Ellipsis:
            yield from itertools.product(
                *(list(self.values(part, owner)) for part in args)
            )
        elif origin in (list, tuple):
            yield from (origin([item, item]) for item in self.values(args[0], owner))
        elif origin is dict:
            keys = [s for s in self.literals if isinstance(s, str)] or [
                "first",
                "second",
            ]
            yield from (
                dict.fromkeys(keys, value) for value in self.values(args[1], owner)
            )
        elif isinstance(hint, type) and issubclass(hint, enum.Enum):
            yield from hint
        elif isinstance(hint, type):
            yield from self.instances(hint)
        else:
            raise NotImplementedError(f"nothing fits {hint}")

    def instances(self, cls: type) -> Iterator[Any]:
        """Instances of a class, from what its fields or its constructor say."""
        if not dataclasses.is_dataclass(cls) and not hasattr(cls, "_fields"):
            made = vars(cls).get("__init__")
            yield from (
                cls(**arguments)
                for arguments in (self.calls(made, cls) if made is not None else [{}])
            )
            return
        # Of a stacked class, what it stores are its fields' types; the annotations are those of one of the stack.
        hints = vars(cls).get("__shardtypes_fields__") or typing.get_type_hints(
            cls, {**self.namespace}
        )
        names = getattr(cls, "_fields", None) or [
            f.name
            for f in dataclasses.fields(cls)
            if f.init and f.default is f.default_factory
        ]
        for values in self._ways(
            [list(self.values(hints[name], cls.__name__)) for name in names]
        ):
            yield cls(**dict(zip(names, values, strict=True)))

    def _dims(self, array: Described, owner: str) -> Iterator[int]:
        for dim in array.shape.dims:
            if dim.kind == "variadic":
                name = dim.name or "..."
                hidden = [
                    n
                    for key, n in sorted(self.sizes.items())
                    if key.rpartition("_")[0] == name
                ]
                yield from hidden or [
                    self.others(f"{name}_{i}") + i for i in range(self.leading)
                ]
            elif dim.size is None:
                yield 2
            else:
                yield dim.size.evaluate(
                    {name: self._size(name, owner) for name in dim.size.symbols}
                )

    def _size(self, name: str, owner: str) -> int:
        own = self.sizes.get(f"{owner}.{name}")
        return own if own is not None else self.sizes.get(name, self.others(name))


def distinct(name: str) -> int:
    """A size that other names hardly have."""
    return 5 + zlib.crc32(name.encode()) % 97


def _array(shape: tuple[int, ...], dtype: Any = "float32") -> jax.Array:
    return jnp.asarray(np.zeros(shape, dtype))


def literals(node: ast.AST) -> tuple[Any, ...]:
    """The constants, and tuples of them, that a piece of a program mentions."""
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant | ast.Tuple):
            try:
                found.append(ast.literal_eval(inner))
            except ValueError:
                continue
    return tuple(found)
