"""Convolutions: a sum over features, and windows in space, for which a device needs its neighbours' parts."""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.arrays import seen_size, sizes_argument
from shardlint.ops.registry import Call, is_none, static_bool, static_int, static_str
from shardlint.ops.sharding.base import Op, computed, names, rule
from shardlint.ops.sharding.contraction import contracted
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.reductions import split_text
from shardlint.ops.sharding.state import clean
from shardlint.ops.sliding import Layout, layout_of, transposed_layout
from shardlint.values import ArrayValue

_TRANSPOSED = "conv_transpose"


def convolved(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """The features are contracted. Along a dimension of space that is split every device works on its own part."""
    if len(op.operands) == 2:
        lhs, rhs = op.operands
    else:
        lhs = None
        rhs = None
    if (
        lhs is None
        or rhs is None
        or lhs.dims is None
        or rhs.dims is None
        or out.dims is None
    ):
        return computed(op, out, origins)
    layout = _layout(op.call, len(lhs.dims))
    groups = [
        op.call.args[name]
        for name in ("feature_group_count", "batch_group_count")
        if name in op.call.args
    ]
    if (
        layout is None
        or any(rhs.dims[k].axes != () for k in layout.rhs[2:])
        or any(static_int(n) != 1 for n in groups)
    ):
        return computed(op, out, origins)
    inputs = [
        [f"a{n}" for n in range(len(lhs.dims))],
        [f"b{n}" for n in range(len(lhs.dims))],
    ]
    output = [f"c{n}" for n in range(len(lhs.dims))]
    inputs[0][layout.lhs[0]] = output[layout.out[0]] = "batch"
    inputs[1][layout.rhs[0]] = output[layout.out[1]] = "features"
    inputs[0][layout.lhs[1]] = inputs[1][layout.rhs[1]] = "k"
    for a, c in zip(layout.lhs[2:], layout.out[2:], strict=True):
        inputs[0][a] = output[c]
    result = contracted(op, out, op.operands, inputs, output)
    for number, k in enumerate(layout.lhs[2:]):
        result = _slid(op, result, lhs, k, _within(op.call, lhs, rhs, layout, number))
    return result


def _layout(call: Call, rank: int) -> Layout | None:
    if call.last != _TRANSPOSED:
        return layout_of(call, rank)
    flipped = static_bool(call["transpose_kernel"])
    if flipped is None:
        return None
    return transposed_layout(call, rank, flipped)


def _slid(
    op: Op, result: ArrayValue, source: ArrayValue, k: int, within: bool | None
) -> ArrayValue:
    """The result where windows slid along that dimension of the source: ``within`` tells whether each of them is in
    one device's part."""
    split = (source.dims or ())[k].axes or ()
    if within or not split:
        return result
    if within is None:
        return replace(result, unclear=result.unclear.plus(split))
    sound = [axis for axis in split if clean(source, axis)]
    return replace(
        result,
        varying=result.varying | frozenset(split),
        marks=result.marks
        | {(axis, mark) for axis in sound for mark in ("local", "scan")},
        notes=(
            *result.notes,
            *(op.note(axis, split_text(op, source, [k], axis)) for axis in split),
        ),
    )


def _within(
    call: Call, lhs: ArrayValue, rhs: ArrayValue, layout: Layout, number: int
) -> bool | None:
    """Whether no window crosses from one part to the next along one dimension of space; None where that is open."""
    window = seen_size(rhs, layout.rhs[number + 2])
    size = seen_size(lhs, layout.lhs[number + 2])
    strides = next(
        (call[name] for name in ("window_strides", "strides") if name in call.args),
        None,
    )
    if strides is not None:
        steps = sizes_argument(strides)
    else:
        steps = None
    spread = [
        call.args[name]
        for name in ("lhs_dilation", "rhs_dilation")
        if name in call.args
    ]
    if (
        window is None
        or window.constant is None
        or steps is None
        or not all(map(is_none, spread))
    ):
        return None
    if number < len(steps):
        step = steps[number]
    else:
        step = None
    if step is None or step.constant is None:
        return None
    if window.constant > step.constant:
        return False
    plain = (
        static_str(call["padding"]) in ("SAME", "VALID") and call.last != _TRANSPOSED
    )
    even = step == 1 or (
        size is not None
        and size.constant is not None
        and size.constant % step.constant == 0
    )
    if plain and even:
        return True
    return None


rule(
    names(
        "jax.lax", "conv conv_general_dilated conv_with_general_padding conv_transpose"
    ),
    convolved,
)
