"""Gradients of micro-batches, put together, are those of one batch (``accumulates``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np

from shardtypes.laws.arguments import Call, Function, call_of
from shardtypes.laws.differences import differs, largest, wide
from shardtypes.laws.draws import draws_with
from shardtypes.laws.fillings import judged
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.source import Place, place_of, where_of
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.laws.walk import Host

_TREE = "has another structure than that of one batch"


def accumulates(
    step: Callable[..., Any],
    /,
    *examples: Any,
    parts: int = 4,
    argument: str = "parts",
    whole: Callable[..., Any] | None = None,
    combine: Literal["mean", "sum"] = "mean",
    dim: str = "B",
    in_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """Micro-batches equal one batch.

    Where ``step`` has a parameter named ``argument``, its result with ``parts`` is compared with that with 1. Else,
    with ``whole``, ``step(*examples)`` is compared with ``whole(*examples)``. Else ``step`` is given the ``parts`` of
    the batch along ``dim`` one by one, and the mean (or ``combine="sum"``) of what it returns is compared with what
    it returns for all of it. Numbers must agree up to ``tolerance`` of the largest of their array, by dtype otherwise.
    Other arguments as those of ``laws.independent``.
    """
    takes = _has_parameter(step, argument)
    fixed = {dim: 2 * parts, **(sizes or {})}

    def make() -> Call:
        if takes:
            more = {argument: parts if whole is not None else 1}
        else:
            more = {}
        return call_of(step, dim, examples, {**named, **more}, in_axes, None, fixed)

    def law(call: Call) -> Verdict:
        if takes and whole is None:
            several = call_of(
                step, dim, examples, {**named, argument: parts}, in_axes, None, fixed
            )
            return _compared(
                call,
                several.with_values(call.values),
                f"{argument}={parts}",
                parts,
                tolerance,
            )
        if whole is not None:
            return _compared(
                replace(call, f=_without(whole, argument)),
                call,
                "in parts",
                parts,
                tolerance,
            )
        return _split(call, dim, parts, combine, tolerance)

    return judged(step, make, law)


def _has_parameter(step: Function, name: str) -> bool:
    try:
        return name in inspect.signature(step).parameters
    except (TypeError, ValueError):
        return False


def _without(whole: Function, argument: str) -> Function:
    """A function of one batch, which is not asked for parts."""
    if _has_parameter(whole, argument):
        return whole

    def plain(*args: Any, **kwargs: Any) -> Any:
        return whole(
            *args, **{name: value for name, value in kwargs.items() if name != argument}
        )

    return plain


def _compared(
    one: Call, several: Call, words: str, parts: int, tolerance: float | None
) -> Verdict:
    first = Program(lambda arrays: one(arrays), one.values)
    second = Program(lambda arrays: several(arrays), several.values, wide=first.wide)
    if first.wide and not second.wide:
        first = Program(lambda arrays: one(arrays), one.values, wide=False)
    _must_not_draw(one, first)
    if first.tree != second.tree:
        return Verdict(
            False, f"{one.name}: does not accumulate: {words} the result {_TREE}"
        )
    allowed = [
        max(a, b) for a, b in zip(first.tolerances, second.tolerances, strict=True)
    ]
    if tolerance is not None:
        allowed = [tolerance] * len(allowed)
    return _judged(
        one,
        first.run(one.values),
        second.run(several.values),
        words,
        parts,
        allowed,
        second,
    )


def _split(
    call: Call, dim: str, parts: int, combine: str, tolerance: float | None
) -> Verdict:
    count = call.size(dim)
    if count % parts:
        raise CannotTell(
            f"{count} examples along {dim!r} cannot be split into {parts} parts of the same size"
        )
    whole = program_of(call)
    _must_not_draw(call, whole)
    expected = whole.run(call.values)
    found: list[list[Host]] = []
    size = count // parts
    for part in range(parts):
        cut = slice(part * size, (part + 1) * size)
        values = [
            leaf.value[(*(slice(None) for _ in range(leaf.axis)), cut)]
            if isinstance(leaf.axis, int)
            else leaf.value
            for leaf in call.leaves
        ]
        small = Program(lambda arrays: call(arrays), values, wide=whole.wide)
        found.append(small.run(values))
    if any(a.shape != b.shape for a, b in zip(expected, found[0], strict=True)):
        raise CannotTell(
            "its result has the size of the batch: give a function that returns gradients or a loss"
        )
    scale = parts if combine == "mean" else 1
    together = [
        np.sum([wide(leaf) for leaf in leaves], axis=0) / scale
        for leaves in zip(*found, strict=True)
    ]
    words = f"the {combine} over {parts} parts"
    allowed = whole.allowed(tolerance)
    return _judged(call, expected, together, words, parts, allowed, whole)


def _must_not_draw(call: Call, program: Program) -> None:
    """What is drawn at random for one batch is not what is drawn for its parts."""
    keys = draws_with(call)
    if not keys:
        return
    before = program.run(call.values)
    after = program.run(
        [keys.get(number, value) for number, value in enumerate(call.values)]
    )
    if any(
        differs(a, b, t).any()
        for a, b, t in zip(before, after, program.tolerances, strict=True)
    ):
        raise CannotTell(
            "its result depends on a PRNG key: give a function without dropout"
        )


def _judged(
    call: Call,
    expected: Sequence[Host],
    found: Sequence[Host],
    words: str,
    parts: int,
    allowed: Sequence[float],
    program: Program,
) -> Verdict:
    paths = jax.tree_util.tree_flatten_with_path(
        jax.tree.unflatten(program.tree, list(expected))
    )[0]
    wrong: list[str] = []
    first: tuple[int, str] | None = None
    for number, ((path, one), two) in enumerate(zip(paths, found, strict=True)):
        if one.shape == two.shape and not differs(one, two, allowed[number]).any():
            continue
        wrong.append(f"result{jax.tree_util.keystr(path)}")
        if first is None:
            first = number, _how(one, two, parts, allowed[number])
    if first is None:
        return Verdict(
            True,
            f"{call.name}: accumulates: holds in numbers, {words} gives what one batch gives",
        )
    number, how = first
    reason = f"{call.name}: does not accumulate: {words}, {wrong[0]} {how}"
    if len(wrong) > 1:
        reason += (
            f" (wrong as well: {', '.join(wrong[1:4])}{' …' if len(wrong) > 4 else ''})"
        )
    place = maker(program, number)
    if place is not None:
        reason += f"; it is made by {place}"
    return Verdict(False, reason, where=where_of(place))


def _how(one: Host, two: Host, parts: int, tolerance: float) -> str:
    """In which way a result is off."""
    if one.shape != two.shape:
        return f"has shape {two.shape}, of one batch {one.shape}"
    a = wide(one)
    b = wide(two)
    at = np.unravel_index(int(np.argmax(np.abs(a))), a.shape)
    factor = 0.0
    if a[at] != 0:
        factor = float(np.real(b[at] / a[at]))
    if factor and not differs(a * factor, b, max(tolerance, 1e-6)).any():
        times = f"is {factor:g} times that of one batch"
        if np.isclose(factor, parts):
            return f"{times}: it is summed over the parts where it should be averaged"
        if np.isclose(factor * parts, 1):
            return f"{times}: it is averaged over the parts where it should be summed"
        return times
    error = float(np.abs(a - b).max()) / largest(a, b)
    return f"is off by {error:.2g} of its largest value"


def maker(program: Program, number: int) -> Place | None:
    """The operation that makes a leaf of the result."""
    if program.jaxpr is None:
        return None
    return _maker(program.jaxpr.jaxpr, program.jaxpr.jaxpr.outvars[number])


def _maker(jaxpr: Any, variable: Any, calls: tuple[Any, ...] = ()) -> Place | None:
    eqn = next(
        (eqn for eqn in jaxpr.eqns if any(variable is out for out in eqn.outvars)), None
    )
    if eqn is None:
        return None
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    inner = getattr(inner, "jaxpr", inner)
    at = next(number for number, out in enumerate(eqn.outvars) if out is variable)
    if inner is not None and hasattr(inner, "outvars") and at < len(inner.outvars):
        found = _maker(inner, inner.outvars[at], (*calls, eqn))
        if found is not None:
            return found
    return place_of(eqn, calls)
