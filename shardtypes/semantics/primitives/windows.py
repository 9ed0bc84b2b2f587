"""Windows that slide along dimensions, and convolutions, which are products of what these read with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.semantics.array import Array, Arrays, Dim, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Factors, Letters
from shardtypes.semantics.primitive import Primitive, declare
from shardtypes.semantics.primitives.contractions import dot_general, wider
from shardtypes.semantics.primitives.elementwise import add, number
from shardtypes.semantics.primitives.structure import (
    pad,
    padded_size,
    plain,
    slice_,
    squeeze,
    transpose,
)
from shardtypes.semantics.sizes import greatest, is_number
from shardtypes.semantics.values import Values


def reach_of(window: Any, dilation: Any) -> Any:
    """How many neighbours a window covers, of which it reads every ``dilation``-th."""
    return (window - 1) * dilation + 1


def count_of(size: Any, reach: Any, stride: Any, padding: tuple[Any, Any, Any]) -> Any:
    """How many windows that cover so many neighbours lie wholly in a padded dimension."""
    room = padded_size(size, *padding) - reach
    if is_number(room) and is_number(stride):
        return max(room // stride + 1, 0)
    # where not even one fits there are none, and never fewer
    return greatest((greatest(room, -stride) + stride) // stride, 0)


def _letters(operands: Arrays, params: Params) -> Letters:
    axis = params["axis"]
    own = list(plain("d", operands[0]))
    result = (*own[:axis], ("s",), ("w",), *own[axis + 1 :])
    moved = frozenset(own[axis])
    if _lie_apart(operands[0].dims[axis], params):
        own[axis] = ("s", "w")
        return Letters((tuple(own),), (result,))
    if _overlap(params):
        along = tuple((letter, "s") for letter in moved)
        return Letters((tuple(own),), (result,), whole=moved, along=along)
    return Letters((tuple(own),), (result,), window=moved)


def _lie_apart(size: Dim, params: Params) -> bool:
    """Whether each part of so many entries has windows of its own: one for each stride, which it begins with."""
    stride = params["stride"]
    reach = reach_of(params["window"], params["dilation"])
    if not is_number(stride) or not is_number(reach):
        return False
    if params["padding"] != (0, 0, 0) or reach > stride:
        return False
    if size is None:
        return bool(stride == 1)
    return bool(size % stride == 0)


def _overlap(params: Params) -> bool:
    """Whether neighbouring windows certainly share entries, so that those at the end of a part need the next one."""
    stride = params["stride"]
    reach = reach_of(params["window"], params["dilation"])
    interior = params["padding"][2]
    if not all(map(is_number, (stride, reach, interior))):
        return False
    return bool(reach > stride * (interior + 1))


def _shape(
    operands: Arrays, params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    axis = params["axis"]
    dims = operands[0].dims
    count = _count(dims[axis], params)
    return [(*dims[:axis], count, params["window"], *dims[axis + 1 :])]


def _count(size: Any, params: Params) -> Any:
    """How many windows there are: as many as fit, if nothing is said of that."""
    if params["count"] is not None:
        return params["count"]
    reach = reach_of(params["window"], params["dilation"])
    return count_of(size, reach, params["stride"], params["padding"])


def _along(rank: int, axis: int, config: tuple[int, int, int]) -> Any:
    """A padding of one dimension alone."""
    return tuple(config if k == axis else (0, 0, 0) for k in range(rank))


def _read(x: Any, **params: Any) -> Any:
    axis = params["axis"]
    count = _count(x.shape[axis], params)
    config = _along(x.ndim, axis, params["padding"])
    wide = pad.evaluate(x, 0, padding_config=config)
    starts = np.arange(count)[:, None] * params["stride"]
    offsets = np.arange(params["window"])[None, :] * params["dilation"]
    return np.take(wide, starts + offsets, axis=axis)


def _pull(
    cotangent: Array, operands: Arrays, results: Arrays, params: Params
) -> Sequence[Array | None]:
    return [_put_back(cotangent, operands[0].dims[params["axis"]], params)]


def _put_back(cotangent: Array, size: Dim, params: Params) -> Array | None:
    """What windows hold added up where it was read from, in a dimension of this size."""
    axis, stride = params["axis"], params["stride"]
    low, high, interior = params["padding"]
    zero = number(0.0, cotangent)
    count = cotangent.dims[axis]
    # sizes are known where gradients are taken
    assert isinstance(size, int) and isinstance(count, int)
    wide = padded_size(size, low, high, interior)
    total: Array | None = None
    for place in range(params["window"]):
        starts = [0] * cotangent.rank
        limits = list(cotangent.dims)
        starts[axis + 1] = place
        limits[axis + 1] = place + 1
        part = slice_(
            cotangent,
            start_indices=tuple(starts),
            limit_indices=tuple(limits),
            strides=None,
        )
        part = squeeze(part, axes=(axis + 1,))
        before = place * params["dilation"]
        covered = before + max(count - 1, 0) * stride + min(count, 1)
        config = _along(part.rank, axis, (before, wide - covered, stride - 1))
        spread = pad(part, zero, padding_config=config)
        total = spread if total is None else add(total, spread)
    if total is None:
        return None
    back = _along(total.rank, axis, (-low, -high, 0))
    inner = pad(total, zero, padding_config=back)
    steps = [1] * inner.rank
    steps[axis] = interior + 1
    return slice_(
        inner,
        start_indices=(0,) * inner.rank,
        limit_indices=inner.dims,
        strides=tuple(steps),
    )


#: Along ``axis``, padded with zeros by ``padding`` (before, behind, between neighbours): ``count`` windows, as many as
#: fit for None, and a dimension for the entries of each behind it.
windows: Primitive = declare(
    "windows",
    letters=_letters,
    shape=_shape,
    values=Values(jointly=frozenset({0}), monotone=(1,), moves=True),
    evaluate=_read,
    stacked=lambda x, axis, **how: _read(x, axis=axis + 1, **how),
    pull=_pull,
)


# --- convolutions -------------------------------------------------------------------------------------------------

_FIRST = 4  # dimension of space


def _of_windows(slides: Sequence[Params], front: int = 0) -> list[Params]:
    """The parameters of ``windows`` along each dimension of space: each before it has one more for entries by then, and
    so many dimensions are in front of all."""
    found: list[Params] = []
    for k, slide in enumerate(slides):
        found.append({**slide, "axis": front + _FIRST + 2 * k})
    return found


def _convolution_letters(operands: Arrays, params: Params) -> Letters:
    x, kernel = operands
    slides = params["slides"]
    rank = len(slides)
    left = _named(x, ["x", "n", "y", "z", *(f"p{k}" for k in range(rank))])
    right = _named(kernel, ["x", "y", "w", "z", *(f"v{k}" for k in range(rank))])
    batch, examples, groups, _, *places = left
    outputs = right[2]
    along: list[tuple[str, str]] = []
    window = {letter for factors in right[_FIRST:] for letter in factors}
    for k, slide in enumerate(slides):
        if _lie_apart(x.dims[_FIRST + k], slide):
            left[_FIRST + k] = (f"s{k}", f"v{k}")
            window.discard(f"v{k}")
        elif _overlap(slide):
            along.extend((letter, f"s{k}") for letter in places[k])
        else:
            window.update(places[k])
    result = (examples, batch, groups, outputs, *((f"s{k}",) for k in range(rank)))
    dims = (tuple(left), tuple(right))
    whole = frozenset(letter for letter, _ in along)
    return Letters(dims, (result,), whole, frozenset(window), tuple(along))


def _named(array: Array, names: Sequence[str]) -> list[Factors]:
    """A letter for each dimension, none for those of size 1."""
    pairs = zip(array.dims, names, strict=True)
    return [() if size == 1 else (name,) for size, name in pairs]


def _convolved_shape(
    operands: Arrays, params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    x, kernel = operands
    batch, examples, groups = x.dims[:3]
    sizes = map(_count, x.dims[_FIRST:], params["slides"])
    return [(examples, batch, groups, kernel.dims[2], *sizes)]


def _convolved(x: Any, kernel: Any, *, slides: Sequence[Params]) -> Any:
    """Of one device, or with a dimension for the devices in front of both."""
    front = x.ndim - _FIRST - len(slides)
    for slide in _of_windows(slides, front):
        x = _read(x, **slide)
    devices = tuple(range(front))
    entries = tuple(range(front + _FIRST + 1, x.ndim, 2))
    windows_of_kernel = tuple(range(front + _FIRST, kernel.ndim))
    contracted = (front + 3, *entries), (front + 3, *windows_of_kernel)
    batch = (*devices, front, front + 2), (*devices, front, front + 1)
    found: Any = dot_general.evaluate(x, kernel, dimension_numbers=(contracted, batch))
    # which is (devices, x, y, n, places, w)
    last = found.ndim - 1
    places = range(front + 3, last)
    return found.transpose([*devices, front + 2, front, front + 1, last, *places])


def _pull_convolution(
    cotangent: Array, operands: Arrays, results: Arrays, params: Params
) -> Sequence[Array | None]:
    x, kernel = operands
    slides = _of_windows(params["slides"])
    read = x
    for slide in slides:
        read = windows(read, **slide)
    counts = tuple(range(_FIRST, cotangent.rank))
    seen = tuple(range(_FIRST, read.rank, 2))
    to_kernel = dot_general(
        cotangent,
        read,
        dimension_numbers=(((0, *counts), (1, *seen)), ((1, 2), (0, 2))),
    )
    to_read = dot_general(
        cotangent, kernel, dimension_numbers=(((3,), (2,)), ((1, 2), (0, 1)))
    )
    # which is (x, y, n, places, z, windows)
    rank = len(slides)
    pairs = [k for p in range(rank) for k in (3 + p, _FIRST + rank + p)]
    back: Array | None = transpose(to_read, permutation=(0, 2, 1, 3 + rank, *pairs))
    for k in reversed(range(rank)):
        if back is not None:
            back = _put_back(back, x.dims[_FIRST + k], slides[k])
    return [back, to_kernel]


#: Of ``(x, n, y, z, places…)`` and a kernel ``(x, y, w, z, windows…)``, in groups of the batch ``x`` and of features
#: ``y``: ``(n, x, y, w, places…)``. ``slides`` are the parameters of ``windows`` along each place, but for the axis.
convolution: Primitive = declare(
    "convolution",
    letters=_convolution_letters,
    shape=_convolved_shape,
    dtype=wider,
    values=Values(each=frozenset({0, 1}), monoid="sum"),
    evaluate=_convolved,
    stacked=_convolved,
    pull=_pull_convolution,
)
