"""What an operation on explicit axes sends: JAX's types say how its operands and its result are sharded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import AxisType

from shardtypes.costing.resharding import Move, Placed, resharding
from shardtypes.proving.program import Step, dims_of, unreduced_axes
from shardtypes.proving.relation import Axes, Sizes

_REDUCTIONS = """reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin""".split()
_PICKS = ("argmax", "argmin")
#: Their dimensions have the sizes and the order of their operand's, or JAX refuses to change the sharded ones.
_ALONG_DIMENSIONS = frozenset(
    """broadcast_in_dim transpose reshape squeeze expand_dims split""".split()
)
#: They keep shapes, and are more than a function of each entry.
ALONG_LINES = frozenset("sort rev cumsum cumprod cummax cummin cumlogsumexp".split())
_ALONG = ("axis", "dimension", "dimensions")


class Uncounted(Exception):
    """What an operation sends does not follow from its types."""


def size_of(aval: Any) -> int:
    """The bytes of an array, of its whole shape."""
    entries: int = math.prod(aval.shape)
    return entries * int(aval.dtype.itemsize)


def explicit_axes(aval: Any) -> frozenset[str]:
    """The axes that the type of a value speaks of."""
    mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
    if mesh is None:
        return frozenset()
    return frozenset(
        name
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Explicit
    )


def typed(aval: Any) -> Placed:
    """How a value is sharded by its type."""
    spec = aval.sharding.spec
    pending = unreduced_axes(spec)
    return Placed(dims_of(spec, aval), (pending,) if pending else ())


def moves(
    step: Step, operands: Sequence[Any], results: Sequence[Any], sizes: Sizes
) -> list[Move]:
    """What an operation sends on operands and results of these types. Raises ``Uncounted``."""
    name = step.primitive
    if name == "reshard":
        return resharding(
            size_of(results[0]), typed(operands[0]), typed(results[0]), sizes
        )
    if name == "dot_general":
        return _contraction(step.params, operands, results[0], sizes)
    if name in _REDUCTIONS:
        return _reduction(step, operands[0], results[0], sizes)
    if not any(typed(one).over(sizes).axes for one in operands):
        return []
    if not _is_local(step, operands, results):
        raise Uncounted
    return []


def _is_local(step: Step, operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether each device computes its part of the results from its parts of the operands."""
    name = step.primitive
    if name in ALONG_LINES and _is_split_along(step.params, operands):
        return False
    made = [typed(one) for one in results]
    if name in _ALONG_DIMENSIONS:
        wanted = typed(operands[0]).axes
        return all(wanted <= one.axes for one in made)
    return all(_fits(one, results[0]) for one in operands if one.shape)


def _is_split_along(params: Mapping[str, Any], operands: Sequence[Any]) -> bool:
    """Whether the dimension along which an operation goes is sharded."""
    along = next(params[name] for name in _ALONG if name in params)
    dims = along if isinstance(along, tuple) else (along,)
    return any(typed(one).dims[dim] for one in operands for dim in dims)


def _fits(operand: Any, result: Any) -> bool:
    """Whether each device has of an operand what it needs for its entries of the result."""
    if len(operand.shape) != len(result.shape):
        return False
    dims = zip(operand.shape, typed(operand).dims, strict=True)
    made = zip(result.shape, typed(result).dims, strict=True)
    return all(
        size in (1, whole) and own in ((), wanted)
        for (size, own), (whole, wanted) in zip(dims, made, strict=True)
    )


def _reduction(step: Step, operand: Any, result: Any, sizes: Sizes) -> list[Move]:
    """Each dimension is reduced for itself, the last one first."""
    before = typed(operand).over(sizes)
    reduced = set(step.params["axes"])
    kept = tuple(axes for dim, axes in enumerate(before.dims) if dim not in reduced)
    sums = [before.dims[dim] for dim in sorted(reduced, reverse=True)]
    pending = tuple(axes for axes in sums if axes)
    if step.primitive in _PICKS:
        return _picked(operand, result, kept, pending, sizes)
    own = tuple(axes for axes in before.pending if axes)
    return resharding(
        size_of(result), Placed(kept, (*pending, *own)), typed(result), sizes
    )


