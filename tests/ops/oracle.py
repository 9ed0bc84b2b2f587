"""Runs one call through a model and through ``jax.eval_shape``, and says whether the two agree."""

from __future__ import annotations

import itertools
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, settings

from shardlint import ops
from shardlint.ops.registry import constant
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    SliceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes
from tests.ops.open_models import MAY_BE_OPEN

QUICK = "ORACLE_CASES" not in os.environ
CASES = int(os.environ.get("ORACLE_CASES", "15"))
sampled = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=QUICK,
    suppress_health_check=list(HealthCheck),
)


#: Examples of a mapped call: no size that is drawn, so that nothing fits by chance.
_MAPPED = 11
#: Of so many arrays each choice of mapped ones is tried.
_MOST_MAPPED = 3

# Half of what is drawn is refused; to take its own frames out of each traceback costs JAX more than to refuse.
jax.config.update("jax_traceback_filtering", "off")

TALLY: dict[str, Counter[str]] = {}
"""What the run saw: per model how many calls it answered, refused, or left open beside what JAX says."""


def abstract(value: object) -> Value:
    """The abstract value of an argument: shapes stand for arrays."""
    if isinstance(value, jax.ShapeDtypeStruct):
        dims = tuple(Dimension(Size.const(n), ()) for n in value.shape)
        return ArrayValue(dims, value.dtype.name, bool(value.weak_type), frozenset())
    if isinstance(value, jax.Array):  # keys
        return ArrayValue(
            tuple(Dimension(Size.const(n), ()) for n in value.shape),
            None,
            False,
            frozenset(),
        )
    if isinstance(value, np.ndarray):
        dims = tuple(Dimension(Size.const(n), ()) for n in value.shape)
        return ArrayValue(dims, value.dtype.name, False, frozenset(), numpy=True)
    if isinstance(value, (tuple, list)):
        return SequenceValue(
            tuple(abstract(item) for item in value), type(value).__name__
        )
    if isinstance(value, dict):
        return DictValue(tuple((key, abstract(item)) for key, item in value.items()))
    if isinstance(value, slice):
        return SliceValue(
            abstract(value.start), abstract(value.stop), abstract(value.step)
        )
    if isinstance(value, (np.dtype, type)) or hasattr(value, "dtype"):
        return DTypeValue(jnp.dtype(value).name)
    if callable(value) and getattr(jnp, getattr(value, "__name__", ""), None) is value:
        return ExternalValue(f"jax.numpy.{value.__name__}")
    return constant(value)


@jax.tree_util.register_static
@dataclass(eq=False)
class Plain:
    """A result that is no array of JAX: a number, a string, a dtype, something of NumPy."""

    value: object


def _plain(leaf: object) -> object:
    return leaf if isinstance(leaf, jax.Array) else Plain(leaf)


def eager(function: Callable[..., object]) -> Callable[..., object]:
    """The function of arrays of ones, for functions that want to see values."""

    def run(*args: object, **kwargs: object) -> object:
        with jax.ensure_compile_time_eval():
            args, kwargs = jax.tree.map(
                lambda leaf: (
                    jnp.ones(leaf.shape, leaf.dtype)
                    if isinstance(leaf, jax.Array)
                    else leaf
                ),
                (args, kwargs),
            )
            return function(*args, **kwargs)

    return run


