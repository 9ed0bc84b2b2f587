"""What functions do on explicit axes: elementwise, contractions, reductions, and functions that move dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.arrays import ONE, SCALARS
from shardlint.ops.registry import is_none, static_bool, static_int, static_str
from shardlint.ops.sharding.base import items_of
from shardlint.ops.sharding.base import names as qualified
from shardlint.ops.sharding.contraction import letters_of
from shardlint.ops.sharding.explicit import GlobalOp, Split, placed, rule
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.reductions import along
from shardlint.ops.sharding.state import Arrays, Axes, DimAxes
from shardlint.ops.sharding.structure import joining_axis
from shardlint.values import ArrayValue, Dimension, Value
from shardtypes.lang.messages import (
    listed,
    sharded_differently,
    sharded_over,
    sharded_twice,
)


def aligned(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """Elementwise: where dimensions line up one of them may be split, or all alike."""
    rank = len(out.dims or ())
    if any(operand.dims is None for operand in op.operands):
        return None
    result: DimAxes = []
    for k in range(rank):
        met: list[tuple[int, Dimension]] = []
        for number, operand in enumerate(op.operands):
            at = k - rank + len(operand.dims or ())
            if at < 0 or operand.dims is None:
                continue
            dim = operand.dims[at]
            # an axis of one device may split a single element
            if dim.size != ONE or dim.axes != ():
                met.append((number, dim))
        result.append(_agreed(op, met))
    return result


def _agreed(op: GlobalOp, met: Sequence[tuple[int, Dimension]]) -> Axes:
    split = [(number, dim.axes) for number, dim in met if dim.axes]
    for number, axes in split[1:]:
        if axes != split[0][1]:
            a, b = (op.text(op.operands[n]) for n in (split[0][0], number))
            raise op.refused(sharded_differently([a, b]), code="ST309")
    if any(dim.axes is None for _, dim in met):
        return None
    if split:
        return split[0][1]
    return ()


def contracted(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """Contractions of two operands, or of one."""
    letters = letters_of(op.call, op.operands)
    if letters is None or len(op.operands) > 2:
        return None
    inputs, output = letters
    if any(len(set(one)) < len(one) for one in inputs):
        return None
    dims = [
        dict(zip(one, operand.dims or (), strict=True))
        for one, operand in zip(inputs, op.operands, strict=True)
    ]
    if len(dims) == 2:
        for letter, a in dims[0].items():
            b = dims[1].get(letter)
            if b is not None:
                _check_contracted(op, a, b, letter in output)
    kept = [[one[letter] for one in dims if letter in one] for letter in output]
    _check_clash(op, [[dim.axes for dim in met] for met in kept])
    return [_of_letter(met) for met in kept]


def _check_clash(op: GlobalOp, kept: Sequence[Sequence[Axes]]) -> None:
    """A dimension that one operand has split and the other whole: some releases of JAX refuse that, the others split
    the result, which may clash with another dimension."""
    axes = [axis for met in kept for axis in next((one for one in met if one), ())]
    twice = next((axis for axis in axes if axes.count(axis) > 1), None)
    if twice is not None and all(one is not None for met in kept for one in met):
        raise op.refused(
            sharded_twice(twice, [op.text(operand) for operand in op.operands]),
            code="ST310",
        )


def _check_contracted(op: GlobalOp, a: Dimension, b: Dimension, kept: bool) -> None:
    if not a.axes or not b.axes or ONE in (a.size, b.size):
        return
    texts = [op.text(operand) for operand in op.operands]
    if a.axes != b.axes:
        code = "ST310"
        if kept:
            code = "ST309"
        raise op.refused(sharded_differently(texts), code=code)
    if not kept:
        why = f"{listed(texts)} are contracted over a dimension {sharded_over(a.axes)}: pass out_sharding="
        raise op.refused(why, code="ST310")


def _of_letter(dims: Sequence[Dimension]) -> Axes:
    """A dimension of the result; where one operand is split and the other is not, JAX does not always tell."""
    met = {dim.axes for dim in dims}
    if len(met) == 1:
        return met.pop()
    return None


def outer(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    found: DimAxes = []
    for operand in op.operands:
        long = [dim for dim in operand.dims or () if dim.size != ONE]
        if len(long) != 1:
            return None
        found.append(long[0].axes)
    if len(found) == 2:
        return found
    return None


def reduced(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``sum``, ``max``, ``argmax``…: what is left keeps its axes; JAX sums over the mesh by itself."""
    dims = op.dims
    if dims is None or len(op.operands) > 1:
        return None
    gone = along(op.call, len(dims))
    keepdims = op.call.get("keepdims")
    keep = static_bool(keepdims)
    if is_none(keepdims):
        keep = False
    if gone is None or keep is None:
        return None
    result: DimAxes = []
    for k, dim in enumerate(dims):
        if k not in gone:
            result.append(dim.axes)
        elif keep:
            result.append(())
    return result


