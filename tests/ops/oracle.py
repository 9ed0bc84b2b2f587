"""Runs one call through a model and through ``jax.eval_shape``, and says whether the two agree."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, settings

from shardlint import ops
from shardlint.ops.registry import constant
from shardlint.values import (
    ArrayValue,
    Dimension,
    DTypeValue,
    Literal,
    SequenceValue,
    SliceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size

CASES = int(os.environ.get("ORACLE_CASES", "15"))
sampled = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="ORACLE_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Tally:
    """What the run saw: how many cases each outcome had."""

    agreed: int = 0
    errors: int = 0
    open: int = 0
    by_model: dict[str, int] = field(default_factory=dict)


TALLY = Tally()


def abstract(value: object) -> Value:
    """The abstract value of an argument: shapes stand for arrays."""
    if isinstance(value, jax.ShapeDtypeStruct):
        dims = tuple(Dimension(Size.const(n), ()) for n in value.shape)
        return ArrayValue(dims, value.dtype.name, bool(value.weak_type), frozenset())
    if isinstance(value, jax.Array):  # keys
        return ArrayValue(tuple(Dimension(Size.const(n), ()) for n in value.shape), None, False, frozenset())
    if isinstance(value, np.ndarray):
        dims = tuple(Dimension(Size.const(n), ()) for n in value.shape)
        return ArrayValue(dims, value.dtype.name, False, frozenset(), numpy=True)
    if isinstance(value, (tuple, list)):
        return SequenceValue(tuple(abstract(item) for item in value), type(value).__name__)
    if isinstance(value, slice):
        return SliceValue(abstract(value.start), abstract(value.stop), abstract(value.step))
    if isinstance(value, (np.dtype, type)) or hasattr(value, "dtype"):
        return DTypeValue(jnp.dtype(value).name)
    return constant(value)


def is_array(value: object) -> bool:
    return isinstance(value, jax.ShapeDtypeStruct)


def in_jax(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """The result shapes, or the exception that JAX raises."""
    leaves, tree = jax.tree.flatten((list(args), dict(kwargs)), is_leaf=lambda leaf: leaf is None or is_array(leaf))
    traced = [leaf for leaf in leaves if is_array(leaf)]

    def run(*arrays: object) -> object:
        given = iter(arrays)
        merged = [next(given) if is_array(leaf) else leaf for leaf in leaves]
        positional, named = jax.tree.unflatten(tree, merged)
        return function(*positional, **named)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.eval_shape(run, *traced)
    except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError, AssertionError) as error:
        return error


Runner = Callable[[list[Value], dict[str, Value]], Value]


def agree(name: str, function: Callable[..., object], args: Sequence[object],
          kwargs: Mapping[str, object] | None = None, run: Runner | None = None) -> None:  # fmt: skip
    """Demand that model and JAX agree on the result, or that both fail.

    A model may leave things open (unknown); what it does say must be so.
    """
    kwargs = kwargs or {}
    truth = in_jax(function, args, kwargs)
    values, named = [abstract(arg) for arg in args], {key: abstract(arg) for key, arg in kwargs.items()}
    what = f"{name}{tuple(args)} {dict(kwargs)}"
    TALLY.by_model[name] = TALLY.by_model.get(name, 0) + 1
    try:
        result = run(values, named) if run else ops.apply(name, values, named, ops.OpContext())
    except ops.OpError as error:
        assert isinstance(truth, Exception), f"{what}: model says {error.code} {error.message!r}, JAX gives {truth}"
        TALLY.errors += 1
        return
    if isinstance(truth, Exception):
        assert is_open(result), f"{what}: model gives {show(result)}, JAX raises {truth}"
        TALLY.open += 1
        return
    assert_same(what, result, truth)


def is_open(result: Value) -> bool:
    if isinstance(result, Unknown):
        return True
    if isinstance(result, SequenceValue):
        return any(is_open(item) for item in result.items)
    return isinstance(result, ArrayValue) and (
        result.dims is None or result.dtype is None or any(d.size is None for d in result.dims)
    )


def show(result: Value) -> str:
    if isinstance(result, ArrayValue):
        sizes = None if result.dims is None else [str(dim.size) for dim in result.dims]
        return f"{result.dtype}{'*' if result.weak else ''}{sizes}"
    return str(result)


def assert_same(what: str, result: Value, truth: object) -> None:
    if isinstance(result, Unknown):
        TALLY.open += 1
        return
    if isinstance(truth, (tuple, list)):
        if isinstance(result, ArrayValue) and result.dims is None:
            TALLY.open += 1
            return
        assert isinstance(result, SequenceValue), f"{what}: {show(result)} against {truth}"
        assert len(result.items) == len(truth), f"{what}: {len(result.items)} results against {len(truth)}"
        for part, expected in zip(result.items, truth, strict=True):
            assert_same(what, part, expected)
        return
    assert isinstance(result, ArrayValue), f"{what}: {show(result)} against {truth}"
    shape, dtype = truth.shape, truth.dtype.name  # type: ignore[attr-defined]  # a ShapeDtypeStruct
    if result.dims is not None:
        assert len(result.dims) == len(shape), f"{what}: model {show(result)}, JAX {shape}"
        for dim, size in zip(result.dims, shape, strict=True):
            assert dim.size is None or dim.size == size, f"{what}: model {show(result)}, JAX {shape}"
    else:
        TALLY.open += 1
    if result.dtype is not None:
        assert result.dtype == dtype, f"{what}: model {show(result)}, JAX {dtype}"
        weak = bool(truth.weak_type)  # type: ignore[attr-defined]
        assert result.weak == weak or dtype == "bool", f"{what}: model {show(result)}, JAX weak={weak}"
    TALLY.agreed += 1


def literal(value: object) -> Literal:
    return Literal(value)
