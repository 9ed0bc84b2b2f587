"""Leaving the manual view: what may differ between devices must not be declared replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine.dependence import computed_for
from shardlint.engine.field_types import field_types
from shardlint.engine.frames import Frame
from shardlint.engine.plain import innermost, operand
from shardlint.engine.regions import Region
from shardlint.engine.sharding import manual_leaves, prefixes
from shardlint.engine.sharding.manual_entry import unclear
from shardlint.engine.sharding.manual_trees import parts_of
from shardlint.engine.sharding.specs import axes_named, shown, spec_of
from shardlint.engine.sharding.writing import written_at
from shardlint.engine.trees import children
from shardlint.engine.types import ArrayType, ClassType, SequenceType, Type
from shardlint.events import Event
from shardlint.ops.registry import is_none
from shardlint.ops.sharding import magnitudes
from shardlint.ops.sharding.state import notes_about, sharded
from shardlint.values import (
    ArrayValue,
    InstanceValue,
    Note,
    SequenceValue,
    SpecValue,
    Value,
)
from shardtypes.lang.messages import (
    device_mean,
    made_of_parts,
    partial_sum,
    reduce_first,
    reordered_rows,
    returned_as_replicated,
    spec_too_long,
    undeclared_sum,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

Change: TypeAlias = Callable[[Value], Value]
_OF_SUMS = frozenset({"ST301", "ST302"})
_WHOLE = frozenset({"softmax", "scan"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One value that does not leave as declared; ``path`` are the keys that lead to it, ``place`` (module, node) is
    where it went wrong."""

    code: str
    text: str
    related: tuple[tuple[str, int, str], ...]
    path: tuple[object, ...]
    place: tuple[str, int] | None = None


def leave(it: Interpreter, frame: Frame, expr: ir.Expr, value: Value) -> None:
    """The result of a region, or of a helper in the manual view; ``expr`` is what it returns."""
    region = frame.region
    if region is None:
        _undeclared(it, frame, expr, value)
    findings = list(
        _of_region(it, region, frame, value)
        if region is not None
        else _of_helper(value)
    )
    # told where that was left
    if region is None and frame.parent is not None and frame.parent.region is not None:
        findings = [
            one
            for one in findings
            if not {place[:2] for place in one.related} & it.wrong_places
        ]
    if not findings:
        return
    places = [_place(frame, one, written_at(frame, expr, one.path)) for one in findings]
    place, found = min(zip(places, findings, strict=True), key=lambda pair: pair[0])
    what = (
        f"result of {frame.function.name}{shown_path(found.path)}"
        if frame.function is not None
        else "the result"
    )
    if region is not None and not frame.silent:
        it.wrong_places.update(place[:2] for place in found.related)
    it.report(
        frame, found.code, place, f"{what} {found.text}", None, _related(found, frame)
    )


def _undeclared(it: Interpreter, frame: Frame, expr: ir.Expr, value: Value) -> None:
    """A helper that leaves a sum for its caller without saying so: for those who want every one annotated."""
    for path, leaf, type_ in _typed_leaves(it, value, frame.promise, ()):
        if (
            type_.shape is None
            or type_.shape.dialect != "shardtypes"
            or frame.function is None
        ):
            continue
        silent = set(leaf.pending or ()) - set(type_.shape.pending)
        axes = sorted(axis for axis in silent if axis not in leaf.unclear)
        if axes:
            what = f"result of {frame.function.name}{shown_path(path)}"
            text = f"{what} {undeclared_sum(axes)}: write {{U:{','.join(axes)}}} in {type_.text.strip()!r}"
            it.report(
                frame,
                "ST315",
                written_at(frame, expr, path),
                text,
                None,
                notes_about(leaf, axes),
            )


