"""Local sizes keep what they are through whatever a program computes of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from shardlint.evaluation.guards import operate
from shardlint.evaluation.modules import Written
from shardtypes.semantics.array import LOWERINGS, Array
from shardtypes.semantics.local_sizes import (
    ALL_DEVICES,
    Ample,
    DeviceCount,
    LocalInt,
    axes_of,
    axes_of_product,
    capacity_axes,
    whole,
    with_ample_capacities,
)
from shardtypes.semantics.local_sizes import computed as of_numpy

pytestmark = pytest.mark.once  # JAX has no part in it

AXES = frozenset({"data"})
SIZE = LocalInt(32, AXES)
PLACE = (1, 0, 1, 1)
TWO = Written(2, ("program.py", PLACE))


def computed(symbol: str, left: Any, right: Any) -> Any:
    return operate("program.py", PLACE, symbol, left, right)


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%"])
@pytest.mark.parametrize("other", [2, 1.25, TWO], ids=["int", "float", "written"])
def test_numbers_computed_of_a_local_size_are_local(symbol: str, other: Any) -> None:
    plain = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "//": lambda a, b: a // b,
        "%": lambda a, b: a % b,
    }[symbol]
    for left, right in ((SIZE, other), (other, SIZE)):
        found = computed(symbol, left, right)
        assert axes_of(found) == AXES
        assert found == plain(*(type(one).__mro__[-2](one) for one in (left, right)))


def test_a_number_of_devices_stays_one_beside_a_constant_of_the_program() -> None:
    assert isinstance(computed("*", TWO, DeviceCount(4)), DeviceCount)


def test_a_capacity_that_a_fraction_makes_is_one() -> None:
    share = computed("/", computed("*", computed("*", TWO, SIZE), 1.0), 8)
    assert capacity_axes(math.ceil(share)) == AXES


def test_ample_capacities_are_as_large_as_what_they_are_a_share_of() -> None:
    ample = Ample(AXES, frozenset({("program.py", (2, 0, 2, 1))}))
    with with_ample_capacities(ample):
        share = math.ceil(computed("/", computed("*", TWO, SIZE), 8))
        fourth = computed("//", SIZE, 4)
        others = computed("//", LocalInt(32, frozenset({"model"})), 4)
        ratio = computed("//", SIZE, LocalInt(8, AXES))
        heads = operate("program.py", (2, 0, 2, 1), "//", SIZE, 4)
        part = computed("/", SIZE, 8)
        rounded = whole(of_numpy(float(np.ceil(part)), part))
    assert (share, fourth, others, ratio, heads) == (64, 32, 8, 4, 8)
    assert rounded == 32
    assert ample.met == [("program.py", PLACE)] * 3
    assert capacity_axes(share, fourth, heads, rounded) == frozenset()
    assert capacity_axes(others) == frozenset({"model"})


def test_how_many_times_one_local_size_is_another_depends_on_no_devices() -> None:
    heads, groups = LocalInt(8, AXES), LocalInt(2, AXES)
    ratio = computed("//", heads, groups)
    assert ratio == 4
    assert axes_of(ratio, computed("%", heads, groups)) == frozenset()
    assert axes_of(computed("//", heads, LocalInt(3, AXES))) == AXES
    other = LocalInt(2, frozenset({"model"}))
    assert axes_of(computed("//", heads, other)) == AXES | {"model"}


def test_what_a_primitive_divides_is_no_capacity() -> None:
    sliced = LOWERINGS["jax.numpy.repeat"](
        LOWERINGS["jax.numpy.split"](Array((SIZE, 8), "float32"), 2, axis=1)[0],
        3,
        axis=1,
    )
    assert sliced.own == frozenset()
    taken = Array((SIZE, 8), "float32")[: computed("//", SIZE, 4)]
    assert taken.own == AXES


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((-1, 3), AXES), ((2, -1, 3), AXES), ((SIZE, -1), frozenset()), ((-1,), AXES)],
)
def test_what_a_reshape_leaves_is_as_local_as_what_it_is_of(
    shape: tuple[int, ...], axes: frozenset[str]
) -> None:
    array = Array((SIZE, 5, 3), "float32")
    reshaped = LOWERINGS["jax.numpy.reshape"](array, shape)
    left = reshaped.dims[shape.index(-1)]
    assert axes_of(left) == axes
    assert not capacity_axes(left)
    assert left == 32 * 5 * 3 // math.prod(size for size in shape if size != -1)


def test_times_the_number_of_devices_they_are_whole() -> None:
    along_data, along_model = (
        DeviceCount(4, frozenset({name})) for name in ("data", "model")
    )
    both = LocalInt(8, frozenset({"data", "model"}))
    for one, other, left in (
        (SIZE, along_data, frozenset[str]()),
        (SIZE, along_model, AXES),
        (both, along_data, frozenset({"model"})),
        (both, DeviceCount(16, frozenset({"data", "model"})), frozenset[str]()),
        (both, DeviceCount(16, ALL_DEVICES), frozenset[str]()),
        (both, computed("*", along_data, along_model), frozenset[str]()),
        (SIZE, computed("*", 1, along_data), frozenset[str]()),
        (SIZE, computed("*", along_data, along_data), AXES),
        (SIZE, computed("*", along_data, 2), AXES),
        (SIZE, DeviceCount(4), AXES),
        (SIZE, computed("+", along_data, TWO), AXES),
    ):
        for found in (computed("*", one, other), computed("*", other, one)):
            assert axes_of(found) == left
            assert int(found) == int(one) * int(other)
    assert axes_of_product(SIZE, 3, along_data) == frozenset()


def test_a_capacity_times_the_number_of_devices_is_none_of_the_whole() -> None:
    share = computed("//", SIZE, TWO)
    assert axes_of(computed("*", share, DeviceCount(4, AXES))) == AXES
