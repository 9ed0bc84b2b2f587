"""Logical axes: the same answers as flax's, for every list of rules."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax.linen.spmd import RulesFallback
from hypothesis import given, settings
from hypothesis import strategies as some
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32

free = P.UNCONSTRAINED
names = some.lists(some.sampled_from(["a", "b", "c", "e", None, free]), max_size=4).map(
    tuple
)
axes = some.one_of(
    some.none(),
    some.sampled_from(["x", "y", "z"]),
    some.lists(some.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(
        tuple
    ),
)
rules = some.lists(some.tuples(some.sampled_from("abce"), axes), max_size=6)


def answer(function: Any, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except ValueError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(names, rules)
def test_flax_is_the_oracle(
    names: tuple[Any, ...], rules: list[tuple[str, Any]]
) -> None:
    wanted = answer(nn.logical_to_mesh_axes, names, rules)
    assert answer(st.logical_to_mesh_axes, names, rules) == wanted
    with nn.logical_axis_rules(rules):
        if rules:
            assert answer(st.logical_to_mesh_axes, names) == wanted
    with st.axis_rules(rules):
        assert answer(st.logical_to_mesh_axes, names) == wanted
        if free not in names:
            annotation = f32[" ".join(name or "_" for name in names)]
            assert answer(st.logical_to_mesh_axes, annotation) == wanted
            if wanted is not ValueError:
                assert st.make_partition_specs(annotation) == wanted


trees = some.dictionaries(
    some.sampled_from("pq"),
    some.one_of(names.map(lambda n: P(*n)), some.none()),
    max_size=2,
)


@settings(max_examples=80, deadline=None)
@given(trees, rules)
def test_trees_of_specs(tree: dict[str, Any], rules: list[tuple[str, Any]]) -> None:
    wanted = answer(nn.logical_to_mesh, tree, rules)
    assert answer(st.logical_to_mesh, tree, rules) == wanted
    mesh = jax.make_mesh(
        (2, 2, 2), ("x", "y", "z"), axis_types=(jax.sharding.AxisType.Auto,) * 3
    )
    assert answer(st.logical_to_mesh_sharding, tree, mesh, rules) == answer(
        nn.logical_to_mesh_sharding, tree, mesh, rules
    )


@settings(max_examples=25, deadline=None)
@given(names, rules, some.sampled_from(list(RulesFallback)), some.booleans())
def test_constraints(
    names: tuple[Any, ...], rules: list[tuple[str, Any]], fallback: Any, ours: bool
) -> None:
    """flax drops its constraints on CPUs; its rule for the spec is the oracle of where ours put the value."""
    mesh = jax.make_mesh(
        (2, 2, 2), ("x", "y", "z"), axis_types=(jax.sharding.AxisType.Auto,) * 3
    )
    x = jnp.ones((4,) * len(names))
    wanted: Any = answer(nn.logical_to_mesh_axes, names, rules)
    # What flax does with a name that has no rule is told by its own function.
    refused = wanted is not ValueError and answer(
        nn.with_logical_constraint, x, names, rules, mesh=mesh, fallback=fallback
    )
    # A rule whose mesh axis another dimension has taken assigns nothing, except the one that says None.
    assigned = wanted is not ValueError and all(
        axes is not None or (n, None) in rules
        for n, axes in zip(names, wanted, strict=True)
        if isinstance(n, str)
    )
    chosen = st.RulesFallback(fallback.value) if ours else fallback
    with jax.set_mesh(mesh):
        made = answer(st.with_logical_constraint, x, names, rules, fallback=chosen)
    if not rules:
        assert made is x
    elif wanted is ValueError or refused is ValueError:
        assert made is ValueError
    elif assigned and free not in names:
        assert st.layout(made) == st.layout(NamedSharding(mesh, wanted), shape=x.shape)


def test_boxes_answer_as_flaxs(auto_mesh: Mesh) -> None:
    rules = (("a", "d"), ("b", "t"))
    for annotation in (("a", "b"), ("b", None), ("b", "c")):
        theirs = nn.LogicallyPartitioned(
            jnp.ones((8, 8)), annotation, mesh=auto_mesh, rules=rules
        )
        ours = st.LogicallyPartitioned(
            jnp.ones((8, 8)), annotation, mesh=auto_mesh, rules=rules
        )
        assert ours.get_partition_spec() == theirs.get_partition_spec()
        assert ours.get_sharding(auto_mesh) == NamedSharding(
            auto_mesh, nn.logical_to_mesh_axes(annotation, rules)
        )
        assert st.layout(ours.unbox()) == st.layout(
            ours.get_sharding(auto_mesh), shape=(8, 8)
        )
        for params in ({"partition_name": "layers"}, {"partition_name": None}):
            for at in (0, 1, 2):
                assert (
                    ours.add_axis(at, params).names == theirs.add_axis(at, params).names
                )
                assert (
                    ours.add_axis(at, params).remove_axis(at, params).names
                    == annotation
                )
        with pytest.raises(ValueError, match="partition_name"):
            ours.add_axis(0, {})
    boxed = st.LogicallyPartitioned(jnp.ones((8, 8)), f32["a b"], rules=rules)
    assert boxed.get_sharding(auto_mesh).spec == P("d", "t")
    assert (
        jax.tree.map(lambda v: v + 1, boxed).names == f32["a b"]
        and boxed.unbox() is boxed.value
    )


def test_our_boxes_in_flaxs_modules() -> None:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            init = st.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
            return nn.Dense(4, kernel_init=init)(x)

    variables = Model().init(jax.random.key(0), jnp.ones((2, 3)))
    kernel = variables["params"]["Dense_0"]["kernel"]
    assert isinstance(kernel, st.LogicallyPartitioned)
    assert nn.get_partition_spec(variables)["params"]["Dense_0"]["kernel"] == P(
        "embed", "mlp"
    )
    assert Model().apply(variables, jnp.ones((2, 3))).shape == (2, 4)
    assert jnp.array_equal(
        nn.unbox(variables)["params"]["Dense_0"]["kernel"], jnp.ones((3, 4))
    )


RULES = (("batch", "d"), ("embed", "t"))


@pytest.mark.parametrize("jitted", [False, True])
def test_a_constraint_by_annotation(
    auto_mesh: Mesh, explicit_mesh: Mesh, jitted: bool
) -> None:
    for mesh in (auto_mesh, explicit_mesh):

        def f(x: jax.Array) -> jax.Array:
            return st.with_logical_constraint(x, f32["batch embed"])

        with jax.set_mesh(mesh), st.axis_rules(RULES):
            made = (jax.jit(f) if jitted else f)(jnp.ones((8, 8)))
            assert str(st.layout(made)) == "8/d 8/t"


def test_a_constraint_that_is_dropped_warns(auto_mesh: Mesh) -> None:
    with st.axis_rules(RULES):
        with pytest.warns(
            st.DroppedConstraint, match=r"no mesh is in force on this thread.*set_mesh"
        ):
            st.with_logical_constraint(jnp.ones((8, 8)), ("batch", "embed"))
        with jax.set_mesh(auto_mesh):
            with pytest.warns(st.DroppedConstraint) as caught:
                jax.jit(lambda x: st.with_logical_constraint(x, ("batch", "embed")))(
                    jnp.ones((8, 3))
                )
            assert str(caught[0].message) == (
                f"the constraint {P('d', 't')} has no effect on dimension 1: 3 is not divisible by 4, "
                "the number of devices along 't', so JAX leaves it replicated"
            )
            assert caught[0].filename == __file__


def test_a_thread_has_no_mesh_and_no_rules_of_its_parent(auto_mesh: Mesh) -> None:
    found: list[Any] = []

    def work() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append(st.get_logical_axis_rules())
            st.with_logical_constraint(
                jnp.ones((8, 8)), ("batch", "embed"), rules=RULES
            )
            found.append([w.category for w in caught])

    with jax.set_mesh(auto_mesh), st.axis_rules(RULES):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [(), [st.DroppedConstraint]]


def test_rules_give_names_their_axes_in_checks(auto_mesh: Mesh) -> None:
    @st.typechecked
    def f(x: f32["batch embed"], w: f32["embed/d mlp"]) -> None: ...

    def put(*entries: Any) -> jax.Array:
        return jax.device_put(jnp.ones((8, 8)), NamedSharding(auto_mesh, P(*entries)))

    with jax.set_mesh(auto_mesh):
        f(put(), put("d"))
        with st.axis_rules(RULES):
            f(put("d", "t"), put("d"))
            with pytest.raises(st.ShardingError, match="expected sharded over 'd'"):
                f(put(None, "t"), put("d"))


def test_rules_reach_names_that_may_broadcast(auto_mesh: Mesh) -> None:
    @st.typechecked
    def masked(x: f32["batch length"], mask: f32["#batch length"]) -> None: ...

    with jax.set_mesh(auto_mesh), st.axis_rules((("batch", "d"),)):
        x = st.shard(jnp.ones((8, 6)), f32["batch length"])
        masked(x, x)
        masked(x, x[:1])
        with pytest.raises(st.ShardingError, match="parameter 'mask'"):
            masked(x, jax.device_put(x, NamedSharding(auto_mesh, P())))
