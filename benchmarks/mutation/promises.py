"""The truth: annotations as promises, kept or broken by what JAX makes of the program at chosen sizes.

Independent of every tool that is compared: it shares only the parser of shape strings. Each function has one table of
names, bound by its parameters; expressions are compared once their names are known. In manual code a dimension's local
size times the lengths of its axes is its size.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import core  # the axes in scope have no public name

from shardtypes.accepted_dtypes import accepts, numpy_dtype
from shardtypes.dtypes import ArrayType, array_spec, shape_of_type
from shardtypes.fields import field_types, is_pytree_dataclass
from shardtypes.lang import Shape, parse

PRIMES = (
    (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53),
    (59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107),
)

_STANDS_FOR = {
    "floating": jnp.float32,
    "integer": jnp.int32,
    "anydtype": jnp.float32,
    "unsignedinteger": jnp.uint32,
}


class BrokenPromise(Exception):
    """A value is not what its annotation says."""


class CannotMake(Exception):
    """No argument can be made from an annotation."""


@dataclasses.dataclass(frozen=True)
class Described:
    """An array annotation of either dialect."""

    shape: Shape
    accepts: Callable[[Any], bool]
    dtype: Any
    text: str


def described(hint: Any) -> Described | None:
    """The array that an annotation describes."""
    if isinstance(hint, ArrayType):
        spec = array_spec(hint)
        dtype = numpy_dtype(spec.dtype) or _STANDS_FOR.get(spec.dtype.name, jnp.float32)
        return Described(
            shape_of_type(hint), lambda d: accepts(spec.dtype, d), dtype, repr(hint)
        )
    names = getattr(hint, "dtypes", None)
    if isinstance(hint, type) and hasattr(hint, "dim_str") and hasattr(hint, "dims"):
        listed = tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()
        choices = ("float32", "int32", "bool", "uint32")
        dtype = next(
            (c for c in choices if c in listed), listed[0] if listed else "float32"
        )
        wanted = set(listed)
        if "prng_key" in wanted:
            return None
        return Described(
            parse(hint.dim_str, "jaxtyping"),
            lambda d: not wanted or str(d) in wanted,
            jnp.dtype(dtype),
            hint.__name__,
        )
    return None


class Table:
    """What the names of one function's annotations stand for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: dict[str, int] = {}
        self.variadics: dict[str, tuple[int, ...]] = {}
        self.waiting: list[tuple[Any, int, str]] = []

    def match(self, array: Described, value: Any, what: str) -> None:
        """Bind and compare the dimensions of one value."""
        if not array.accepts(value.dtype):
            raise BrokenPromise(
                f"{self.name}: {what} is {value.dtype}, not {array.text}"
            )
        actual = tuple(value.shape)
        dims = array.shape.dims
        at = array.shape.variadic
        wrong = f"{self.name}: {what} has shape {actual}, not {array.text}"
        if len(actual) != len(dims) if at is None else len(actual) < len(dims) - 1:
            raise BrokenPromise(wrong)
        if at is not None:
            count = len(actual) - len(dims) + 1
            name = dims[at].name
            if (
                name
                and self.variadics.setdefault(name, actual[at : at + count])
                != actual[at : at + count]
            ):
                raise BrokenPromise(wrong)
            actual = actual[:at] + actual[at + count :]
            dims = dims[:at] + dims[at + 1 :]
        for dim, local in zip(dims, actual, strict=True):
            if dim.size is None or (dim.kind == "broadcast" and local == 1):
                continue
            size = local * math.prod(_axis_sizes().get(a, 1) for a in dim.axes)
            if dim.name:
                if self.sizes.setdefault(dim.name, size) != size:
                    raise BrokenPromise(
                        f"{wrong} with {dim.name}={self.sizes[dim.name]}"
                    )
            else:
                self.waiting.append((dim.size, size, wrong))

    def settle(self) -> None:
        """Compare the expressions whose names are known by now."""
        for size, actual, wrong in self.waiting:
            if (
                size.symbols <= self.sizes.keys()
                and size.evaluate(self.sizes) != actual
            ):
                raise BrokenPromise(wrong)
        self.waiting = [
            w for w in self.waiting if not w[0].symbols <= self.sizes.keys()
        ]

    def check(self, value: Any, hint: Any, what: str) -> None:
        """Compare a value with an annotation, arrays inside containers included."""
        array = described(hint)
        if array is not None:
            if not hasattr(value, "shape") or not hasattr(value, "dtype"):
                raise BrokenPromise(
                    f"{self.name}: {what} is {type(value).__name__}, not {array.text}"
                )
            self.match(array, value, what)
            return
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if (
            origin is tuple
            and isinstance(value, tuple)
            and args
            and args[-1] is not Ellipsis
        ):
            if len(value) != len(args):
                raise BrokenPromise(
                    f"{self.name}: {what} has {len(value)} entries, not {len(args)}"
                )
            for i, (part, wanted) in enumerate(zip(value, args, strict=True)):
                self.check(part, wanted, f"{what}[{i}]")
        elif origin is tuple and args and not isinstance(value, tuple):
            raise BrokenPromise(f"{self.name}: {what} is no tuple")
        elif origin in (typing.Union, types.UnionType) and value is not None:
            wanted = [a for a in args if a is not type(None)]
            if len(wanted) == 1:
                self.check(value, wanted[0], what)
        elif is_pytree_dataclass(hint):
            if not isinstance(value, hint):
                raise BrokenPromise(
                    f"{self.name}: {what} is {type(value).__name__}, not {hint.__name__}"
                )
            for field, wanted in field_types(hint).items():
                self.check(getattr(value, field), wanted, f"{what}.{field}")


