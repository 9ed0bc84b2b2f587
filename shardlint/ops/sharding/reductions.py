"""Reductions, scans along a dimension, sorting, softmax and norms, where the dimension may be sharded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops.registry import NONE, Call, is_none, static_bool, static_int
from shardlint.ops.sharding.base import Op, computed, names, rule, unknown
from shardlint.ops.sharding.combining import Kind, combined
from shardlint.ops.sharding.origins import Origin
from shardlint.ops.sharding.peaks import MAXIMA
from shardlint.ops.sharding.state import Axes, clean, state
from shardlint.values import ArrayValue, SequenceValue
from shardtypes.lang import dtypes


def along(call: Call, rank: int) -> list[int] | None:
    """The dimensions that the call names, None where they are not known; ``axis=None`` means all."""
    axis = next(
        (call[name] for name in ("axis", "axes", "dimension") if name in call.args),
        NONE,
    )
    if is_none(axis):
        return list(range(rank))
    found = [
        static_int(item)
        for item in (axis.items if isinstance(axis, SequenceValue) else (axis,))
    ]
    return (
        None
        if None in found
        else [k % rank for k in found if k is not None and -rank <= k < rank]
    )


def _source(op: Op) -> ArrayValue | None:
    return op.operands[0] if op.operands and op.operands[0].dims is not None else None


def _kept(op: Op, source: ArrayValue, reduced: list[int]) -> list[Axes]:
    """The axes of the dimensions that a reduction leaves."""
    keep = (
        static_bool(op.call.get("keepdims"))
        if not is_none(op.call.get("keepdims"))
        else False
    )
    dims = source.dims or ()
    if keep:
        return [() if k in reduced else dim.axes for k, dim in enumerate(dims)]
    return [dim.axes for k, dim in enumerate(dims) if k not in reduced]


def split_text(op: Op, source: ArrayValue, reduced: Sequence[int], axis: str) -> str:
    """What was done over those dimensions, one of which is split over the axis."""
    dims = source.dims or ()
    dim = next((dims[k] for k in reduced if axis in (dims[k].axes or ())), None)
    size = op.view.global_size(dim.size, dim.axes or ()) if dim is not None else None
    what = "a dimension" if size is None or size.is_opaque else str(size)
    name = "[::-1]" if op.name == "index" else op.name
    return f"{name} over {what}, which is sharded over {axis!r}"


def summed(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``sum`` and ``mean``: over what was sharded they give partial sums."""
    weighed = (
        not is_none(op.call.get("weights"))
        or static_bool(op.call.get("returned")) is True
    )
    return computed(op, out, origins) if weighed else _reduced(op, out, True)


