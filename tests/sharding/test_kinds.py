"""How elementwise functions treat their operands is read off their lowerings; JAX computes what that says."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlint.ops.registry import Call, OpContext
from shardlint.ops.sharding.base import SHARDING
from shardlint.ops.sharding.kinds import Kind, kind_of
from shardlint.values import ArrayValue, Dimension, IntValue, Literal, Value
from shardtypes.lang import Size
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.registry import public_signature

pytestmark = pytest.mark.once

Function = Callable[..., Any]

#: Arguments besides those that have to be given.
OPTIONS: dict[str, dict[str, Any]] = {"jax.lax.integer_pow": {"y": 2}}
#: Operands that may be left out.
BOUNDS = {"jax.numpy.clip": ["arr", "min", "max"]}
#: What they add is below the tolerance.
BARELY_BENT = {"jax.lax.nextafter", "jax.numpy.nextafter", "jax.numpy.spacing"}
OF_COMPLEX = {"jax.lax.conj", "jax.lax.imag", "jax.lax.real", "jax.numpy.imag"}
SHAPE = (Dimension(Size.symbol("m")), Dimension(Size.symbol("n")))


def operands_of(name: str) -> list[str]:
    found = [
        parameter.name
        for parameter in public_signature(name).parameters.values()
        if parameter.default is parameter.empty and parameter.annotation == "ArrayLike"
    ]
    return found + BOUNDS.get(name, [])


@cache
def kind(name: str) -> Kind | None:
    arguments: dict[str, Value] = {}
    for operand in operands_of(name):
        arguments[operand] = ArrayValue(SHAPE, "float32")
    for option, number in OPTIONS.get(name, {}).items():
        arguments[option] = IntValue(Size.const(number))
    return kind_of(Call(name, arguments, OpContext()))


def public(name: str) -> Function:
    """The function of JAX, or of optax, with its options."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return lambda *arrays: found(*arrays, **OPTIONS.get(name, {}))
    raise AssertionError(name)


