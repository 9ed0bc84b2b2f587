"""Calls that JAX refuses, which lowerings refuse too; and others much like them, which both take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import pytest

from shardtypes.semantics.array import Array
from tests.semantics.call import resolved
from tests.semantics.refusing import refuses


def _of(dtype: str) -> Any:
    return lambda *shape: jax.ShapeDtypeStruct(shape, dtype)


F, H, I, U, B, C = map(_of, "float32 bfloat16 int32 uint8 bool complex64".split())


@dataclass(frozen=True)
class Row:
    """A function with arguments that it refuses, and with others that it takes."""

    name: str
    refused: tuple[Any, ...]
    taken: tuple[Any, ...]
    refused_named: dict[str, Any] | None = None
    taken_named: dict[str, Any] | None = None

    def __str__(self) -> str:
        given = ", ".join(map(_shown, self.refused))
        return f"{self.name}({given}){self.refused_named or ''}"


def _shown(argument: Any) -> str:
    if is_array(argument):
        return f"{argument.dtype}{argument.shape}"
    if isinstance(argument, list):
        return str(list(map(_shown, argument)))
    return str(argument)


def is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def jax_refuses(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    leaves, tree = jax.tree.flatten(args, is_leaf=lambda leaf: leaf is None)

    def run(*arrays: Any) -> Any:
        rest = iter(arrays)
        given = [next(rest) if is_array(leaf) else leaf for leaf in leaves]
        return resolved(name)(*jax.tree.unflatten(tree, given), **kwargs)

    try:
        jax.eval_shape(run, *filter(is_array, leaves))
    except (TypeError, ValueError, RuntimeError, ArithmeticError):
        return True
    return False


def refuses_here(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    def given(leaf: Any) -> Any:
        if is_array(leaf):
            return Array(leaf.shape, leaf.dtype.name)
        return leaf

    own = jax.tree.map(given, args, is_leaf=lambda leaf: leaf is None or is_array(leaf))
    return refuses(name, own, kwargs)


#: Functions of one operand or two, which say what kinds of dtypes they take.
_ONE = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos cosh digamma erf
erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg population_count real reciprocal round
rsqrt sign sin sinh sqrt square tan tanh"""
_TWO = """add atan2 bitwise_and bitwise_or bitwise_xor complex div eq ge gt igamma igammac le lt max min mul ne
nextafter polygamma pow rem shift_left shift_right_arithmetic shift_right_logical sub zeta"""
COUNTS = {**dict.fromkeys(_ONE.split(), 1), **dict.fromkeys(_TWO.split(), 2), "betainc": 3, "clamp": 3}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_kinds_of_dtypes(name: str) -> None:
    for array in (F(3), I(3), U(3), B(3), C(3)):
        args = (array,) * COUNTS[name]
        expected = jax_refuses(f"jax.lax.{name}", args, {})
        assert refuses_here(f"jax.lax.{name}", args, {}) == expected, array