def leave_call(
    it: Interpreter, frame: Frame, region: Region, value: Value, at: int
) -> None:
    """The result of a call of what ``shard_map`` made."""
    found = next(_of_region(it, region, frame, value), None)
    if found is not None:
        text = f"result of the mapped function{shown_path(found.path)} {found.text}"
        before = set(it.events)
        place = _place(frame, found, at)
        it.report(frame, found.code, place, text, None, _related(found, frame))
        for key in it.events.keys() - before:
            it.wrong_results[key] = ((frame.module, at), _axes_of(region, text))
            it.events[key] = replace(it.events[key], is_of_result=place == at)


def _axes_of(region: Region, text: str) -> set[str]:
    """The axes of a region that a message names."""
    return {axis for axis, _ in region.view.axes if repr(axis) in text}


def certain(
    it: Interpreter,
    region: Region,
    func: Value,
    evaluated: Callable[[Change], Sequence[Value]],
    call: tuple[str, int] | None = None,
) -> Sequence[Value]:
    """The results of a mapped function, of which what is certain is found. ``evaluated`` gives them for arguments that
    are changed. ``call`` is where it is called.

    Where a spec puts side by side what each device made by itself, a sum of its part may be what is meant. Certain is
    what is wrong, too, where nothing is known along those axes, and what another result is computed from.
    """
    every = frozenset(axis for axis, _ in region.view.axes)
    results, found = _apart(it, lambda: evaluated(lambda value: value))
    if (
        any(event.code in _OF_SUMS for event in found.values())
        and region.results is not None
    ):
        open_results, _ = _apart(
            it, lambda: evaluated(partial(unclear, axes=every, but_dimensions=True))
        )
        stacked = [
            (path, axes)
            for value in open_results
            for path, axes in _stacked(region, value)
        ]
        over = frozenset[str]().union(*(axes for _, axes in stacked))
        if over:
            results, still = _apart(it, lambda: evaluated(partial(unclear, axes=over)))
            whole = [path for path, axes in stacked if not axes]
            needed = computed_for(innermost(func), whole, it.target)
            found = {
                key: event
                for key, event in found.items()
                if event.code not in _OF_SUMS or key in still or event.at in needed
            }
    it.events = {**found, **it.events}
    if call is not None:
        inside = it.wrong_inside.setdefault(call, set())
        for event in found.values():
            if event.code in _OF_SUMS:
                inside |= _axes_of(region, event.message)
    return results


def _apart(
    it: Interpreter, evaluate: Callable[[], Sequence[Value]]
) -> tuple[Sequence[Value], dict[object, Event]]:
    """What an evaluation gives, and what it finds, which is not reported yet."""
    before, it.events = it.events, {}
    found = it.events
    try:
        results = evaluate()
    finally:
        found, it.events = it.events, before
    return results, found


def _stacked(
    region: Region, value: Value
) -> Iterator[tuple[tuple[object, ...], frozenset[str]]]:
    """Each array of a result, with the axes along which its spec puts side by side what each device made by itself:
    they split a dimension of it that no argument was split along."""
    for path, leaf, one in _with_specs(value, region.results, ()):
        spec = spec_of(one) if one is not None else None
        own = set[str]()
        if (
            spec is not None
            and leaf.dims is not None
            and len(spec.entries or ()) <= len(leaf.dims)
        ):
            for dim, entry in zip(leaf.dims, spec.entries or (), strict=False):
                if dim.size == 1 or dim.axes is not None:
                    own |= set(entry or ()).difference(dim.axes or ())
        yield path, frozenset(own)


def _place(frame: Frame, found: Finding, at: int) -> int:
    return (
        found.place[1]
        if found.place is not None and found.place[0] == frame.module
        else at
    )


def _related(found: Finding, frame: Frame) -> tuple[tuple[str, int, str], ...]:
    """Other places to show, among them one in another module where it went wrong."""
    if found.place is None or found.place[0] == frame.module:
        return found.related
    return (*found.related, (*found.place, "here"))


def shown_path(path: Sequence[object]) -> str:
    if not path:
        return ""
    parts = [
        f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
        for key in path
    ]
    return f" ({''.join(parts).removeprefix('.')})"


