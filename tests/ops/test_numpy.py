"""NumPy functions go by the model of their ``jax.numpy`` twin: no error that NumPy does not raise, and its shapes.

The rows are those of the tables for ``jax.numpy``, with real NumPy arrays and NumPy's own functions.
"""

from __future__ import annotations

import os
import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from shardlint import ops
from shardlint.ops.registry import constant
from shardlint.values import ArrayValue, SequenceValue, Value
from tests.ops import (
    test_elementwise,
    test_fft,
    test_linalg,
    test_more_indexing,
    test_nn,
    test_ordering,
    test_rearranging,
    test_reductions,
    test_statistics,
)
from tests.ops.oracle import abstract
from tests.ops.tables import resolve

TABLES = (
    test_elementwise.test_elementwise, test_fft.test_fft, test_linalg.test_linalg, test_more_indexing.test_indexing,
    test_nn.test_nn, test_ordering.test_ordering, test_rearranging.test_rearranging, test_reductions.test_reductions,
    test_statistics.test_statistics,
)  # fmt: skip
ROWS = {
    row.name: row
    for table in TABLES
    for row in table.rows
    if row.name.startswith("jax.numpy.")
}.values()
TWINS = [
    (row, twin)
    for row in ROWS
    if (twin := resolve(row.name.removeprefix("jax."))) is not None
]
some = settings(max_examples=int(os.environ.get("ORACLE_CASES", "8")), deadline=None,
                derandomize="ORACLE_CASES" not in os.environ, suppress_health_check=list(HealthCheck))  # fmt: skip


def real(value: object) -> object:
    """The argument as NumPy takes it: arrays of zeros, in dtypes that NumPy has."""
    if isinstance(value, jax.ShapeDtypeStruct):
        name = value.dtype.name
        return np.zeros(
            value.shape,
            name if name in ("bool", "int32", "uint8", "complex64") else "float32",
        )
    if isinstance(value, (tuple, list)):
        return type(value)(real(item) for item in value)
    return value


def fits(result: Value, truth: object) -> bool:
    """Whether what the model says of shapes is so."""
    if isinstance(result, SequenceValue) and isinstance(truth, (tuple, list)):
        return len(result.items) == len(truth) and all(map(fits, result.items, truth))
    if not isinstance(result, ArrayValue) or result.dims is None:
        return True
    shape = np.shape(truth)
    sizes = [dim.size for dim in result.dims]
    return len(sizes) == len(shape) and all(
        a is None or a == b for a, b in zip(sizes, shape, strict=True)
    )


@pytest.mark.once
@pytest.mark.parametrize(("row", "twin"), TWINS, ids=[row.name for row, _ in TWINS])
def test_twin(row, twin):
    @some
    @given(row.arguments)
    def run(drawn):
        args, kwargs = (
            [real(a) for a in drawn[0]],
            {key: real(a) for key, a in drawn[1].items()},
        )
        name = row.name.removeprefix("jax.")
        known = {key: abstract(a) for key, a in kwargs.items()}
        try:
            result = ops.apply(
                name, [abstract(a) for a in args], known, ops.OpContext()
            )
            failed = None
        except ops.OpError as error:
            failed = error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                truth = twin(*args, **kwargs)
        except (
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            np.linalg.LinAlgError,
        ):
            return
        assert failed is None, (
            f"{name}{args} {kwargs}: {failed}, NumPy gives {np.shape(truth)}"
        )
        assert fits(result, truth), f"{name}{args} {kwargs}: {result} against {truth}"

    run()


@pytest.mark.once
def test_any_negative_size_stands_for_the_rest():
    x = np.zeros((2, 3))
    assert x.reshape(-5).shape == np.reshape(x, -5).shape == (6,)
    assert ops.method(
        abstract(x), "reshape", [constant(-5)], {}, ops.OpContext()
    ) == ArrayValue(None, numpy=True)


WINDOWS = [
    ((9,), (4,), {}),
    ((9,), 4, {}),
    ((9, 5), (4, 2), {}),
    ((9, 5), 3, {"axis": -1}),
    ((9, 5), (2, 3, 2), {"axis": (0, 1, 0)}),
    ((9, 5, 2), (3, 2), {"axis": (1, 0)}),
    ((9, 5), 4, {}),
    ((3,), 4, {}),
]


@pytest.mark.parametrize(("shape", "window", "options"), WINDOWS)
def test_windows(
    shape: tuple[int, ...], window: object, options: dict[str, object]
) -> None:
    name = "numpy.lib.stride_tricks.sliding_window_view"
    known = {key: constant(value) for key, value in options.items()}
    given = [abstract(jax.ShapeDtypeStruct(shape, "float32")), constant(window)]
    found = ops.apply(name, given, known, ops.OpContext())
    try:
        truth = np.lib.stride_tricks.sliding_window_view(
            np.zeros(shape), window, **options
        )
    except ValueError:
        return
    assert fits(found, truth)
    assert isinstance(found, ArrayValue) and found.dims is not None
