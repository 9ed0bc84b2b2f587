"""Functions whose first argument is a spec string: ``all_gather('B/d L M/t -> B/d L M', x)``.

They are known by that spec, wherever they are imported from: operands are matched against the left side, and the
result is what the right side says. In manual code what happens to the axes on the way is followed, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.axis_set import EVERY_AXIS
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding import sends
from shardlint.engine.sharding.site import Site
from shardlint.ops.arrays import dtype_name
from shardlint.ops.registry import Call
from shardlint.ops.sharding.base import Op, ShardingError, adopted
from shardlint.ops.sharding.collectives import (
    Collective,
    ReplicatedSum,
    refuse_replicated,
)
from shardlint.ops.sharding.contraction import contracted
from shardlint.ops.sharding.elementwise import shape_text
from shardlint.ops.sharding.state import (
    LASTING,
    SCALES,
    kept_notes,
    notes_about,
    sharded,
    state,
    without,
)
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension, Label, Literal, Note, Value
from shardtypes.lang import (
    Bindings,
    Shape,
    ShapeSyntaxError,
    Size,
    format_shape,
    parse,
    unify,
)
from shardtypes.lang.messages import expected_got, sharded_over, wrong_axes

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

NAMES = frozenset(
    "all_gather psum_scatter all_to_all psum pmean einsum_unreduced index_unreduced einsum pmax axis_index".split()
)
#: What computes on one device.
_ALONE = frozenset({"einsum_unreduced", "index_unreduced", "axis_index"})
_MOVING = frozenset({"all_gather", "psum_scatter", "all_to_all"})
#: Arguments that set the dtype of the result.
_DTYPE = ("preferred_element_type", "dtype")


@dataclass(frozen=True, slots=True)
class Spec:
    """A call by spec: the function's own name, both sides, and the operand's expressions."""

    name: str
    text: str
    sides: tuple[Shape, ...]
    result: Shape
    indexed: int | None  # index_unreduced: the dimension in brackets
    at: int
    operands: tuple[ir.Expr, ...]

    def place(self, index: int) -> int:
        """The node of one operand."""
        return (
            self.operands[index + 1].at if index + 1 < len(self.operands) else self.at
        )


def parse_call(
    qualname: str, args: Sequence[Value], at: int, operands: tuple[ir.Expr, ...]
) -> Spec | None:
    """The call as a call by spec, None if it is none."""
    head, _, last = qualname.rpartition(".")
    if (
        last not in NAMES
        or head.split(".")[0] in ("jax", "numpy", "einops")
        or len(args) < 2
    ):
        return None
    text = (
        args[0].value
        if isinstance(args[0], Literal) and isinstance(args[0].value, str)
        else None
    )
    if text is None or "->" not in text:
        return None
    # index_unreduced brackets the dimension that it looks up: '[V/t] M, B/d L -> B/d L M'
    indexed = next(
        (
            i
            for i, word in enumerate(text.split(",")[0].split())
            if word.startswith("[")
        ),
        None,
    )
    left, _, right = text.replace("[", "").replace("]", "").partition("->")
    parts = [part.strip() for part in (*left.split(","), right)]
    if not any("/" in part or " " in part for part in parts):
        return None  # 'bd,df->bf' may mean letters
    try:
        *sides, result = (parse(part) for part in parts)
    except ShapeSyntaxError:
        return None
    return Spec(last, text, tuple(sides), result, indexed, at, operands)


@knows(last=NAMES)
def call(site: Site) -> Value | None:
    """A function of any library of one of these names, given a spec."""
    return by_spec(
        site.it,
        site.frame,
        site.qualname,
        site.args,
        site.at,
        site.operands,
        site.kwargs,
    )


def by_spec(
    it: Interpreter,
    frame: Frame,
    qualname: str,
    args: list[Value],
    at: int,
    operands: tuple[ir.Expr, ...],
    kwargs: Mapping[str, Value] | None = None,
) -> Value | None:
    """The result of a spec-string operation, None if the call is none."""
    spec = parse_call(qualname, args, at, operands)
    if spec is None:
        return None
    values = [
        adopted(v) if it.view is not None and isinstance(v, ArrayValue) else v
        for v in args[1:]
    ]
    bindings, dtype = Bindings(), _dtype(it, frame, kwargs or {})
    try:
        if it.view is not None:
            _check_axes(spec, values, it.view)
        _check_sizes(it, frame, spec, values, bindings)
        if it.view is not None:
            _note_sent(it, frame, spec, it.view, values)
        result = _result(it.view, spec, bindings, values, dtype)
        return (
            result
            if it.view is None
            else _followed(it, frame, spec, it.view, values, result)
        )
    except ShardingError as error:
        place = at if error.operand is None else spec.place(error.operand)
        it.report(frame, error.code, place, error.message, error.witness, error.related)
        # what does not fit tells no sizes
        declared = _result(it.view, spec, Bindings(), values, dtype)
        return declared if it.view is None else _as_declared(declared)


def _note_sent(
    it: Interpreter, frame: Frame, spec: Spec, view: View, values: list[Value]
) -> None:
    """Keep what a call sends; of a reduction the spec does not say over which axes."""
    if spec.name in _ALONE:
        return
    if spec.name not in _MOVING or len(spec.sides) != 1 or len(values) != 1:
        sends.leave(it, frame, spec.at, f"{spec.name} of {spec.text!r}")
        return
    (side,) = spec.sides
    (value,) = values
    dtype = value.dtype if isinstance(value, ArrayValue) else None
    sizes: Sequence[Size | None] = [dim.size for dim in side.dims]
    if isinstance(value, ArrayValue) and len(value.dims or ()) == len(sizes):
        pairs = zip(value.dims or (), side.dims, strict=True)
        sizes = [view.global_size(dim.size, one.axes) for dim, one in pairs]
    dims = tuple(
        Dimension(size, view.splitting(dim.axes))
        for size, dim in zip(sizes, side.dims, strict=True)
    )
    place = (frame.module, spec.at)
    one = Collective(spec.name, _moved(spec), view, place)
    sends.note_moved(it, frame, one, ArrayValue(dims, dtype))


def _moved(spec: Spec) -> tuple[str, ...]:
    """The axes that a dimension loses or gains; all that lie along one, where they change places."""
    gone = {axis for dim in spec.sides[0].dims for axis in dim.axes}
    gained = {axis for dim in spec.result.dims for axis in dim.axes}
    if spec.name == "all_to_all":
        pairs = zip(spec.sides[0].dims, spec.result.dims, strict=False)
        gone = {axis for a, b in pairs for axis in {*a.axes} ^ {*b.axes}}
        return tuple(sorted(gone))
    return tuple(sorted(gone ^ gained))


def _check_sizes(
    it: Interpreter, frame: Frame, spec: Spec, values: list[Value], bindings: Bindings
) -> None:
    if len(spec.sides) != len(values):
        return
    for index, (side, value) in enumerate(zip(spec.sides, values, strict=True)):
        if not isinstance(value, ArrayValue) or value.dims is None:
            continue
        sizes = [dim.size for dim in value.dims]
        if it.view is not None:
            sizes = (
                [
                    it.view.global_size(size, dim.axes)
                    for size, dim in zip(sizes, side.dims, strict=False)
                ]
                if len(sizes) == len(side.dims)
                else sizes
            )
        mismatch = unify(side, sizes, bindings, frame.facts)
        if mismatch is not None:
            what = f"{spec.name}: operand {index}"
            message = expected_got(
                what, repr(str(side)), repr(format_shape(sizes)), mismatch.text
            )
            it.report(frame, "ST205", spec.place(index), message, mismatch.witness)
            bindings.rollback(0)
            return


def _dtype(
    it: Interpreter, frame: Frame, kwargs: Mapping[str, Value]
) -> tuple[str | None] | None:
    for name in _DTYPE:
        if name in kwargs:
            return (dtype_name(kwargs[name], it.context(frame)),)
    return None


def _result(
    view: View | None,
    spec: Spec,
    bindings: Bindings,
    arrays: list[Value],
    dtype: tuple[str | None] | None,
) -> ArrayValue:
    # the indices do not decide the dtype
    arrays = arrays[:1] if spec.name == "index_unreduced" else arrays
    dtypes = {
        value.dtype if isinstance(value, ArrayValue) else None for value in arrays
    }
    found = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is not None:
        found = dtype[0]
    dims = []
    for dim in spec.result.dims:
        if dim.kind == "variadic":
            return ArrayValue(None, found)
        size = None
        if dim.size is not None and dim.size.symbols <= bindings.sizes.keys():
            size = dim.size.substitute(bindings.sizes)
        if view is not None:
            size = view.local_size(size, dim.axes)
        label = Label(dim.name) if dim.name else None
        dims.append(
            Dimension(
                size, dim.axes if view is None else view.splitting(dim.axes), label
            )
        )
    return ArrayValue(tuple(dims), found)


# --- axes --------------------------------------------------------------------------------------------------------


def _check_axes(spec: Spec, values: list[Value], view: View) -> None:
    """Whether the operands are split as the spec says, and the right side is what the operation can make of them.

    Raises ShardingError.
    """
    if spec.name in _MOVING:
        _check_move(spec)
    if len(spec.sides) != len(values):
        return
    for index, (side, value) in enumerate(zip(spec.sides, values, strict=True)):
        if (
            not isinstance(value, ArrayValue)
            or value.dims is None
            or len(value.dims) != len(side.dims)
        ):
            continue
        for k, (dim, wanted) in enumerate(zip(value.dims, side.dims, strict=True)):
            declared = view.splitting(wanted.axes)
            # of a split dimension each device has other entries
            looked_up = index == 0 and k == spec.indexed
            if (
                dim.axes is None
                or dim.axes == declared
                or not view.understood(declared)
            ):
                continue
            if (not declared and not looked_up) or sorted(dim.axes) == sorted(declared):
                # a spec may leave axes out; and what is always split in one order is only permuted
                continue
            what, detail = (
                f"{spec.name}: operand {index}",
                wrong_axes(k, declared, dim.axes),
            )
            message = expected_got(
                what, repr(str(side)), shape_text(view, value), detail
            )
            if dim.axes:
                raise ShardingError(
                    "ST304", message, index, notes_about(value, dim.axes)
                )
            if not value.constant and all(
                state(value, axis) == "replicated" for axis in declared
            ):
                raise ShardingError(
                    "ST311", message, index, notes_about(value, declared)
                )


def _check_move(spec: Spec) -> None:
    if len(spec.sides) != 1:
        return
    before, after = spec.sides[0], spec.result
    if [dim.size for dim in before.dims] != [dim.size for dim in after.dims]:
        return
    pairs = [(a.axes, b.axes) for a, b in zip(before.dims, after.dims, strict=True)]
    if all(a == b for a, b in pairs):
        raise ShardingError(
            "ST304", f"{spec.name}: both sides of {spec.text!r} are the same: remove it"
        )
    if spec.name == "all_gather" and any(a[: len(b)] != b for a, b in pairs):
        raise ShardingError(
            "ST304", f"{spec.name}: {spec.text!r}: a dimension can only lose minor axes"
        )
    if spec.name == "psum_scatter" and any(b[: len(a)] != a for a, b in pairs):
        raise ShardingError(
            "ST304", f"{spec.name}: {spec.text!r}: a dimension can only gain minor axes"
        )
    moved = [
        sorted(axis for one in side for axis in one)
        for side in zip(*pairs, strict=True)
    ]
    if spec.name == "all_to_all" and moved[0] != moved[1]:
        raise ShardingError(
            "ST304",
            f"{spec.name}: {spec.text!r}: axes can only move to another dimension",
        )


def _followed(
    it: Interpreter,
    frame: Frame,
    spec: Spec,
    view: View,
    values: list[Value],
    result: ArrayValue,
) -> ArrayValue:
    """What the result is over each axis."""
    arrays = [value for value in values if isinstance(value, ArrayValue)]
    if (
        len(arrays) < len(values)
        or len(arrays) != len(spec.sides)
        or any(a.dims is None for a in arrays)
    ):
        return _as_declared(result)
    place = (frame.module, spec.at)
    if spec.name in _MOVING:
        gone = {axis for dim in spec.sides[0].dims for axis in dim.axes}
        gained = {axis for dim in result.dims or () for axis in dim.axes or ()}
        changed = sorted(gone ^ gained if spec.name != "all_to_all" else gone)
        one = Collective(spec.name, tuple(changed), view, place)
        if spec.name == "psum_scatter":
            try:
                refuse_replicated(arrays[0], one)
            except ReplicatedSum as error:
                raise ShardingError(
                    error.code, error.message, 0, error.related
                ) from None
        moved = arrays[0] if spec.name == "all_to_all" else without(arrays[0], changed)
        lost = {axis for axis in sharded(moved) - gained if axis not in changed}
        return replace(
            moved,
            dims=result.dims,
            dtype=result.dtype,
            unclear=moved.unclear.plus(lost),
            constant=False,
        )
    ctx = it.context(frame, spec.at)
    op = Op(Call(spec.name, {}, ctx), view, tuple(arrays), tuple(range(len(arrays))))
    if spec.name in ("einsum_unreduced", "einsum"):
        return _einsum(op, spec, arrays, result)
    if spec.name == "index_unreduced" and spec.indexed is not None and len(arrays) == 2:
        return _lookup(op, spec, arrays, result, spec.indexed)
    return _as_declared(result)


def _as_declared(result: ArrayValue) -> ArrayValue:
    """Split as the right side says; nothing else is known."""
    named = frozenset(axis for dim in result.dims or () for axis in dim.axes or ())
    return replace(
        result, manual=True, pending=frozenset(), unclear=EVERY_AXIS.minus(named)
    )


def _einsum(
    op: Op, spec: Spec, arrays: list[ArrayValue], result: ArrayValue
) -> ArrayValue:
    letters = [[f"{dim.size}" for dim in side.dims] for side in spec.sides]
    output = [f"{dim.size}" for dim in spec.result.dims]
    if any(
        dim.kind != "size" for side in (*spec.sides, spec.result) for dim in side.dims
    ):
        return _as_declared(result)
    declared: dict[str, tuple[str, ...]] = {}
    for dim in (dim for side in (*spec.sides, spec.result) for dim in side.dims):
        before = declared.setdefault(f"{dim.size}", dim.axes)
        if before != dim.axes:
            code = "ST310" if f"{dim.size}" not in output else "ST304"
            message = f"{spec.name}: {dim.size} is {sharded_over(before)} and {sharded_over(dim.axes)} in {spec.text!r}"
            raise ShardingError(code, message)
    split = [
        _as_spec(op.view, a, side) for a, side in zip(arrays, spec.sides, strict=True)
    ]
    found = contracted(op, result, split, letters, output)
    return replace(found, dims=result.dims) if found.dims is not None else found


def _as_spec(view: View, value: ArrayValue, side: Shape) -> ArrayValue:
    """The operand, its dimensions split as the spec says."""
    assert value.dims is not None
    if len(value.dims) != len(side.dims):
        return value
    axes = [view.splitting(declared.axes) for declared in side.dims]
    dims = tuple(
        Dimension(dim.size, declared)
        for dim, declared in zip(value.dims, axes, strict=True)
    )
    named = {axis for declared in axes for axis in declared}
    known = named & sharded(value)
    lost = sharded(value) - named
    # what the spec says is split but was not known to be: it is so, or the sizes would not fit
    unclear = value.unclear.minus(named - known).plus(lost)
    return replace(
        value, dims=dims, unclear=unclear, varying=value.varying - (named - known)
    )


def _lookup(
    op: Op, spec: Spec, arrays: list[ArrayValue], result: ArrayValue, indexed: int
) -> ArrayValue:
    table, indices = (
        _as_spec(op.view, a, side) for a, side in zip(arrays, spec.sides, strict=True)
    )
    axes = op.view.splitting(spec.sides[0].dims[indexed].axes)
    named = frozenset(axis for dim in result.dims or () for axis in dim.axes or ())
    unclear = (table.unclear | indices.unclear).minus(named).minus(axes)
    pending = frozenset(axes)
    others = [
        axis
        for axis in (*(table.pending or ()), *(indices.pending or ()))
        if axis not in pending
    ]
    kept = frozenset(
        mark for mark in table.marks if mark[1] in LASTING or mark in SCALES
    )
    notes = [
        Note(
            axis, f"looked up here in a table sharded over {axis!r}", *op.call.ctx.place
        )
        for axis in axes
    ]
    return replace(
        result,
        manual=True,
        pending=pending,
        varying=(table.varying | indices.varying) - pending - named,
        unclear=unclear.plus(others),
        marks=kept | {(axis, "lone") for axis in axes},
        notes=kept_notes((*notes, *(note for note in table.notes if note.code))),
    )