def _of_region(
    it: Interpreter, region: Region, frame: Frame, value: Value
) -> Iterator[Finding]:
    if region.typed:
        for path, leaf, type_ in _typed_leaves(it, value, frame.promise, ()):
            if type_.shape is not None and type_.shape.dialect == "shardtypes":
                declared = {axis for dim in type_.shape.dims for axis in dim.axes}
                yield from judge(leaf, declared, set(type_.shape.pending), path)
                yield from _miscounted(leaf, path)
                yield from _reordered(leaf, path)
    elif region.mapped is not None:
        for path, leaf, one in _with_specs(value, region.results, ()):
            if one is not None and is_none(one):
                yield from judge(leaf, set(), set(), path, frozenset({region.mapped}))
            yield from _miscounted(leaf, path)
    else:
        # then judged where it is transformed
        promised = frame.region is not None and frame.promise is not None
        yield from _of_specs(region, value, promised)


def _of_specs(region: Region, value: Value, promised: bool) -> Iterator[Finding]:
    """What is wrong with a result for the ``out_specs`` of its region."""
    if not promised and region.results is not None:
        differs = prefixes.mismatch(value, region.results)
        if differs is not None:
            place, text = differs
            yield Finding("ST307", text, (), place)
            return
    for path, leaf, one in _with_specs(value, region.results, ()):
        spec = spec_of(one) if one is not None else None
        entries = () if spec is None else spec.entries or ()
        rank = None if promised or leaf.dims is None else len(leaf.dims)
        if spec is not None and rank is not None and len(entries) > rank:
            text = spec_too_long(rank, shown(spec), len(entries))
            yield Finding("ST306", text, (), path, spec.place)
            continue
        if spec is not None and _is_known(spec):
            declared = set(axes_named(spec))
            pending = set(spec.unreduced or ())
            yield from judge(leaf, declared, pending, path, _judged(region))
        yield from _miscounted(leaf, path)


def _judged(region: Region) -> frozenset[str] | None:
    """The axes along which results may be wrong: one device has all there is, where JAX does not keep track of what
    varies. None for all of them."""
    every = {axis for axis, _ in region.view.axes}
    judged = region.view.tracked(every)
    if len(judged) == len(every):
        return region.own
    if region.own is None:
        return frozenset(judged)
    return region.own.intersection(judged)


def _is_known(spec: SpecValue) -> bool:
    """Whether all is known that a spec says."""
    if spec.entries is None or spec.unreduced is None:
        return False
    return None not in spec.entries


def _miscounted(value: ArrayValue, path: tuple[object, ...]) -> Iterator[Finding]:
    for note in value.notes:
        if note.code and (note.axis, "miscounted") in value.marks:
            place = (note.module, note.at)
            yield Finding(
                note.code,
                f"differs from what one device computes: {note.text}",
                (),
                path,
                place,
            )


def _reordered(value: ArrayValue, path: tuple[object, ...]) -> Iterator[Finding]:
    """A dimension that is declared, and whose rows are in another order than in the whole array."""
    axes = {axis for axis, mark in value.marks if mark == "reordered"}
    for note in value.notes:
        if note.axis in axes and note.text == reordered_rows(note.axis):
            text = f"has its rows out of order: {note.text}, gather over those first"
            yield Finding("ST304", text, (), path, (note.module, note.at))
            return


def judge(
    value: ArrayValue,
    declared: set[str],
    pending: set[str],
    path: tuple[object, ...],
    over: frozenset[str] | None = None,
) -> Iterator[Finding]:
    """What is certainly wrong when the value is returned as sharded over ``declared`` axes only."""
    for axis in sorted(value.pending or ()):
        if (
            axis not in declared | pending
            and (over is None or axis in over)
            and axis not in value.unclear
        ):
            is_mean = (axis, "mean") in value.marks
            what = device_mean([axis]) if is_mean else partial_sum([axis])
            text = f"is {what}: {reduce_first('pmean' if is_mean else 'psum', axis)}"
            yield Finding("ST301", text, notes_about(value, [axis]), path)
    for axis in sorted(value.varying - sharded(value)):
        if (
            axis not in declared
            and (over is None or axis in over)
            and axis not in value.unclear
        ):
            made = magnitudes.said(value, axis)
            if made is not None:
                yield _of_parts(value, made, path)
                continue
            code = "ST302" if (axis, "local") in value.marks else "ST301"
            yield Finding(
                code, returned_as_replicated([axis]), notes_about(value, [axis]), path
            )
    yield from _whole(value, path, over=over)


