"""``einops.pack`` and ``unpack``, and array methods, against the real ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import ArrayValue, Literal, SequenceValue, Unknown
from tests.ops.oracle import abstract, assert_same, in_jax, sampled
from tests.ops.strategies import arrays, axes, shapes


def test_round_trip():
    x, y = (
        abstract(jax.ShapeDtypeStruct(shape, jnp.float32))
        for shape in ((2, 5, 7), (2, 7))
    )
    both = SequenceValue((x, y), "list")
    packed = ops.apply("einops.pack", [both, Literal("b * d")], {}, ops.OpContext())
    assert isinstance(packed, SequenceValue)
    back = ops.apply(
        "einops.unpack", [*packed.items, Literal("b * d")], {}, ops.OpContext()
    )
    assert isinstance(back, SequenceValue)
    assert [[dim.size for dim in part.dims] for part in back.items] == [
        [2, 5, 7],
        [2, 7],
    ]


METHODS = {
    "all any argmax argmin cumprod cumsum max mean min prod ptp sort argsort std sum var": {
        "axis": axes
    },
    "conj conjugate flatten ravel round squeeze transpose copy": {},
    "diagonal trace": {"offset": st.integers(-1, 1)},
    "repeat": {"repeats": st.integers(0, 3), "axis": axes},
    "swapaxes": {"axis1": axes, "axis2": axes},
    "clip": {"min": st.just(0), "max": st.just(1)},
    "take": {"indices": st.just(0), "axis": axes},
    "nonzero": {"size": st.integers(0, 3)},
    "searchsorted": {"v": st.just(1)},
    "astype": {"dtype": st.just(jnp.float32)},
}


EACH = [(name, options) for names, options in METHODS.items() for name in names.split()]


@pytest.mark.parametrize(("name", "options"), EACH)
@sampled
@given(x=arrays(shapes), data=st.data())
def test_methods(name, options, x, data):
    chosen = [key for key in options if key != "axis" or data.draw(st.booleans())]
    kwargs = {key: data.draw(options[key]) for key in chosen}
    truth = in_jax(lambda x: getattr(x, name)(**kwargs), [x], {})
    known = {key: abstract(value) for key, value in kwargs.items()}
    try:
        result = ops.method(abstract(x), name, [], known, ops.OpContext())
    except ops.OpError:
        assert isinstance(truth, Exception)
        return
    if not isinstance(truth, Exception):
        assert_same(f"{x}.{name}({kwargs})", result, truth)


@sampled
@given(x=arrays(shapes))
def test_properties(x):
    for name in ("T", "mT", "real", "imag"):
        truth = in_jax(lambda x, name=name: getattr(x, name), [x], {})
        try:
            result = ops.attribute(abstract(x), name, ops.OpContext())
        except ops.OpError:
            assert isinstance(truth, Exception)
        else:
            assert_same(name, result, truth) if not isinstance(
                truth, Exception
            ) else None


@pytest.mark.parametrize("name", ["tobytes", "devices", "delete", "fill"])
def test_what_methods_do_elsewhere(name):
    result = ops.method(ArrayValue(()), name, [], {}, ops.OpContext())
    assert isinstance(result, Unknown)
    assert not result.reason.startswith("no model")
