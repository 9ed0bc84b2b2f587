"""How many array calls of real programs have an op model: ``python benchmarks/op_coverage.py CHECKOUT...``.

Runs the linter's engine over each checkout and looks at every call of a function of JAX, NumPy or einops and at every
method call on an array. A call site counts once, however often it is evaluated. The first column of the table are the
sites at which some argument is known to be an array, the second those of them whose function has a model, then the
same for the sites at which the rank of an argument is known, and for all sites. After the table come the functions
without a model and the calls whose arguments no model understood, most frequent first.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tools import lint_here
from shardlint.engine import calls
from shardlint.ops.registry import short_name
from shardlint.values import (
    ArrayValue,
    DictValue,
    MaybeValue,
    SequenceValue,
    Unknown,
    Value,
)

LIBRARIES = ("jax", "numpy", "einops")


@dataclass
class Site:
    """One call in the source text: what is known of its arguments in some evaluation, and what became of it."""

    function: str
    has_array: bool = False
    has_rank: bool = False
    modelled: bool = True
    understood: bool = True


class Recorder:
    """Stands in front of the engine's two ways to call something outside the project."""

    def __init__(self) -> None:
        self.sites: dict[tuple[str, int], Site] = {}
        self.checkout = ""
        self.external = calls._external
        self.method = calls._method

    def __enter__(self) -> Recorder:
        calls._external = self.call_external
        calls._method = self.call_method
        return self

    def __exit__(self, *_: object) -> None:
        calls._external = self.external
        calls._method = self.method

    def call_external(
        self,
        it: Any,
        frame: Any,
        qualname: str,
        args: Any,
        kwargs: Any,
        at: int,
        rest: Any,
    ) -> Value:
        result = self.external(it, frame, qualname, args, kwargs, at, rest)
        if qualname.split(".")[0] in LIBRARIES:
            self.note(frame.module, at, qualname, [*args, *kwargs.values()], result)
        return result

    def call_method(
        self, it: Any, frame: Any, func: Any, args: Any, kwargs: Any, at: int, rest: Any
    ) -> Value:
        result = self.method(it, frame, func, args, kwargs, at, rest)
        if isinstance(func.receiver, ArrayValue):
            self.note(
                frame.module,
                at,
                f"array method .{func.name}",
                [func.receiver, *args],
                result,
            )
        return result

    def note(
        self, module: str, at: int, function: str, args: list[Value], result: Value
    ) -> None:
        site = self.sites.setdefault((f"{self.checkout}:{module}", at), Site(function))
        found = list(arrays(args))
        site.has_array |= bool(found)
        site.has_rank |= any(array.dims is not None for array in found)
        if isinstance(result, Unknown):
            # the reason may have come along with an argument: only this function's own counts
            site.modelled &= result.reason not in (
                f"no model for {function}",
                f"no model for the {function}()",
            )
            site.understood &= (
                result.reason != f"arguments of {short_name(function)} not understood"
            )


def arrays(values: Iterable[Value]) -> Iterable[ArrayValue]:
    """The arrays among the values, and inside tuples, lists and dicts."""
    for value in values:
        if isinstance(value, ArrayValue):
            yield value
        elif isinstance(value, SequenceValue):
            yield from arrays(value.items)
        elif isinstance(value, DictValue):
            yield from arrays(item for _, item in value.items)
        elif isinstance(value, MaybeValue):
            yield from arrays([value.value])


def measure(checkouts: list[str]) -> Iterator[tuple[str, list[Site]]]:
    """Each checkout with its call sites."""
    for checkout in checkouts:
        with Recorder() as recorder:
            lint_here(checkout)
        yield Path(checkout).resolve().name, list(recorder.sites.values())


def row(name: str, sites: list[Site]) -> str:
    """One line of the table."""
    columns = []
    for chosen in (
        [s for s in sites if s.has_array],
        [s for s in sites if s.has_rank],
        sites,
    ):
        good = sum(s.modelled and s.understood for s in chosen)
        share = f"{100 * good / len(chosen):5.1f}%" if chosen else "     -"
        columns.append(f"{len(chosen):7} {share}")
    return f"{name:<40}" + "  ".join(columns)


def ranking(sites: list[Site], limit: int) -> list[str]:
    """Functions by the number of call sites that no model answered."""
    lines = []
    for title, wanted in (
        ("no model", "modelled"),
        ("arguments not understood", "understood"),
    ):
        bad = [s for s in sites if not getattr(s, wanted)]
        with_array = Counter(s.function for s in bad if s.has_array)
        every = Counter(s.function for s in bad)
        lines.append(f"\n{title}: sites with a known array, all sites")
        ranked = sorted(every, key=lambda name: (-with_array[name], -every[name], name))
        lines += [
            f"{with_array[name]:6} {every[name]:6}  {name}" for name in ranked[:limit]
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument(
        "--limit", type=int, default=40, help="how many functions to list (default: 40)"
    )
    options = parser.parse_args()
    sys.stdout.write(
        f"{'checkout':<40}  array argument    known rank       all calls\n"
    )
    every: list[Site] = []
    for name, sites in measure(options.checkouts):
        every += sites
        sys.stdout.write(row(name, sites) + "\n")
        sys.stdout.flush()
    sys.stdout.write(
        "\n".join([row("together", every), *ranking(every, options.limit)]) + "\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
