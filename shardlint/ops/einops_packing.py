"""``einops.pack`` and ``unpack``: dimensions at the star are joined into one, and taken apart again."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    different,
    product,
    result_dtype,
    shown,
    shown_size,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.joining import joined_operands
from shardlint.ops.registry import Call, OpError, UnknownArgument, model, static_str
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size


def _star(call: Call) -> tuple[int, int]:
    """How many names stand before and after the star."""
    pattern = static_str(call["pattern"])
    if pattern is None:
        raise UnknownArgument
    names = pattern.split()
    if names.count("*") != 1 or len(set(names)) < len(names):
        raise OpError(
            "ST215", f"{call.name}: '{pattern}' needs names, each once, and one '*'"
        )
    if any(name != "*" and not name.isidentifier() for name in names):
        raise OpError(
            "ST215", f"{call.name}: '{pattern}' has something that is not a name"
        )
    before = names.index("*")
    return before, len(names) - before - 1


@model("tensors, pattern", "einops.pack")
def pack(call: Call) -> Value:
    """The packed array, and the shapes that stood at the star."""
    before, after = _star(call)
    parts = joined_operands(call, call["tensors"])
    if not parts or any(part.dims is None for part in parts):
        return SequenceValue((UNKNOWN_ARRAY, Unknown("packed shapes")))
    first: ArrayValue | None = None
    total: Size | None = Size.const(0)
    shapes: list[Value] = []
    for part in parts:
        assert part.dims is not None
        if len(part.dims) < before + after:
            count = before + after
            raise OpError(
                "ST215",
                f"{call.name}: {shown(part)} has fewer dimensions than the {count} that are named",
            )
        first = first or part
        assert first.dims is not None
        for i in (*range(before), *range(-after, 0)):
            witness = different(call.ctx, first.dims[i].size, part.dims[i].size)
            if witness is not None:
                what = f"dimension {i} of {shown(first)} and {shown(part)} differs"
                raise OpError("ST215", f"{call.name}: {what}", witness)
        middle = [dim.size for dim in part.dims[before : len(part.dims) - after]]
        known = [size for size in middle if size is not None]
        total = (
            None
            if total is None or len(known) < len(middle)
            else total + product(known)
        )
        shapes.append(SequenceValue(tuple(IntValue(size) for size in middle)))
    assert first is not None and first.dims is not None
    tail = first.dims[len(first.dims) - after :]
    dtype, weak = result_dtype(call.name, parts, call.ctx)
    alike = len({(part.dtype, part.weak) for part in parts}) == 1 and not weak
    out = ArrayValue(
        (*first.dims[:before], Dimension(total), *tail), None, False, parts[0].pending
    )
    return SequenceValue(
        (
            with_dtype(out, dtype if alike else None),
            SequenceValue(tuple(shapes), "list"),
        )
    )


@model("tensor, packed_shapes, pattern", "einops.unpack")
def unpack(call: Call) -> Value:
    """One array for each packed shape, which takes the place of the star."""
    before, after = _star(call)
    value, shapes = array(call, "tensor"), call["packed_shapes"]
    if value.dims is None or not isinstance(shapes, SequenceValue) or not shapes.items:
        raise UnknownArgument
    if len(value.dims) != before + after + 1:
        count = before + after + 1
        raise OpError(
            "ST215",
            f"{call.name}: {shown(value)} does not have the {count} dimensions of the pattern",
        )
    sizes = [
        sizes_argument(item) if isinstance(item, SequenceValue) else None
        for item in shapes.items
    ]
    total: Size | None = Size.const(0)
    for shape in sizes:
        known = [size for size in shape or () if size is not None]
        if (
            shape is None
            or len(known) < len(shape)
            or any(size == -1 for size in known)
        ):
            total = None
        elif total is not None:
            total = total + product(known)
    packed = value.dims[before].size
    witness = different(call.ctx, packed, total)
    if witness is not None:
        what = f"shapes of {shown_size(total)} elements in all for dimension {before} of {shown(value)}"
        raise OpError("ST215", f"{call.name}: {what}", witness)
    tail = value.dims[len(value.dims) - after :]
    parts = []
    for shape in sizes:
        middle = [Dimension(None if size == -1 else size) for size in shape or ()]
        parts.append(
            with_dims(
                value, None if shape is None else (*value.dims[:before], *middle, *tail)
            )
        )
    return SequenceValue(tuple(parts), "list")
