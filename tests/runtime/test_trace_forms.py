"""``trace`` of functions under decorators, of methods, and with every kind of argument."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32, pytree_dataclass, trace

MESH = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
SPECS: dict[str, Any] = {
    "mesh": MESH,
    "in_specs": (P("d"), P(None, "t")),
    "out_specs": P("d", "t"),
}

# As `jax.make_mesh` makes it: arguments then lie on the mesh before `shard_map` takes them.
EXPLICIT = jax.make_mesh((2, 4), ("d", "t"))
ON_EXPLICIT: dict[str, Any] = {**SPECS, "mesh": EXPLICIT}


def product(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    return x @ w


def turned(x: f32["B/d M"], w: f32["M F/t"]) -> f32["F/t B/d"]:
    return x @ w


def row(x: f32["T M"], w: f32["M F"]) -> f32["T F"]:
    return x @ w


def turned_row(x: f32["T M"], w: f32["M F"]) -> f32["F T"]:
    return x @ w


def loss(x: f32["T M"], w: f32["M F"]) -> f32[""]:
    return (x @ w).sum()


def not_scalar(x: f32["T M"], w: f32["M F"]) -> f32["T"]:
    return (x @ w).sum()


FORMS = {
    "shard_map": (lambda f: jax.shard_map(f, **SPECS), product, turned),
    "shard_map in jit": (lambda f: jax.jit(jax.shard_map(f, **SPECS)), product, turned),
    "shard_map, unchecked": (lambda f: jax.shard_map(f, check_vma=False, **SPECS), product, turned),
    "shard_map, Explicit": (lambda f: jax.shard_map(f, **ON_EXPLICIT), product, turned),
    "shard_map, Explicit, in jit": (lambda f: jax.jit(jax.shard_map(f, **ON_EXPLICIT)), product, turned),
    "shard_map, Explicit, unchecked": (lambda f: jax.shard_map(f, check_vma=False, **ON_EXPLICIT), product, turned),
    "jit": (jax.jit, row, turned_row),
    "jit of a partial": (lambda f: jax.jit(functools.partial(f, w=jnp.ones((5, 3)))), row, turned_row),
    "partial": (lambda f: functools.partial(f, jnp.ones((4, 5))), row, turned_row),
    "vmap": (jax.vmap, row, turned_row),
    "vmap along the last": (lambda f: jax.vmap(f, in_axes=(-1, None), out_axes=1), row, turned_row),
    "vmap of vmap": (lambda f: jax.vmap(jax.vmap(f, in_axes=(1, None)), in_axes=(None, 0)), row, turned_row),
    "jit of vmap": (lambda f: jax.jit(jax.vmap(f, in_axes=(0, None))), row, turned_row),
    "partial of vmap": (lambda f: functools.partial(jax.vmap(f, (0, None)), jnp.ones((2, 4, 5))), row, turned_row),
    "pmap": (lambda f: jax.pmap(f, in_axes=(0, None)), row, turned_row),
    "checkpoint": (jax.checkpoint, row, turned_row),
    "grad": (jax.grad, loss, not_scalar),
    "value_and_grad": (lambda f: jax.jit(jax.value_and_grad(f, argnums=(0, 1))), loss, not_scalar),
    "checked": (st.typechecked, row, turned_row),
    "checked in jit": (lambda f: jax.jit(st.typechecked(f)), row, turned_row),
    "checked in vmap": (lambda f: jax.vmap(st.typechecked(f)), row, turned_row),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_and_fails_as_its_function_does(form: str) -> None:
    around, right, wrong = FORMS[form]
    verdict = trace(around(right))
    assert verdict.ok is True, verdict.reason
    verdict = trace(around(wrong))
    assert verdict.ok is False, verdict.reason
    assert trace(around(wrong)).ok is False  # JAX has kept nothing that hides it


def test_a_traced_function_is_left_as_it_was() -> None:
    calls = []

    def noted(x: f32["B M"]) -> f32["M B"]:
        calls.append(threading.current_thread().name)
        return x

    code, signature = noted.__code__, vars(noted).copy()
    assert trace(noted).ok is False
    assert noted.__code__ is code and vars(noted) == signature
    assert "__shardtypes_hooked__" not in globals()
    assert noted(jnp.ones((2, 3))).shape == (2, 3)


def test_other_threads_are_not_checked_meanwhile() -> None:
    results = []

    def slow(x: f32["B M"]) -> f32["M B"]:
        if threading.current_thread() is threading.main_thread() and not results:
            other = threading.Thread(
                target=lambda: results.append(slow(jnp.ones((2, 3))).shape)
            )
            other.start()
            other.join()
        return x

    assert trace(slow).ok is False
    assert results == [(2, 3)]


# --- arguments ------------------------------------------------------------------------------------------------------


class Statistics(NamedTuple):
    mean: f32["C"]
    std: f32["C"]


@dataclasses.dataclass(frozen=True)
class Sizes:
    d_model: int
    heads: int
    rate: float


@pytree_dataclass
class Layer:
    w: f32["M M"]


class Counter:
    def __init__(self, by: int) -> None:
        self.by = by

    def times(self, x: f32["B M"]) -> f32["B M"]:
        return x * self.by

    def turned(self, x: f32["B M"]) -> f32["M B"]:
        return x * self.by


def layers(params: dict[str, f32["M M"]], x: f32["B M"]) -> f32["B M"]:
    for at in range(3):
        x = jnp.tanh(x @ params[f"w{at}"])
    return x


def nested(params: list[dict[str, Layer]], x: f32["B M"]) -> f32["B M"]:
    return x @ params[0]["first"].w @ params[-1]["last"].w


def normalised(x: f32["H C"], stats: Statistics) -> f32["H C"]:
    return (x - stats.mean) / stats.std


def of_sizes(x: f32["B d_model"], sizes: Sizes) -> f32["B heads K"]:
    return x.reshape(x.shape[0], sizes.heads, sizes.d_model // sizes.heads)


def masked(x: f32["B M"], mask: f32["B M"] | None = None) -> f32["B M"]:
    return x if mask is None else x * mask


def wrong_without(x: f32["B M"], mask: f32["B M"] | None = None) -> f32["B M"]:
    return x.T if mask is None else x * mask


def spread(x: f32["... M"]) -> f32["... M"]:
    return x - x.mean(-1, keepdims=True)


def of_two(x: f32["... M"]) -> f32["... M"]:
    return x - x.mean(1)[:, None]


@pytest.mark.parametrize(
    "f", [layers, nested, normalised, of_sizes, masked, spread, Counter(2).times]
)
def test_arguments_are_made(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is True, verdict.reason


def test_what_was_supposed_is_said() -> None:
    assert trace(of_sizes).reason.endswith(
        "; with sizes=Sizes(d_model=d_model, heads=4, rate=0.5)"
    )
    assert (
        trace(masked).reason
        == "masked: holds for all sizes; with mask: f32['B M'] or mask=None"
    )
    assert trace(wrong_without).reason.startswith(
        "wrong_without with mask=None: fails for B=11, M=13"
    )
    assert trace(Counter(2).turned).ok is False
    verdict = trace(of_two)
    assert verdict.ok is None and verdict.reason.startswith("of_two where `...` is ")


def test_any_number_of_dimensions_wherever_the_function_runs() -> None:
    """Of a scalar it cannot take anything; of all else it breaks its promise."""

    def first(x: f32["*shape"]) -> f32["*shape"]:
        return x[..., 0]

    def of_rows(x: f32["*shape"]) -> f32["*shape"]:
        return x if x.ndim > 1 else x[..., 0]

    verdict = trace(first)
    assert verdict.ok is False
    assert verdict.reason.splitlines()[0] == (
        "first where `*shape` is (5,): first: the result: rank is 0, expected 1"
    )
    assert trace(of_rows).ok is None


@dataclasses.dataclass
class Rows:
    width: int = 8


def test_a_symbol_is_not_said_to_be_itself() -> None:
    def padded(x: f32["B M"], sizes: Rows) -> f32["B M"]:
        y: f32["B M"] = jnp.zeros((x.shape[0], sizes.width))
        return x + y.sum()

    def open_rows(x: f32["*rows M"], sizes: Rows) -> f32["*rows M"]:
        y: f32["K M"] = jnp.zeros((2, sizes.width))
        return x + y.sum()

    reason = trace(padded).reason
    assert "variable 'y': dimension 1 is 8, expected M)" in reason
    assert "expected M = 13" in reason
    assert "holds for M=8 (" in trace(open_rows).reason


def test_a_guess_proves_nothing() -> None:
    def cut(x: f32["B M"], n: int) -> f32["B M"]:
        return x[:, :n]

    def unread(x: f32["B M"], sizes: Sizes) -> f32["M B"]:
        return x

    verdict = trace(cut)
    assert verdict.ok is None
    assert (
        verdict.reason.startswith("cut with n=4, a guess: fails for")
        and "give an example" in verdict.reason
    )
    assert trace(unread).ok is False  # whatever the configuration is
    assert trace(cut, n=3).ok is False


def test_an_annotation_that_cannot_be_is_wrong() -> None:
    def twice(x: "f32['B/d M/d']") -> f32["B"]:
        return x[:, 0]

    verdict = trace(twice)
    assert verdict.ok is False and "mesh axis 'd' is used twice" in verdict.reason


def mapped_inside(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    return jax.shard_map(lambda x, w: x @ w, **ON_EXPLICIT)(x, w)


def helped(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/t F/d"]:
    return mapped_inside(x, w)


def test_a_function_that_maps_itself_over_explicit_axes_is_traced_on_its_mesh() -> None:
    for f in (mapped_inside, jax.jit(mapped_inside)):
        assert trace(f).ok is True
        with jax.set_mesh(EXPLICIT):
            assert trace(f).ok is True
    verdict = trace(helped)
    assert verdict.ok is False, verdict.reason
    assert (
        "dimension 0 is sharded over 'd', expected sharded over 't'" in verdict.reason
    )


def test_what_does_not_lie_as_shard_map_takes_it_is_no_failure() -> None:
    """Its caller may place it: the annotation does not say."""

    def unplaced(x: f32["B M"]) -> f32["B M"]:
        return jax.shard_map(
            lambda x: x, mesh=EXPLICIT, in_specs=P("d"), out_specs=P("d")
        )(x)

    assert trace(unplaced).ok is None


@dataclasses.dataclass
class Named:
    name: str
    weights: f32["B M"]


def described(x: f32["B M"]) -> tuple[str, f32["B M"]]:
    return f"{x.shape}", x


def named(x: f32["B M"]) -> Named:
    return Named("x", x)


def made(x: f32["B M"]) -> Callable[[jax.Array], jax.Array]:
    return lambda y: x + y


def compiled(x: f32["B M"]) -> dict[str, Any]:
    return {"f": jax.jit(jnp.sin), "dtype": x.dtype, "x": x, "sizes": x.shape}


def mapped_and_named(x: f32["B/d M"]) -> tuple[f32["B/d M"], str]:
    return jax.lax.psum(x, "d") / jax.lax.axis_size("d"), "x"


@pytest.mark.parametrize("f", [described, named, made, compiled, mapped_and_named])
def test_a_result_may_hold_what_jax_has_no_type_for(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is True, verdict.reason
    assert f"{f.__name__}: holds for all sizes" in verdict.reason


def described_the_wrong_way_round(x: f32["B M"]) -> tuple[str, f32["M B"]]:
    return f"{x.shape}", x


def made_beside_a_wrong_variable(x: f32["B M"]) -> Callable[[], jax.Array]:
    y: f32["M B"] = x
    return lambda: y


@pytest.mark.parametrize(
    "f", [described_the_wrong_way_round, made_beside_a_wrong_variable]
)
def test_what_is_beside_it_is_compared(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is False
    assert "dimension 0 is 11, expected M = 13" in verdict.reason


async def later(x: f32["B M"]) -> f32["B M"]:
    return x


async def later_the_wrong_way_round(x: f32["B M"]) -> f32["M B"]:
    return await later(x)


def one_by_one(x: f32["B M"]) -> Iterator[f32["M"]]:
    yield from x


async def one_by_one_later(x: f32["B M"]) -> AsyncIterator[f32["M"]]:
    yield x[0]


@contextlib.contextmanager
def around(x: f32["B M"]) -> Iterator[f32["M"]]:
    yield x


def beside(x: f32["B M"]) -> tuple[f32["B M"], Iterator[f32["M"]]]:
    return x, iter([x])


@pytest.mark.parametrize(
    "f",
    [
        later,
        later_the_wrong_way_round,
        one_by_one,
        one_by_one_later,
        around,
        beside,
        pytest.param(st.typechecked(later), id="checked"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_runs_later_cannot_be_told(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is None
    assert verdict.reason == (
        f"{f.__name__}: it is a coroutine, a generator or a context manager, which only tests can run"
    )