def context() -> ops.OpContext:
    """A context in which models may call the functions that they are given."""

    def call(f: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if not isinstance(f, ExternalValue):
            return Unknown()
        return ops.apply(f.qualname, list(args), dict(kwargs), context())

    return ops.OpContext(call=call)


def is_array(value: object) -> bool:
    return isinstance(value, jax.ShapeDtypeStruct)


def in_jax(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object],
           mapped: Sequence[bool] = ()) -> object:  # fmt: skip
    """The result shapes, or the exception that JAX raises; of what ``vmap`` maps, if ``mapped`` says which arrays."""
    leaves, tree = jax.tree.flatten(
        (list(args), dict(kwargs)), is_leaf=lambda leaf: leaf is None or is_array(leaf)
    )
    traced = [leaf for leaf in leaves if is_array(leaf)]

    def run(*arrays: object) -> object:
        given = iter(arrays)
        merged = [next(given) if is_array(leaf) else leaf for leaf in leaves]
        positional, named = jax.tree.unflatten(tree, merged)
        return jax.tree.map(_plain, function(*positional, **named))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not mapped:
                return jax.eval_shape(run, *traced)
            rows = [
                jax.ShapeDtypeStruct((_MAPPED, *x.shape), x.dtype) if m else x
                for x, m in zip(traced, mapped, strict=True)
            ]
            return jax.eval_shape(
                jax.vmap(run, [0 if m else None for m in mapped]), *rows
            )
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        RuntimeError,
        AssertionError,
    ) as error:
        return error


