"""``shardtypes.trace`` for functions as they are found in a project, outside the program that calls them.

A failure is what certainly is one: an annotation that does not hold, or an operation that JAX refuses for its shapes.
What a function refuses by itself, or needs from its callers (values, a mesh, a surrounding ``shard_map``), is
*could not tell*.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType

from pytest_shardtypes.examples import Example
from pytest_shardtypes.meshes import abstract_mesh
from shardtypes import _stats
from shardtypes.annotation_checks import array_annotation
from shardtypes.certainty import unbound_axis, why_uncertain
from shardtypes.checked import _closure, _globals, typechecked
from shardtypes.dtypes import shape_of_type
from shardtypes.mapped import typed_shard_map
from shardtypes.tracing import Verdict, trace

_AXES_AT_MOST = 8


@dataclass(frozen=True)
class Outcome:
    """``ok`` is True, False or None for *could not tell*; ``text`` says why, and where it was not True what to do."""

    ok: bool | None
    text: str
    error: Exception | None = None


def judge(name: str, f: Callable[..., Any], example: Example) -> Outcome:
    """Trace ``f`` with the example. Nothing that is met counts as reached by a test."""
    inner = inspect.unwrap(f)
    if inspect.iscoroutinefunction(inner) or inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return Outcome(None, "it is a coroutine or a generator, which only tests can run")
    with _uncounted():
        verdict = _verdict(f, example)
    if verdict.ok is True:
        return Outcome(True, verdict.reason)
    why = why_uncertain(verdict.error) if verdict.error is not None else None
    if why is not None:
        return Outcome(None, why)
    if verdict.ok is None:
        fixed = "sizes={…}" if verdict.sizes else "…"
        return Outcome(None, f"{verdict.reason}; in conftest.py: trace_example({name!r}, {fixed})")
    return Outcome(False, verdict.reason, verdict.error)


def _verdict(f: Callable[..., Any], example: Example) -> Verdict:
    if example.mesh is not None:
        mesh = abstract_mesh(axis_types=example.mesh.kind, **dict(example.mesh.axes))
        return trace(f, *example.positional, mesh=mesh, sizes=example.sizes, **example.named)
    verdict = trace(f, *example.positional, sizes=example.sizes, **example.named)
    axis = _unbound_axis(verdict)
    if axis is not None:
        return _inside_shard_map(f, example, verdict, axis)
    if _needs_mesh(verdict):
        names = tuple(_annotated_axes(f))
        if not names:
            return verdict
        again = trace(f, *example.positional, mesh=_mesh_over(names), sizes=example.sizes, **example.named)
        return replace(again, reason=f"{again.reason} (on a mesh with axes {', '.join(names)})")
    return verdict


def _inside_shard_map(f: Callable[..., Any], example: Example, first: Verdict, axis: str) -> Verdict:
    """As the body of ``shard_map``, which the annotations say how to enter and leave."""
    names = (*_annotated_axes(f), axis)
    f = _summed(f)
    verdict = first
    while len(names) <= _AXES_AT_MOST:
        names = tuple(dict.fromkeys(names))
        mesh = _mesh_over(names)
        mapped = typed_shard_map(f, mesh=mesh, check_vma=False)
        verdict = trace(mapped, *example.positional, mesh=mesh, sizes=example.sizes, **example.named)
        missing = _unbound_axis(verdict)
        if missing is None or missing in names:
            break
        names = (*names, missing)
    return _better(verdict, first, f"inside shard_map over {', '.join(names)}")


def _summed(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its result summed over the axes over which that is pending, as whoever calls it there does:
    ``shard_map`` takes out no pending values."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(f), _globals(f), _closure(f), include_extras=True)
    except (NameError, TypeError, ValueError, AttributeError):  # `trace` says what is wrong with them
        return f
    annotation = array_annotation(hints.get("return"))
    shape = None if annotation is None else shape_of_type(annotation)
    if annotation is None or shape is None or not shape.pending:
        return f
    checked = typechecked(f)

    def summed(*args: Any, **kwargs: Any) -> Any:
        return jax.lax.psum(checked(*args, **kwargs), shape.pending)

    # Not the module: this is no function of the project, which its report would list.
    summed.__name__, summed.__qualname__ = checked.__name__, checked.__qualname__
    vars(summed)["__signature__"] = inspect.signature(f)
    whole = replace(shape, pending=(), pending_spans=())
    dtype: Any = annotation.__origin__
    summed.__annotations__ = {**hints, "return": dtype[str(whole)]}
    return summed


def _mesh_over(names: tuple[str, ...]) -> AbstractMesh:
    """Axes of two devices each, so that every one of them splits something."""
    return AbstractMesh((2,) * len(names), names, axis_types=(AxisType.Auto,) * len(names))


def _better(verdict: Verdict, first: Verdict, where: str) -> Verdict:
    """The second verdict where it says more than the first."""
    if verdict.error is not None and why_uncertain(verdict.error) is not None:
        return first
    return replace(verdict, reason=f"{verdict.reason} ({where})")


def _needs_mesh(verdict: Verdict) -> bool:
    return verdict.ok is not True and isinstance(verdict.error, ValueError) and "mesh" in str(verdict.error)


def _annotated_axes(f: Callable[..., Any]) -> list[str]:
    from shardtypes.trace_arguments import arguments_of, shapes_of

    try:
        return sorted({axis for shape in shapes_of(arguments_of(f, (), {})) for axis in shape.axes})
    except Exception:  # noqa: BLE001 - whatever keeps the parameters from being read, `trace` reports it
        return []


def _unbound_axis(verdict: Verdict) -> str | None:
    return unbound_axis(verdict.error) if verdict.ok is not True else None


@contextmanager
def _uncounted() -> Iterator[None]:
    before = _stats.recording
    _stats.record(False)
    try:
        yield
    finally:
        _stats.record(before)
