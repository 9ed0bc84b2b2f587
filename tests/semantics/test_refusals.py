"""Calls that JAX refuses, and near ones that it takes: a lowering refuses the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.call import Call
from tests.semantics.refusing import refuses
from tests.semantics.test_dtypes import Given, Kind, arguments_here, kinds_in_jax

pytestmark = pytest.mark.once


def given(*shape: int, dtype: str = "float32") -> Given:
    """An array of a shape and a dtype."""
    return Given(shape, Kind(dtype))


KEY = given(2, dtype="uint32")
SCALAR, VECTOR, MATRIX = given(), given(3), given(2, 3)
WHOLE = given(3, dtype="int32")
IMAGE, KERNEL = given(2, 2, 5), given(4, 2, 2)
NARROW = given(3, dtype="bfloat16")
BOOLS = given(3, dtype="bool")


def both(name: str, refused: list[Any], taken: list[Any]) -> list[tuple[Call, bool]]:
    """Calls of one function that are refused, and calls that are not. The last argument may be a dict of those that are
    named."""
    rows = [(_call(name, one), True) for one in refused]
    rows += [(_call(name, one), False) for one in taken]
    return rows


def _call(name: str, arguments: tuple[Any, ...]) -> Call:
    if isinstance(arguments[-1], dict):
        return Call(name, arguments[:-1], arguments[-1])
    return Call(name, arguments, {})


WITH_INITIAL = """jax.numpy.sum jax.numpy.prod jax.numpy.max jax.numpy.min jax.numpy.amax jax.numpy.amin
jax.numpy.nansum jax.numpy.nanprod jax.numpy.nanmax jax.numpy.nanmin""".split()
WITHOUT_INITIAL = """jax.numpy.all jax.numpy.any jax.numpy.mean jax.numpy.nanmean jax.numpy.var jax.numpy.std
jax.numpy.nanvar jax.numpy.nanstd jax.nn.softmax jax.nn.log_softmax jax.nn.standardize jax.nn.logsumexp
jax.nn.logmeanexp jax.scipy.special.logsumexp""".split()
MASKED = {
    **{name: {"initial": 0.0} for name in WITH_INITIAL},
    **{name: {} for name in WITHOUT_INITIAL},
}
"""Functions that leave entries out, and what they need then."""

ROWS = [
    *(
        row
        for name, more in MASKED.items()
        for row in both(
            name,
            [(VECTOR, {**more, "where": WHOLE}), (VECTOR, {**more, "where": VECTOR})],
            [(VECTOR, {**more, "where": BOOLS})],
        )
    ),
    *both(
        "jax.lax.dynamic_slice",
        [
            (MATRIX, (0,), (1, 1)),
            (MATRIX, (0, 0, 0), (1, 1)),
            (MATRIX, (0, 0), (1,)),
            (MATRIX, (0, 0), (1, 4)),
        ],
        [(MATRIX, (0, 0), (1, 1)), (MATRIX, (0, 9), (2, 3))],
    ),
    *both(
        "jax.lax.dynamic_update_slice",
        [(MATRIX, MATRIX, (0,)), (MATRIX, MATRIX, (0, 0, 0))],
        [(MATRIX, MATRIX, (0, 0))],
    ),
    *both(
        "jax.random.wrap_key_data",
        [(given(dtype="uint32"),), (given(2, dtype="int32"),)],
        [(KEY,), (given(3, 2, dtype="uint32"),)],
    ),
    *both(
        "jax.random.categorical",
        [
            (KEY, given(2, 3, dtype="int32")),
            (KEY, MATRIX, -1, (4,)),
            (KEY, MATRIX, -1, ()),
            (KEY, MATRIX, 2),
        ],
        [
            (KEY, given(2, 3, dtype="bfloat16")),
            (KEY, MATRIX, -1, (4, 2)),
            (KEY, given(1, 3), -1, (4,)),
            (KEY, MATRIX, 1),
        ],
    ),
    *both(
        "jax.lax.top_k",
        [
            (VECTOR, 4),
            (VECTOR, -1),
            (SCALAR, 0),
            (MATRIX, 3, {"axis": 0}),
            (given(3, dtype="complex64"), 1),
        ],
        [(VECTOR, 3), (VECTOR, 0), (MATRIX, 3, {"axis": 1}), (WHOLE, 1), (BOOLS, 1)],
    ),
    *both(
        "jax.lax.approx_max_k",
        [(VECTOR, 4), (WHOLE, 1), (MATRIX, 3, {"reduction_dimension": 0})],
        [(VECTOR, 3), (MATRIX, 3, {"reduction_dimension": 1})],
    ),
    *(
        row
        for name in ("argmax", "argmin")
        for row in both(
            f"jax.lax.{name}",
            [(VECTOR, -1, "int32"), (given(0, 2), 0, "int32"), (VECTOR, 0, "float32")],
            [(VECTOR, 0, "int32"), (given(0, 2), 1, "int32"), (BOOLS, 0, "uint8")],
        )
    ),
    *both("jax.numpy.argmax", [(given(0, 2), 0)], [(given(0, 2), 1)]),
    *both(
        "jax.numpy.searchsorted",
        [(SCALAR, VECTOR), (MATRIX, VECTOR)],
        [(VECTOR, SCALAR), (VECTOR, MATRIX), (given(0), VECTOR), (BOOLS, BOOLS)],
    ),
    *both(
        "jax.numpy.digitize",
        [(VECTOR, SCALAR), (VECTOR, MATRIX)],
        [(MATRIX, VECTOR), (SCALAR, VECTOR)],
    ),
    *both(
        "jax.numpy.lexsort",
        [((),), ((VECTOR, given(2)),), ((MATRIX, VECTOR),), ((VECTOR,), 1)],
        [((VECTOR, WHOLE),), ([MATRIX, MATRIX], 0), ((SCALAR,),), (MATRIX,)],
    ),
    *both(
        "jax.numpy.nonzero",
        [(SCALAR, {"size": 1}), (VECTOR, {"size": -1})],
        [(VECTOR, {"size": 0}), (MATRIX, {"size": 7})],
    ),
    *both("jax.numpy.argwhere", [(SCALAR, {"size": -1})], [(SCALAR, {"size": 2})]),
    *both(
        "jax.numpy.unique",
        [(given(0), {"size": 1}), (VECTOR, {"size": -1})],
        [
            (given(0), {"size": 0}),
            (given(0), {"size": 1, "fill_value": 0}),
            (VECTOR, {"size": 4}),
        ],
    ),
    *both(
        "jax.numpy.extract",
        [(BOOLS, VECTOR, {"size": 4}), (BOOLS, given(2), {"size": 3})],
        [(BOOLS, VECTOR, {"size": 3}), (BOOLS, given(2, 4), {"size": 3})],
    ),
    *both(
        "jax.numpy.compress",
        [
            (given(2, 3, dtype="bool"), VECTOR, {"size": 1}),
            (BOOLS, MATRIX, 0, {"size": 3}),
        ],
        [(BOOLS, VECTOR, {"size": 3}), (BOOLS, MATRIX, 0, {"size": 2})],
    ),
    *both(
        "jax.numpy.put",
        [
            (SCALAR, WHOLE, VECTOR, {"inplace": False}),
            (VECTOR, VECTOR, VECTOR, {"inplace": False}),
        ],
        [
            (SCALAR, WHOLE, given(0), {"inplace": False}),
            (VECTOR, WHOLE, SCALAR, {"inplace": False}),
        ],
    ),
    *both(
        "jax.numpy.place",
        [
            (VECTOR, given(2, dtype="bool"), VECTOR, {"inplace": False}),
            (VECTOR, BOOLS, given(0), {"inplace": False}),
        ],
        [
            (MATRIX, given(6, dtype="bool"), VECTOR, {"inplace": False}),
            (VECTOR, BOOLS, SCALAR, {"inplace": False}),
        ],
    ),
    *both(
        "jax.numpy.choose",
        [
            (VECTOR, (VECTOR, SCALAR), {"mode": "wrap"}),
            (BOOLS, (VECTOR, SCALAR), {"mode": "clip"}),
            (WHOLE, (given(2),), {"mode": "wrap"}),
        ],
        [(WHOLE, (VECTOR, SCALAR), {"mode": "wrap"})],
    ),
    *both(
        "jax.lax.conv_general_dilated",
        [
            (IMAGE, KERNEL, (1, 1), "VALID"),
            (IMAGE, KERNEL, (1,), [(0, 0), (0, 0)]),
            (IMAGE, KERNEL, (1,), "VALID", (2,)),
            (IMAGE, KERNEL, (1,), [(0, 0)], (0,)),
            (IMAGE, KERNEL, (1,), [(0, 0)], (1,), (0,)),
            (IMAGE, given(4, 2, 2, dtype="bfloat16"), (1,), "VALID"),
            (IMAGE, given(4, 2), (1,), "VALID"),
            (VECTOR, VECTOR, (), "VALID"),
            (IMAGE, given(4, 3, 2), (1,), "VALID"),
            (IMAGE, KERNEL, (1,), "VALID", {"feature_group_count": 2}),
            (IMAGE, KERNEL, (1,), "VALID", {"feature_group_count": 0}),
            (IMAGE, given(3, 1, 2), (1,), "VALID", {"feature_group_count": 2}),
            (given(3, 2, 5), KERNEL, (1,), "VALID", {"batch_group_count": 2}),
            (IMAGE, given(3, 2, 2), (1,), "VALID", {"batch_group_count": 2}),
            (
                IMAGE,
                given(4, 1, 2),
                (1,),
                "VALID",
                {"feature_group_count": 2, "batch_group_count": 2},
            ),
            (
                IMAGE,
                KERNEL,
                (1,),
                "VALID",
                {"dimension_numbers": ("NCHW", "OIHW", "NCHW")},
            ),
        ],
        [
            (IMAGE, KERNEL, (1,), "VALID"),
            (IMAGE, KERNEL, (1,), [(0, 0)], (2,), (2,)),
            (given(1, 2), given(4, 2), (), "VALID"),
            (IMAGE, given(4, 1, 2), (1,), "VALID", {"feature_group_count": 2}),
            (IMAGE, KERNEL, (1,), "VALID", {"batch_group_count": 2}),
        ],
    ),
    *both(
        "jax.lax.conv_transpose",
        [
            (given(2, 5, 2), given(2, 3, 4), (1,), "SAME"),
            (given(2, 5, 2), given(2, 4), (1,), "SAME"),
            (given(2, 5, 2), given(2, 2, 4), (2,), "same"),
            (given(*[1] * 6), given(*[1] * 6), (1,) * 4, "SAME"),
        ],
        [
            (given(2, 5, 2), given(2, 2, 4), (2,), "SAME"),
            (given(2, 5, 2), given(2, 2, 4), (1,), "same"),
            (given(5, 2), given(2, 4), (), "SAME"),
        ],
    ),
    *(
        row
        for name in ("convolve", "correlate")
        for row in both(
            f"jax.numpy.{name}",
            [(SCALAR, VECTOR), (VECTOR, MATRIX), (given(0), VECTOR)],
            [(VECTOR, VECTOR), (VECTOR, given(4))],
        )
    ),
    *(
        row
        for name in ("quantile", "nanquantile", "percentile", "nanpercentile")
        for row in both(
            f"jax.numpy.{name}",
            [
                (VECTOR, MATRIX),
                (given(3, dtype="complex64"), 0.5),
                (MATRIX, 0.5, {"axis": (0, -2)}),
            ],
            [(VECTOR, VECTOR), (WHOLE, 0.5), (MATRIX, 0.5, {"axis": (0,)})],
        )
    ),
    *both(
        "jax.numpy.quantile",
        [(VECTOR, 0), (given(3, 0), 0.5, {"axis": 1}), (given(0), 0.5)],
        [(VECTOR, 0.0), (given(3, 0), 0.5, {"axis": 0})],
    ),
    *both("jax.numpy.percentile", [(given(0), 50)], [(VECTOR, 50)]),
    *both("jax.numpy.median", [(given(0),)], [(VECTOR,)]),
    *both(
        "jax.numpy.average",
        [
            (VECTOR, None, SCALAR),
            (VECTOR, None, given(2)),
            (MATRIX, None, given(2)),
            (MATRIX, 0, VECTOR),
            (MATRIX, 0, SCALAR),
            (MATRIX, 0, given(2, 1)),
            (MATRIX, 0, given(2, 3, 1)),
            (given(3, 2, 4), (0, 2), given(4, 3)),
        ],
        [
            (VECTOR, None, VECTOR),
            (MATRIX, 0, given(2)),
            (MATRIX, 0, MATRIX),
            (MATRIX, (1, 0), given(3, 2)),
            (given(3, 2, 4), (0, 2), given(3, 4)),
        ],
    ),
    *both(
        "jax.numpy.histogram",
        [(VECTOR, -1), (VECTOR, 2, {"weights": given(2)})],
        [(VECTOR, 2), (MATRIX, 2, {"weights": MATRIX}), (BOOLS, 2)],
    ),
    *both(
        "jax.numpy.bincount",
        [
            (given(dtype="int32"), {"length": 2}),
            (VECTOR, {"length": 2}),
            (WHOLE, {"length": -1}),
            (WHOLE, given(2), {"length": 2}),
        ],
        [
            (WHOLE, {"length": 2}),
            (WHOLE, {"length": 0}),
            (BOOLS, {"length": 2}),
            (WHOLE, VECTOR, {"length": 2}),
        ],
    ),
    *(
        row
        for name in "max min sum prod".split()
        for row in both(
            f"jax.lax.reduce_{name}",
            [(MATRIX, (-1,)), (MATRIX, (2,)), (MATRIX, (0, 0))],
            [(MATRIX, (1,)), (MATRIX, (1, 0))],
        )
    ),
    *both("jax.lax.rev", [(MATRIX, (-1,)), (MATRIX, (2,))], [(MATRIX, (1, 0))]),
    *both("jax.lax.transpose", [(MATRIX, (-1, 0)), (MATRIX, (0,))], [(MATRIX, (1, 0))]),
    *both(
        "jax.numpy.expand_dims",
        [(MATRIX, (0, 0)), (MATRIX, (0, -4))],
        [(MATRIX, (0, 1)), (MATRIX, (0, -1))],
    ),
    *both(
        "jax.lax.expand_dims", [(MATRIX, (0, 0))], [(MATRIX, (0, 3)), (MATRIX, (-1,))]
    ),
    *both(
        "jax.numpy.take",
        [
            (given(0), given(2, dtype="int32")),
            (given(0, 3), given(2, dtype="int32"), {"axis": 0}),
        ],
        [
            (given(0, 3), given(0, dtype="int32"), {"axis": 0}),
            (given(0, 3), given(2, dtype="int32"), {"axis": 1}),
        ],
    ),
    *(
        row
        for name in ("sum", "prod")
        for row in both(
            f"jax.numpy.cumulative_{name}",
            [(MATRIX,), (MATRIX, {"axis": 2})],
            [(VECTOR,), (MATRIX, {"axis": -1})],
        )
    ),
    *both(
        "jax.numpy.gradient",
        [(given(1),), (given(1, 3),), (given(3, 1), {"axis": 1})],
        [(given(2),), (given(3, 1), {"axis": 0})],
    ),
    *(
        row
        for name in "fabs frexp isposinf isneginf".split()
        for row in both(
            f"jax.numpy.{name}", [(given(3, dtype="complex64"),)], [(VECTOR,), (WHOLE,)]
        )
    ),
    *both(
        "jax.numpy.signbit",
        [(given(3, dtype="float8_e4m3fn"),), (given(3, dtype="complex64"),)],
        [(NARROW,), (WHOLE,)],
    ),
    *both("jax.numpy.ediff1d", [(BOOLS,)], [(WHOLE,), (SCALAR,)]),
    *both(
        "jax.numpy.interp",
        [
            (VECTOR, VECTOR, given(2)),
            (VECTOR, SCALAR, SCALAR),
            (VECTOR, MATRIX, MATRIX),
            (VECTOR, given(0), given(0)),
            (given(3, dtype="complex64"), VECTOR, VECTOR),
        ],
        [
            (MATRIX, VECTOR, VECTOR),
            (NARROW, VECTOR, VECTOR),
            (VECTOR, VECTOR, given(3, dtype="complex64")),
        ],
    ),
    *both(
        "jax.numpy.polyval",
        [(SCALAR, VECTOR), (MATRIX, given(2))],
        [(VECTOR, SCALAR), (MATRIX, VECTOR), (given(0), VECTOR)],
    ),
    *both(
        "jax.numpy.polyfit",
        [
            (VECTOR, VECTOR, -1),
            (VECTOR, given(2), 1),
            (SCALAR, VECTOR, 1),
            (VECTOR, SCALAR, 1),
            (VECTOR, given(3, 2, 2), 1),
            (given(0), given(0), 1),
            (WHOLE, VECTOR, 1),
            (VECTOR, VECTOR, 1, {"w": given(2)}),
            (VECTOR, VECTOR, 1, {"w": given(3, 1)}),
        ],
        [
            (VECTOR, VECTOR, 1),
            (VECTOR, given(3, 2), 1),
            (VECTOR, WHOLE, 0),
            (VECTOR, VECTOR, 1, {"w": VECTOR}),
        ],
    ),
]


IDS = [f"{call.name}-{k}" for k, (call, _) in enumerate(ROWS)]


@pytest.mark.parametrize(("call", "is_refused"), ROWS, ids=IDS)
def test_both_refuse_the_same(call: Call, is_refused: bool) -> None:
    assert (kinds_in_jax(call) is None) == is_refused
    assert refuses(call.name, *arguments_here(call)) == is_refused
