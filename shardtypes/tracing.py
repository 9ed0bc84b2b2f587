"""``trace``: is a function right for all sizes? Asked of JAX's own rules, with no data and no devices.

The sizes are symbols first. Where those are inconclusive, as in code that branches on a size, distinct primes stand
for them, in two assignments; where primes fail and sizes with many divisors do not, the answer is *could not tell*.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from shardtypes import _stats
from shardtypes.certainty import refuses, whole_tracebacks, why_uncertain
from shardtypes.checked import _MISSING, display_name, typechecked
from shardtypes.dtypes import ArrayType, array_spec, numpy_dtype
from shardtypes.errors import ShardTypeError, TypeCheckError
from shardtypes.lang import format_witness
from shardtypes.meshes import axes_of_type, mesh_sizes
from shardtypes.partition_specs import map_type, spec_of
from shardtypes.trace_arguments import Argument, CannotTell, arguments_of, combinations, shapes_of, sizes_of_examples

_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53), (59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107))
_COMPOSITES = tuple(48 * n for n in (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43))

_FAMILY = {
    "floating": "float32",
    "inexact": "float32",
    "number": "float32",
    "any": "float32",
    "integer": "int32",
    "signedinteger": "int32",
    "unsignedinteger": "uint32",
    "complexfloating": "complex64",
}


@dataclass(frozen=True)
class Verdict:
    """``ok`` is True, False, or None for *could not tell*; ``reason`` says why. ``proved`` is whether it was shown for
    all sizes; what holds without that was tried with two assignments of sizes. ``sizes`` is an assignment for which it
    fails and ``error`` what was raised there; ``result`` is the tree of ``ShapeDtypeStruct`` that the function
    returns."""

    ok: bool | None
    reason: str
    result: Any = None
    sizes: Mapping[str, int] | None = None
    error: Exception | None = None
    proved: bool = False

    def raise_if_failed(self) -> Verdict:
        """Raise what was found wrong, with the sizes as a note."""
        if self.ok is False:
            error = self.error if self.error is not None else ShardTypeError(self.reason)
            if self.sizes:
                error.add_note(f"fails for {format_witness(dict(self.sizes))}")
            raise error
        return self

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three values: use .ok, which is True, False or None")


def trace(
    f: Callable[..., Any], *examples: Any, mesh: Any = None, sizes: Mapping[str, int] | None = None, **named: Any
) -> Verdict:
    """Check an annotated function without running it.

    Arguments are made from the annotations; ``examples`` (and named ones) are used in their place where given, and are
    needed for parameters that are neither annotated arrays nor have a default, and for static fields without one.
    ``sizes`` fixes the sizes of names. ``mesh`` is a mesh, concrete or abstract and of any size, on which shardings
    are checked too where its axes are Explicit. Of a method found in its class the object is made like any argument,
    if the class is a ``pytree_dataclass``; ``*args`` stand for two.
    """
    with whole_tracebacks():
        return _trace(f, examples, mesh, sizes or {}, named)


def _trace(
    f: Callable[..., Any], examples: tuple[Any, ...], mesh: Any, sizes: Mapping[str, int], named: Mapping[str, Any]
) -> Verdict:
    name = display_name(f)
    try:
        calls = combinations(arguments_of(f, examples, named))
    except (CannotTell, NameError) as error:
        return Verdict(None, f"{name}: {error}")
    if len(calls) == 1:
        return _trace_call(name, f, calls[0][1], mesh, sizes)
    verdicts: list[tuple[str, Verdict]] = []
    for words, parameters in calls:
        title = f"{name} with {words}"
        verdict = _trace_call(title, f, parameters, mesh, sizes)
        if verdict.ok is False:
            return verdict
        if not verdicts or not refuses(verdict.error):  # values that do not go together are no fault
            verdicts.append((title, verdict))
    title, weakest = min(verdicts, key=lambda pair: (pair[1].ok is not None, pair[1].proved))
    if weakest.ok is None:
        return weakest
    tried = " or ".join(words for words, _ in calls) if len(calls) < 4 else f"{len(calls)} combinations of values"
    reason = f"{name}: {weakest.reason.removeprefix(title + ': ')}; with {tried}"
    return replace(weakest, reason=reason, result=verdicts[0][1].result)


def _trace_call(
    name: str, f: Callable[..., Any], parameters: list[Argument], mesh: Any, sizes: Mapping[str, int]
) -> Verdict:
    try:
        sizes = {**sizes_of_examples(f, parameters), **sizes}
        symbols = _symbols(parameters, sizes)
        factors = _factors(parameters, mesh)
    except (CannotTell, NameError) as error:
        return Verdict(None, f"{name}: {error}")
    checked = f if hasattr(f, "__shardtypes_checked__") else typechecked(f)
    symbolic = _symbolic_sizes(symbols, factors, sizes)
    supposed = [f"{a.parameter.name}={a.value!r}" for a in parameters if a.supposed]
    silent = "".join(f"; with {text}" for text in supposed) + _not_compared(parameters, mesh)
    try:
        before = dict(_stats._reasons)
        made = _evaluate(checked, parameters, symbolic, mesh)
        unbound = [r for r, n in _stats._reasons.items() if n > before.get(r, 0) and r.startswith("size ")]
        reason = f"{name}: holds for all sizes" + "".join(f"; {r}" for r in unbound) + silent
        return Verdict(True, reason, made, proved=not unbound)
    except CannotTell as error:
        return Verdict(None, f"{name}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever user code raises at symbolic sizes is asked again with numbers
        first = error
    failures: list[tuple[dict[str, int], Exception]] = []
    result: Any = None
    for numbers in _PRIMES:
        chosen = _numbers(symbols, factors, sizes, numbers)
        try:
            result = _evaluate(checked, parameters, chosen, mesh)
        except Exception as error:  # noqa: BLE001 - as above: the verdict carries it
            failures.append((chosen, error))
    if not failures:
        tried = "; ".join(format_witness(_numbers(symbols, factors, sizes, n)) for n in _PRIMES)
        reason = f"{name}: holds for {tried} (for all sizes it cannot be told: {_line(first)}){silent}"
        return Verdict(True, reason, result)
    chosen = _numbers(symbols, factors, sizes, _COMPOSITES)
    try:
        result = _evaluate(checked, parameters, chosen, mesh)
    except Exception as error:  # noqa: BLE001 - as above
        where, last = failures[0]
        why = why_uncertain(last) or why_uncertain(error)
        if why is not None:
            return Verdict(None, f"{name}: {why}", None, None, last)
        if _kind(error) != _kind(last):
            # Two reasons, each about the sizes that were chosen, do not say that no sizes would do.
            tried = f"fails for {format_witness(where)}: {_line(last)}; for {format_witness(chosen)}: {_line(error)}"
            return Verdict(None, f"{name}: {tried}", None, where, last)
        return Verdict(
            False,
            f"{name}: fails for {format_witness(where)}: {last}" if where else f"{name}: {last}",
            None,
            where,
            last,
        )
    where, last = failures[0]
    return Verdict(
        None,
        f"{name}: holds for {format_witness(chosen)}, fails for {format_witness(where)}: {_line(last)}",
        result,
        where,
        last,
    )


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _kind(error: Exception) -> tuple[type, str]:
    """What an error says, whatever the sizes."""
    return type(error), re.sub(r"\d+", "", _line(error))


def _not_compared(parameters: list[Argument], mesh: Any) -> str:
    """What a verdict must add where annotations name axes and JAX's types say nothing about them."""
    axes = sorted({axis for shape in shapes_of(parameters) for axis in shape.axes})
    if not axes:
        return ""
    if mesh is None:
        return "; shardings were not compared: pass a mesh with Explicit axes"
    left = [axis for axis in axes if axis not in axes_of_type(mesh, "Explicit")]
    return f"; shardings over {', '.join(left)} were not compared: JAX says them of Explicit axes only" if left else ""