def numbers(count: int, dtype: Any, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    drawn = random.uniform(0.2, 0.45, (count, 2, 4))
    if dtype == np.complex64:
        return list(drawn + 1j * random.uniform(0.2, 0.45, drawn.shape))
    if dtype == np.int32:
        return list((drawn * 10).astype(np.int32))
    return list((drawn > 0.3) if dtype == np.bool_ else drawn.astype(dtype))


def computed(name: str, seed: int = 0) -> tuple[Function, list[Any], list[Any]]:
    """The function, and two lists of operands of a dtype that it takes."""
    function, count = public(name), len(operands_of(name))
    dtypes: Sequence[Any] = (np.float32, np.int32, np.bool_)
    if kind(name) == "test":
        dtypes = (np.float32, np.bool_)
    for dtype in (np.complex64,) if name in OF_COMPLEX else dtypes:
        first, second = (numbers(count, dtype, seed + k) for k in (0, 1))
        try:
            function(*first)
        except (TypeError, ValueError):
            continue
        return function, first, second
    raise AssertionError(f"{name} takes none of these dtypes")


def is_linear(function: Function, a: list[Any], b: list[Any], *places: int) -> bool:
    """Whether sums of the operands in these places become sums of the results; the others stay as they are."""
    beside = [b[k] if k in places else a[k] for k in range(len(a))]
    both = [a[k] + b[k] if k in places else a[k] for k in range(len(a))]
    left, right = function(*both), function(*a) + function(*beside)
    return bool(jnp.allclose(left, right, rtol=1e-4, atol=1e-5))


def keeps_maxima(function: Function, a: list[Any], b: list[Any]) -> bool:
    """Whether the largest of the first operands gives the largest of the results, or the smallest the smallest."""
    rest, one, other = a[1:], function(*a), function(b[0], *a[1:])
    pairs = ((np.maximum, jnp.maximum), (np.minimum, jnp.minimum))
    return any(
        bool(jnp.allclose(function(of_two(a[0], b[0]), *rest), chosen(one, other)))
        for of_two, chosen in pairs
    )


def holds(kind: Kind, function: Function, a: list[Any], b: list[Any]) -> bool:
    match kind:
        case "test":
            return bool(function(*a).dtype == np.bool_)
        case "linear":
            return is_linear(function, a, b, 0)
        case "add":
            return is_linear(function, a, b, 0, 1)
        case "multiply":
            return is_linear(function, a, b, 0) and is_linear(function, a, b, 1)
        case "divide":
            return is_linear(function, a, b, 0) and not is_linear(function, a, b, 1)
        case "zero":
            return not np.any(function(np.zeros_like(a[0])))
        case "choose":
            return keeps_maxima(function, a, b)
    return any(
        not is_linear(function, one, other, place)
        for one, other in elsewhere(a, b)
        for place in range(len(a))
    )


def elsewhere(a: list[Any], b: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """The operands, and others of the same dtype: larger ones, below zero, and whole numbers, for which densities are
    none of zeros."""
    if a[0].dtype == np.bool_:
        return [(a, b)]
    larger = [[(4 * array).astype(array.dtype) for array in one] for one in (a, b)]
    whole = [[np.ceil(array).astype(array.dtype) for array in one] for one in larger]
    found = [(a, b), (larger[0], larger[1]), (whole[0], whole[1])]
    found += [([factor * larger[0][0], *a[1:]], b) for factor in (3, -1)]
    return found


def elementwise() -> list[str]:
    """Those that have no model of their own."""
    found = [name for name in LOWERINGS if name not in SHARDING and kind(name)]
    return sorted(name for name in found if is_public(name))


def is_public(name: str) -> bool:
    """Whether this release of JAX has it still."""
    try:
        public(name)
    except AttributeError:
        return False
    return True


def test_functions_of_each_entry_are_known_without_a_list() -> None:
    found = elementwise()
    assert len(found) > 250
    for name in "numpy.tanh numpy.copysign scipy.special.xlogy nn.gelu".split():
        assert f"jax.{name}" in found
    for name in "numpy.sort numpy.cumsum nn.softmax numpy.triu numpy.sum".split():
        assert kind(f"jax.{name}") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jax.numpy.negative", "linear"),
        ("jax.numpy.subtract", "add"),
        ("jax.numpy.multiply", "multiply"),
        ("jax.numpy.true_divide", "divide"),
        ("jax.numpy.ldexp", "divide"),
        ("jax.nn.relu", "zero"),
        ("jax.numpy.exp", "nonlinear"),
        ("jax.numpy.maximum", "choose"),
        ("jax.numpy.clip", "choose"),
        ("jax.lax.clamp", "choose"),
        ("jax.numpy.isnan", "test"),
        ("jax.lax.integer_pow", "zero"),
    ],
)
def test_the_kind_of(name: str, expected: Kind) -> None:
    assert kind(name) == expected


def test_an_option_decides() -> None:
    array = ArrayValue(SHAPE, "float32")
    for exponent, expected in ((2, "zero"), (-1, "nonlinear")):
        arguments: dict[str, Value] = {"x": array, "y": IntValue(Size.const(exponent))}
        found = kind_of(Call("jax.lax.integer_pow", arguments, OpContext()))
        assert found == expected


def test_a_default_is_no_operand() -> None:
    array = ArrayValue(SHAPE, "float32")
    given: dict[str, Value] = {"x": array, "nan": Literal(0.0)}
    call = Call("jax.numpy.nan_to_num", given, OpContext())
    assert kind_of(call) == "zero"


@pytest.mark.parametrize("name", elementwise())
def test_jax_computes_what_the_kind_says(name: str) -> None:
    found = kind(name)
    assert found is not None
    function, a, b = computed(name)
    with jax.numpy_rank_promotion("raise"), jax.debug_nans(False):
        whole = np.asarray(function(*a))
        parts = [function(*(array[:, k : k + 2] for array in a)) for k in (0, 2)]
        np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-5)
        assert name in BARELY_BENT or holds(found, function, a, b)
