"""What is known of a result where an argument is not known, whatever that is: often its rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from shardlint.ops.registry import Call
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    Value,
)

_FLAT = Literal(None)
_Rule: TypeAlias = "Callable[[Call, ArrayValue, int], Value | None]"


def of_call(call: Call) -> Value | None:
    """The result, in the global view; None where nothing is known of it."""
    qualname = call.qualname
    if qualname.startswith("numpy."):
        qualname = f"jax.{qualname}"  # its twin
    rank = _OF_ONE_RANK.get(qualname)
    if rank is not None:
        return ArrayValue((Dimension(None),) * rank)
    name, rule = _RULES.get(qualname, ("", None))
    value = _first(name, call.args.get(name))
    if rule is _other_length and call.args.get("axis", _FLAT) == _FLAT:
        return ArrayValue((Dimension(None),))
    if rule is None or value is None or value.dims is None:
        return None
    if call.ctx.view is not None or call.ctx.explicit is not None or value.mesh:
        return None
    return rule(call, value, len(value.dims))


def _first(name: str, value: Value | None) -> ArrayValue | None:
    """An array, or the first of several of one rank; one array in their place stands for its rows."""
    if isinstance(value, SequenceValue):
        arrays = [one for one in value.items if isinstance(one, ArrayValue)]
        ranks = {None if one.dims is None else len(one.dims) for one in arrays}
        if len(arrays) < len(value.items) or len(ranks) != 1:
            return None
        return ArrayValue(arrays[0].dims)
    if not isinstance(value, ArrayValue):
        return None
    if name != "arrays":
        return value
    return replace(value, dims=value.dims[1:]) if value.dims else None


def _of_rank(value: ArrayValue, rank: int) -> ArrayValue:
    return ArrayValue((Dimension(None),) * rank, value.dtype, value.weak)


def _same_shape(call: Call, value: ArrayValue, rank: int) -> Value | None:
    return replace(value, numpy=False)


def _same_rank(call: Call, value: ArrayValue, rank: int) -> Value | None:
    return _of_rank(value, rank)


def _along_one(call: Call, value: ArrayValue, rank: int) -> Value | None:
    """The axis is one number: None would flatten the arrays."""
    is_one = isinstance(call.args.get("axis"), IntValue)
    return _of_rank(value, rank) if is_one else None


def _one_more(call: Call, value: ArrayValue, rank: int) -> Value | None:
    """The axis is one number: several would add as many dimensions."""
    is_one = isinstance(call.args.get("axis"), IntValue)
    return _of_rank(value, rank + 1) if is_one else None


def _other_length(call: Call, value: ArrayValue, rank: int) -> Value | None:
    """How many entries are left along one dimension depends on values."""
    axis = call.args["axis"]
    size = axis.size if isinstance(axis, IntValue) else None
    number = None if size is None else size.constant
    if number is None or not -rank <= number < rank:
        return ArrayValue((Dimension(None),) * rank)
    dims = [Dimension(dim.size) for dim in value.dims or ()]
    dims[number] = Dimension(None)
    return ArrayValue(tuple(dims))


def _parts(call: Call, value: ArrayValue, rank: int) -> Value | None:
    """Any number of arrays of one rank."""
    return CollectionValue(_of_rank(value, rank))


_OF_TREES = "sum vdot max min norm".split()
#: Functions that give arrays of this rank whatever they are given.
_OF_ONE_RANK = {
    "jax.numpy.arange": 1,
    "optax.global_norm": 0,
    **{f"optax.tree.{name}": 0 for name in _OF_TREES},
    **{f"optax.tree_utils.tree_{name}": 0 for name in _OF_TREES},
}
#: By function: the parameter that is the array, or are the arrays, and what follows from it.
_RULES: dict[str, tuple[str, _Rule]] = {
    "jax.numpy.flip": ("m", _same_shape),
    "jax.numpy.roll": ("a", _same_shape),
    "jax.lax.rev": ("operand", _same_shape),
    "jax.Array.transpose": ("a", _same_rank),
    "jax.numpy.rot90": ("m", _same_rank),
    "jax.numpy.swapaxes": ("a", _same_rank),
    "jax.numpy.moveaxis": ("a", _same_rank),
    "jax.numpy.rollaxis": ("a", _same_rank),
    "jax.numpy.transpose": ("a", _same_rank),
    "jax.numpy.permute_dims": ("a", _same_rank),
    "jax.lax.transpose": ("operand", _same_rank),
    "jax.numpy.concatenate": ("arrays", _along_one),
    "jax.numpy.stack": ("arrays", _one_more),
    "jax.numpy.expand_dims": ("a", _one_more),
    "jax.numpy.compress": ("a", _other_length),
    "jax.numpy.delete": ("arr", _other_length),
    "jax.numpy.extract": ("arr", _other_length),
    "jax.numpy.insert": ("arr", _other_length),
    "jax.numpy.place": ("arr", _same_shape),
    "jax.numpy.put": ("a", _same_shape),
    "jax.numpy.put_along_axis": ("arr", _same_shape),
    "jax.numpy.split": ("ary", _parts),
    "jax.numpy.array_split": ("ary", _parts),
    "jax.numpy.hsplit": ("ary", _parts),
    "jax.numpy.vsplit": ("ary", _parts),
    "jax.numpy.dsplit": ("ary", _parts),
}