def _symbols(parameters: list[Argument], sizes: Mapping[str, int]) -> list[str]:
    names: dict[str, None] = {}
    for shape in shapes_of(parameters):
        for dim in shape.dims:
            for symbol in sorted(dim.size.symbols) if dim.size is not None else ():
                names[symbol] = None
    return [name for name in names if name not in sizes]


def _factors(parameters: list[Argument], mesh: Any) -> dict[str, int]:
    """By how much each name must be divisible, so that its axes split it evenly."""
    lengths = mesh_sizes(mesh)
    factors: dict[str, int] = {}
    for shape in shapes_of(parameters):
        for dim in shape.dims:
            for axis in dim.axes:
                if mesh is not None and axis not in lengths:
                    raise CannotTell(f"the mesh has no axis {axis!r}")
            count = math.prod(lengths.get(axis, 1) for axis in dim.axes)
            for symbol in dim.size.symbols if dim.size is not None else ():
                factors[symbol] = math.lcm(factors.get(symbol, 1), count)
    return factors


def _symbolic_sizes(symbols: list[str], factors: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, Any]:
    from jax import export

    if not symbols:
        return dict(sizes)
    made = export.symbolic_shape(", ".join(symbols))
    return {
        **sizes,
        **{n: d * factors.get(n, 1) if factors.get(n, 1) > 1 else d for n, d in zip(symbols, made, strict=True)},
    }