def whole(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``cumsum``, ``sort``, ``top_k``…: not along a dimension that is split."""
    dims = op.dims
    axes = same_place(op, out, origins)
    if dims is None or axes is None:
        return None
    places = along(op.call, len(dims))
    flattens = is_none(op.call.get("axis")) and len(dims) > 1
    if places is None or flattens:
        return None
    for k in places:
        _check_whole(op, k)
    return axes


def last(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``top_k`` along the last dimension."""
    dims = op.dims
    axis = op.call.get("axis")
    if not dims:
        return None
    if not is_none(axis) and static_int(axis) != -1:
        return None
    _check_whole(op, len(dims) - 1)
    return [dim.axes for dim in dims]


def _check_whole(op: GlobalOp, k: int, number: int = 0) -> None:
    """Raises OpError where dimension ``k`` of an operand is split."""
    operand = op.operands[number]
    axes = (operand.dims or ())[k].axes
    if axes:
        why = f"dimension {k} of {op.text(operand)} is {sharded_over(axes)}: reshard it first"
        raise op.refused(why, number)


def same_place(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """The shape stays, and so do the axes: ``softmax``, ``flip``, ``tril``, a cast."""
    dims = op.dims
    if dims is None or len(op.operands) > 1:
        return None
    if len(dims) != len(out.dims or ()):
        return None
    return [dim.axes for dim in dims]


def moved(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """Dimensions are rearranged, dropped where their size is 1, or added with size 1."""
    dims = op.dims
    if dims is None or len(op.operands) != 1:
        return None
    kept = {origin[1] for origin in origins if origin is not None}
    for k, dim in enumerate(dims):
        if k not in kept and dim.size != ONE and dim.axes != ():
            return None
    result: DimAxes = []
    for origin, dim in zip(origins, out.dims or (), strict=True):
        if origin is not None:
            result.append(dims[origin[1]].axes)
        else:
            result.append(() if dim.size == ONE else None)
    return result


def spread(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``broadcast_to``: old dimensions line up on the right, new ones are not split."""
    dims = op.dims
    if dims is None or len(op.operands) != 1:
        return None
    more = len(out.dims or ()) - len(dims)
    old = [() if dim.size == ONE else dim.axes for dim in dims]
    return [*[()] * more, *old]


def joined(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``concatenate`` and ``stack``: all operands are split alike. One that is not of the mesh may be anything."""
    split = alike(op, op.operands)
    axis = joining_axis(op.call)
    if split is None or axis is None:
        return None
    if op.last != "stack":
        return split
    axis %= len(split) + 1
    return [*split[:axis], (), *split[axis:]]


def alike(op: GlobalOp, operands: Arrays) -> DimAxes | None:
    """The axes that all operands have; None where that is open. Raises OpError where two of them differ."""
    shapes: list[DimAxes] = []
    for operand in operands:
        if operand.dims is None:
            return None
        shapes.append([dim.axes for dim in operand.dims])
    if len({len(one) for one in shapes}) != 1:
        return None
    if None not in shapes[0] and all(one == shapes[0] for one in shapes):
        return list(shapes[0])
    known = [
        n for n, one in enumerate(shapes) if None not in one and placed(operands[n])
    ]
    for n in known[1:]:
        if shapes[n] != shapes[known[0]]:
            a, b = (op.text(operands[i]) for i in (known[0], n))
            raise op.refused(sharded_differently([a, b]), code="ST309")
    return None


def selected(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``where(condition, x, y)``: all three are split alike, unless some have to be broadcast first."""
    if op.last == "where" and is_none(op.call.get("x")):
        return None
    operands = [operand for operand in op.operands if operand.dims != ()]
    sizes: list[list[object]] = []
    for operand in operands:
        if operand.dims is None or any(dim.size is None for dim in operand.dims):
            return None
        sizes.append([dim.size for dim in operand.dims])
    if op.last == "where":
        condition, x, y = (op.call.get(name) for name in ("condition", "x", "y"))
        numbers = not _has_dims(x) or not _has_dims(y)
        ranks = {len(one) for one in sizes}
        if len(ranks) > 1 or (numbers and _has_dims(condition)):
            return aligned(op, out, origins)
    if all(one == sizes[0] for one in sizes):
        return alike(op, operands)
    return None


def _has_dims(value: Value) -> bool:
    return isinstance(value, ArrayValue) and value.dims != ()


def paired(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``dynamic_update_slice(x, update, …)``: both are split alike."""
    if len(op.operands) >= 2:
        return alike(op, op.operands[:2])
    return None


def made(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """A new array is not split; a copy of one is split as that is."""
    if op.operands:
        return same_place(op, out, origins)
    return [() for _ in out.dims or ()]


def like(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``zeros_like(x)``: split as ``x`` is, unless it is given a shape of its own."""
    if is_none(op.call.get("shape")):
        return same_place(op, out, origins)
    return [() for _ in out.dims or ()]


def middle(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``median`` sorts: not along a dimension that is split."""
    dims = op.dims
    if not dims or is_none(op.call.get("axis")):
        return None
    gone = along(op.call, len(dims))
    if gone is None or len(gone) > 1:
        return None
    for k in gone:
        _check_whole(op, k)
    return None


def searched(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``searchsorted(a, v)``: by default it gathers from ``a`` for each element of ``v``, neither of them split."""
    if len(op.operands) != 2 or not is_none(op.call.get("sorter")):
        return None
    method = op.call.get("method")
    if not is_none(method) and static_str(method) not in ("scan", "scan_unrolled"):
        return None
    if not all(operand.dims for operand in op.operands):
        return None  # of a scalar some releases take it
    for number, operand in enumerate(op.operands):
        for k, dim in enumerate(operand.dims or ()):
            if dim.size != ONE:
                _check_whole(op, k, number)
    return None


def hot(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``one_hot``: a new dimension, last."""
    axis = static_int(op.call.get("axis"))
    if len(op.operands) != 1 or op.operands[0].dims is None or axis != -1:
        return None
    return [*(dim.axes for dim in op.operands[0].dims), ()]


def tiled(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``tile``: not along a dimension that is split."""
    dims = op.dims
    if dims is None:
        return None
    reps = op.call.get("reps")
    items = items_of(reps)
    missing = len(dims) - len(items)
    counts = [1] * missing + [static_int(item) for item in items]
    more = max(-missing, 0)
    for k, count in enumerate(counts):
        if count is None:
            return None
        if count > 1 and k >= more:
            _check_whole(op, k - more)
    return [*[()] * more, *(dim.axes for dim in dims)]


_JNP, _LAX, _NN = "jax.numpy", "jax.lax", "jax.nn"
_CAST = [
    f"{_JNP}.astype",
    f"{_LAX}.convert_element_type",
    *qualified(_JNP, " ".join(SCALARS)),
]
rule(
    [
        *_CAST,
        *qualified(_NN, "softmax log_softmax"),
        *qualified(_JNP, "flip flipud fliplr tril triu"),
        f"{_LAX}.rev",
    ],
    same_place,
)
rule(qualified(_JNP, "einsum matmul dot inner"), contracted, "ST310")
rule([f"{_JNP}.outer"], outer, "ST309")
rule(
    [
        *qualified(
            _JNP,
            "sum mean nansum nanmean prod std var max min amax amin argmax argmin any all",
        ),
        *qualified(_JNP, "count_nonzero linalg.norm"),
        f"{_NN}.logsumexp",
        "jax.scipy.special.logsumexp",
    ],
    reduced,
)
rule(
    [
        *qualified(_JNP, "cumsum cumprod nancumsum nancumprod sort argsort"),
        *qualified(_LAX, "cumsum cumprod cummax cummin cumlogsumexp"),
    ],
    whole,
)
rule([f"{_LAX}.top_k"], last)
rule(
    [
        *qualified(
            _JNP,
            "transpose permute_dims matrix_transpose swapaxes moveaxis squeeze expand_dims",
        ),
        *qualified(_LAX, "transpose expand_dims squeeze"),
        "jax.Array.transpose",
        "einops.rearrange",
    ],
    moved,
)
rule([f"{_JNP}.broadcast_to"], spread)
rule([*qualified(_JNP, "concatenate stack"), f"{_LAX}.concatenate"], joined)
rule([f"{_JNP}.where", f"{_LAX}.select"], selected)
rule(qualified(_LAX, "dynamic_update_slice dynamic_update_slice_in_dim"), paired)
rule(
    qualified(
        _JNP, "zeros ones empty full arange linspace eye identity tri array asarray"
    ),
    made,
)
rule(qualified(_JNP, "zeros_like ones_like empty_like full_like"), like)
rule([f"{_NN}.one_hot"], hot)
rule([f"{_JNP}.tile"], tiled)
rule(
    qualified(
        _JNP,
        "median nanmedian quantile nanquantile percentile nanpercentile",
    ),
    middle,
)
rule([f"{_JNP}.searchsorted"], searched)
