"""``python -m benchmarks.cost [NAME…]``: what ``shardtypes.cost`` says of programs, beside what XLA makes of them.

The programs of ``benchmarks/programs/sharded`` that map over devices by hand, and those of
``benchmarks/cost/explicit.py`` on explicit axes, are compiled for eight forced devices. What each holds is that of
``memory_analysis()``; what it sends follows from shapes and groups of its collectives, by the same rates. Nothing is
run.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

if __name__ == "__main__":
    devices = "--xla_force_host_platform_device_count=8"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {devices}"

import jax
from jax.sharding import AxisType

import shardtypes
from benchmarks.cost import explicit
from benchmarks.cost.compiled import measured
from benchmarks.mutation.numbers import arguments_of

_MODULES = ("manual", "parallel", "trainers", "advanced")
_SIZES = {"d": 2, "t": 4}
#: Programs that hold or send something else than their types and collectives say, and why.
DIFFERENT = {
    "advanced.accumulated_fully_sharded": "XLA gathers the weight once, before the loop",
    "explicit.scattered": "on CPUs XLA sums on all devices and slices: it has no reduce_scatter of its own there",
    "explicit.swapped": "XLA exchanges along one axis, and permutes",
    "explicit.looked_up": "a lookup in a sharded table is not counted",
}


@dataclass(frozen=True)
class Row:
    """What is said of one program, and what is measured; bytes."""

    name: str
    held: int
    held_compiled: int
    sent: int
    sent_compiled: float
    uncounted: int

    @property
    def close(self) -> bool:
        """Whether both are within five percent."""
        return _close(self.held, self.held_compiled) and _close(
            self.sent, self.sent_compiled
        )


def _close(said: float, found: float) -> bool:
    return abs(said - found) <= 0.05 * found


def rows(names: Sequence[str] = ()) -> Iterator[Row]:
    """Of the programs of these names, or of all."""
    for name, f, arrays, kind in (*_by_hand(), *_explicit()):
        if not names or name in names:
            yield _row(name, f, arrays, kind)


_Program = tuple[str, Callable[..., Any], Sequence[Any], AxisType]
"""Its name, the function, its arguments, and what axes it is for."""


def mapped_by_hand() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that map over devices by hand, by the names of their programs."""
    for module in _MODULES:
        found = importlib.import_module(f"benchmarks.programs.sharded.{module}")
        for name, f in vars(found).items():
            if inspect.isfunction(f) and _is_mapped(found, f):
                yield f"{module}.{name}", f


def shapes_of_arguments(f: Callable[..., Any]) -> Any:
    """What a program is given, without the numbers."""
    return jax.tree.map(_shape_of, arguments_of(f))


def _by_hand() -> Iterator[_Program]:
    for name, f in mapped_by_hand():
        yield name, f, shapes_of_arguments(f), AxisType.Auto


def _explicit() -> Iterator[_Program]:
    mesh = jax.make_mesh(
        tuple(_SIZES.values()),
        tuple(_SIZES),
        axis_types=(AxisType.Explicit,) * len(_SIZES),
    )
    for name, (f, arguments) in explicit.programs(mesh).items():
        yield f"explicit.{name}", f, arguments, AxisType.Explicit


def _is_mapped(module: Any, f: Any) -> bool:
    """Whether a function is a program of its own: annotated, and mapped over devices by itself."""
    inner = inspect.unwrap(f)
    if inner.__module__ != module.__name__ or not inner.__annotations__:
        return False
    return inner is not f or "shard_map" in inspect.getsource(inner)


def _shape_of(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _row(name: str, f: Any, arrays: Sequence[Any], kind: AxisType) -> Row:
    mesh = jax.make_mesh(
        tuple(_SIZES.values()), tuple(_SIZES), axis_types=(kind,) * len(_SIZES)
    )
    with jax.set_mesh(mesh):
        said = shardtypes.cost(f, *arrays)
        compiled = jax.jit(f).lower(*arrays).compile()
    found = measured(compiled, mesh.size)
    return Row(
        name,
        said.bytes_held,
        found.held,
        said.bytes_moved,
        found.sent,
        len(said.uncounted),
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost", description=__doc__
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args(arguments).names
    print(f"{'bytes on each device':<36} {'held':>9} {'XLA':>9} {'sent':>9} {'XLA':>9}")
    close = different = 0
    failed = []
    for row in rows(names):
        numbers = f"{row.held:>9,} {row.held_compiled:>9,} {row.sent:>9,} {row.sent_compiled:>9,.0f}"
        print(f"{row.name:<36} {numbers}  {DIFFERENT.get(row.name, '')}")
        if row.close:
            close += 1
        elif row.name in DIFFERENT:
            different += 1
        else:
            failed.append(row.name)
    print(f"{close} within 5%, {different} that differ for the reason given")
    if failed:
        print(f"not within 5%: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
