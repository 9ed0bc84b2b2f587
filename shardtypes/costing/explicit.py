"""What an operation on explicit axes sends: JAX's types say how its operands and its result are sharded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from jax.sharding import AxisType

from shardtypes.costing.resharding import Move, Placed, resharding
from shardtypes.meshes import parts_of
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
    sharding = getattr(aval, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if mesh is None:
        return frozenset()
    found = []
    for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True):
        if kind == AxisType.Explicit:
            found.append(name)
    return frozenset(found)


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
    first = operands[0] if operands else None
    result = results[0]
    if name == "reshard":
        before = typed(first)
        after = typed(result)
        return resharding(size_of(result), before, after, sizes)
    if name == "dot_general":
        return _contraction(step.params, operands, result, sizes)
    if name in _REDUCTIONS:
        return _reduction(step, first, result, sizes)
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
    for one in operands:
        placed = typed(one)
        if any(placed.dims[dim] for dim in dims):
            return True
    return False


def _fits(operand: Any, result: Any) -> bool:
    """Whether each device has of an operand what it needs for its entries of the result."""
    rank = len(result.shape)
    if len(operand.shape) != rank:
        return False
    placed = typed(operand)
    wanted = typed(result)
    for dim in range(rank):
        if operand.shape[dim] not in (1, result.shape[dim]):
            return False
        if placed.dims[dim] not in ((), wanted.dims[dim]):
            return False
    return True


def _reduction(step: Step, operand: Any, result: Any, sizes: Sizes) -> list[Move]:
    """Each dimension is reduced for itself, the last one first."""
    before = typed(operand).over(sizes)
    reduced = set(step.params["axes"])
    kept = []
    pending: list[Axes] = []
    for dim, axes in enumerate(before.dims):
        if dim not in reduced:
            kept.append(axes)
        elif axes:
            pending.insert(0, axes)
    if step.primitive in _PICKS:
        return _picked(operand, result, tuple(kept), pending, sizes)
    sums = (*pending, *before.pending)
    natural = Placed(tuple(kept), sums)
    return resharding(size_of(result), natural, typed(result), sizes)


def _picked(
    operand: Any,
    result: Any,
    kept: tuple[Axes, ...],
    over: Sequence[Axes],
    sizes: Sizes,
) -> list[Move]:
    """Each device's largest, and where it is, are gathered."""
    found = []
    parts = Placed(kept).parts(sizes)
    count = math.prod(result.shape) // parts
    for axes in over:
        devices = parts_of(axes, sizes)
        for one in (operand, result):
            held = Fraction(count * int(one.dtype.itemsize))
            found.append(
                Move(
                    collective="all_gather",
                    axes=axes,
                    held=held,
                    devices=devices,
                )
            )
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
    made = []
    for number in range(len(left_batch)):
        made.append(f"b{number}")
    for letter in (*letters, *others):
        if letter[0] in "lr":
            made.append(letter)
    there = typed(left).over(sizes)
    here = typed(right).over(sizes)
    wanted = typed(result).over(sizes)
    chosen = _chosen(
        _by_axis(there, letters),
        _by_axis(here, others),
        _by_axis(wanted, made),
    )
    needed = _at(chosen, letters, there)
    found = resharding(size_of(left), there, needed, sizes)
    needed = _at(chosen, others, here)
    found += resharding(size_of(right), here, needed, sizes)
    sums = []
    for number in reversed(range(len(left_sum))):
        letter = f"s{number}"
        axes = _axes_at(chosen, letter)
        if axes:
            sums.append(axes)
    natural = _at(chosen, made, wanted)
    parts = Placed(natural.dims, tuple(sums))
    found += resharding(size_of(result), parts, wanted, sizes)
    return found


def _letters(
    rank: int, kind: str, batch: Sequence[int], summed: Sequence[int]
) -> list[str]:
    """A name for each dimension of an operand: those of both operands have the same."""
    found = []
    for dim in range(rank):
        found.append(f"{kind}{dim}")
    for number, dim in enumerate(batch):
        found[dim] = f"b{number}"
    for number, dim in enumerate(summed):
        found[dim] = f"s{number}"
    return found


def _by_axis(placed: Placed, letters: Sequence[str]) -> dict[str, str]:
    found = {}
    for letter, axes in zip(letters, placed.dims, strict=True):
        found.update(dict.fromkeys(axes, letter))
    return found


def _chosen(
    left: Mapping[str, str], right: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str]:
    """The letter that each axis shards: one that it shards of both operands, else that of the result."""
    found = {**right, **left}
    for axis in found:
        first = left.get(axis)
        second = right.get(axis)
        if first is not None and first == second:
            continue
        if axis in wanted:
            found[axis] = wanted[axis]
        elif second is not None and second[0] == "s":
            found[axis] = second
    return found


def _axes_at(chosen: Mapping[str, str], letter: str) -> Axes:
    return tuple(axis for axis, one in chosen.items() if one == letter)


def _at(chosen: Mapping[str, str], letters: Sequence[str], near: Placed) -> Placed:
    """The layout by the letters; axes of one dimension in the order that they have already, where they are there."""
    dims = []
    for letter, own in zip(letters, near.dims, strict=True):
        axes = _axes_at(chosen, letter)
        if set(own) == set(axes):
            axes = own
        dims.append(axes)
    return Placed(tuple(dims))
