"""Contractions: matmul, dot, einsum, tensordot and their relatives."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.ops import advice
from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    arrays,
    as_array,
    broadcast_dims,
    different,
    dtype_argument,
    elementwise,
    merge_dims,
    merge_pending,
    one_axis,
    result_dtype,
    shown,
    shown_size,
    sizes_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    names,
    static_int,
    static_str,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes


def contraction_result(
    call: Call, operands: list[ArrayValue], dims: tuple[Dimension, ...] | None
) -> ArrayValue:
    """The array of these dimensions, dtype promoted or as ``preferred_element_type`` says."""
    result = ArrayValue(dims, pending=merge_pending(operands, "multiply"))
    preferred, given = dtype_argument(call, call.get("preferred_element_type"))
    if given:
        return with_dtype(result, preferred)
    if (
        call.qualname.startswith("jax.lax.")
        and len({operand.dtype for operand in operands}) > 1
    ):
        # jax.lax multiplies any two dtypes, by a rule of its own
        return with_dtype(result, None)
    dtype, weak = result_dtype(call.name, operands, call.ctx)
    mixed = (
        len(
            {
                dtypes.KIND_OF.get(name)
                for operand in operands
                for name in dtypes.members(operand.dtype or "")
            }
        )
        > 1
    )
    if len({operand.weak for operand in operands}) > 1 or (mixed and len(operands) > 2):
        return with_dtype(result, None)  # JAX refuses some of these mixtures
    return with_dtype(result, dtype, weak)


def check_contracted(call: Call, a: ArrayValue, i: int, b: ArrayValue, k: int) -> None:
    """Dimension ``i`` of ``a`` must be dimension ``k`` of ``b``."""
    assert a.dims is not None and b.dims is not None
    witness = different(call.ctx, a.dims[i].size, b.dims[k].size)
    if witness is not None:
        left, right = shown_size(a.dims[i].size), shown_size(b.dims[k].size)
        usual = i == len(a.dims) - 1 and k == len(b.dims) - 2
        advised = advice.contraction(sizes_of(a), sizes_of(b)) if usual else ""
        message = f"{call.name}: cannot contract {shown(a)} with {shown(b)}: {left} against {right}{advised}"
        raise OpError("ST204", message, witness)


@model(
    "a, b, *, precision=None, preferred_element_type=None, out_sharding=None",
    "jax.numpy.matmul",
)
def matmul(call: Call) -> Value:
    a, b = arrays(call, "a", "b")
    for i, operand in enumerate((a, b)):
        if operand.dims == ():
            raise OpError(
                "ST204",
                f"{call.name}: operand {i} is a scalar; multiply with *",
                operand=i,
            )
    if a.dims is None or b.dims is None:
        return contraction_result(call, [a, b], None)
    k = len(b.dims) - 2 if len(b.dims) > 1 else 0
    check_contracted(call, a, len(a.dims) - 1, b, k)
    batch_a, batch_b = a.dims[:-2], b.dims[:-2]
    try:
        batch = broadcast_dims(
            call.name, [with_dims(a, batch_a), with_dims(b, batch_b)], call.ctx
        )
    except OpError as error:
        message = f"{call.name}: batch dimensions of {shown(a)} and {shown(b)} do not broadcast"
        raise OpError("ST204", message, error.witness) from None
    assert batch is not None
    dims = (
        batch
        + (a.dims[-2:-1] if len(a.dims) > 1 else ())
        + (b.dims[-1:] if len(b.dims) > 1 else ())
    )
    return contraction_result(call, [a, b], dims)


@model(
    "a, b, *, precision=None, preferred_element_type=None, out_sharding=None",
    "jax.numpy.dot",
)
@model("a, b, /, *, precision=None, preferred_element_type=None", "jax.numpy.inner")
def dot(call: Call) -> Value:
    """The last dimension of ``a`` with the second to last (``inner``: last) of ``b``; a scalar multiplies."""
    a, b = arrays(call, "a", "b")
    if a.dims is None or b.dims is None:
        return contraction_result(call, [a, b], None)
    if a.dims == () or b.dims == ():
        return contraction_result(call, [a, b], a.dims or b.dims)
    k = len(b.dims) - 1 if call.last == "inner" or len(b.dims) == 1 else len(b.dims) - 2
    check_contracted(call, a, len(a.dims) - 1, b, k)
    dims = a.dims[:-1] + b.dims[:k] + b.dims[k + 1 :]
    return contraction_result(call, [a, b], dims)


@model("a, b, *, precision=None, preferred_element_type=None", "jax.numpy.vdot")
def vdot(call: Call) -> Value:
    from shardlint.ops.arrays import flattened

    a, b = arrays(call, "a", "b")
    check_contracted(call, with_dims(a, flattened(a)), 0, with_dims(b, flattened(b)), 0)
    return contraction_result(call, [a, b], ())


@model("a, b, out=None", "jax.numpy.outer")
def outer(call: Call) -> Value:
    from shardlint.ops.arrays import flattened

    a, b = arrays(call, "a", "b")
    dims = [*(flattened(a) or ()), *(flattened(b) or ())]
    return contraction_result(call, [a, b], tuple(dims))


@model(
    "x1, x2, /, *, axis=-1, precision=None, preferred_element_type=None",
    "jax.numpy.vecdot",
)
def vecdot(call: Call) -> Value:
    a, b = arrays(call, "x1", "x2")
    if static_int(call["axis"]) != -1 or not a.dims or not b.dims:
        return UNKNOWN_ARRAY
    check_contracted(call, a, len(a.dims) - 1, b, len(b.dims) - 1)
    batch = broadcast_dims(
        call.name, [with_dims(a, a.dims[:-1]), with_dims(b, b.dims[:-1])], call.ctx
    )
    return contraction_result(call, [a, b], batch)


@model(
    "a, b, axes=2, *, precision=None, preferred_element_type=None, out_sharding=None",
    "jax.numpy.tensordot",
)
def tensordot(call: Call) -> Value:
    a, b = arrays(call, "a", "b")
    if a.dims is None or b.dims is None:
        return contraction_result(call, [a, b], None)
    pairs = tensordot_pairs(call, a, b)
    for i, k in zip(*pairs, strict=True):
        check_contracted(call, a, i, b, k)
    left = tuple(dim for i, dim in enumerate(a.dims) if i not in pairs[0])
    right = tuple(dim for i, dim in enumerate(b.dims) if i not in pairs[1])
    return contraction_result(call, [a, b], left + right)


def tensordot_pairs(call: Call, a: ArrayValue, b: ArrayValue) -> list[list[int]]:
    """The dimensions of ``a`` that are contracted, and those of ``b``; their ranks are known. Raises OpError where they
    have no such dimensions, UnknownArgument where ``axes`` is not known."""
    assert a.dims is not None and b.dims is not None
    axes = call["axes"]
    if isinstance(axes, SequenceValue) and len(axes.items) == 2:
        pairs = []
        for value, operand in ((axes.items[0], a), (axes.items[1], b)):
            items = value.items if isinstance(value, SequenceValue) else (value,)
            assert operand.dims is not None
            pairs.append(
                [one_axis(call, item, len(operand.dims), operand) for item in items]
            )
        if len(pairs[0]) != len(pairs[1]):
            raise OpError(
                "ST204", f"{call.name}: {len(pairs[0])} axes against {len(pairs[1])}"
            )
    else:
        count = static_int(axes)
        if count is None:
            raise UnknownArgument
        if count > min(len(a.dims), len(b.dims)) or count < 0:
            raise OpError(
                "ST208",
                f"{call.name}: axes={count} for shapes {shown(a)} and {shown(b)}",
            )
        pairs = [list(range(len(a.dims) - count, len(a.dims))), list(range(count))]
    return pairs


@dataclass(frozen=True, slots=True)
class Equation:
    """An einsum equation: letters per operand, ``...`` as one of them."""

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def _two_ellipses(call: Call, text: str) -> OpError:
    return OpError("ST205", f"{call.name}: two ellipses in one term of '{text}'")


def _letters(
    call: Call, text: str, part: str, may_repeat: bool = False
) -> tuple[str, ...]:
    """The letters of a term. An ellipsis ``may_repeat`` in the output of JAX's own einsum, if it stands for nothing."""
    out: list[str] = []
    i = 0
    while i < len(part):
        if part.startswith("...", i):
            if "..." in out and not may_repeat:
                raise _two_ellipses(call, text)
            out.append("...")
            i += 3
        elif part[i].isalnum():  # JAX takes digits for letters
            out.append(part[i])
            i += 1
        else:
            raise OpError(
                "ST205", f"{call.name}: '{part[i]}' in '{text}' is not a letter"
            )
    return tuple(out)


