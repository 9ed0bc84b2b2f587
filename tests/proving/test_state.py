"""Arguments of which their numbers do not tell whether devices have copies or shards of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardtypes import prove

DEVICES = 8

over_rows = partial(
    jax.shard_map,
    mesh=jax.sharding.AbstractMesh((DEVICES,), ("d",), axis_types=(AxisType.Auto,)),
    in_specs=(P("d"), P()),
    out_specs=P(),
    check_vma=False,
)


class Walkers(NamedTuple):
    place: jax.Array
    age: jax.Array
    keys: jax.Array


class Search(NamedTuple):
    weights: jax.Array
    widths: jax.Array


def moved(mean: Callable[[Any], Any]) -> Callable[..., Any]:
    @partial(jax.pmap, axis_name="d")
    def step(walkers: Walkers) -> Any:
        keys = jax.vmap(jax.random.split)(walkers.keys)
        drift = jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys[:, 1])
        place = walkers.place + drift / (1.0 + walkers.age[:, None])
        centre = mean(place.mean(0))
        moved = Walkers(place - centre, walkers.age + 1, keys[:, 0])
        return moved, lax.pmean(place.mean(0), "d")

    return step


def walkers() -> Walkers:
    """Counts that start at zero on all devices, and keys for each walker."""
    return Walkers(
        jnp.arange(DEVICES * 6.0).reshape(DEVICES, 2, 3) ** 2,
        jnp.zeros((DEVICES, 2)),
        jax.random.split(jax.random.key(0), (DEVICES, 2)),
    )


def test_counts_that_start_alike_are_of_shards() -> None:
    assert prove(moved(lambda one: lax.pmean(one, "d")), walkers()).agrees
    wrong = prove(moved(lambda one: one), walkers())
    assert wrong.ok is False
    assert "call lax.pmean(…, 'd') first" in str(wrong)


def searched(threshold: Callable[[Any], Any]) -> Callable[..., Any]:
    @partial(jax.pmap, axis_name="d")
    def step(search: Search, x: jax.Array) -> Any:
        fitness = (x * search.weights).sum(-1) + search.widths
        middle = threshold(fitness.mean())
        widths = jnp.where(fitness > middle, 0.5, 2.0) * search.widths
        gradient = lax.pmean((x * widths[:, None]).mean(0), "d")
        return Search(search.weights - gradient, widths), middle

    return step


@pytest.mark.parametrize(
    ("threshold", "ok"),
    [(lambda one: lax.pmean(one, "d"), True), (lambda one: one, False)],
    ids=["right", "wrong"],
)
def test_widths_that_do_not_stay_alike_are_of_shards(
    threshold: Callable[[Any], Any], ok: bool
) -> None:
    search = Search(jnp.ones((DEVICES, 3)), jnp.ones((DEVICES, 2)))
    x = jax.random.normal(jax.random.key(1), (DEVICES, 2, 3))
    proof = prove(searched(threshold), search, x)
    assert bool(proof.ok or proof.agrees) is ok
    assert (proof.ok is False) is not ok


def mirrored(centre: Callable[[Any], Any]) -> Callable[..., Any]:
    """Each member of a population and its mirror image draw with keys of their numbers."""

    @over_rows
    def step(x: jax.Array, key: jax.Array) -> jax.Array:
        rows = x.shape[0]
        numbers = lax.axis_index("d") * rows + jnp.arange(rows)
        keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)
        noise = jax.vmap(lambda key: jax.random.normal(key, (3,)))(jnp.tile(keys, 2))
        members = jnp.concatenate([x, -x]) + noise
        return lax.psum(jnp.square(members - centre(members.mean(0))).sum(0), "d")

    return step


def test_the_same_draws_in_another_order_are_no_draws_of_their_own() -> None:
    x = jnp.arange(48.0).reshape(16, 3)
    key = jax.random.key(0)
    assert prove(mirrored(lambda one: lax.pmean(one, "d")), x, key).agrees
    assert prove(mirrored(lambda one: one), x, key).ok is False


def test_keys_are_rows_of_a_loop() -> None:
    @over_rows
    def step(x: jax.Array, keys: jax.Array) -> jax.Array:
        def body(total: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            scale = jax.random.uniform(key)
            return total + lax.psum((x * scale).sum(), "d"), jax.random.fold_in(key, 1)

        total, later = lax.scan(body, jnp.zeros(()), keys)
        return total * jax.random.uniform(later[0])

    proof = prove(step, jnp.arange(16.0), jax.random.split(jax.random.key(0), 4))
    assert proof.ok or proof.agrees


@pytest.mark.parametrize("jitted", [False, True])
def test_arguments_that_lie_on_a_mesh(jitted: bool) -> None:
    """Their types have its sizes, which one device has not."""
    mesh = jax.make_mesh((4, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    spec = P("d", "t")

    @partial(jax.shard_map, in_specs=(spec, spec), out_specs=spec)
    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return a * b

    def step(w: jax.Array, x: jax.Array) -> Any:
        def loss(w: jax.Array) -> jax.Array:
            def body(h: jax.Array, _: None) -> tuple[jax.Array, None]:
                h = jnp.tanh(h @ product(w, w))
                return lax.with_sharding_constraint(h, spec), None

            h, _ = lax.scan(body, x, None, length=2)
            return jnp.sum(h**2)

        return jax.value_and_grad(loss)(w)

    with jax.set_mesh(mesh):
        w = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, spec))
        x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("d")))
        assert prove(jax.jit(step) if jitted else step, w, x).ok
