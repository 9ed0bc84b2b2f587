"""``assert_max_traces``: a function that JAX traces, or compiles, no more often than a test allows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import pytest
from jax._src.core import (
    trace_state_clean,
)  # no public way to ask whether anything is traced

from shardtypes.array_text import describe
from shardtypes.function_names import display_name


def assert_max_traces(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """The function, which fails the test in the call that traces it more than ``most`` times.

    Of a function that ``jax.jit`` made it is the programs compiled for it that count: one for each combination of
    shapes, dtypes, shardings and static arguments. Any other function counts each time that it is called with traced
    arrays, or without any array in a trace.

    Raises:
        ValueError: ``most`` is negative.
    """
    if most < 0:
        raise ValueError(f"a function is traced 0 times or more, not {most}")
    if hasattr(function, "_cache_size"):
        return _of_compiled(function, most)
    return _of_traced(function, most)


def _of_traced(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    traces: list[Mapping[str, str]] = []

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if _is_traced(args, kwargs):
            traces.append(_arguments(function, args, kwargs))
            _check(function, "traced", traces, most)
        return function(*args, **kwargs)

    return counted


def _of_compiled(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    size: Callable[[], int] = function._cache_size  # type: ignore[attr-defined]  # it was asked for
    compiled: list[Mapping[str, str]] = []

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        before = size()
        # before the call, which may donate them
        arguments = _arguments(function, args, kwargs)
        result = function(*args, **kwargs)
        if size() > before:
            compiled.append(arguments)
            _check(function, "compiled", compiled, most)
        return result

    return counted


def _is_traced(args: Any, kwargs: Any) -> bool:
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    if arrays:
        return any(isinstance(array, jax.core.Tracer) for array in arrays)
    return not trace_state_clean()


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, str]:
    """What tells a call from another one that JAX traces anew: each leaf of the arguments by its name."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {**dict(zip(map(str, range(len(args))), args, strict=True)), **kwargs}
    found = {}
    for name, value in bound.items():
        leaves, structure = jax.tree_util.tree_flatten_with_path(value)
        for path, leaf in leaves:
            found[f"{name}{jax.tree_util.keystr(path)}"] = _text(leaf)
        if not leaves:
            found[name] = str(structure)
    return found


def _text(leaf: Any) -> str:
    if not isinstance(leaf, jax.Array):
        return repr(leaf)
    weak = "weakly typed " if getattr(leaf, "weak_type", False) else ""
    return f"{weak}{describe(leaf)}"


def _check(
    function: Callable[..., Any],
    verb: str,
    calls: list[Mapping[str, str]],
    most: int,
) -> None:
    __tracebackhide__ = True
    if len(calls) <= most:
        return
    times = "once" if len(calls) == 1 else f"{len(calls)} times"
    lines = [f"{display_name(function)} was {verb} {times}, at most {most} is allowed"]
    if len(calls) > 1:
        lines += _differences(calls[-2], calls[-1])
    pytest.fail("\n".join(lines), pytrace=False)


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*before, *now])
    changed = [name for name in names if before.get(name) != now.get(name)]
    if not changed:
        return ["  with arguments of the same types as the time before"]
    return [
        f"  {name}: {before.get(name, 'not given')}, then {now.get(name, 'not given')}"
        for name in changed
    ]