def parse_equation(call: Call, text: str) -> Equation:
    """``'bij,bjk->bik'``. Without an arrow the output is every letter met once, in alphabetical order."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    inputs = tuple(_letters(call, text, part) for part in left.split(","))
    if arrow:
        output = _letters(call, text, right, may_repeat=not call.ctx.numpy)
    else:
        every = [letter for letters in inputs for letter in letters]
        output = tuple(
            sorted(
                letter
                for letter in set(every)
                if letter != "..." and every.count(letter) == 1
            )
        )
        output = (("...",) if "..." in every else ()) + output
    known = {letter for letters in inputs for letter in letters}
    for letter in output:
        if letter not in known and letter != "...":
            raise OpError(
                "ST205",
                f"{call.name}: '{letter}' of the output is in no input of '{text}'",
            )
        if letter != "..." and output.count(letter) > 1:
            raise OpError(
                "ST205", f"{call.name}: '{letter}' is twice in the output of '{text}'"
            )
    return Equation(inputs, output)


@model(
    "subscripts, /, *operands, out=None, optimize='auto', precision=None, preferred_element_type=None, "
    "_dot_general=None, out_sharding=None",
    "jax.numpy.einsum",
)
def einsum(call: Call) -> Value:
    text = static_str(call["subscripts"])
    sequence = call["operands"]
    if text is None or not isinstance(sequence, SequenceValue):
        return UNKNOWN_ARRAY
    equation = parse_equation(call, text)
    operands = [
        as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in sequence.items
    ]
    if len(operands) != len(equation.inputs):
        message = f"{call.name}: '{text}' has {len(equation.inputs)} operands, but {len(operands)} are given"
        raise OpError("ST205", message, operand=0)
    return contract(call, text, equation, operands)


def contract(
    call: Call, text: str, equation: Equation, operands: list[ArrayValue]
) -> ArrayValue:
    """Bind letters to dimensions, compare, and build the output. Shared with ``einops.einsum``."""
    bound: dict[str, tuple[int, Dimension]] = {}
    ellipses: list[ArrayValue] = []
    for i, (letters, operand) in enumerate(zip(equation.inputs, operands, strict=True)):
        if operand.dims is None:
            if "..." in letters:
                ellipses.append(UNKNOWN_ARRAY)
            continue
        plain = len([letter for letter in letters if letter != "..."])
        extra = len(operand.dims) - plain
        if extra < 0 or (extra and "..." not in letters):
            term = _term(letters)
            message = f"{call.name}: '{term}' of '{text}' does not fit operand {i} of shape {shown(operand)}"
            raise OpError("ST205", message, operand=i + 1)
        position = 0
        for letter in letters:
            if letter == "...":
                ellipses.append(
                    with_dims(operand, operand.dims[position : position + extra])
                )
                position += extra
                continue
            dim = operand.dims[position]
            position += 1
            _bind(call, text, equation, letter, i, dim, operands, bound)
    batch = broadcast_dims(call.name, ellipses, call.ctx, "ST205") if ellipses else ()
    if batch and equation.output.count("...") > 1:
        raise _two_ellipses(call, text)
    if batch is None and "..." in equation.output:
        return contraction_result(call, operands, None)
    dims: list[Dimension] = []
    for letter in equation.output:
        if letter == "...":
            dims.extend(batch or ())
        else:
            dims.append(bound[letter][1] if letter in bound else Dimension(None))
    return contraction_result(call, operands, tuple(dims))


def _term(letters: tuple[str, ...]) -> str:
    return (
        " " if any(len(letter) > 1 and letter != "..." for letter in letters) else ""
    ).join(letters)


def _bind(
    call: Call,
    text: str,
    equation: Equation,
    letter: str,
    i: int,
    dim: Dimension,
    operands: list[ArrayValue],
    bound: dict[str, tuple[int, Dimension]],
) -> None:
    if letter not in bound:
        bound[letter] = (i, dim)
        return
    first, before = bound[letter]
    if first == i and before.size != dim.size and 1 in (before.size, dim.size):
        bound[letter] = (i, Dimension(None))  # a diagonal of a row: releases differ
        return
    if (
        before.size == 1
        and call.last == "einsum"
        and not call.qualname.startswith("einops")
    ):
        bound[letter] = (i, dim)  # a dimension of 1 broadcasts
        return
    if dim.size == 1 and not call.qualname.startswith("einops"):
        return
    witness = different(call.ctx, before.size, dim.size)
    if witness is not None:
        left, right = shown_size(before.size), shown_size(dim.size)
        where = f"operand {first}" if first != i else f"the same operand {i}"
        message = (
            f"{call.name}: '{letter}' of '{text}' is {left} in {where}, {shown(operands[first])}, "
            f"and {right} in operand {i}, {shown(operands[i])}"
        )
        shapes = [
            None if operand.dims is None else sizes_of(operand) for operand in operands
        ]
        message += advice.einsum(equation.inputs, shapes)
        raise OpError(
            "ST205", message, _not_one(call, before.size, dim.size, witness), i + 1
        )
    bound[letter] = (first, merge_dims(call.ctx, before, dim))


def _not_one(
    call: Call, a: Size | None, b: Size | None, witness: dict[str, int]
) -> dict[str, int]:
    from shardtypes.lang import Different, broadcast

    if a is None or b is None:
        return witness
    outcome = broadcast(a, b, call.ctx.facts)
    return outcome.witness if isinstance(outcome, Different) else witness


@model(
    "x, y, dimension_numbers, precision=None, preferred_element_type=None, *, out_sharding=None",
    "jax.lax.dot_general",
)
def dot_general(call: Call) -> Value:
    """``dimension_numbers`` are ((contracted of x, of y), (batch of x, of y))."""
    x, y = arrays(call, "x", "y")
    groups = dimension_numbers(call["dimension_numbers"])
    if x.dims is None or y.dims is None or groups is None:
        return UNKNOWN_ARRAY
    (cx, cy), (bx, by) = groups
    for axes, operand in ((cx + bx, x), (cy + by, y)):
        assert operand.dims is not None
        for axis in axes:
            if not 0 <= axis < len(operand.dims):
                raise OpError(
                    "ST208",
                    f"{call.name}: axis {axis} is out of range for shape {shown(operand)}",
                )
    if len(cx) != len(cy) or len(bx) != len(by):
        raise OpError("ST204", f"{call.name}: dimension numbers of different lengths")
    for i, k in zip(cx + bx, cy + by, strict=True):
        check_contracted(call, x, i, y, k)
    dims = tuple(
        merge_dims(call.ctx, x.dims[i], y.dims[k]) for i, k in zip(bx, by, strict=True)
    )
    dims += tuple(dim for i, dim in enumerate(x.dims) if i not in cx + bx)
    dims += tuple(dim for i, dim in enumerate(y.dims) if i not in cy + by)
    return contraction_result(call, [x, y], dims)


def dimension_numbers(
    value: Value,
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]] | None:
    """((contracted of x, of y), (batch of x, of y)); None where they are not known."""
    if not isinstance(value, SequenceValue) or len(value.items) != 2:
        return None
    out = []
    for pair in value.items:
        if not isinstance(pair, SequenceValue) or len(pair.items) != 2:
            return None
        sides = []
        for side in pair.items:
            if not isinstance(side, SequenceValue):
                return None
            numbers = [static_int(item) for item in side.items]
            known = [number for number in numbers if number is not None]
            if len(known) < len(numbers):
                return None
            sides.append(known)
        out.append((sides[0], sides[1]))
    return out[0], out[1]


@model("lhs, rhs, precision=None, preferred_element_type=None", "jax.lax.dot")
def lax_dot(call: Call) -> Value:
    a, b = array(call, "lhs"), array(call, "rhs")
    if not a.dims or not b.dims or len(a.dims) > 2 or len(b.dims) > 2:
        return UNKNOWN_ARRAY
    check_contracted(call, a, len(a.dims) - 1, b, 0)
    return contraction_result(call, [a, b], a.dims[:-1] + b.dims[1:])


@model("a, b, axisa=-1, axisb=-1, axisc=-1, axis=None", "jax.numpy.cross")
def cross(call: Call) -> Value:
    a, b = arrays(call, "a", "b")
    if is_none(call["axis"]) and all(v.dims and v.dims[-1].size == 3 for v in (a, b)):
        out = elementwise(call.name, [a, b], call.ctx)
        return (
            out
            if dtypes.is_kind(out.dtype, "floating") and not out.weak
            else with_dtype(out, None)
        )
    return UNKNOWN_ARRAY


@model("x1, x2, /", *names("jax.numpy", "matvec vecmat"))
def matrix_vector(call: Call) -> Value:
    """(…, m, n) with (…, n), or (…, n) with (…, n, m)."""
    a, b = arrays(call, "x1", "x2")
    if a.dims is None or b.dims is None:
        return contraction_result(call, [a, b], None)
    big, small = (a, b) if call.last == "matvec" else (b, a)
    assert big.dims is not None and small.dims is not None
    if len(big.dims) < 2 or not small.dims:
        raise OpError(
            "ST204",
            f"{call.name}: shapes {shown(a)} and {shown(b)}; a matrix and a vector at least",
        )
    check_contracted(
        call, a, len(a.dims) - 1, b, len(b.dims) - (1 if call.last == "matvec" else 2)
    )
    batch = broadcast_dims(
        call.name,
        [with_dims(big, big.dims[:-2]), with_dims(small, small.dims[:-1])],
        call.ctx,
    )
    kept = big.dims[-2] if call.last == "matvec" else big.dims[-1]
    return contraction_result(call, [a, b], None if batch is None else (*batch, kept))