def _picked(
    operand: Any,
    result: Any,
    kept: tuple[Axes, ...],
    over: tuple[Axes, ...],
    sizes: Sizes,
) -> list[Move]:
    """Each device's largest, and where it is, are gathered."""
    found = []
    parts = Placed(kept).parts(sizes)
    count = math.prod(result.shape) // parts
    for axes in over:
        devices = math.prod(sizes[axis] for axis in axes)
        for one in (operand, result):
            held = count * int(one.dtype.itemsize)
            found.append(Move("all_gather", axes, held, devices))
    return found


def _contraction(
    params: Mapping[str, Any], operands: Sequence[Any], result: Any, sizes: Sizes
) -> list[Move]:
    """Each axis shards one letter: operands which it shards along another one are moved, and a sum over a letter
    that it shards is taken of parts."""
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]
    left, right = operands
    letters = _letters(len(left.shape), "l", left_batch, left_sum)
    others = _letters(len(right.shape), "r", right_batch, right_sum)
    free = [one for one in (*letters, *others) if one[0] in "lr"]
    made = [*(f"b{number}" for number in range(len(left_batch))), *free]
    before = [
        _by_axis(typed(left).over(sizes), letters),
        _by_axis(typed(right).over(sizes), others),
    ]
    wanted = typed(result).over(sizes)
    chosen = _chosen(before, _by_axis(wanted, made))
    found = []
    for one, own in ((left, letters), (right, others)):
        there = typed(one).over(sizes)
        found += resharding(size_of(one), there, _at(chosen, own, there), sizes)
    sums = [_axes_at(chosen, f"s{number}") for number in reversed(range(len(left_sum)))]
    natural = Placed(
        _at(chosen, made, wanted).dims, tuple(axes for axes in sums if axes)
    )
    return [*found, *resharding(size_of(result), natural, wanted, sizes)]


def _letters(
    rank: int, kind: str, batch: Sequence[int], summed: Sequence[int]
) -> list[str]:
    """A name for each dimension of an operand: those of both operands have the same."""
    found = [f"{kind}{dim}" for dim in range(rank)]
    for number, dim in enumerate(batch):
        found[dim] = f"b{number}"
    for number, dim in enumerate(summed):
        found[dim] = f"s{number}"
    return found


def _by_axis(placed: Placed, letters: Sequence[str]) -> dict[str, str]:
    return {
        axis: letter
        for letter, axes in zip(letters, placed.dims, strict=True)
        for axis in axes
    }


def _chosen(
    before: Sequence[Mapping[str, str]], wanted: Mapping[str, str]
) -> dict[str, str]:
    """The letter that each axis shards: one that it shards of both operands, else that of the result."""
    left, right = before
    found = {}
    for axis in {**left, **right}:
        letters = {one[axis] for one in before if axis in one}
        if axis in left and axis in right and len(letters) == 1:
            found[axis] = letters.pop()
        elif axis in wanted:
            found[axis] = wanted[axis]
        else:
            found[axis] = min(letters, key=lambda letter: letter[0] != "s")
    return found


def _axes_at(chosen: Mapping[str, str], letter: str) -> Axes:
    return tuple(axis for axis, one in chosen.items() if one == letter)


def _at(chosen: Mapping[str, str], letters: Sequence[str], near: Placed) -> Placed:
    """The layout by the letters; axes of one dimension in the order that they have already, where they are there."""
    dims = []
    for letter, own in zip(letters, near.dims, strict=True):
        axes = _axes_at(chosen, letter)
        dims.append(own if set(own) == set(axes) else axes)
    return Placed(tuple(dims))
