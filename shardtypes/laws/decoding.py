"""A cache decodes what the whole forward pass computes (``incremental``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.agreement import first_departure
from shardtypes.laws.arguments import (
    Arguments,
    AxesOf,
    Call,
    Function,
    call_of,
    out_axes_of,
)
from shardtypes.laws.differences import differs, largest, on_host, wide
from shardtypes.laws.fillings import judged
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.source import Place, where_of
from shardtypes.laws.verdict import CannotTell, Verdict, first_line
from shardtypes.laws.walk import Host, first_along


def incremental(
    *examples: Any,
    full: Callable[..., Any],
    step: Callable[..., Any],
    prefill: Callable[..., Any] | None = None,
    cache: Any = None,
    dim: str = "L",
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    prefixes: Sequence[int] | None = None,
    squeeze: bool = False,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """Step by step with a cache comes out what the whole forward pass computes, at every position of a dimension.

    ``full(*examples)`` gives the outputs at all positions. ``prefill(*examples)`` is given the first positions only
    and returns ``(outputs, cache)``, outputs of all of these positions or of the last one. Then
    ``step(*examples, cache)`` is given one position after the other and returns ``(outputs, cache)``; a further
    parameter of it gets the position. With ``squeeze`` its arrays have no dimension for the one position. Without
    ``prefill`` the steps begin with ``cache`` at position 0. ``prefixes`` are the lengths to prefill: 1, half and all
    but one. Annotations of ``full``, or ``in_axes`` and ``out_axes`` as for ``laws.independent``, say where the
    dimension is.
    """
    call = lambda: call_of(full, dim, examples, named, in_axes, out_axes, sizes)  # noqa: E731
    steps = _Steps(step, prefill, cache, squeeze)
    return judged(
        full, call, lambda made: _tried(made, dim, steps, prefixes, tolerance)
    )


@dataclass(frozen=True)
class _Steps:
    step: Function
    prefill: Function | None
    cache: Any
    squeeze: bool


@dataclass(frozen=True)
class _Departure:
    """The first position that is another; ``prefix`` positions were prefilled."""

    prefix: int
    at: int
    path: str
    error: float
    other: int | None
    place: Place | None


class _DoesNotRun(CannotTell):
    """What decodes raises for its arguments."""


def _tried(
    call: Call,
    dim: str,
    steps: _Steps,
    prefixes: Sequence[int] | None,
    tolerance: float | None,
) -> Verdict:
    program = program_of(call)
    try:
        return _decoded(call, program, dim, steps, prefixes, tolerance)
    except _DoesNotRun:
        if not program.wide:
            raise
    # Only the whole forward pass may be made for doubles.
    program = Program(lambda arrays: call(arrays), call.values, wide=False)
    return _decoded(call, program, dim, steps, prefixes, tolerance)


def _decoded(
    call: Call,
    program: Program,
    dim: str,
    steps: _Steps,
    prefixes: Sequence[int] | None,
    tolerance: float | None,
) -> Verdict:
    count = call.size(dim)
    result = program.results(call.values)
    axes = out_axes_of(call, result, dim)
    run = _Run(call, program, steps, axes, result, tolerance)
    lengths = prefixes
    if lengths is None:
        if steps.prefill is not None:
            lengths = sorted({1, count // 2, count - 1})
        else:
            lengths = (0,)
    for prefix in lengths:
        found = run.departure(prefix)
        if found is not None:
            return _failed(call, dim, found)
    shown = ", ".join(map(str, lengths))
    return Verdict(
        True,
        f"{call.name}: incremental in {dim!r}: holds in numbers, with prefixes of length {shown}",
    )


def _failed(call: Call, dim: str, found: _Departure) -> Verdict:
    if found.at < found.prefix:
        where = "prefill"
    else:
        where = "a step"
    if found.prefix:
        prefix = f"after a prefix of {found.prefix}"
    else:
        prefix = "from the beginning"
    reason = (
        f"{call.name}: not incremental in {dim!r}: {prefix}, {where} gives another result{found.path} at position "
        f"{found.at} than the whole, off by {found.error:.2g} of its largest value"
    )
    if found.other is not None:
        reason += f"; it is what the whole gives at position {found.other}"
    if found.place is not None:
        reason += f"; the first value that is another comes of {found.place}"
    return Verdict(
        False,
        reason,
        positions=(found.at,),
        where=where_of(found.place),
    )


class _Run:
    def __init__(
        self,
        call: Call,
        program: Program,
        steps: _Steps,
        axes: AxesOf,
        result: Any,
        tolerance: float | None,
    ) -> None:
        self._call = call
        self._program = program
        self._steps = steps
        self._axes = axes
        self._expected = [on_host(leaf) for leaf in jax.tree.leaves(result)]
        paths = jax.tree_util.tree_flatten_with_path(result)[0]
        self._paths = [jax.tree_util.keystr(path) for path, _ in paths]
        self._tolerances = program.allowed(tolerance)
        self._count = next(
            leaf.value.shape[leaf.axis]
            for leaf in call.leaves
            if isinstance(leaf.axis, int)
        )
        self._gives_position = _takes(steps.step, call)

    def departure(self, prefix: int) -> _Departure | None:
        """Decode from a prefix on, up to the first position that differs."""
        with self._program.surroundings():
            cache = self._steps.cache
            if self._steps.prefill is not None:
                prefill = self._steps.prefill
                arguments = self._arguments(slice(0, prefix), False)
                outputs, cache = _pair(prefill, arguments, "prefill")
                found = self._compared(outputs, range(prefix), prefix)
                if found is not None:
                    return replace(
                        found, place=self._place(prefill, arguments, range(prefix))
                    )
            for at in range(prefix, self._count):
                arguments = self._arguments(slice(at, at + 1), self._steps.squeeze)
                arguments[0].append(cache)
                if self._gives_position:
                    arguments[0].append(jnp.asarray(at))
                outputs, after = _pair(self._steps.step, arguments, "step")
                found = self._compared(outputs, range(at, at + 1), prefix)
                if found is not None:
                    return replace(
                        found,
                        place=self._place(
                            self._steps.step, arguments, range(at, at + 1)
                        ),
                    )
                cache = after
        return None

    def _arguments(self, positions: slice, squeezed: bool) -> Arguments:
        values = []
        for leaf, value in zip(
            self._call.leaves, self._program.placed(self._call.values), strict=True
        ):
            if isinstance(leaf.axis, int):
                cut = positions.start if squeezed else positions
                value = value[(*(slice(None) for _ in range(leaf.axis)), cut)]
            values.append(value)
        positional, named = self._call.rebuild(values)
        return list(positional), named

    def _compared(
        self, outputs: Any, positions: range, prefix: int
    ) -> _Departure | None:
        leaves = [on_host(leaf) for leaf in jax.tree.leaves(outputs)]
        if len(leaves) != len(self._expected):
            raise CannotTell(
                f"outputs of one step have {len(leaves)} arrays, those of the whole {len(self._expected)}"
            )
        found: list[_Departure] = []
        for number, (leaf, whole, axis) in enumerate(
            zip(leaves, self._expected, self._axes, strict=True)
        ):
            if axis is None:
                continue
            got, wanted = _laid_out(leaf, whole, axis, positions)
            wrong = differs(wanted, got, self._tolerances[number])
            if wrong.any():
                at = positions[-got.shape[axis] :][first_along(wrong, axis)]
                distances = np.abs(wide(wanted) - wide(got))[wrong]
                error = float(distances.max()) / largest(wanted, got)
                other = None
                if got.shape[axis] == 1:
                    other = self._position_of(got, whole, axis, number)
                found.append(
                    _Departure(prefix, at, self._paths[number], error, other, None)
                )
        return min(found, key=lambda one: one.at, default=None)

    def _position_of(
        self, got: Host, whole: Host, axis: int, number: int
    ) -> int | None:
        """The position that a result belongs to, if to one."""
        for at in range(whole.shape[axis]):
            if not differs(whole.take([at], axis), got, self._tolerances[number]).any():
                return at
        return None

    def _place(
        self,
        step: Function,
        arguments: Arguments,
        positions: range,
    ) -> Place | None:
        positional, named = arguments
        whole = self._program.placed(self._call.values)
        return first_departure(
            self._program, whole, step, positional, named, positions, self._count
        )


def _takes(step: Function, call: Call) -> bool:
    """Whether a step has a parameter for the position, after the arguments of the whole and the cache."""
    positional, named = call.rebuild(call.values)
    try:
        inspect.signature(step).bind(*positional, None, None, **named)
    except TypeError:
        return False
    except ValueError:  # no signature
        return True
    return True


def _pair(f: Function, arguments: Arguments, name: str) -> tuple[Any, Any]:
    positional, named = arguments
    try:
        found = f(*positional, **named)
    except Exception as error:
        text = first_line(error)
        raise _DoesNotRun(
            f"{name} does not run with these arguments: {type(error).__name__}: {text}"
        ) from error
    if not isinstance(found, tuple) or len(found) != 2:
        raise CannotTell(
            f"{name} returns {type(found).__name__}, expected (outputs, cache)"
        )
    return found


def _laid_out(
    leaf: Host, whole: Host, axis: int, positions: range
) -> tuple[Host, Host]:
    """An output of some positions, or of the last alone, and what is expected, with the same dimensions."""
    rest = list(whole.shape)
    del rest[axis]
    if leaf.shape == tuple(rest):
        leaf = np.expand_dims(leaf, axis)
    if leaf.ndim != whole.ndim or leaf.shape[axis] not in (1, len(positions)):
        raise CannotTell(
            f"an output has shape {leaf.shape} for {len(positions)} positions of {whole.shape}"
        )
    wanted = whole.take(positions[-leaf.shape[axis] :], axis)
    if leaf.shape != wanted.shape:
        raise CannotTell(f"an output has shape {leaf.shape}, expected {wanted.shape}")
    return leaf, wanted