def mapped_otherwise(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """What is refused of one example is refused under ``vmap`` too: which arrays are mapped where JAX takes it."""
    count = sum(map(is_array, jax.tree.leaves((list(args), dict(kwargs)))))
    for mapped in itertools.islice(
        itertools.product((True, False), repeat=count), 2**_MOST_MAPPED
    ):
        if any(mapped) and not isinstance(
            in_jax(function, args, kwargs, mapped), Exception
        ):
            return mapped
    return None


Runner = Callable[[list[Value], dict[str, Value]], Value]


def agree(name: str, function: Callable[..., object], args: Sequence[object],
          kwargs: Mapping[str, object] | None = None, run: Runner | None = None) -> object:  # fmt: skip
    """Demand that model and JAX agree on the result, or that both fail; what JAX says.

    A model may leave things open (unknown); what it does say must be so.
    """
    kwargs = kwargs or {}
    truth = in_jax(function, args, kwargs)
    values, named = (
        [abstract(arg) for arg in args],
        {key: abstract(arg) for key, arg in kwargs.items()},
    )
    what = f"{name}{tuple(args)} {dict(kwargs)}"
    tally = TALLY.setdefault(name, Counter())
    try:
        result = (
            run(values, named) if run else ops.apply(name, values, named, context())
        )
    except ops.OpError as error:
        assert isinstance(truth, Exception), (
            f"{what}: model says {error.code} {error.message!r}, JAX gives {truth}"
        )
        accepting = mapped_otherwise(function, args, kwargs)
        assert accepting is None, (
            f"{what}: model says {error.code} {error.message!r}, JAX maps it over {accepting}"
        )
        tally["refused"] += 1
        return truth
    tally[
        f"{'open' if is_open(result) else 'answered'}, {'error' if isinstance(truth, Exception) else 'result'}"
    ] += 1
    if isinstance(truth, Exception):
        assert is_open(result), (
            f"{what}: model gives {show(result)}, JAX raises {truth}"
        )
        return truth
    assert_same(what, result, truth)
    if (
        QUICK
        and name not in MAY_BE_OPEN
        and "where" not in kwargs
        and not name.endswith(" index")
    ):
        assert has_shape(result), (
            f"{what}: model gives {show(result)}, JAX {truth}; only those in MAY_BE_OPEN may"
        )
    return truth


def has_shape(result: Value) -> bool:
    """Whether the shape of every array in a result is known."""
    if isinstance(result, SequenceValue):
        return all(has_shape(item) for item in result.items)
    if isinstance(result, ArrayValue):
        return result.dims is not None and all(
            dim.size is not None for dim in result.dims
        )
    return not isinstance(result, Unknown)


def is_open(result: Value) -> bool:
    if isinstance(result, Unknown):
        return True
    if isinstance(result, SequenceValue):
        return any(is_open(item) for item in result.items)
    if isinstance(result, (ScalarValue, StringValue)) or result in (
        IntValue(None),
        DTypeValue(None),
    ):
        return True
    return isinstance(result, ArrayValue) and (
        result.dims is None
        or result.dtype is None
        or any(d.size is None for d in result.dims)
    )


def show(result: Value) -> str:
    if isinstance(result, ArrayValue):
        sizes = None if result.dims is None else [str(dim.size) for dim in result.dims]
        return f"{result.dtype}{'*' if result.weak else ''}{sizes}"
    return str(result)


def assert_same(what: str, result: Value, truth: object) -> None:
    if isinstance(result, Unknown):
        return
    if isinstance(truth, Plain) or truth is None:
        assert is_value(result, truth.value if isinstance(truth, Plain) else None), (
            f"{what}: {result} against {truth}"
        )
        return
    if isinstance(truth, dict):
        assert isinstance(result, DictValue), f"{what}: {show(result)} against {truth}"
        known = dict(result.items)
        assert known.keys() == truth.keys(), f"{what}: {known} against {truth}"
        for key, expected in truth.items():
            assert_same(what, known[key], expected)
        return
    if isinstance(truth, (tuple, list)):
        if isinstance(result, ArrayValue) and result.dims is None:
            return
        if isinstance(result, CollectionValue):
            for expected in truth:
                assert_same(what, result.item, expected)
            return
        assert isinstance(result, SequenceValue), (
            f"{what}: {show(result)} against {truth}"
        )
        assert len(result.items) == len(truth), (
            f"{what}: {len(result.items)} results against {len(truth)}"
        )
        for part, expected in zip(result.items, truth, strict=True):
            assert_same(what, part, expected)
        return
    if isinstance(result, SequenceValue) and result.kind == "keys":
        assert len(result.items) == truth.shape[0], what  # type: ignore[attr-defined]  # as below
        return
    assert isinstance(result, ArrayValue), f"{what}: {show(result)} against {truth}"
    shape, dtype = truth.shape, dtype_of(truth)  # type: ignore[attr-defined]  # a ShapeDtypeStruct
    if result.dims is not None:
        assert len(result.dims) == len(shape), (
            f"{what}: model {show(result)}, JAX {shape}"
        )
        assert all(map(_fits, result.dims, shape)), (
            f"{what}: model {show(result)}, JAX {shape}"
        )
    if result.dtype is not None:
        assert dtype in dtypes.members(result.dtype), (
            f"{what}: model {show(result)}, JAX {dtype}"
        )
        weak = bool(truth.weak_type)  # type: ignore[attr-defined]
        said = result.dtype in dtypes.CONCRETE and dtype != "bool"
        assert not said or result.weak == weak, (
            f"{what}: model {show(result)}, JAX weak={weak}"
        )


def dtype_of(array: object) -> str:
    """The name of the dtype of an array; JAX's names for keys say how they are made."""
    dtype = array.dtype  # type: ignore[attr-defined]  # a ShapeDtypeStruct
    return dtypes.KEY if jnp.issubdtype(dtype, jax.dtypes.prng_key) else dtype.name


def _fits(dim: Dimension, size: int) -> bool:
    return dim.size is None or dim.size == size


def is_value(result: Value, truth: object) -> bool:
    """Whether the value may be this number, string or dtype."""
    match result:
        case IntValue(size):
            return isinstance(truth, (int, np.integer)) and (
                size is None or size == int(truth)
            )
        case ScalarValue(kind):
            return isinstance(
                truth,
                {"bool": (bool, np.bool_), "float": float, "complex": complex}[kind],
            )
        case ArrayValue(dims=None, dtype=None, numpy=True):
            return True  # or a number, as NumPy's functions give where nothing is known of a size
        case ArrayValue(dims, dtype):
            shape = np.shape(truth)  # type: ignore[arg-type]  # an array of NumPy
            fits = dims is None or (
                len(dims) == len(shape) and all(map(_fits, dims, shape))
            )
            return (
                fits
                and isinstance(truth, (np.ndarray, np.generic))
                and dtype in (None, truth.dtype.name)
            )
        case StringValue():
            return isinstance(truth, str)
        case DTypeValue(name):
            return name is None or jnp.dtype(truth).name in dtypes.members(name)
        case Literal(value):
            return type(value) is type(truth) and value == truth
    return False
