"""Contractions: a contracted dimension that is sharded gives a partial sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops.arrays import ONE
from shardlint.ops.equations import (
    Equation,
    dimension_numbers,
    parse_equation,
    tensordot_pairs,
)
from shardlint.ops.registry import Call, OpError, static_int, static_str
from shardlint.ops.sharding.base import (
    Op,
    ShardingError,
    computed,
    names,
    rule,
    unknown,
)
from shardlint.ops.sharding.combining import combined, used
from shardlint.ops.sharding.elementwise import clash, explained
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import (
    HOT,
    LASTING,
    Arrays,
    DimAxes,
    clean,
    marks,
    notes_about,
    state,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue
from shardtypes.lang.messages import axes_text, partial_sum

Letters = Sequence[Sequence[str]]
#: Marks over an axis whose dimension is contracted.
_THROUGH = LASTING | {"weighed", "normed", "lognormed"}


def contracted(
    op: Op,
    out: ArrayValue,
    operands: Arrays,
    inputs: Letters,
    output: Sequence[str],
) -> ArrayValue:
    """The result of an einsum whose operands' dimensions have these letters.

    Raises ShardingError where one letter is split over different axes.
    """
    if out.dims is None or len(out.dims) != len(output):
        return unknown(out)
    found = _dimensions(op, operands, inputs, output)
    if found is None:
        return unknown(out)
    axes: DimAxes = [
        found[letter][1].axes if letter in found else () for letter in output
    ]
    summed = [letter for letter in found if letter not in output]
    if any(found[letter][1].axes is None for letter in summed):
        return unknown(out)
    for operand, letters in zip(operands, inputs, strict=True):
        if HOT in operand.marks and letters and letters[-1] in summed:
            _check_hot(op, operand, found[letters[-1]][1])
    if summed:
        _beyond_repair(
            op, operands, {axis for _, dim in found.values() for axis in dim.axes or ()}
        )
    result = combined(
        op, out, axes, "multiply" if len(operands) > 1 else "linear", operands
    )
    split = [axis for letter in summed for axis in found[letter][1].axes or ()]
    return _summed_over(op, result, operands, split)


def _dimensions(
    op: Op, operands: Arrays, inputs: Letters, output: Sequence[str]
) -> dict[str, tuple[int, Dimension]] | None:
    """For each letter the dimension that tells most, and the number of its operand; None where ranks are not known.

    Raises ShardingError where one letter is split over different axes.
    """
    found: dict[str, tuple[int, Dimension]] = {}
    for number, (operand, letters) in enumerate(zip(operands, inputs, strict=True)):
        if operand.dims is None or len(operand.dims) != len(letters):
            return None
        for dim, letter in zip(operand.dims, letters, strict=True):
            before = found.get(letter)
            if (
                before is None
                or before[1].size == ONE
                or (before[1].axes == () and dim.axes)
            ):
                found[letter] = (number, dim)
            elif dim.size == ONE:
                continue
            elif dim.axes is None:
                found[letter] = (number, dim)
            elif dim.axes and before[1].axes and dim.axes != before[1].axes:
                code = "ST309" if letter in output else "ST310"
                raise clash(op, operands[before[0]], operand, code)
    return found


def _summed_over(
    op: Op, result: ArrayValue, operands: Arrays, split: Sequence[str]
) -> ArrayValue:
    """The result of contracting dimensions that are split over these axes: what each device has is a partial sum."""
    pending = set(result.pending or ())
    varying = set(result.varying)
    unclear = result.unclear
    notes = list(result.notes)
    for axis in split:
        varying.discard(axis)
        is_bool = result.dtype == "bool"  # there is no sum of bools
        if is_bool or axis in unclear or any(axis in o.unclear for o in operands):
            unclear = unclear.plus([axis])
        elif _sums_up(operands, axis):
            pending.add(axis)
        else:
            varying.add(axis)
        notes.append(
            op.note(axis, f"contracted here over a dimension sharded over {axis!r}")
        )
    kept = frozenset(
        mark for mark in result.marks if mark[0] not in split or mark[1] in _THROUGH
    )
    return replace(
        result,
        pending=frozenset(pending),
        varying=frozenset(varying) - pending,
        unclear=unclear,
        marks=kept,
        notes=tuple(notes),
    )


def _sums_up(operands: Arrays, axis: str) -> bool:
    """Whether the devices' results along the axis add up to that of one device."""
    if any(axis in operand.varying for operand in operands):
        return False
    sharded = [
        o for o in operands if any(axis in (dim.axes or ()) for dim in o.dims or ())
    ]
    return all(clean(operand, axis) for operand in sharded)