def _axis_sizes() -> dict[str, int]:
    found: dict[str, int] = dict(core.get_axis_env().axis_sizes)  # type: ignore[attr-defined]
    return found


class Checks:
    """What instrumented functions call. ``entered`` collects the functions that ran."""

    def __init__(self) -> None:
        self.entered: set[str] = set()

    def enter(
        self, name: str, *parameters: tuple[Any, Callable[[], Any], str]
    ) -> Table:
        self.entered.add(name)
        table = Table(name)
        for value, hint, what in parameters:
            table.check(value, _resolved(hint), what)
        table.settle()
        return table

    def later(
        self, table: Table, value: Any, hint: Callable[[], Any], what: str
    ) -> Any:
        table.check(value, _resolved(hint), what)
        table.settle()
        return value


def _resolved(hint: Callable[[], Any]) -> Any:
    try:
        found = hint()
    except NameError:
        return None
    return found


def instrumented(source: bytes) -> ast.Module:
    """The program with a call of ``__checks__`` at every annotated parameter, local and result."""
    tree = ast.parse(source)
    _Instrument().visit(tree)
    return ast.fix_missing_locations(tree)


class _Instrument(ast.NodeTransformer):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.results: list[ast.expr | None] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.names.append(node.name)
        self.results.append(None)
        # Annotations in a class body are fields, not locals.
        node.body = [
            s if isinstance(s, ast.AnnAssign) else self.visit(s) for s in node.body
        ]
        self.names.pop()
        self.results.pop()
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.names.append(node.name)
        name = ".".join(self.names)
        self.results.append(node.returns)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parameters = [
            ast.Tuple(
                [
                    ast.Name(a.arg, ast.Load()),
                    _thunk(a.annotation),
                    ast.Constant(a.arg),
                ],
                ast.Load(),
            )
            for a in arguments
            if a.annotation is not None
        ]
        enter = _call("enter", ast.Constant(name), *parameters)
        body = [self.visit(s) for s in node.body]
        node.body = [
            ast.Assign([ast.Name("__table__", ast.Store())], enter),
            *itertools.chain.from_iterable(
                s if isinstance(s, list) else [s] for s in body
            ),
        ]
        self.names.pop()
        self.results.pop()
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        result = self.results[-1] if self.results else None
        if result is not None and node.value is not None:
            table = ast.Name("__table__", ast.Load())
            node.value = _call(
                "later", table, node.value, _thunk(result), ast.Constant("the result")
            )
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self.results and node.value is not None:
            what = ast.Constant(ast.unparse(node.target))
            node.value = _call(
                "later",
                ast.Name("__table__", ast.Load()),
                node.value,
                _thunk(node.annotation),
                what,
            )
        return node


def _thunk(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    empty = ast.arguments(
        posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    return ast.Lambda(empty, annotation)


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(
        ast.Attribute(ast.Name("__checks__", ast.Load()), name, ast.Load()),
        list(arguments),
        [],
    )


# --- arguments from annotations --------------------------------------------------------------------------------------


class Maker:
    """Arguments for one call; every name gets the next prime."""

    def __init__(self, primes: tuple[int, ...]) -> None:
        self._primes: Iterator[int] = itertools.chain(
            primes, (primes[-1] + 2 * i for i in itertools.count(1))
        )
        self.sizes: dict[str, int] = {}

    def make(self, hint: Any, name: str) -> Any:
        """Something of that type.

        Raises:
            CannotMake: a type that says nothing of the value's shape.
        """
        array = described(hint)
        if array is not None:
            return jax.ShapeDtypeStruct(tuple(self._dims(array.shape)), array.dtype)
        if name in {"key", "rng"} and hint in (jax.Array, None):
            return jax.eval_shape(lambda: jax.random.key(0))
        if hint is int and name in self.sizes:
            return self.sizes[name]
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple and args and args[-1] is not Ellipsis:
            return tuple(self.make(a, name) for a in args)
        if origin is list and args:
            return [self.make(args[0], name), self.make(args[0], name)]
        if origin in (typing.Union, types.UnionType):
            wanted = [a for a in args if a is not type(None)]
            if len(wanted) == 1:
                return self.make(wanted[0], name)
        if is_pytree_dataclass(hint):
            return hint(**{f: self.make(t, f) for f, t in field_types(hint).items()})
        if isinstance(hint, type) and (
            dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")
        ):
            return hint(
                **{f: self.make(t, f) for f, t in typing.get_type_hints(hint).items()}
            )
        raise CannotMake(f"{name}: {hint}")

    def _dims(self, shape: Shape) -> Iterator[int]:
        for dim in shape.dims:
            if dim.kind == "variadic":
                yield self._size(f"*{dim.name}")
            elif dim.size is None:
                yield next(self._primes)
            else:
                yield dim.size.evaluate({s: self._size(s) for s in dim.size.symbols})

    def _size(self, name: str) -> int:
        if name not in self.sizes:
            self.sizes[name] = next(self._primes)
        return self.sizes[name]
