"""Every public function against JAX: shapes, dtypes, numbers and gradients; and that every registered name is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from shardtypes.semantics.array import NoGradient
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.indexing import At
from shardtypes.semantics.primitive import evaluation
from tests.semantics.call import Call, Outcome, here, in_jax, numbers
from tests.semantics.calls import CALLS, UNCOMPARED
from tests.semantics.public import REASONS, missing, public_functions

pytestmark = pytest.mark.once  # what lowerings compute does not change with JAX

_TOGETHER = 40
GROUPS = [CALLS[k : k + _TOGETHER] for k in range(0, len(CALLS), _TOGETHER)]


def test_every_registered_name_is_compared_or_has_a_reason() -> None:
    compared = {call.name for call in CALLS}
    assert set(LOWERINGS) - compared - set(UNCOMPARED) == set()
    assert compared - set(LOWERINGS) == set()
    assert set(UNCOMPARED) - set(LOWERINGS) == set()
    assert compared & set(UNCOMPARED) == set()


@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{group[0]}-to-{group[-1]}" for group in GROUPS]
)
def test_calls_give_what_jax_gives(group: list[Call]) -> None:
    wrong: list[str] = []
    for call, truth in zip(group, in_jax(group), strict=True):
        try:
            assert_same(call, here(call), truth)
        except (AssertionError, Unsupported, NoGradient) as error:
            wrong.append(f"{call}: {error!r}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_gradient_is_seen() -> None:
    call = Call("jax.numpy.sin", (numbers(3),))
    (truth,) = in_jax([call])
    other = Outcome(truth.types, truth.values, [2 * one for one in truth.gradients])
    with pytest.raises(AssertionError, match="gradient"):
        assert_same(call, here(call), other)


def assert_same(call: Call, found: Outcome, truth: Outcome) -> None:
    assert found.types == truth.types
    if call.random:
        return
    for one, wanted in zip(found.values, truth.values, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=call.close, atol=call.close)
    assert len(found.gradients) == len(truth.gradients)
    for one, wanted in zip(found.gradients, truth.gradients, strict=True):
        np.testing.assert_allclose(
            one, wanted, rtol=10 * call.close, atol=10 * call.close, err_msg="gradient"
        )


def test_every_public_function_is_a_lowering_or_has_a_reason() -> None:
    assert missing() == []
    assert set(REASONS) & set(LOWERINGS) == set()
    assert set(REASONS) - public_functions() == set()


@pytest.mark.filterwarnings("ignore:jax.nn.one_hot input:DeprecationWarning")
def test_one_hot_of_floats() -> None:
    positions = np.asarray([0.0, 2.0, -1.0, 7.0], np.float32)
    call = Call("jax.nn.one_hot", (positions, 3))
    assert_same(call, here(call), in_jax([call])[0])


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "max"])
def test_updates_out_of_range_write_nothing(kind: str) -> None:
    x, rows, columns = (
        numbers((3, 4)),
        np.asarray([0, 7, -1, -9, 2]),
        np.asarray([3, 0, 9, 1, -1]),
    )
    new = numbers((5,), seed=1)
    with jax.enable_x64(True):
        expected = getattr(jax.numpy.asarray(x).at[rows, columns], kind)(new)
    with evaluation():
        found = getattr(At(asarray(x))[rows, columns], kind)(asarray(new))
    np.testing.assert_allclose(found.numbers(), expected)


OF_JAX = SimpleNamespace(
    at=lambda x: x.at, take=jax.numpy.take, take_along_axis=jax.numpy.take_along_axis
)
LOWERED = SimpleNamespace(
    at=At,
    take=LOWERINGS["jax.numpy.take"],
    take_along_axis=LOWERINGS["jax.numpy.take_along_axis"],
)
READS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "get": lambda f, x, i: f.at(x)[i].get(),
    "get fill": lambda f, x, i: f.at(x)[i].get(mode="fill"),
    "get fill 0": lambda f, x, i: f.at(x)[i].get(mode="fill", fill_value=0),
    "get drop": lambda f, x, i: f.at(x)[:, i].get(mode="drop", fill_value=2),
    "get pairs": lambda f, x, i: f.at(x)[i[:, None], i].get(mode="fill", fill_value=0),
    "get clip": lambda f, x, i: f.at(x)[i].get(
        mode="clip", wrap_negative_indices=False
    ),
    "get unwrapped": lambda f, x, i: f.at(x)[i].get(
        mode="fill", fill_value=1, wrap_negative_indices=False
    ),
    "index": lambda f, x, i: x[i],
    "take": lambda f, x, i: f.take(x, i, axis=0),
    "take number": lambda f, x, i: f.take(x, 9, axis=1, fill_value=3),
    "take inner": lambda f, x, i: f.take(x, i, axis=1, fill_value=1),
    "take clip": lambda f, x, i: f.take(x, i, axis=0, mode="clip"),
    "take wrap": lambda f, x, i: f.take(x, i, axis=1, mode="wrap"),
    "along": lambda f, x, i: f.take_along_axis(x, i[:, None], axis=0),
    "along fill": lambda f, x, i: f.take_along_axis(x, i[None], axis=1, fill_value=0),
    "along clip": lambda f, x, i: f.take_along_axis(x, i[None], axis=1, mode="clip"),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("read", READS)
def test_reads_out_of_range_give_what_jax_gives(read: str, dtype: str) -> None:
    x, places = (
        (10 * numbers((3, 4))).astype(dtype),
        np.asarray([-9, -4, -1, 0, 2, 3, 11]),
    )
    expected = READS[read](OF_JAX, jax.numpy.asarray(x), places)
    with evaluation():
        found = READS[read](LOWERED, asarray(x), asarray(places))
    np.testing.assert_array_equal(found.numbers(), expected)


X = asarray(numbers((3, 4)))
BEYOND = {
    "jax.numpy.unique": (X,),
    "jax.ops.segment_max": (X, asarray(np.asarray([0, 1, 1]))),
    "jax.numpy.roots": (X[0],),
    "jax.numpy.gradient": (X, asarray(numbers((3, 4)))),
    "jax.scipy.special.zeta": (X,),
    "jax.scipy.special.dawsn": (X * 1j,),
    "jax.lax.reduce": (X, 0.0, max, (0,)),
    "jax.numpy.linalg.lstsq": (X, X, 0.1),
}


def test_what_a_lowering_does_not_cover_is_said() -> None:
    with evaluation():
        for name, arguments in BEYOND.items():
            with pytest.raises(Unsupported, match=r"\w+ \w+"):
                LOWERINGS[name](*arguments)


def _compare(names: list[str]) -> None:
    """Hold the calls of these functions alone against JAX's."""
    for name in names:
        calls = [call for call in CALLS if call.name == name]
        for call, truth in zip(calls, in_jax(calls), strict=True):
            assert_same(call, here(call), truth)
        print(f"{name}: {len(calls)} calls give what JAX gives")


if __name__ == "__main__":  # python -m tests.semantics.test_lowerings jax.numpy.sin
    _compare(sys.argv[1:])
