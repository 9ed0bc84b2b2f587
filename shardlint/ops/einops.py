"""einops: ``rearrange``, ``reduce``, ``repeat``, ``einsum``, ``asnumpy``-like pass-throughs."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    as_array,
    different,
    merge_dims,
    product,
    shown,
    shown_size,
    size_of,
)
from shardlint.ops.contraction import Equation, contract
from shardlint.ops.joining import joined_operands
from shardlint.ops.registry import Call, OpError, UnknownArgument, model, static_str
from shardlint.ops.reshape import even_divisions
from shardlint.values import ArrayValue, DictValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes

_ELLIPSIS = "…"
_FLAT = "(…)"  # an ellipsis in parentheses: joined into one dimension


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pattern: groups of names; ``()`` and ``1`` are empty groups."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> list[str]:
        return [name for group in self.groups for name in group]


def parse_side(call: Call, pattern: str, text: str) -> Side:
    """``'b (h w) ...'`` → groups. Raises OpError for unbalanced parentheses and names that are no names."""
    groups: list[tuple[str, ...]] = []
    inner: list[str] | None = None
    for token in (
        text.replace("...", _ELLIPSIS).replace("(", " ( ").replace(")", " ) ").split()
    ):
        if token == "(":
            if inner is not None:
                raise OpError(
                    "ST215", f"{call.name}: nested parentheses in '{pattern}'"
                )
            inner = []
        elif token == ")":
            if inner is None:
                raise OpError(
                    "ST215", f"{call.name}: unbalanced parentheses in '{pattern}'"
                )
            groups.append(tuple(inner))
            inner = None
        else:
            if not (token.isidentifier() or token.isdecimal() or token == _ELLIPSIS):
                raise OpError(
                    "ST215", f"{call.name}: '{token}' in '{pattern}' is not a name"
                )
            if inner is not None:
                inner.append(_FLAT if token == _ELLIPSIS else token)
            else:
                groups.append(() if token == "1" else (token,))
    if inner is not None:
        raise OpError("ST215", f"{call.name}: unbalanced parentheses in '{pattern}'")
    names = [name for group in groups for name in group if not name.isdecimal()]
    repeated = next(
        (name for name in names if names.count(name) > 1 and name != "_"), None
    )
    if repeated is not None:
        shown_name = "..." if repeated == _ELLIPSIS else repeated
        raise OpError(
            "ST215", f"{call.name}: '{shown_name}' is twice on one side of '{pattern}'"
        )
    return Side(tuple(groups))


def _split(call: Call, pattern: str) -> tuple[Side, Side]:
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise OpError("ST215", f"{call.name}: '{pattern}' has no '->'")
    return parse_side(call, pattern, left), parse_side(call, pattern, right)


def _lengths(call: Call) -> dict[str, Size | None]:
    lengths = call["axes_lengths"]
    if not isinstance(lengths, DictValue):
        raise UnknownArgument
    return {str(name): size_of(value) for name, value in lengths.items}


def _check_names(
    call: Call, pattern: str, left: Side, right: Side, lengths: dict[str, Size | None]
) -> None:
    source, target = (
        {_ELLIPSIS if n == _FLAT else n for n in side.names if not n.isdecimal()}
        for side in (left, right)
    )
    extra = target - source - (set(lengths) if call.last == "repeat" else set())
    if extra:
        name = sorted(extra)[0]
        raise OpError(
            "ST215", f"{call.name}: '{name}' is only on the right of '{pattern}'"
        )
    lost = source - target
    if lost and call.last != "reduce":
        raise OpError(
            "ST215",
            f"{call.name}: '{sorted(lost)[0]}' is only on the left of '{pattern}'",
        )
    unused = set(lengths) - source - target
    if unused:
        raise OpError(
            "ST215",
            f"{call.name}: '{sorted(unused)[0]}' has a length but is not in '{pattern}'",
        )


@model("tensor, pattern, **axes_lengths", "einops.rearrange", "einops.repeat")
@model("tensor, pattern, reduction, **axes_lengths", "einops.reduce")
def rearrange(call: Call) -> Value:
    pattern = static_str(call["pattern"])
    value = _stacked(call, call["tensor"])
    if pattern is None:
        return ArrayValue(None, value.dtype)
    left, right = _split(call, pattern)
    lengths = _lengths(call)
    _check_names(call, pattern, left, right, lengths)
    dims = _result_dims(call, pattern, left, right, lengths, value)
    linear = call.last != "reduce" or static_str(call["reduction"]) in ("sum", "mean")
    dtype = value.dtype
    if call.last == "reduce" and not dtypes.is_kind(dtype, "floating"):
        dtype = None
    pending = value.pending if linear or value.pending == frozenset() else None
    return ArrayValue(
        dims, dtype, value.weak and call.last != "reduce" and dtype is not None, pending
    )


def _stacked(call: Call, value: Value) -> ArrayValue:
    """einops stacks a list of arrays along a new first dimension."""
    if isinstance(value, SequenceValue):
        parts = joined_operands(call, value)
        if parts and parts[0].dims is not None:
            first = Dimension(Size.const(len(parts)), ())
            return ArrayValue(
                (first, *parts[0].dims), parts[0].dtype, False, parts[0].pending
            )
        return UNKNOWN_ARRAY
    return as_array(value) or UNKNOWN_ARRAY


def _result_dims(
    call: Call,
    pattern: str,
    left: Side,
    right: Side,
    lengths: dict[str, Size | None],
    value: ArrayValue,
) -> tuple[Dimension, ...] | None:
    bound = {name: Dimension(size) for name, size in lengths.items()}
    middle: tuple[Dimension, ...] | None = None
    if value.dims is not None:
        middle = _bind_left(call, pattern, left, value, bound)
    dims: list[Dimension] = []
    for group in right.groups:
        if group == (_ELLIPSIS,):
            if middle is None:
                return None
            dims.extend(middle)
            continue
        parts: list[Dimension] = []
        for name in group:
            if name == _FLAT:
                if middle is None:
                    parts.append(Dimension(None))
                parts.extend(middle or ())
            elif name.isdecimal():
                parts.append(Dimension(Size.const(int(name)), ()))
            else:
                parts.append(bound.get(name, Dimension(None)))
        dims.append(_joined(parts))
    return tuple(dims)


def _joined(parts: list[Dimension]) -> Dimension:
    if len(parts) == 1:
        return parts[0]
    known = [part.size for part in parts if part.size is not None]
    axes = () if all(part.axes == () for part in parts) else None
    return Dimension(product(known) if len(known) == len(parts) else None, axes)


def _bind_left(
    call: Call, pattern: str, left: Side, value: ArrayValue, bound: dict[str, Dimension]
) -> tuple[Dimension, ...]:
    """Bind the names of the left side to dimensions; returns what ``...`` stands for."""
    assert value.dims is not None
    if any(_FLAT in group for group in left.groups):
        raise OpError(
            "ST215", f"{call.name}: '...' in parentheses on the left of '{pattern}'"
        )
    dots = [i for i, group in enumerate(left.groups) if _ELLIPSIS in group]
    extra = len(value.dims) - len(left.groups) + len(dots)
    if extra < 0 or (extra and not dots):
        count = len(left.groups) - len(dots)
        many = f"at least {count}" if dots else str(count)
        message = f"{call.name}: '{pattern}' takes {many} dimensions, but the array is {shown(value)}"
        raise OpError("ST215", message, operand=0)
    position = 0
    middle: tuple[Dimension, ...] = ()
    for i, group in enumerate(left.groups):
        if i in dots:
            middle = value.dims[position : position + extra]
            position += extra
            continue
        _bind_group(call, pattern, group, value, position, bound)
        position += 1
    return middle


def _bind_group(
    call: Call,
    pattern: str,
    group: tuple[str, ...],
    value: ArrayValue,
    position: int,
    bound: dict[str, Dimension],
) -> None:
    assert value.dims is not None
    dim = value.dims[position]
    unbound = [name for name in group if not name.isdecimal() and name not in bound]
    sizes = [
        Size.const(int(n)) if n.isdecimal() else bound[n].size
        for n in group
        if n not in unbound
    ]
    known = [size for size in sizes if size is not None]
    if len(unbound) > 1:
        raise OpError(
            "ST215",
            f"{call.name}: the lengths of {' and '.join(unbound)} in '{pattern}' cannot be inferred",
        )
    if len(group) == 1 and unbound:
        bound[group[0]] = dim
        return
    if dim.size is None or len(known) < len(sizes):
        for name in unbound:
            bound[name] = Dimension(None)
        return
    given = product(known)
    if not unbound:
        _same_size(call, pattern, group, value, position, given)
        if len(group) == 1 and group[0] in bound:
            bound[group[0]] = merge_dims(call.ctx, Dimension(given, dim.axes), dim)
        return
    exact = dim.size.divides_exactly(given) if given.constant != 0 else None
    if exact is None and dim.size.constant is not None and given.constant is not None:
        what = f"dimension {position} of {shown(value)} is {shown_size(dim.size)}"
        raise OpError(
            "ST215",
            f"{call.name}: {what}, not divisible by {shown_size(given)} as '{pattern}' needs",
        )
    if exact is None:
        exact = dim.size // given
        call.ctx.facts = even_divisions(call.ctx.facts, exact)
    bound[unbound[0]] = Dimension(exact)


def _same_size(
    call: Call,
    pattern: str,
    group: tuple[str, ...],
    value: ArrayValue,
    position: int,
    given: Size,
) -> None:
    assert value.dims is not None
    size = value.dims[position].size
    witness = different(call.ctx, size, given)
    if witness is not None:
        text = (
            "1"
            if not group
            else (group[0] if len(group) == 1 else f"({' '.join(group)})")
        )
        what = f"dimension {position} of {shown(value)} is {shown_size(size)}"
        stands = (
            f"but '{text}' in '{pattern}' is {shown_size(given)}"
            if text != "1"
            else f"but 1 in '{pattern}'"
        )
        raise OpError("ST215", f"{call.name}: {what}, {stands}", witness, 0)


@model("*tensors_and_pattern", "einops.einsum")
def einsum(call: Call) -> Value:
    """Like ``jnp.einsum``, with names for letters and the pattern last; a dimension of 1 does not broadcast."""
    sequence = call["tensors_and_pattern"]
    if not isinstance(sequence, SequenceValue) or not sequence.items:
        raise UnknownArgument
    pattern = static_str(sequence.items[-1])
    if pattern is None:
        raise UnknownArgument
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise OpError("ST205", f"{call.name}: '{pattern}' has no '->'")
    inputs = tuple(tuple(part.split()) for part in left.split(","))
    output = tuple(right.split())
    operands = [as_array(item) or UNKNOWN_ARRAY for item in sequence.items[:-1]]
    known = {name for names in inputs for name in names}
    lost = next((name for name in output if name not in known), None)
    if lost is not None:
        raise OpError(
            "ST205",
            f"{call.name}: '{lost}' of the output is in no input of '{pattern}'",
        )
    if len(operands) != len(inputs):
        raise OpError(
            "ST205",
            f"{call.name}: '{pattern}' has {len(inputs)} operands, but {len(operands)} are given",
        )
    return contract(call, pattern, Equation(inputs, output), operands)
