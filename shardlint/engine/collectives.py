"""Functions whose first argument is a spec string: ``all_gather('B/d L M/t -> B/d L M', x)``.

They are known by that spec, wherever they are imported from: operands are matched against the left side, and the
result is what the right side says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.values import ArrayValue, Dimension, Literal, Value
from shardtypes.lang import Bindings, Shape, ShapeSyntaxError, format_shape, parse, unify

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NAMES = frozenset(
    "all_gather psum_scatter all_to_all psum pmean einsum_unreduced index_unreduced einsum pmax axis_index".split()
)


def by_spec(
    it: Interpreter, frame: Frame, qualname: str, args: list[Value], at: int, operands: tuple[ir.Expr, ...]
) -> Value | None:
    """The result of a spec-string operation, None if the call is none."""
    head, _, last = qualname.rpartition(".")
    if last not in _NAMES or head.split(".")[0] in ("jax", "numpy", "einops") or len(args) < 2:
        return None
    text = args[0].value if isinstance(args[0], Literal) and isinstance(args[0].value, str) else None
    if text is None or "->" not in text:
        return None
    # index_unreduced brackets the dimension that it looks up: '[V/t] M, B/d L -> B/d L M'
    left, _, right = text.replace("[", "").replace("]", "").partition("->")
    parts = [part.strip() for part in (*left.split(","), right)]
    if not any("/" in part or " " in part for part in parts):
        return None  # 'bd,df->bf' may mean letters
    try:
        *sides, result = (parse(part) for part in parts)
    except ShapeSyntaxError:
        return None
    arrays = args[1:]
    bindings = Bindings()
    if len(sides) == len(arrays):
        for index, (side, value) in enumerate(zip(sides, arrays, strict=True)):
            if isinstance(value, ArrayValue) and value.dims is not None:
                mismatch = unify(side, [dim.size for dim in value.dims], bindings, frame.facts)
                if mismatch is not None:
                    got = format_shape([dim.size for dim in value.dims])
                    place = operands[index + 1].at if index + 1 < len(operands) else at
                    message = f"{last}: operand {index} is {got!r}, the spec says {str(side)!r}"
                    it.report(frame, "ST205", place, message, mismatch.witness)
                    bindings = Bindings()
                    break
    return _result(result, bindings, arrays, last == "index_unreduced")


def _result(shape: Shape, bindings: Bindings, arrays: list[Value], gathers: bool) -> Value:
    arrays = arrays[:1] if gathers else arrays  # the indices do not decide the dtype
    dtypes = {value.dtype if isinstance(value, ArrayValue) else None for value in arrays}
    dims = []
    for dim in shape.dims:
        if dim.kind == "variadic":
            return ArrayValue(None, dtypes.pop() if len(dtypes) == 1 else None)
        size = None
        if dim.size is not None and dim.size.symbols <= bindings.sizes.keys():
            size = dim.size.substitute(bindings.sizes)
        dims.append(Dimension(size, dim.axes))
    return ArrayValue(tuple(dims), dtypes.pop() if len(dtypes) == 1 else None)