def reduced(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``max``, ``any``, ``var``, ``argmax``…: each device has a result of its own part."""
    return _reduced(op, out, False)


def _reduced(op: Op, out: ArrayValue, linear: bool) -> ArrayValue:
    source = _source(op)
    if source is None or out.dims is None:
        return unknown(out)
    gone = along(op.call, len(source.dims or ()))
    if gone is None or any((source.dims or ())[k].axes is None for k in gone):
        return unknown(out)
    axes = _kept(op, source, gone)
    if len(axes) != len(out.dims):
        return unknown(out)
    split = [axis for k in gone for axis in (source.dims or ())[k].axes or ()]
    question: Kind = (
        "test" if op.last in ("any", "all", "reduce_or", "reduce_and") else "nonlinear"
    )
    others = list(op.operands[1:])
    if others:
        split_where = [
            axis
            for axis in split
            if any(state(o, axis) not in ("replicated", "sharded") for o in others)
        ]
        if split_where:
            return unknown(out)
    result = combined(op, out, axes, "linear" if linear else question, [source])
    pending = set(result.pending or ())
    varying, unclear, marks = set(result.varying), result.unclear, set(result.marks)
    notes = list(result.notes)
    for axis in split:
        varying.discard(axis)
        if axis in source.unclear or (
            (axis, "alike") in source.marks and op.last not in ("sum", "nansum")
        ):
            unclear = unclear.plus([axis])
        elif not clean(source, axis):
            varying.add(axis)
        elif not linear:
            varying.add(axis)
            marks |= {(axis, mark) for mark in ("local", *_kinds(op, out))}
        else:
            pending.add(axis)
            marks.add((axis, "reduction"))
            if op.last in ("mean", "nanmean", "average"):
                marks.add((axis, "mean"))
        notes.append(op.note(axis, split_text(op, source, gone, axis)))
    if op.last == "nansum" or op.last == "nanmean":
        marks = {mark for mark in marks if mark[0] in split or mark[1] != "lone"}
    return replace(
        result,
        pending=frozenset(pending),
        varying=frozenset(varying),
        unclear=unclear,
        marks=frozenset(marks),
        notes=tuple(notes),
    )


def _kinds(op: Op, out: ArrayValue) -> list[str]:
    """What else is known of a result that each device has of its own part."""
    measured = op.last in _MEASURES and dtypes.is_kind(out.dtype, "floating") is True
    return [
        mark
        for mark, holds in (("peak", op.last in MAXIMA), ("own", measured))
        if holds
    ]


def normalised(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``softmax``, ``cumsum``, ``sort``…: the shape stays, but every entry depends on the whole dimension."""
    source = _source(op)
    if source is None or out.dims is None or len(out.dims) != len(source.dims or ()):
        return unknown(out)
    touched = along(op.call, len(source.dims or ()))
    if touched is None or any((source.dims or ())[k].axes is None for k in touched):
        return unknown(out)
    if static_bool(op.call.get("include_initial")) is True:
        return computed(op, out, origins)
    kind: Kind = (
        "linear"
        if op.last in ("cumsum", "nancumsum", "cumulative_sum")
        else "nonlinear"
    )
    result = combined(op, out, [dim.axes for dim in source.dims or ()], kind, [source])
    split = [axis for k in touched for axis in (source.dims or ())[k].axes or ()]
    same = [axis for axis in split if (axis, "alike") in source.marks]
    result = replace(result, unclear=result.unclear.plus(same))
    sound = [axis for axis in split if clean(source, axis)]
    notes = (
        *result.notes,
        *(op.note(axis, split_text(op, source, touched, axis)) for axis in split),
    )
    kinds = ["local", "softmax" if op.last in _SOFTMAX else "scan"]
    kinds += [
        mark
        for name, mark in (("softmax", "normed"), ("log_softmax", "lognormed"))
        if op.last == name
    ]
    return replace(
        result,
        varying=result.varying | frozenset(split),
        notes=notes,
        marks=result.marks | {(axis, mark) for axis in sound for mark in kinds},
    )


_JNP, _NN = "jax.numpy", "jax.nn"
_SOFTMAX = frozenset({"softmax", "log_softmax", "standardize"})
#: Reductions of real numbers that no sum of those of the parts is.
_MEASURES = MAXIMA | frozenset(
    "min amin nanmin reduce_min prod nanprod reduce_prod norm vector_norm matrix_norm logsumexp logmeanexp median "
    "nanmedian std nanstd var nanvar".split()
)
rule([*names(_JNP, "sum mean nansum nanmean average"), "jax.lax.reduce_sum"], summed)
rule(
    [
        *names(
            _JNP,
            "prod nanprod std var nanstd nanvar max min amax amin nanmax nanmin all any median nanmedian "
            "count_nonzero ptp argmax argmin nanargmax nanargmin quantile percentile nanquantile nanpercentile "
            "linalg.norm linalg.vector_norm linalg.matrix_norm",
        ),
        *names(
            "jax.lax",
            "reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin",
        ),
        f"{_NN}.logsumexp",
        f"{_NN}.logmeanexp",
        "jax.scipy.special.logsumexp",
    ],
    reduced,
)
rule(
    [
        *names(_NN, "softmax log_softmax standardize"),
        *names(
            _JNP,
            "cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod sort argsort",
        ),
        *names("jax.lax", "cumsum cumprod cummax cummin cumlogsumexp sort top_k"),
    ],
    normalised,
)