_LAX = [
    Row("jax.lax.add", (F(3), H(3)), (F(3), F(3))),
    Row("jax.lax.add", (F(3), 1), (F(3), 1.0)),
    Row("jax.lax.mul", (H(3), 2.0), (F(3), 2.0)),
    Row("jax.lax.max", (1, F(3)), (1, I(3))),
    Row("jax.lax.sub", (F(3), F(2, 3)), (F(), F(2, 3))),
    Row("jax.lax.sub", (F(3), F(2)), (F(1), F(2))),
    Row("jax.lax.eq", (I(3), F(3)), (I(3), I(3))),
    Row("jax.lax.igamma", (F(3), H(3)), (H(3), H(3))),
    Row("jax.lax.pow", (F(3), H(3)), (F(3), I(3))),
    Row("jax.lax.pow", (I(3), I(3)), (F(3), 2)),
    Row("jax.lax.betainc", (F(3), F(3), F(2, 3)), (F(), F(), F(2, 3))),
    Row("jax.lax.integer_pow", (I(3), -1), (F(3), -1)),
    Row("jax.lax.clamp", (0.0, H(3), 1.0), (0.0, F(3), 1.0)),
    Row("jax.lax.clamp", (F(2), F(3), F()), (F(3), F(3), F())),
    Row("jax.lax.clamp", (F(1), F(3), F()), (F(), F(3), F())),
    Row("jax.lax.select", (B(3), F(3), H(3)), (B(3), F(3), F(3))),
    Row("jax.lax.select", (B(3), F(3), F(1)), (B(), F(3), F(3))),
    Row("jax.lax.select", (B(2), F(3), F(3)), (B(), F(3), F(3))),
    Row("jax.lax.select", (F(3), F(3), F(3)), (I(3), F(3), F(3))),
    Row("jax.lax.select_n", (B(3), F(3), F(3), F(3)), (I(3), F(3), F(3), F(3))),
    Row("jax.lax.select_n", (I(3), F(3), H(3)), (I(3), H(3), H(3))),
    Row("jax.lax.reduce_sum", (B(3), (0,)), (I(3), (0,))),
    Row("jax.lax.reduce_prod", (B(3), (0,)), (F(3), (0,))),
    Row("jax.lax.reduce_and", (F(3), (0,)), (B(3), (0,))),
    Row("jax.lax.reduce_or", (F(3), (0,)), (I(3), (0,))),
    Row("jax.lax.reduce_xor", (F(3), (0,)), (U(3), (0,))),
]
_ENTRIES = [
    Row("jax.numpy.negative", (B(3),), (I(3),)),
    Row("jax.numpy.sign", (B(3),), (U(3),)),
    Row("jax.numpy.invert", (F(3),), (B(3),)),
    Row("jax.numpy.round", (B(3),), (I(3),)),
    Row("jax.numpy.subtract", (B(3), B(3)), (B(3), I(3))),
    Row("jax.numpy.bitwise_and", (F(3), I(3)), (B(3), I(3))),
    Row("jax.numpy.left_shift", (F(3), I(3)), (B(3), B(3))),
    Row("jax.numpy.clip", (F(3), C(3)), (F(3), I(3))),
    Row("jax.numpy.clip", (C(3),), (F(3), None, 1.0)),
    Row("jax.numpy.gcd", (B(3), B(3)), (B(3), I(3))),
    Row("jax.numpy.lcm", (F(3), I(3)), (U(3), I(3))),
    Row("jax.numpy.power", (I(3), -1), (F(3), -1)),
    Row("jax.scipy.special.ndtr", (H(3),), (F(3),)),
    Row("jax.scipy.special.ndtri", (I(3),), (0.5,)),
    Row("jax.scipy.special.log_ndtr", (B(3),), (F(3),)),
]
_PRODUCTS = [
    Row("jax.numpy.matmul", (F(1), F(2)), (F(2), F(2))),
    Row("jax.numpy.matmul", (F(2, 3), F(2, 3)), (F(2, 3), F(3, 2))),
    Row("jax.numpy.matmul", (F(), F(2)), (F(2, 2), F(2))),
    Row("jax.numpy.linalg.matmul", (F(2, 3, 1), F(2, 2)), (F(1, 3, 2), F(5, 2, 4))),
    Row("jax.numpy.vdot", (F(), F(2)), (F(2, 3), F(3, 2))),
    Row("jax.numpy.linalg.vecdot", (F(3, 1), F(3, 2)), (F(1, 2), F(3, 2))),
    Row("jax.numpy.einsum", ("a", F()), ("", F())),
    Row("jax.numpy.einsum", ("ab", F(2, 3, 4)), ("...ab", F(2, 3, 4))),
    Row("jax.numpy.einsum", ("a,b", F(2)), ("a", F(2))),
    Row("jax.numpy.einsum", ("a->b", F(2)), ("a->a", F(2))),
    Row("jax.numpy.einsum", ("a->aa", F(2)), ("ab->ba", F(2, 3))),
    Row("jax.numpy.einsum", ("a,a", F(2), F(3)), ("a,a", F(1), F(3))),
    Row("jax.lax.dot", (F(), F()), (F(2), F(2))),
    Row("jax.lax.dot", (F(2, 3), F(2)), (F(2, 3), F(3))),
    Row("jax.lax.batch_matmul", (F(2, 3), F(3)), (F(2, 3), F(3, 2))),
    Row("jax.lax.batch_matmul", (F(1, 2, 3), F(2, 3, 2)), (F(2, 2, 3), F(2, 3, 2))),
    Row(
        "jax.lax.dot_general",
        (F(1), F(2), (((0,), (0,)), ((), ()))),
        (F(2), F(2), (((0,), (0,)), ((), ()))),
    ),
    Row(
        "jax.lax.dot_general",
        (F(2), F(2), (((1,), (0,)), ((), ()))),
        (F(2), F(2), (((), ()), ((0,), (0,)))),
    ),
    Row(
        "jax.lax.dot_general",
        (F(2), F(2), (((0,), ()), ((), ()))),
        (F(2), F(2), (((), ()), ((), ()))),
    ),
]
_STRUCTURE = [
    Row("jax.numpy.reshape", (F(4), ()), (F(1), ())),
    Row("jax.numpy.reshape", (F(4), (3, -1)), (F(4), (2, -1))),
    Row("jax.numpy.reshape", (F(4), (-1, -1)), (F(4), (4, -1))),
    Row("jax.numpy.reshape", (F(4), (-2, -2)), (F(4), (2, 2))),
    Row("jax.numpy.reshape", (F(0), (0, -1)), (F(0), (2, -1))),
    Row("jax.lax.reshape", (F(4), (-1,)), (F(4), (4,))),
    Row("jax.Array.reshape", (F(), 0), (F(), 1)),
    Row("jax.lax.collapse", (F(2, 3), 2, 1), (F(2, 3), 2, 2)),
    Row("jax.numpy.transpose", (F(1), ()), (F(), ())),
    Row("jax.numpy.transpose", (F(2, 3), (0, 0)), (F(2, 3), (1, 0))),
    Row("jax.numpy.transpose", (F(2, 3), (0,)), (F(2, 3), (0, 1))),
    Row("jax.numpy.moveaxis", (F(2, 3), (), (1,)), (F(2, 3), (0,), (1,))),
    Row("jax.numpy.moveaxis", (F(2, 3), (0, 0), (0, 1)), (F(2, 3), (0, 1), (1, 0))),
    Row("jax.numpy.rot90", (F(2, 3), 1, (0, 0)), (F(2, 3), 1, (1, 0))),
    Row("jax.numpy.squeeze", (F(1, 3), 1), (F(1, 3), 0)),
    Row("jax.lax.squeeze", (F(1, 3), (1,)), (F(1, 3), (-2,))),
    Row("jax.lax.cumsum", (F(2, 3), -1), (F(2, 3), 1)),
    Row("jax.Array.transpose", (F(1), ()), (F(1), None)),
    Row("jax.numpy.broadcast_to", (F(1), ()), (F(), ())),
    Row("jax.numpy.broadcast_to", (F(2), (3,)), (F(1), (3,))),
    Row("jax.numpy.broadcast_arrays", (F(2), F(3)), (F(1), F(3))),
    Row("jax.numpy.broadcast_shapes", ((), (2,), (3,)), ((), (1,), (3,))),
    Row("jax.numpy.full", ((1,), F(2)), ((1,), F(1))),
    Row("jax.lax.full", ((), F(1)), ((), F())),
    Row("jax.lax.broadcasted_iota", ("int32", (), 0), ("int32", (2,), 0)),
    Row("jax.numpy.vsplit", (F(1), 2), (F(2), 2)),
    Row("jax.numpy.split", (F(3), 2), (F(3), (2,))),
    Row("jax.numpy.concatenate", ([F(2), F(2, 2)],), ([F(2), F(3)],)),
    Row("jax.numpy.hstack", ([F(), F(1, 1)],), ([F(), F(1)],)),
    Row("jax.numpy.column_stack", ([F(2), F(2, 2, 2)],), ([F(), F(1, 2)],)),
    Row("jax.lax.concatenate", ([F(2), H(2)], 0), ([F(2), F(2)], 0)),
    Row("jax.numpy.array", ([F(2), F(2, 2)],), ([F(2), H(2)],)),
    Row("jax.numpy.meshgrid", (F(2), F(2, 2)), (F(2), F(3))),
]
_SLICES = [
    Row("jax.lax.slice", (F(1), (0,), (-1,)), (F(1), (0,), (0,))),
    Row("jax.lax.slice", (F(2), (0,), (3,)), (F(2), (0,), (2,))),
    Row("jax.lax.slice", (F(2), (2,), (1,)), (F(2), (1,), (1,))),
    Row("jax.lax.slice", (F(2), (0, 0), (1, 1)), (F(2), (0,), (1,))),
    Row("jax.lax.dynamic_slice", (F(1), (0,), (2,)), (F(1), (3,), (1,))),
    Row("jax.lax.dynamic_slice", (F(2), (0,), (1, 1)), (F(2), (0,), (1,))),
    Row("jax.lax.dynamic_slice_in_dim", (F(1), 0, 2, 0), (F(2), 0, 2, 0)),
    Row("jax.lax.dynamic_update_slice", (F(2), F(3), (0,)), (F(2), F(1), (0,))),
    Row("jax.lax.dynamic_update_slice", (F(2), H(2), (0,)), (H(2), H(2), (0,))),
    Row(
        "jax.lax.dynamic_update_slice_in_dim",
        (F(2), F(2, 2), 0, 0),
        (F(2, 2), F(1, 2), 0, 0),
    ),
    Row(
        "jax.lax.dynamic_update_index_in_dim",
        (H(2, 3), F(3), 0, 0),
        (F(2, 3), F(3), 0, 0),
    ),
    Row("jax.lax.pad", (F(1), 0.0, ((0, 0, -1),)), (F(1), 0.0, ((0, 0, 1),))),
    Row("jax.lax.pad", (F(1), 0.0, ((-1, -1, 0),)), (F(2), 0.0, ((-1, -1, 0),))),
    Row("jax.lax.pad", (H(1), 0.0, ((0, 0, 0),)), (F(1), 0.0, ((0, 0, 0),))),
    Row("jax.lax.pad", (F(1), F(1), ((0, 0, 0),)), (F(1), F(), ((0, 0, 0),))),
    Row("jax.lax.pad", (F(1), F(), ((0, 0, 0),) * 2), (F(), F(), ())),
]
_REDUCTIONS = [
    Row("jax.numpy.ptp", (B(3),), (I(3),)),
    Row("jax.numpy.max", (F(), 0), (F(), ())),
    Row(
        "jax.numpy.max",
        (F(3),),
        (F(3),),
        {"where": True},
        {"where": True, "initial": 0},
    ),
    Row("jax.numpy.sum", (F(3),), (F(3),), {"initial": (0, 1)}, {"initial": 0}),
]
_EINOPS = [
    Row("einops.rearrange", (F(2, 2), "b l -> l b c"), (F(2, 2), "b l -> l b")),
    Row("einops.rearrange", (F(2, 2), "b l -> l"), (F(2, 2), "b l -> (l b)")),
    Row("einops.rearrange", (F(2, 2), "b (l -> b l"), (F(2, 2), "b (l) -> b l")),
    Row("einops.rearrange", (F(2, 2), "b l) -> b l"), (F(2, 2), "b l -> b l ()")),
    Row("einops.rearrange", (F(2, 2), "b b -> b"), (F(2, 2), "b ... -> ... b")),
    Row("einops.rearrange", (F(2, 2), "b - -> b"), (F(2, 1), "b 1 -> b")),
    Row("einops.rearrange", (F(2), "b l -> b l"), (F(2), "... l -> ... l")),
    Row("einops.rearrange", (F(2), "b l"), (F(2), "b -> b")),
    Row("einops.rearrange", (F(4), "(h k) -> h k"), (F(4), "(h 1) -> h 1")),
    Row("einops.rearrange", (F(2, 2), "b 1 -> b"), (F(2, 1), "b 1 -> b")),
    Row("einops.repeat", (F(2), "b -> b r"), (F(2), "b -> b 3")),
    Row("einops.reduce", (F(2), "b -> b r", "sum"), (F(2), "b -> 1", "sum")),
    Row(
        "einops.einsum",
        (F(2), F(2, 2), "b l, b m -> b l m"),
        (F(2), F(2), "b, m -> b m"),
    ),
    Row("einops.einsum", (F(2), "b -> m"), (F(2), "b -> b")),
    Row("einops.einsum", (F(2), F(2), "b -> b"), (F(2), F(2), "b, b -> b")),
    Row(
        "einops.rearrange",
        (F(3),),
        (F(4),),
        {"pattern": "(h k) -> h k", "h": 2},
        {"pattern": "(h k) -> h k", "h": 2},
    ),
    Row(
        "einops.rearrange",
        (F(3),),
        (F(3),),
        {"pattern": "h -> h", "h": 2},
        {"pattern": "h -> h", "h": 3},
    ),
    Row(
        "einops.rearrange",
        (F(3),),
        (F(3),),
        {"pattern": "h -> h", "q": 2},
        {"pattern": "h -> h"},
    ),
]
ROWS = [*_LAX, *_ENTRIES, *_PRODUCTS, *_STRUCTURE, *_SLICES, *_REDUCTIONS, *_EINOPS]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_jax_refuses_is_refused(row: Row) -> None:
    refused = row.name, row.refused, row.refused_named or {}
    taken = row.name, row.taken, row.taken_named or {}
    assert jax_refuses(*refused)
    assert refuses_here(*refused)
    assert not jax_refuses(*taken)
    assert not refuses_here(*taken)
