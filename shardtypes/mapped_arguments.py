"""How the arguments of a surrounding ``shard_map`` are sharded: its ``in_specs`` tell it, its tracers do not.

They are found in the frames of its call, by identity: a value that was computed from an argument is none.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax.sharding import PartitionSpec

from shardtypes.beneath import layers
from shardtypes.layouts import Axes, axes_of_spec
from shardtypes.meshes import Sums


@dataclass(frozen=True, slots=True)
class ArgumentLayout:
    """``dims`` are the axes of each dimension, major to minor, and ``sums`` what is outstanding; of other axes than
    ``axes`` nothing is known. ``function`` is the one that is mapped, None where this JAX does not tell."""

    dims: tuple[Axes, ...]
    axes: frozenset[str]
    sums: Sums
    function: Any = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A ``shard_map`` that is running: what its function got, what it was given for that, and their specs."""

    inside: Sequence[Any]
    given: Sequence[Any]
    specs: Sequence[Any]
    axes: frozenset[str]
    function: Any


def argument_layout(value: Any) -> ArgumentLayout | None:
    """How an argument of a surrounding ``shard_map``, or an example of one under ``vmap``, is sharded."""
    calls = list(_calls(sys._getframe(1)))
    if not calls:
        return None
    for under in layers(value):
        found = _look_up(under.value, calls)
        if found is not None:
            return replace(found, dims=under.example(found.dims))
    return None


def _look_up(value: Any, calls: Sequence[_Call]) -> ArgumentLayout | None:
    for at, call in enumerate(calls):
        for inside, given, spec in zip(
            call.inside, call.given, call.specs, strict=True
        ):
            if inside is not value:
                continue
            dims = (
                axes_of_spec(spec, len(value.shape))
                if isinstance(spec, PartitionSpec)
                else None
            )
            if dims is None:
                return None
            # what it was split over already is major
            outer = _look_up(given, calls[at + 1 :])
            if outer is None:
                return ArgumentLayout(dims, call.axes, Sums.of(spec), call.function)
            both = tuple(
                major + minor for major, minor in zip(outer.dims, dims, strict=True)
            )
            return ArgumentLayout(
                both, outer.axes | call.axes, outer.sums | Sums.of(spec), call.function
            )
    return None


def _calls(frame: types.FrameType | None) -> Iterator[_Call]:
    """The calls of ``shard_map`` around a frame, innermost first. None where this JAX names things otherwise."""
    inside: Any = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith("shard_map.py"):
            if code.co_name == "f_wrapped":
                inside = frame.f_locals.get("dyn_args")
            elif code.co_name == "wrapped" and inside is not None:
                names = frame.f_locals
                given, specs, mesh = (
                    names.get("dyn_args", ()),
                    names.get("in_specs_flat", ()),
                    names.get("mesh"),
                )
                axes = frozenset(names.get("axis_names", ())) - frozenset(
                    getattr(mesh, "manual_axes", ())
                )
                if len(inside) == len(given) == len(specs):
                    yield _Call(inside, given, specs, axes, names.get("f"))
                inside = None
        frame = frame.f_back