def _whole(
    value: ArrayValue,
    path: tuple[object, ...],
    marks: frozenset[str] = _WHOLE,
    over: frozenset[str] | None = None,
) -> Iterator[Finding]:
    axes = sharded(value) & value.varying
    for axis in sorted(axes if over is None else axes & over):
        if axis not in value.unclear and any(
            (axis, mark) in value.marks for mark in marks
        ):
            related = notes_about(value, [axis])
            how = f" ({related[-1][2]})" if related else ""
            text = f"was computed on each device's shard along {axis!r} alone{how}: {reduce_first('all_gather', axis)}"
            yield Finding("ST302", text, related, path)


def _of_parts(value: ArrayValue, made: Note, path: tuple[object, ...]) -> Finding:
    related = notes_about(value, [made.axis])
    place = (made.module, made.at)
    return Finding(made.code, made_of_parts(made.text), related, path, place)


def _of_helper(value: Value) -> Iterator[Finding]:
    """A softmax of each part cannot be made whole without its normaliser: unless that is returned, too. Nor can what
    was computed of each entry of a partial sum."""
    leaves = list(_leaves(value, ()))
    for path, leaf in leaves:
        for axis in sorted(leaf.varying):
            made = magnitudes.said(leaf, axis)
            if made is not None and (axis, "bent") in leaf.marks:
                yield _of_parts(leaf, made, path)
        for found in _whole(leaf, path, frozenset({"softmax"})):
            axes = sharded(leaf) & leaf.varying
            others = [other for _, other in leaves if other is not leaf]
            if not any(
                axes & (other.varying | (other.pending or frozenset()))
                for other in others
            ):
                yield found


def _leaves(
    value: Value, path: tuple[object, ...]
) -> Iterator[tuple[tuple[object, ...], ArrayValue]]:
    parts = children(value)
    if parts is not None:
        for key, item in parts:
            yield from _leaves(item, (*path, key))
    elif isinstance(value, ArrayValue) and value.manual:
        yield path, value


def _typed_leaves(
    it: Interpreter, value: Value, type_: Type | None, path: tuple[object, ...]
) -> Iterator[tuple[tuple[object, ...], ArrayValue, ArrayType]]:

    match type_, value:
        case ArrayType(), ArrayValue(manual=True):
            yield path, value, type_
        case SequenceType(items=types), SequenceValue(items=items) if len(types) == len(
            items
        ):
            for index, (one, item) in enumerate(zip(types, items, strict=True)):
                yield from _typed_leaves(it, item, one, (*path, index))
        case ClassType(), InstanceValue() if value.cls is type_.cls and len(path) < 6:
            declared = field_types(it, type_.cls, type_.prefix)
            for name, item in value.fields:
                yield from _typed_leaves(it, item, declared.get(name), (*path, name))
        case _:
            return


def _with_specs(
    value: Value, specs: Value | None, path: tuple[object, ...]
) -> Iterator[tuple[tuple[object, ...], ArrayValue, Value | None]]:
    """Each array of a result with the entry of the prefix tree that it falls under."""
    parts = children(value)
    value = operand(manual_leaves.as_tree(value))
    if isinstance(value, ArrayValue):
        if value.manual:
            yield path, value, specs
        return
    below = parts_of(specs, value)
    for key, item in parts or ():
        yield from _with_specs(
            item, specs if below is None else below.get(key), (*path, key)
        )