def _numbers(
    symbols: list[str], factors: Mapping[str, int], sizes: Mapping[str, int], numbers: tuple[int, ...]
) -> dict[str, int]:
    endless = itertools.chain(numbers, itertools.count(numbers[-1] + 2, 2))
    return {**sizes, **{name: next(endless) * factors.get(name, 1) for name in symbols}}


def _evaluate(f: Any, parameters: list[Argument], sizes: Mapping[str, Any], mesh: Any) -> Any:
    def leaf(annotation: ArrayType) -> jax.ShapeDtypeStruct:
        return _struct(annotation, sizes, mesh)

    static: dict[str, Any] = {}
    traced: dict[str, Any] = {}
    for argument in parameters:
        name = argument.parameter.name
        if argument.value is _MISSING:
            traced[name] = map_type(argument.annotation, leaf, many=_one)
        elif _is_tree_of_arrays(argument.value):
            traced[name] = argument.value
        else:
            static[name] = argument.value
    # Before items of *args everything is positional.
    last = max((i for i, a in enumerate(parameters) if a.parameter.kind is a.parameter.POSITIONAL_ONLY), default=-1)
    only = {a.parameter.name for a in parameters[: last + 1]}

    def call(values: dict[str, Any]) -> Any:
        every = {**static, **values}
        first = [every[a.parameter.name] for a in parameters if a.parameter.name in only]
        return f(*first, **{n: v for n, v in every.items() if n not in only})

    with _mesh_in_force(mesh):
        return jax.eval_shape(call, traced)


def _one(container: type, item: Any) -> Any:
    if issubclass(container, list):
        return [item]
    if issubclass(container, tuple):
        return (item,)
    raise CannotTell(f"the keys of a {container.__name__} are not known: give an example")


def _is_tree_of_arrays(value: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct, np.ndarray)) for leaf in leaves)


def _struct(annotation: ArrayType, sizes: Mapping[str, Any], mesh: Any) -> jax.ShapeDtypeStruct:
    spec = array_spec(annotation)
    dims = []
    for dim in spec.shape.dims:
        if dim.kind == "variadic":
            continue  # no dimensions is one of the ranks that it allows
        dims.append(3 if dim.size is None else dim.size.evaluate(sizes))
    if spec.dtype.name == "key":
        dtype: Any = jax.eval_shape(lambda: jax.random.key(0)).dtype
    else:
        dtype = numpy_dtype(spec.dtype) or np.dtype(_FAMILY.get(spec.dtype.name, "float32"))
    if mesh is not None and axes_of_type(mesh, "Explicit") and spec.shape.rank is not None:
        abstract = mesh.abstract_mesh if isinstance(mesh, jax.sharding.Mesh) else mesh
        return jax.ShapeDtypeStruct(tuple(dims), dtype, sharding=NamedSharding(abstract, spec_of(spec.shape)))
    return jax.ShapeDtypeStruct(tuple(dims), dtype)


@contextlib.contextmanager
def _mesh_in_force(mesh: Any) -> Iterator[None]:
    if mesh is None:
        yield
        return
    abstract = mesh.abstract_mesh if isinstance(mesh, jax.sharding.Mesh) else mesh
    with jax.sharding.use_abstract_mesh(abstract):
        yield


__all__ = ["TypeCheckError", "Verdict", "trace"]
