"""The first call of each annotated function in a test run: an example for tracing what needs one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import pytest

from shardtypes import _stats
from shardtypes.meshes import current_view
from shardtypes.trace_arguments import arguments_of, has_arrays, sizes_of_examples
from shardtypes.trace_guesses import CannotTell
from shardtypes.tracing import Verdict, trace_call

CALLS = pytest.StashKey["RecordedCalls"]()
_MOST_NAMES = 12  # that are freed one by one


@dataclass(frozen=True)
class RecordedCall:
    """What a function was given: shapes and dtypes in place of arrays, anything else as it was."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class RecordedCalls:
    """Listens to the checks while it is installed."""

    def __init__(self) -> None:
        self._calls: dict[str, RecordedCall] = {}

    def install(self) -> None:
        """Hear of the calls of annotated functions."""
        _stats.watch(self._note)

    def uninstall(self) -> None:
        """Hear no more."""
        _stats.unwatch(self._note)

    def _note(
        self, name: str, _: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bool:
        if name in self._calls:
            return True
        if current_view().manual:  # there sizes are local ones
            return False
        try:
            call = RecordedCall(
                jax.tree.map(_shape_of, args), jax.tree.map(_shape_of, dict(kwargs))
            )
        except Exception:  # noqa: BLE001 - a class may raise anything for an object that is not made yet: no example
            return False
        self._calls[name] = call
        return True

    def verdict(self, name: str, f: Callable[..., Any]) -> Verdict | None:
        """What tracing says with the arguments of the call that are no annotated arrays. None unless it then holds for
        more than the sizes of the call: whatever else it may say, the other arguments may be the reason."""
        call = self._calls.get(name)
        if call is None:
            return None
        try:
            named, sizes = _example(f, call)
        except (TypeError, NameError, CannotTell):
            return None
        words = ", ".join(named)
        free = trace_call(f, (), named)
        if free.ok is True:
            return _as_called(free, f"{words} as a test gives it")
        fixed = _needed(f, named, sizes)
        if fixed is None or len(fixed) == len(sizes):
            return None
        verdict = trace_call(f, (), named, sizes=fixed)
        shown = ", ".join(f"{size}={number}" for size, number in fixed.items())
        return _as_called(verdict, f"{words} and {shown} as a test gives them")


def _as_called(verdict: Verdict, words: str) -> Verdict:
    return Verdict(
        verdict.ok,
        f"{verdict.reason}; with {words}",
        verdict.result,
        proved=verdict.proved,
    )


def _example(
    f: Callable[..., Any], call: RecordedCall
) -> tuple[dict[str, Any], dict[str, int]]:
    """The arguments by name that are no annotated arrays, and the sizes that names had in the call."""
    bound = inspect.signature(f).bind(*call.args, **call.kwargs)
    named: dict[str, Any] = {}
    arguments = arguments_of(f, call.args, call.kwargs)
    for argument in arguments:
        parameter = argument.parameter
        if (
            parameter.name not in bound.arguments
            or parameter.kind is parameter.POSITIONAL_ONLY
        ):
            raise CannotTell(f"{parameter.name} has no name to be given by")
        if not has_arrays(argument.annotation):
            named[parameter.name] = bound.arguments[parameter.name]
    sizes = sizes_of_examples(f, arguments)
    return named, dict(list(sizes.items())[:_MOST_NAMES])


def _needed(
    f: Callable[..., Any], named: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, int] | None:
    """The sizes that must be as they were in the call; None where it does not even hold then."""
    if trace_call(f, (), named, sizes=sizes).ok is not True:
        return None
    fixed = dict(sizes)
    for name in sizes:
        fewer = {other: size for other, size in fixed.items() if other != name}
        if trace_call(f, (), named, sizes=fewer).ok is True:
            fixed = fewer
    return fixed


def _shape_of(leaf: Any) -> Any:
    return (
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        if isinstance(leaf, jax.Array)
        else leaf
    )
