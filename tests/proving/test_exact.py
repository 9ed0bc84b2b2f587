"""Exact arithmetic: what holds of numbers of a field, and what follows for programs that no rule explains."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving.exact import field
from shardtypes.proving.exact.field import NotExact, Residues, residues
from shardtypes.proving.propagation import propagated
from shardtypes.proving.state import same
from shardtypes.proving.tracing import traced
from tests.proving.cases import MESH, SIZES, array, mapped
from tests.proving.rings import RIGHT, WRONG


def drawn(*shape: int, seed: int = 0, whose: int = 0) -> Residues:
    return field.fresh(shape, seed, (0, whose))


def agree(a: Residues, b: Residues) -> bool:
    return bool(np.array_equal(a.p, b.p)) and (
        a.q is None or b.q is None or bool(np.array_equal(a.q, b.q))
    )


# --- numbers --------------------------------------------------------------------------------------------------------


def test_floats_are_the_fractions_that_they_are() -> None:
    values = np.array([0.0, 1.0, -1.0, 0.75, 0.1, -1e30, 2.0**-1000])
    found = residues(values)
    for number, value in enumerate(values):
        assert (int(found.p[number]), int(found.q[number])) == field.scalar(
            Fraction(float(value))
        )
    assert agree(residues(np.array([-3, 5])), residues(np.array([-3.0, 5.0])))
    with pytest.raises(NotExact):
        residues(np.array([np.nan]))


def test_powers_turn_sums_into_products() -> None:
    a, b = drawn(50, whose=1), drawn(50, whose=2)
    total = Residues((a.p + b.p) % field.P, (a.q + b.q) % field.Q)
    left, right = field.exponential(a), field.exponential(b)
    whole = field.exponential(total)
    assert left is not None and right is not None and whole is not None
    assert agree(whole, field.times(left, right))
    assert field.exponential(whole) is None  # the exponent is lost
    zero = field.exponential(residues(np.zeros(3)))
    assert zero is not None and (zero.p == 1).all()


def test_quotients_and_powers() -> None:
    a = drawn(20)
    assert (field.times(a, field.inverse(a)).p == 1).all()
    assert agree(field.power(a, 3), field.times(a, field.times(a, a)))
    assert agree(field.power(a, -2), field.inverse(field.times(a, a)))
    with pytest.raises(NotExact):
        field.inverse(residues(np.array([0.0])))


def test_sums_of_products_are_exact() -> None:
    a, b = drawn(6, 300, whose=1), drawn(300, 5, whose=2)
    found = field.bilinear(np.matmul, a, b)
    wanted = np.array(a.p, object) @ np.array(b.p, object) % field.P
    np.testing.assert_array_equal(found.p, wanted.astype(np.int64))


def test_opaque_functions_are_functions_and_nothing_more() -> None:
    a, b = drawn(40, whose=1), drawn(40, whose=2)
    assert agree(field.opaque("f", 0, [a, b]), field.opaque("f", 0, [a, b]))
    others = [
        field.opaque("f", 0, [b, a]),
        field.opaque("g", 0, [a, b]),
        field.opaque("f", 1, [a, b]),
        field.opaque("f", 0, [a]),
    ]
    for other in others:
        assert not (other.p == field.opaque("f", 0, [a, b]).p).any()
    assert agree(field.symmetric("f", 0, [a, b]), field.symmetric("f", 0, [b, a]))
    assert not (field.symmetric("f", 0, [a, a]).p == a.p).any()


# --- programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RIGHT)
def test_rings_pipelines_and_places_of_a_devices_own_are_proved(name: str) -> None:
    found = prove(RIGHT[name].made(MESH), *RIGHT[name].args)
    assert found.ok, str(found)
    assert any("random points" in text for text in found.assumed)


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_in_them_is_not(name: str) -> None:
    found = prove(WRONG[name].made(MESH), *WRONG[name].args)
    assert found.ok is False, str(found)


@pytest.mark.parametrize("name", ["ring", "pipeline", "convolution"])
def test_gradients_are_proved(name: str) -> None:
    found = prove(RIGHT[name].made(MESH), *RIGHT[name].args, grad=True)
    assert found.ok, str(found)


def test_a_ring_inside_layers_is_proved() -> None:
    attend = RIGHT["ring"].made(MESH)

    def layers(x: Any) -> Any:
        return lax.scan(
            lambda x, _: (x + jnp.tanh(attend(x, x, x)), None), x, length=2
        )[0]

    found = prove(layers, array(2, 8, 4))
    assert found.ok, str(found)


def verdict(body: Any, *args: Any, specs: Any, out: Any) -> bool:
    """Whether the proof alone says that all results are right."""
    function = mapped(specs, out)(body)(MESH)
    many = traced(function, args, {}, {}, None)
    one = traced(function, args, {}, dict.fromkeys(SIZES, 1), None)
    found = propagated(
        many.program, one.program, [same(one.shape) for one in args], SIZES
    )
    return all(state is not None and state.exact for state in found.outputs)


def _moved(x: Any) -> Any:
    """There and back: no rule says what the first of the two gives."""
    n = lax.axis_size("t")
    there = lax.ppermute(x, "t", [(i, (i + 1) % n) for i in range(n)])
    return lax.ppermute(there, "t", [((i + 1) % n, i) for i in range(n)])


def test_parts_of_one_sum_are_not_taken_for_equal() -> None:
    # Both are partial sums of the same, but on no device the same.
    def difference(x: Any, w: Any) -> Any:
        a = x @ w
        b = lax.psum(x @ w, "t") / lax.axis_size("t")
        n = lax.axis_size("t")
        return lax.psum(
            jnp.abs(lax.ppermute(a - b, "t", [(i, (i + 1) % n) for i in range(n)])), "t"
        )

    assert not verdict(
        difference, array(4, 8), array(8, 4), specs=(P(None, "t"), P("t")), out=P()
    )


def _slope_of_tanh(x: Any) -> Any:
    return jax.grad(lambda x: jnp.tanh(x).sum())(x)


_OTHERS: dict[str, tuple[Any, Any]] = {
    "abs": (jnp.abs, lambda x: x),
    "maximum": (lambda x: jnp.maximum(x, -x), lambda x: -jnp.maximum(-x, x)),
    "floor": (jnp.floor, lambda x: x),
    "truncated": (lambda x: x.astype(jnp.int32).astype(jnp.float32), lambda x: x),
    "above": (
        lambda x: (x > 0).astype(jnp.float32),
        lambda x: (x > 1).astype(jnp.float32),
    ),
    "exp": (jnp.exp, lambda x: jnp.exp(-x)),
    "cbrt": (jnp.cbrt, jnp.sqrt),
    "exp2": (jnp.exp2, jnp.exp),
    "log2": (jnp.log2, jnp.log),
    "tanh's derivative": (_slope_of_tanh, lambda x: 1 - x * x),
    "largest": (lambda x: jnp.max(x, -1), lambda x: jnp.min(x, -1)),
    "sorted": (lambda x: jnp.sort(x, -1), lambda x: x),
    "narrow": (
        lambda x: (x * 0 + 300).astype(jnp.int32).astype(jnp.uint8).astype(jnp.float32),
        lambda x: x * 0 + 300,
    ),
}


@pytest.mark.parametrize("name", _OTHERS)
def test_functions_are_told_apart(name: str) -> None:
    """A program that computes another function on several devices than on one."""
    right, wrong = _OTHERS[name]

    def body(x: Any) -> Any:
        y = _moved(x)
        return wrong(y) if lax.axis_size("t") > 1 else right(y)

    assert verdict(lambda x: right(_moved(x)), array(8, 4), specs=(P("t"),), out=P("t"))
    assert not verdict(body, array(8, 4), specs=(P("t"),), out=P("t"))


def test_complex_numbers_are_left_alone() -> None:
    def body(x: Any) -> Any:
        z = _moved(lax.complex(x, 2 * x))
        return jnp.imag(z) if lax.axis_size("t") > 1 else jnp.real(z) * 2

    assert not verdict(body, array(8, 4), specs=(P("t"),), out=P("t"))


def test_unsigned_numbers_wrap_around() -> None:
    def body(x: Any) -> Any:
        n = _moved(jnp.abs(x).astype(jnp.uint32))
        below = n - 3 < 1 if lax.axis_size("t") > 1 else n < 4
        return below.astype(jnp.float32)

    assert not verdict(body, array(8, 4), specs=(P("t"),), out=P("t"))


def test_what_is_too_large_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardtypes.proving.propagation.MOST", 1000)
    case = RIGHT["ring"]
    found = prove(case.made(MESH), *case.args)
    assert found.ok is None and found.agrees
