"""Whether two trees of values agree, and where a loop, a branch or a derivative rule is told that they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlint.engine.blame import result_place
from shardlint.engine.frames import Frame
from shardlint.engine.trees import children, is_leaf, leaf_pairs, traced
from shardlint.ops.registry import is_none
from shardlint.ops.sharding.explicit import placed, specs_of
from shardlint.values import ArrayValue, Literal, SequenceValue, Value
from shardtypes.lang import Different, Facts, compare, dtypes, format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NONE = Literal(None)


@dataclass(frozen=True, slots=True)
class Site:
    """A call that takes functions: where it is, and its arguments and their places by name. ``private`` tells that
    the functions serve this call alone: what is wrong with their results is wrong there, wherever they are."""

    it: Interpreter
    frame: Frame
    name: str
    at: int
    given: dict[str, Value] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    code: str = "ST210"
    private: bool = False

    def call(self, func: Value, args: list[Value]) -> Value:

        return self.it.call(self.frame, func, args, {}, self.at)

    def report(
        self,
        text: str,
        witness: dict[str, int] | None = None,
        func: Value = _NONE,
        path: tuple[int, ...] = (),
        other: str = "",
        code: str = "",
        specs: Sequence[tuple[str, int, str]] = (),
    ) -> None:
        """At the part of the local function's result that is wrong, else at the call. ``specs`` are places beside."""
        frame = self.frame
        place = result_place(func, frame, path, self.private)
        related: list[tuple[str, int, str]] = []
        if place is not None:
            related.append((frame.module, self.at, f"{self.name} is called here"))
        if other in self.places:
            related.append((frame.module, self.places[other], "the carry starts here"))
        related += specs
        where = self.at if place is None else place
        self.it.report(
            frame,
            code or self.code,
            where,
            f"{self.name}: {text}",
            witness,
            tuple(related),
        )


def agree(
    site: Site,
    before: Value,
    after: Value,
    sides: tuple[str, str],
    func: Value,
    path: tuple[int, ...] = (),
    start: str = "",
) -> None:
    """Both have one structure, and each leaf one shape and dtype; the first that differs is reported."""
    pairs = leaf_pairs(before, after)
    if pairs is None:
        text = f"{sides[0]} {structure(before)} {sides[1]} {structure(after)}"
        site.report(text, None, func, path, start)
        return
    for where, a, b in pairs:
        if not (is_leaf(a) and is_leaf(b)):
            continue
        found = difference(traced(a), traced(b), site.frame.facts)
        if found is not None:
            shown, witness = found
            text = f"{sides[0]} {shown[0]} {sides[1]} {shown[1]}" + (
                f" (item {where})" if where else ""
            )
            site.report(text, witness, func, (*path, *indices(where)), start)
            return


def lie_alike(
    site: Site,
    before: Value,
    after: Value,
    sides: tuple[str, str],
    func: Value,
    path: tuple[int, ...] = (),
    start: str = "",
) -> None:
    """On explicit axes each leaf is split in one way on both sides; the first that is not is reported."""
    for where, a, b in leaf_pairs(before, after) or ():
        if not (
            isinstance(a, ArrayValue)
            and isinstance(b, ArrayValue)
            and placed(a)
            and placed(b)
        ):
            continue
        if (
            a.dims is None
            or b.dims is None
            or len(a.dims) != len(b.dims)
            or a.mesh != b.mesh
        ):
            continue
        if any(
            None not in (x.axes, y.axes) and x.axes != y.axes
            for x, y in zip(a.dims, b.dims, strict=True)
        ):
            item = f" (item {where})" if where else ""
            text = (
                f"{sides[0]} {_split(a)} {sides[1]} {_split(b)}{item}: on Explicit axes their shardings must be equal, "
                "reshard one of them"
            )
            into = (*path, *indices(where))
            site.report(text, None, func, into, start, "ST313", specs_of(a, b))
            return


def _split(value: ArrayValue) -> str:
    dims = value.dims or ()
    return repr(
        format_shape([dim.size for dim in dims], [dim.axes or () for dim in dims])
    )


def indices(where: str) -> tuple[int, ...]:
    """``[1][0]`` as numbers, up to the first key that is none."""
    found: list[int] = []
    for part in where.replace(".", "[").split("[")[1:]:
        text = part.rstrip("]")
        if not text.isdigit():
            break
        found.append(int(text))
    return tuple(found)


def difference(
    a: Value, b: Value, facts: Facts
) -> tuple[tuple[str, str], dict[str, int]] | None:
    if not (isinstance(a, ArrayValue) and isinstance(b, ArrayValue)):
        return None
    if a.dims is not None and b.dims is not None:
        shapes = (
            repr(format_shape([d.size for d in a.dims])),
            repr(format_shape([d.size for d in b.dims])),
        )
        if len(a.dims) != len(b.dims):
            return shapes, {}
        for old, new in zip(a.dims, b.dims, strict=True):
            verdict = (
                None
                if old.size is None or new.size is None
                else compare(old.size, new.size, facts)
            )
            if isinstance(verdict, Different):
                return shapes, verdict.witness
    if (
        a.dtype in dtypes.CONCRETE
        and b.dtype in dtypes.CONCRETE
        and not (a.weak or b.weak)
    ):
        if dtypes.canonical(a.dtype) != dtypes.canonical(b.dtype):
            return (a.dtype, b.dtype), {}
    return None


def structure(value: Value) -> str:
    parts = children(value)
    if parts is None:
        if isinstance(value, ArrayValue) and value.dims is not None:
            return repr(format_shape([d.size for d in value.dims]))
        return "one value"
    if is_none(value):
        return "None"
    if isinstance(value, SequenceValue):
        return f"a {value.kind} of {len(parts)}"
    return "a dict with " + ", ".join(repr(key) for key, _ in parts)
