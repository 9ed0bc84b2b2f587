"""How much the linter knows of the arrays of real programs: ``python -m benchmarks.known CHECKOUT… [--reasons N]``.

Counted are names that are assigned in a function and hold arrays: the linter knows so, or the function uses them as
JAX's arrays (an argument of ``jax.numpy``, ``jax.lax``, ``jax.nn`` or ``einops``, an operand of ``@``, ``x.shape`` and
other members of arrays). Random keys are not counted, nor what other array libraries take. For each checkout the table
shows how many there are, of how many the rank is known, and of how many the rank and at least half of the dimensions.
With ``--reasons`` it lists why the others are not known, most frequent first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tools import lint_here
from shardlint import engine, ir
from shardlint.engine.shown import general, shown
from shardlint.values import ArrayValue, ExternalValue, Unknown
from shardlint.walking import walk

ARRAY_FUNCTIONS = ("jax.numpy.", "jax.lax.", "jax.nn.", "jax.scipy.", "einops.")
OTHER_LIBRARIES = frozenset("torch tensorflow tf pandas cupy polars mxnet PIL".split())
ARRAY_MEMBERS = frozenset(
    "shape ndim astype reshape swapaxes transpose squeeze ravel at T mT".split()
)
KEYS = frozenset(
    f"jax.random.{name}"
    for name in "split key PRNGKey fold_in clone wrap_key_data".split()
)
#: Arguments that are not arrays, by their names.
NUMBERS = frozenset("shape axis axes dims size length dtype".split())


@dataclass
class Count:
    """Arrays of one checkout: how many, how many with a known rank, with known dimensions, and why not the others."""

    arrays: int = 0
    ranks: int = 0
    dims: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> str:
        """One line of the table."""
        whole = max(self.arrays, 1)
        return f"{name:<32}{self.arrays:8}{100 * self.ranks / whole:8.1f}%{100 * self.dims / whole:8.1f}%"


def add(count: Count, analysis: Any) -> None:
    """Count the arrays of one module."""
    used = dict(_used_as_arrays(analysis))
    keys = set(_keys(analysis))
    for (at, name), (_, value) in analysis.it.seen.items():
        if name == "_" or at in keys:
            continue
        is_array = isinstance(value, ArrayValue)
        if not is_array and not (
            isinstance(value, Unknown) and name in used.get(at, frozenset())
        ):
            continue
        count.arrays += 1
        dims = value.dims if isinstance(value, ArrayValue) else None
        if dims is None:
            count.reasons[general(shown(value)[1] or "unknown")] += 1
            continue
        count.ranks += 1
        count.dims += 2 * sum(dim.size is not None for dim in dims) >= len(dims)


def _used_as_arrays(analysis: Any) -> Iterator[tuple[int, frozenset[str]]]:
    """For every node of a function, the names that it uses as arrays; those of a function inside count for that one."""
    for function in walk(analysis.module.body, frozenset({ir.Function})):
        names: set[str] = set()
        others: set[str] = set()
        for node in walk(function):
            match node:
                case ir.Binary(op="@", left=left, right=right):
                    names |= _names(left, right)
                case ir.Attr(obj=ir.Name(id=name), name=member) if (
                    member in ARRAY_MEMBERS
                ):
                    names.add(name)
                case ir.Call(func=func, args=args):
                    library = _library(analysis, func)
                    arguments = [
                        arg.value for arg in args if arg.keyword not in NUMBERS
                    ]
                    if library in OTHER_LIBRARIES:
                        others |= _names(*arguments)
                    elif library == "jax":
                        names |= _names(*arguments[: 1 + (not _takes_one(func))])
        found = frozenset(names - others)
        for node in walk(function):
            yield node.at, found


def _keys(analysis: Any) -> Iterator[int]:
    """The targets of what makes random keys, which are arrays of one rank or another by their make."""
    for node in walk(analysis.module.body, frozenset({ir.Assign})):
        if (
            isinstance(node.value, ir.Call)
            and _qualname(analysis, node.value.func) in KEYS
        ):
            for target in node.targets:
                yield from (one.at for one in walk(target))


def _names(*nodes: ir.Expr) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ir.Name)}


def _library(analysis: Any, func: ir.Expr) -> str:
    """``jax`` for its functions of arrays, the name of another array library, or nothing."""
    qualname = _qualname(analysis, func)
    return "jax" if qualname.startswith(ARRAY_FUNCTIONS) else qualname.partition(".")[0]


def _qualname(analysis: Any, func: ir.Expr) -> str:
    """The full name of a function of a library; empty for any other."""
    path: list[str] = []
    while isinstance(func, ir.Attr):
        path.append(func.name)
        func = func.obj
    if not isinstance(func, ir.Name):
        return ""
    root = analysis.it.static_name(analysis.module.name, func.id)
    if not isinstance(root, ExternalValue):
        return ""
    qualname = ".".join([analysis.it.external(root.qualname).qualname, *reversed(path)])
    return str(analysis.it.external(qualname).qualname)


def _takes_one(func: ir.Expr) -> bool:
    """Functions whose second argument is seldom an array."""
    return isinstance(func, ir.Attr) and func.name not in (
        "where",
        "matmul",
        "dot",
        "einsum",
        "add",
        "multiply",
    )


@contextmanager
def recorded(count: Count) -> Iterator[None]:
    """Count the arrays of each module that is analysed meanwhile."""
    make = engine.run.__init__

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        add(count, self)

    engine.run.__init__ = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        engine.run.__init__ = make  # type: ignore[method-assign]


def measure(checkout: str) -> Count:
    """One checkout, read from its own root."""
    count = Count()
    with recorded(count):
        lint_here(checkout)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument(
        "--reasons", type=int, default=0, help="how many reasons to list"
    )
    options = parser.parse_args()
    sys.stdout.write(f"{'checkout':<32}  arrays    rank     dims\n")
    every, reasons = [], Counter[str]()
    for checkout in options.checkouts:
        count = measure(checkout)
        every.append(count)
        reasons += count.reasons
        sys.stdout.write(count.row(Path(checkout).resolve().name) + "\n")
        sys.stdout.flush()
    medians = [
        statistics.median(getattr(one, of) / max(one.arrays, 1) for one in every)
        for of in ("ranks", "dims")
    ]
    sys.stdout.write(
        f"{'median':<40}{100 * medians[0]:8.1f}%{100 * medians[1]:8.1f}%\n"
    )
    for reason, number in reasons.most_common(options.reasons):
        sys.stdout.write(f"{number:6}  {reason}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
