"""What is known of results is worked out once for operands of the same shapes: never for those that only look so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from shardlint.evaluation.modules import Written
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import DeviceCount, LocalFloat, LocalInt
from shardtypes.semantics.outline import Outline, Outlines
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.relation import UNKNOWN, Breach, Relation, Relations, split
from tests.semantics.table import ROWS, Drawn, Row
from tests.semantics.test_primitives import lifted, results_of, sampled

pytestmark = pytest.mark.once


def exactly(value: Any) -> Any:
    """A value with the types of its numbers, and what these know."""
    if isinstance(value, (tuple, list)):
        return tuple(map(exactly, value))
    if isinstance(value, (int, float)):
        return type(value), repr(value), getattr(value, "__dict__", None)
    if isinstance(value, Relations):
        breaches = [relation.breach for _, relation in value.over]
        return value, breaches, value.otherwise.breach
    return value


def known_of(array: Array) -> Any:
    return exactly((array.shape, array.dtype, array.weak, array.relations))


def variations(arrays: list[Array]) -> Iterator[list[Array]]:
    """Operands with the same numbers, of which other things are known."""
    yield arrays
    for axis in "xy":
        for flags in ((), (True,), (False, True)):
            along = [LocalInt(0, frozenset({axis}), *flags)]
            yield [sized(one, along[0]) for one in arrays]
    yield [replace(one, weak=True) for one in arrays]
    broken = replace(UNKNOWN, breach=Breach("x", "mixed", 0, split(0)))
    for relation in (split(0), split(0, 1), UNKNOWN, broken):
        over = Relations((("x", relation),))
        yield [replace(one, relations=over) for one in arrays]
    otherwise = Relations((("x", split(0)),), Relation("unknown"))
    yield [replace(one, relations=otherwise) for one in arrays]


def sized(array: Array, like: LocalInt) -> Array:
    sizes = [
        LocalInt(int(size), like.axes, like.capacity, like.ample)  # type: ignore[arg-type]  # numbers
        for size in array.dims
    ]
    return replace(array, shape=tuple(sizes))


@pytest.mark.parametrize("row", ROWS, ids=[row.primitive.name for row in ROWS])
def test_what_is_found_again_is_what_would_be_worked_out(row: Row) -> None:
    @sampled
    @given(row.drawn)
    def run(drawn: Drawn) -> None:
        operands, params = drawn
        arrays = [lifted(x) for x in operands]
        with evaluation():
            for _ in range(2):
                for varied in variations(arrays):
                    found = results_of(row, varied, params)
                    with evaluation():
                        anew = results_of(row, varied, params)
                    assert list(map(known_of, found)) == list(map(known_of, anew))

    run()


NOTHING = Outline(None, [()], [None], [False], [None], False, 0)
NUMBERS = [
    2,
    True,
    2.0,
    1,
    LocalInt(2, frozenset({"x"})),
    LocalInt(2, frozenset({"y"})),
    LocalInt(2, frozenset({"x"}), capacity=True),
    LocalInt(2, frozenset({"x"}), ample=True),
    LocalFloat(2.0, frozenset({"x"})),
    DeviceCount(2),
    DeviceCount(2, frozenset({"x"})),
    Written(2, ("program.py", (1, 0, 1, 1))),
    Written(2, ("program.py", (2, 0, 2, 1))),
    (2,),
    slice(0, 2),
    slice(0, LocalInt(2, frozenset({"x"}))),
    "2",
    None,
]


def test_parameters_that_are_equal_to_python_are_told_apart() -> None:
    made: list[Any] = []

    def outlined(given: Any) -> Outline:
        made.append(given)
        return NOTHING

    outlines = Outlines()
    for _ in range(2):
        for number in NUMBERS:
            outlines.of("iota", (), {"size": number}, partial(outlined, number))
    assert list(map(exactly, made)) == list(map(exactly, NUMBERS))


def test_parameters_that_are_not_known_to_be_exact_are_worked_out_each_time() -> None:
    count = 0

    def outlined() -> Outline:
        nonlocal count
        count += 1
        return NOTHING

    outlines = Outlines()
    for _ in range(2):
        for unknown in (np.float32(2), [2], {"axis": 2}):
            outlines.of("iota", (), {"size": unknown}, outlined)
    assert count == 6
