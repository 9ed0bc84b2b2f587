"""Reductions, scans along a dimension, sorting, softmax and norms, where the dimension may be sharded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops.registry import NONE, Call, is_none, static_bool, static_int
from shardlint.ops.sharding.base import Op, computed, items_of, names, rule, unknown
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.kinds import Kind
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.peaks import MAXIMA
from shardlint.ops.sharding.state import Arrays, DimAxes, axes_along, clean, state
from shardlint.values import ArrayValue
from shardtypes.lang import dtypes


def along(call: Call, rank: int) -> list[int] | None:
    """The dimensions that the call names, None where they are not known; ``axis=None`` means all."""
    axis = next(
        (call[name] for name in ("axis", "axes", "dimension") if name in call.args),
        NONE,
    )
    if is_none(axis):
        return list(range(rank))
    found = [static_int(item) for item in items_of(axis)]
    if None in found:
        return None
    return [k % rank for k in found if k is not None and -rank <= k < rank]


def _source(op: Op) -> ArrayValue | None:
    if op.operands and op.operands[0].dims is not None:
        return op.operands[0]
    return None


def _kept(op: Op, source: ArrayValue, reduced: list[int]) -> DimAxes:
    """The axes of the dimensions that a reduction leaves."""
    if not is_none(op.call.get("keepdims")):
        keep = static_bool(op.call.get("keepdims"))
    else:
        keep = False
    dims = source.dims or ()
    if keep:
        return [() if k in reduced else dim.axes for k, dim in enumerate(dims)]
    return [dim.axes for k, dim in enumerate(dims) if k not in reduced]


def split_text(op: Op, source: ArrayValue, reduced: Sequence[int], axis: str) -> str:
    """What was done over those dimensions, one of which is split over the axis."""
    dims = source.dims or ()
    split = [dims[k] for k in reduced if axis in (dims[k].axes or ())]
    what = "a dimension"
    if split:
        what = op.size_text(split[0])
    name = op.name
    if name == "index":
        name = "[::-1]"
    return f"{name} over {what}, which is sharded over {axis!r}"


def summed(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``sum`` and ``mean``: over what was sharded they give partial sums."""
    weighed = (
        not is_none(op.call.get("weights"))
        or static_bool(op.call.get("returned")) is True
    )
    if weighed:
        return computed(op, out, origins)
    return _reduced(op, out, True)


def reduced(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``max``, ``any``, ``var``, ``argmax``…: each device has a result of its own part."""
    return _reduced(op, out, False)


def _reduced(op: Op, out: ArrayValue, linear: bool) -> ArrayValue:
    source = _source(op)
    if source is None or out.dims is None:
        return unknown(out)
    gone = along(op.call, len(source.dims or ()))
    if gone is None:
        split = None
    else:
        split = axes_along(source, gone)
    if gone is None or split is None:
        return unknown(out)
    axes = _kept(op, source, gone)
    if len(axes) != len(out.dims) or _is_apart(op.operands[1:], split):
        return unknown(out)
    kind: Kind = "linear"
    if not linear:
        kind = "test" if op.last in _TESTS else "nonlinear"
    result = combined(op, out, axes, kind, [source])
    unclear = {axis for axis in split if _is_unclear(op, source, axis)}
    sound = {axis for axis in split if clean(source, axis)} - unclear
    pending = sound if linear else set[str]()
    varying = result.varying.difference(split) | (set(split) - unclear - pending)
    if linear:
        new = _marks_of_sums(op)
    else:
        new = ["local", *_kinds(op, out)]
    marks = result.marks | {(axis, mark) for axis in sound for mark in new}
    if op.last in ("nansum", "nanmean"):
        others = {mark for mark in marks if mark[1] == "lone" and mark[0] not in split}
        marks -= others
    notes = [op.note(axis, split_text(op, source, gone, axis)) for axis in split]
    return replace(
        result,
        pending=(result.pending or frozenset()) | pending,
        varying=varying,
        unclear=result.unclear.plus(unclear),
        marks=marks,
        notes=(*result.notes, *notes),
    )


def _is_apart(others: Arrays, split: Sequence[str]) -> bool:
    """Whether a mask, a weight or the like differs between devices along with what is reduced."""
    return any(
        state(other, axis) not in ("replicated", "sharded")
        for axis in split
        for other in others
    )


def _is_unclear(op: Op, source: ArrayValue, axis: str) -> bool:
    """Whether nothing is known of a reduction over a dimension that is split over the axis."""
    alike = (axis, "alike") in source.marks
    return axis in source.unclear or (alike and op.last not in ("sum", "nansum"))


def _marks_of_sums(op: Op) -> list[str]:
    averages = op.last in ("mean", "nanmean", "average")
    if averages:
        return ["reduction", "mean"]
    return ["reduction"]


def _kinds(op: Op, out: ArrayValue) -> list[str]:
    """What else is known of a result that each device has of its own part."""
    measured = op.last in _MEASURES and dtypes.is_kind(out.dtype, "floating") is True
    return [
        mark
        for mark, holds in (("peak", op.last in MAXIMA), ("own", measured))
        if holds
    ]


def normalised(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``softmax``, ``cumsum``, ``sort``…: the shape stays, but every entry depends on the whole dimension."""
    source = _source(op)
    if source is None or out.dims is None or len(out.dims) != len(source.dims or ()):
        return unknown(out)
    touched = along(op.call, len(source.dims or ()))
    if touched is None:
        split = None
    else:
        split = axes_along(source, touched)
    if touched is None or split is None:
        return unknown(out)
    if static_bool(op.call.get("include_initial")) is True:
        return computed(op, out, origins)
    if op.last in _CUMULATIVE_SUMS:
        kind: Kind = "linear"
    else:
        kind = "nonlinear"
    result = combined(op, out, [dim.axes for dim in source.dims or ()], kind, [source])
    same = [axis for axis in split if (axis, "alike") in source.marks]
    sound = [axis for axis in split if clean(source, axis)]
    kinds = ["local", "softmax" if op.last in _SOFTMAX else "scan"]
    if op.last in _NORMED:
        kinds.append(_NORMED[op.last])
    notes = [op.note(axis, split_text(op, source, touched, axis)) for axis in split]
    return replace(
        result,
        varying=result.varying | frozenset(split),
        unclear=result.unclear.plus(same),
        notes=(*result.notes, *notes),
        marks=result.marks | {(axis, mark) for axis in sound for mark in kinds},
    )


_JNP, _NN = "jax.numpy", "jax.nn"
_TESTS = frozenset({"any", "all", "reduce_or", "reduce_and"})
_CUMULATIVE_SUMS = frozenset({"cumsum", "nancumsum", "cumulative_sum"})
_NORMED = {"softmax": "normed", "log_softmax": "lognormed"}
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