def _check_hot(op: Op, rows: ArrayValue, dim: Dimension) -> None:
    """``one_hot`` of the same indices on all devices, against rows of which each device has others. Raises
    ShardingError."""
    axes = [axis for axis in dim.axes or () if state(rows, axis) == "replicated"]
    if axes and dim.size != ONE:
        what = op.size_text(dim)
        text = (
            f"{op.name}: one_hot of the same indices on every device, against {what}, which is sharded over "
            f"{axes_text(axes)}: subtract the offset of the device's shard from the indices first"
        )
        raise ShardingError("ST311", text, None, notes_about(rows, axes))


def _beyond_repair(op: Op, operands: Arrays, split: set[str]) -> None:
    """Parts of a sum against what is split over the same axis: each device lacks the others' parts for what it has,
    and no later sum brings them there. Raises ShardingError."""
    for axis in sorted(split):
        partial = [o for o in operands if state(o, axis) == "pending"]
        certain = partial and not any(
            marks(o, axis) & {"lone", "scattered", "reduction", "mean"} for o in partial
        )
        if certain and all(clean(o, axis) for o in operands if o is not partial[0]):
            raise used(
                op,
                axis,
                partial,
                [partial_sum([axis]), f"a value sharded over {axis!r}"],
            )


def einsum(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    letters = letters_of(op.call, op.operands)
    if letters is None:
        return computed(op, out, origins)
    return contracted(op, out, op.operands, *letters)


def letters_of(
    call: Call, operands: Arrays
) -> tuple[list[list[str]], list[str]] | None:
    """Letters of the operands and of the result, an ellipsis written out."""
    if call.last == "einsum":
        return _of_equation(call, operands)
    if len(operands) != 2:
        return None
    a = operands[0].dims
    b = operands[1].dims
    if not a or not b:
        return None
    left = len(a)
    right = len(b)
    match call.last:
        case "matmul" | "dot" | "inner":
            return _of_matmul(call.last, left, right)
        case "vecdot" if static_int(call.get("axis")) == -1:
            return _of_products(left, right, (["k"], ["k"]), [])
        case "matvec":
            return _of_products(left, right, (["i", "k"], ["k"]), ["i"])
        case "vecmat":
            return _of_products(left, right, (["k"], ["k", "j"]), ["j"])
        case "batch_matmul":
            return _of_products(left, right, (["i", "k"], ["k", "j"]), ["i", "j"])
        case "outer" if left == right == 1:
            return [["i"], ["j"]], ["i", "j"]
        case "vdot" if [dim.size for dim in a] == [dim.size for dim in b]:
            shared = [f"k{n}" for n in range(left)]
            return [shared, shared], []
        case "tensordot":
            first, second = tensordot_pairs(call, *operands)
            pairs = list(zip(first, second, strict=True))
            return _of_pairs(left, right, pairs, [])
        case "dot_general":
            groups = dimension_numbers(call["dimension_numbers"])
            if groups is not None:
                contracting, batch = (
                    list(zip(*group, strict=True)) for group in groups
                )
                return _of_pairs(left, right, contracting, batch)
    return None


def _of_products(
    left: int, right: int, own: tuple[list[str], list[str]], output: list[str]
) -> tuple[list[list[str]], list[str]] | None:
    """Products over a batch that broadcasts: ``own`` are the letters of the last dimensions."""
    extra = [left - len(own[0]), right - len(own[1])]
    if min(extra) < 0:
        return None
    batch = [f"...{n}" for n in range(max(extra), 0, -1)]
    a, b = (
        [*batch[len(batch) - more :], *letters]
        for more, letters in zip(extra, own, strict=True)
    )
    return [a, b], [*batch, *output]


def _of_pairs(
    left: int,
    right: int,
    contracting: Sequence[tuple[int, int]],
    batch: Sequence[tuple[int, int]],
) -> tuple[list[list[str]], list[str]]:
    a = [f"a{n}" for n in range(left)]
    b = [f"b{n}" for n in range(right)]
    for i, k in (*contracting, *batch):
        b[k] = a[i]
    gone = {a[i] for i, _ in (*contracting, *batch)}
    return [a, b], [
        *(a[i] for i, _ in batch),
        *(one for one in (*a, *b) if one not in gone),
    ]


def _of_equation(
    call: Call, operands: Arrays
) -> tuple[list[list[str]], list[str]] | None:
    equation = _equation(call)
    if equation is None or len(equation.inputs) != len(operands):
        return None
    inputs = []
    width = 0
    for letters, operand in zip(equation.inputs, operands, strict=True):
        if operand.dims is None:
            return None
        extra = len(operand.dims) - len(
            [letter for letter in letters if letter != "..."]
        )
        if "..." in letters:
            width = max(width, extra)
        inputs.append(_written(letters, extra))
    if "..." in equation.output or not any(
        "..." in letters for letters in equation.inputs
    ):
        return inputs, _written(equation.output, width)
    return None


def _equation(call: Call) -> Equation | None:
    if "subscripts" in call.args:
        text = static_str(call["subscripts"])
        if text is None:
            return None
        return parse_equation(call, text)
    given = call.get("tensors_and_pattern")  # of einops, the pattern last
    if isinstance(given, SequenceValue) and given.items:
        text = static_str(given.items[-1])
    else:
        text = None
    left, arrow, right = (text or "").partition("->")
    if arrow:
        return Equation(
            tuple(tuple(part.split()) for part in left.split(",")), tuple(right.split())
        )
    return None


def _written(letters: Sequence[str], extra: int) -> list[str]:
    """``...`` as letters of its own, numbered from the right as broadcasting lines them up."""
    out: list[str] = []
    for letter in letters:
        out.extend(
            [f"...{n}" for n in range(extra, 0, -1)] if letter == "..." else [letter]
        )
    return out


def _of_matmul(name: str, left: int, right: int) -> tuple[list[list[str]], list[str]]:
    """The letters of ``matmul``, ``dot`` or ``inner`` of operands of these ranks."""
    if name == "matmul":
        rank = max(left, right) - 2
        batch = [f"...{n}" for n in range(rank, 0, -1)]
        row: list[str] = []
        column: list[str] = []
        if left > 1:
            row = ["i"]
        if right > 1:
            column = ["j"]
        first = batch[len(batch) - max(left - 2, 0) :]
        second = batch[len(batch) - max(right - 2, 0) :]
        inputs = [[*first, *row, "k"], [*second, "k", *column]]
        return inputs, [*batch, *row, *column]
    rows = [f"a{n}" for n in range(left - 1)]
    columns = [f"b{n}" for n in range(right - 1)]
    if name == "inner" or right == 1:
        other = [*columns, "k"]
    else:
        other = [*columns[:-1], "k", columns[-1]]
    return [[*rows, "k"], other], [*rows, *columns]


def explain(op: Op, error: OpError) -> OpError | None:
    """Contracted dimensions that differ because one of them is split, or they are split differently."""
    try:
        letters = letters_of(op.call, op.operands)
    except OpError:
        return None
    if letters is None:
        return None
    inputs, output = letters
    seen: dict[str, tuple[ArrayValue, Dimension]] = {}
    for operand, names_ in zip(op.operands, inputs, strict=True):
        if operand.dims is None or len(operand.dims) != len(names_):
            return None
        for dim, letter in zip(operand.dims, names_, strict=True):
            if letter in seen:
                code = "ST309" if letter in output else "ST310"
                found = explained(op, *seen[letter], operand, dim, code)
                if found is not None:
                    found.witness = error.witness
                    return found
            seen.setdefault(letter, (operand, dim))
    return None


rule(
    [
        *names(
            "jax.numpy",
            "einsum matmul dot inner outer vdot tensordot vecdot matvec vecmat linalg.matmul "
            "linalg.tensordot linalg.vecdot linalg.outer",
        ),
        *names("jax.lax", "dot dot_general batch_matmul"),
        "einops.einsum",
    ],
    einsum,
    explain,
)
