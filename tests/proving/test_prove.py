"""``prove``: right programs are proved, wrong ones refuted in their line, and what cannot be told is said."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import shardtypes
from shardtypes import f32, prove, typed_shard_map
from shardtypes.proving import Refuted
from shardtypes.proving.rules import RULES
from tests.proving import cases
from tests.proving.cases import MESH, RIGHT, SIZES, WRONG, array


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proved(name: str) -> None:
    case = RIGHT[name]
    found = prove(case.made(MESH), *case.args)
    assert found.ok, str(found)
    assert found.proved == 1.0 and found.culprit is None and found.assumed
    assert set(found.sizes) == set(SIZES)


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "scattered_mlp",
        "fully_sharded",
        "layers",
        "embedding",
        "normalised_by_own",
    ],
)
def test_gradients_are_proved(name: str) -> None:
    case = RIGHT[name]
    found = prove(case.made(MESH), *case.args, grad=True)
    assert found.ok, str(found)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refuted_in_their_line(name: str) -> None:
    case = WRONG[name]
    found = prove(case.made(MESH), *case.args)
    assert found.ok is False and found.agrees is False
    assert found.culprit is not None and found.numbers is not None
    assert found.culprit.what == case.words
    assert (
        f"# mark: {case.mark}"
        in Path(cases.__file__).read_text().splitlines()[found.culprit.line - 1]
    )
    assert case.words in str(found) and found.numbers.path in found.reason
    with pytest.raises(Refuted, match="refuted"):
        found.raise_if_failed()


def _of_bytes(x: jax.Array, w: jax.Array) -> jax.Array:
    """The largest products of bytes, which are larger than a byte, with the largest entry of all devices as the unit:
    that they are the same is known from numbers alone."""
    unit = lax.pmax(jnp.max(jnp.abs(x)), "t") / 127
    small = jnp.round(x / unit).astype(jnp.int8)
    whole = jnp.round(w * 127).astype(jnp.int8)
    total = jnp.matmul(small, whole, preferred_element_type=jnp.int32)
    best = lax.top_k(lax.psum(total, "t") * unit, 2)[0]
    return lax.top_k(lax.all_gather(best, "d", axis=1, tiled=True), 2)[0]


def test_products_of_bytes_are_added_up_in_more_than_bytes() -> None:
    mapped = jax.shard_map(
        _of_bytes,
        mesh=MESH,
        in_specs=(P(None, "t"), P("t", "d")),
        out_specs=P(),
        check_vma=False,
    )
    found = prove(mapped, array(6, 8), array(8, 8))
    assert found.ok is None and found.agrees, str(found)


def _shifted(x: jax.Array) -> jax.Array:
    return x + lax.axis_index("t")


def _weighed(x: jax.Array) -> jax.Array:
    return jnp.sum(x) * (lax.axis_index("t") + 1)


def _totalled(x: jax.Array) -> jax.Array:
    return x + lax.psum(lax.axis_index("t"), "t")


def _chosen(x: jax.Array) -> jax.Array:
    return jnp.where(lax.axis_index("t") == 0, x, 2 * x)


@pytest.mark.parametrize(
    ("body", "spec", "words"),
    [
        pytest.param(
            _shifted,
            P(),
            "result 1 of shard_map is different on each device along 't' but is returned as replicated",
            id="shifted",
        ),
        pytest.param(
            _shifted,
            P("t"),
            "`+` is applied to what is sharded over 't' along dimension 0 and what is different on each device along "
            "'t'",
            id="shifted shards",
        ),
        pytest.param(
            _weighed,
            P(),
            "result 1 of shard_map is different on each device along 't' but is returned as replicated",
            id="weighed",
        ),
        pytest.param(
            _totalled,
            P(),
            "lax.psum is applied to what is different on each device along 't'",
            id="totalled",
        ),
        pytest.param(
            _chosen,
            P("t"),
            "lax.select is applied to what is different on each device along 't' and what is sharded over 't' along "
            "dimension 0",
            id="chosen",
        ),
    ],
)
def test_the_number_of_a_device_is_no_partial_result(
    body: Any, spec: P, words: str
) -> None:
    """Its least is what one device has, and a mask of it adds up to that; nobody is told to reduce them."""
    mapped = jax.shard_map(
        body, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=False
    )
    found = prove(mapped, array(8, 16))
    assert found.ok is False and found.culprit is not None
    assert found.culprit.what == words


def test_the_numbers_are_those_of_the_program() -> None:
    found = prove(
        WRONG["sum_of_means"].made(MESH),
        np.arange(128, dtype=np.float32).reshape(8, 16),
    )
    assert found.numbers is not None
    assert found.numbers.on_devices == pytest.approx(2 * found.numbers.on_one)
    assert found.numbers.off_by == pytest.approx(1.0)
    assert found.numbers.arguments[0].shape == (8, 16)


def test_meshes_may_be_given_in_any_form() -> None:
    @typed_shard_map
    def total(x: f32["B/d M/t"]) -> f32["B/d"]:
        return lax.psum(x.sum(1), "t")

    for mesh in ({"d": 2, "t": 4}, "d=2, t=4", MESH):
        found = prove(total, array(8, 16), mesh=mesh)
        assert found.ok and found.sizes == SIZES
    with jax.sharding.use_abstract_mesh(MESH):
        assert prove(total, array(8, 16)).ok


def test_the_mesh_that_is_given_replaces_the_one_that_is_held() -> None:
    case = RIGHT["reads_its_mesh"]
    alone = jax.make_mesh((1,), ("t",), axis_types=(jax.sharding.AxisType.Auto,))
    found = prove(case.made(alone), *case.args, mesh={"t": 8})
    assert found.ok and found.sizes == {"t": 8}


def test_one_axis_at_a_time() -> None:
    """``smap`` inside ``smap``, inside ``jit``."""

    @partial(jax.smap, in_axes=1, out_axes=None, axis_name="t")
    def inner(x: Any) -> Any:
        return lax.psum(x.sum(1), "t")

    @partial(jax.smap, in_axes=0, out_axes=0, axis_name="d")
    def outer(x: Any) -> Any:
        return inner(x) * 2

    found = prove(jax.jit(outer), array(8, 16), mesh=SIZES)
    assert found.ok and found.sizes == SIZES, str(found)


def test_nothing_stays_behind() -> None:
    alone = jax.make_mesh((1,), ("t",), axis_types=(jax.sharding.AxisType.Auto,))
    function = cases.reads_its_mesh(alone)
    x = jnp.arange(16.0)
    before = function(x)
    assert prove(function, x, mesh={"t": 4}).ok
    assert alone.shape["t"] == 1 and alone.size == 1 and alone.axis_sizes == (1,)
    assert MESH.shape["t"] == 4
    np.testing.assert_allclose(function(x), before)
    np.testing.assert_allclose(
        jax.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(x), np.full(16, x.sum())
    )


def _mean_difference(x: Any) -> Any:
    return x - lax.pmean(jnp.mean(x), "i")


@pytest.mark.parametrize("transform", [jax.pmap, jax.vmap])
def test_mapped_functions_are_compared_with_one_device_that_has_all_rows(
    transform: Any,
) -> None:
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    assert prove(transform(_mean_difference, axis_name="i"), x).ok
    found = prove(transform(lambda x: x - jnp.mean(x), axis_name="i"), x)
    assert found.ok is None and "nothing crosses devices along 'i'" in found.reason
    found = prove(transform(lambda x: x - lax.psum(jnp.mean(x), "i"), axis_name="i"), x)
    assert found.ok is False


def test_copies_of_an_argument_are_one_argument() -> None:
    @partial(jax.pmap, axis_name="i")
    def step(w: Any, x: Any) -> Any:
        return w - lax.pmean(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), "i")

    x = np.random.default_rng(0).normal(size=(8, 4, 3)).astype(np.float32)
    w = np.stack([np.arange(3, dtype=np.float32)] * 8)
    assert prove(step, w, x).ok

    @partial(jax.pmap, axis_name="i")
    def drifting(w: Any, x: Any) -> Any:
        return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), lax.pmean(
            jnp.mean(x), "i"
        )

    found = prove(drifting, w, x)  # on the way to an average, for all that is known
    assert (
        found.ok is None and "result[0] is a per-device mean along 'i'" in found.reason
    )


def test_keys_of_devices_may_be_arguments() -> None:
    """Keys of their own, of which each device draws for its rows; and copies of one."""

    @partial(jax.pmap, axis_name="i")
    def step(w: Any, x: Any, key: Any) -> Any:
        noisy = x + jax.random.normal(key, x.shape)
        return w - lax.pmean(jax.grad(lambda w: jnp.mean((noisy @ w) ** 2))(w), "i")

    x = np.random.default_rng(0).normal(size=(8, 4, 3)).astype(np.float32)
    w = np.stack([np.arange(3, dtype=np.float32)] * 8)
    keys = jax.random.split(jax.random.key(0), 8)
    found = prove(step, w, x, keys)
    assert found.ok and any("draw at random" in one for one in found.assumed)
    found = prove(step, w, x, jnp.stack([keys[0]] * 8))
    assert found.ok is False and found.culprit is not None
    assert "all devices draw the same random numbers" in found.culprit.what


@pytest.mark.parametrize("transform", [jax.jit, lambda f: f])
def test_a_function_is_asked_about_again(transform: Any) -> None:
    """What JAX keeps of the first time hides nothing the second time."""
    case = WRONG["sum_of_means"]
    function = transform(case.made(MESH))
    first, second = prove(function, *case.args), prove(function, *case.args)
    assert first.ok is False and second.ok is False
    assert first.sizes == second.sizes == SIZES


def mapped_over_d(body: Any) -> Any:
    """Make functions of the spec of the first argument and the result."""
    return lambda spec: jax.shard_map(
        body, mesh=MESH, in_specs=(spec, P()), out_specs=spec, check_vma=False
    )


def test_the_compiler_needs_no_proof() -> None:
    found = prove(jax.jit(lambda x: x @ x.T), array(4, 4))
    assert found.ok and "no axis of a mesh" in found.reason


def test_a_reference_is_another_program() -> None:
    mlp = RIGHT["mlp"].made(MESH)
    args = RIGHT["mlp"].args
    assert prove(mlp, *args, reference=lambda x, w, v: jax.nn.gelu(x @ w) @ v).agrees
    found = prove(mlp, *args, reference=lambda x, w, v: jax.nn.relu(x @ w) @ v)
    assert found.ok is False and "on one" in found.reason


@mapped_over_d
def _dropout(x: Any, key: Any) -> Any:
    key = jax.random.fold_in(key, lax.axis_index("d"))
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0)


def test_what_devices_draw_for_their_shards_one_device_takes() -> None:
    found = prove(_dropout(P("d")), array(8, 16), jax.random.key(0))
    assert found.ok and any("draw at random" in one for one in found.assumed)

    @mapped_over_d
    def averaged(x: Any, key: Any) -> Any:
        key = jax.random.fold_in(key, lax.axis_index("d"))
        return x / jnp.sum(jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0))

    @mapped_over_d
    def normalised(x: Any, key: Any) -> Any:
        noisy = x + jax.random.normal(
            jax.random.fold_in(key, lax.axis_index("d")), x.shape
        )
        return noisy / lax.psum(jnp.sum(noisy**2), "d")

    assert prove(normalised(P("d")), array(8, 16), cases.KEY).ok
    found = prove(averaged(P("d")), array(8, 16), jax.random.key(0))
    assert found.ok is False and found.culprit is not None
    assert "a partial sum over 'd'" in found.culprit.what


def test_per_device_randomness_is_not_blamed() -> None:
    found = prove(_dropout(P()), array(8, 16), jax.random.key(0))
    assert found.ok is None and "random numbers of its own" in found.reason


@pytest.mark.parametrize("choices", [1, 2])
def test_a_capacity_of_each_device_is_not_blamed(choices: int) -> None:
    """Rows beyond what a device counts for an expert are dropped."""

    @partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=(P("t"), P()),
        out_specs=P("t"),
        check_vma=False,
    )
    def routed(x: Any, router: Any) -> Any:
        # [rows, choices, experts]
        chosen = jax.nn.one_hot(lax.top_k(x @ router, choices)[1], router.shape[1])
        each = chosen.transpose(1, 0, 2).reshape(-1, router.shape[1])
        place = (
            (jnp.cumsum(each, axis=0) - each)
            .reshape(choices, -1, router.shape[1])
            .transpose(1, 0, 2)
        )
        kept = chosen * (place < x.shape[0] * choices // router.shape[1])
        return x * kept.sum((1, 2))[:, None]

    found = prove(routed, array(32, 4), array(4, 4))
    assert found.ok is None and found.agrees is False
    assert "counts its own rows" in found.reason


_EXPERTS = (P("t"), P(), P("t"))


def _experts(reduced: Any) -> Any:
    """The gradients of a router and of experts, which see the rows that fit their capacity; and their reductions."""

    @partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=_EXPERTS,
        out_specs=(P(), P("t")),
        check_vma=False,
    )
    def gradients(x: Any, router: Any, experts: Any) -> Any:
        def loss(router: Any, experts: Any) -> Any:
            probs = jax.nn.softmax(x @ router)
            chosen = jax.nn.one_hot(jnp.argmax(probs, axis=1), router.shape[1])
            kept = chosen * (
                jnp.cumsum(chosen, axis=0) <= x.shape[0] // router.shape[1]
            )
            sent = lax.all_to_all(
                jnp.einsum("be,bd->ebd", kept, x), "t", 0, 1, tiled=True
            )
            back = lax.all_to_all(
                jnp.tanh(jnp.einsum("ebd,edf->ebf", sent, experts)),
                "t",
                1,
                0,
                tiled=True,
            )
            return jnp.mean(jnp.einsum("be,ebf->bf", kept * probs, back) ** 2)

        return reduced(*jax.grad(loss, argnums=(0, 1))(router, experts))

    return gradients


def test_what_a_capacity_does_not_explain_is_refuted() -> None:
    """Devices that do not hold what they return as replicated, or hold one shard of what they return as sharded."""
    args = array(32, 4), array(4, 8), array(8, 4, 4)
    found = prove(
        _experts(lambda router, experts: (lax.pmean(router, "t"), experts / 4)), *args
    )
    assert (
        found.ok is None
        and found.agrees is False
        and "counts its own rows" in found.reason
    )

    found = prove(
        _experts(lambda router, experts: (lax.pmean(router, "d"), experts / 4)), *args
    )
    assert found.ok is False and found.culprit is not None
    assert found.culprit.what == (
        "lax.psum over 'd': result 1 of shard_map differs along 't' but is returned as replicated"
    )
    assert "lax.pmean(router" in found.culprit.place.text

    found = prove(
        _experts(
            lambda router, experts: (lax.pmean(router, "t"), lax.pmean(experts, "t"))
        ),
        *args,
    )
    assert found.ok is False and found.culprit is not None
    assert found.culprit.what == (
        "lax.psum over 't': result 2 of shard_map is the same on all devices along 't', but is returned as sharded "
        "over it along dimension 0"
    )


def test_draws_of_a_key_for_each_device_are_not_proved_where_devices_share_them() -> (
    None
):
    """A key for pairs of devices, of which each has a shard of its own."""

    @partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=(P("t"), P()),
        out_specs=P("t"),
        check_vma=False,
    )
    def in_pairs(x: Any, key: Any) -> Any:
        key = jax.random.fold_in(key, lax.axis_index("t") // 2)
        return x + jax.random.normal(key, x.shape)

    found = prove(in_pairs, array(8, 16), jax.random.key(0))
    assert found.ok is None and "random numbers of its own" in found.reason


def test_dependence_on_purpose_is_declared() -> None:
    found = prove(
        WRONG["local_size"].made(MESH),
        *WRONG["local_size"].args,
        mesh_dependent="a mean of each shard",
    )
    assert found.ok is None and "a mean of each shard" in found.reason


def _pipeline(shift: int) -> Any:
    """Stages of a pipeline, which hand on what they made in each round."""

    @partial(
        jax.shard_map, mesh=MESH, in_specs=(P("t"), P()), out_specs=P(), check_vma=False
    )
    def pipeline(w: Any, x: Any) -> Any:
        stage, n = lax.axis_index("t"), lax.axis_size("t")

        def tick(carry: Any, number: Any) -> Any:
            arriving, made = carry
            fresh = lax.dynamic_index_in_dim(
                x, jnp.minimum(number, x.shape[0] - 1), keepdims=False
            )
            h, _ = lax.scan(
                lambda h, w: (jnp.tanh(h @ w), None),
                jnp.where(stage == 0, fresh, arriving),
                w,
            )
            done = number - (n - 1)
            written = lax.dynamic_update_index_in_dim(made, h, jnp.maximum(done, 0), 0)
            pairs = [(i, (i + shift) % n) for i in range(n)]
            sent = lax.ppermute(h, "t", pairs)  # mark: shift
            return (sent, jnp.where(done >= 0, written, made)), None

        start = jnp.zeros_like(x[0]), jnp.zeros_like(x)
        numbers = jnp.arange(x.shape[0] + n - 1)
        (_, made), _ = lax.scan(tick, start, numbers)  # mark: rounds
        return lax.psum(jnp.where(stage == n - 1, made, 0.0), "t")

    return pipeline


def test_a_loop_of_more_rounds_is_told_with_its_collectives() -> None:
    args = array(4, 8, 8), array(5, 3, 8)
    assert prove(_pipeline(1), *args).ok
    found = prove(_pipeline(-1), *args)
    assert found.ok is False and found.culprit is not None
    assert found.culprit.what == (
        "this loop goes 8 rounds, on one device 5: what it computes is not what one device computes, nor a shard or a "
        "partial result of it"
    )
    assert "mark: rounds" in found.culprit.place.text
    ((place, text),) = found.culprit.related
    assert text == "lax.ppermute over 't' in each round" and "mark: shift" in place.text


def test_what_cannot_be_told_says_where_knowledge_ends() -> None:
    @partial(
        jax.shard_map, mesh=MESH, in_specs=P("t"), out_specs=P("t"), check_vma=False
    )
    def turned(x: Any) -> Any:
        there = lax.ppermute(x, "t", [(i, (i + 1) % 4) for i in range(4)])
        return lax.ppermute(there, "t", [((i + 1) % 4, i) for i in range(4)])

    found = prove(turned, array(8), mesh=None)
    assert found.ok is None
    assert "names device 1 of 1" in found.reason

    @partial(
        jax.shard_map, mesh=MESH, in_specs=P("t"), out_specs=P("t"), check_vma=False
    )
    def ring(x: Any) -> Any:
        n = lax.axis_size("t")
        there = lax.ppermute(x, "t", [(i, (i + 1) % n) for i in range(n)])
        return lax.ppermute(there, "t", [((i + 1) % n, i) for i in range(n)])

    assert prove(ring, array(8)).ok

    @partial(jax.shard_map, mesh=MESH, in_specs=P("t"), out_specs=P(), check_vma=False)
    def best(x: Any) -> Any:
        return lax.top_k(
            lax.all_gather(lax.top_k(x, 2)[0], "t", axis=0, tiled=True), 2
        )[0]

    found = prove(best, array(32))
    assert found.ok is None and found.agrees and found.culprit is not None
    assert "the largest along a sharded dimension" in found.culprit.what


def test_a_mesh_of_devices_may_be_in_force() -> None:
    @typed_shard_map
    def total(x: f32["B/d M/t"]) -> f32["B/d"]:
        return lax.psum(x.sum(1), "t")

    sizes = dict.fromkeys(SIZES, 1)
    alone = jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        axis_types=(jax.sharding.AxisType.Auto,) * 2,
    )
    with jax.set_mesh(alone):
        found = prove(total, array(8, 16))
    assert found.ok and found.sizes == sizes


def test_a_verdict_is_no_bool() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(prove(RIGHT["mean"].made(MESH), *RIGHT["mean"].args))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: prove(3),
            TypeError,
            "prove takes a function and its example arguments, not int",
        ),  # type: ignore[arg-type]
        (
            lambda: prove(jnp.sum, array(2), reference=3),
            TypeError,
            "reference is a function",
        ),  # type: ignore[arg-type]
        (
            lambda: prove(jnp.sum, array(2), mesh=3),
            TypeError,
            "mesh is a mesh, a dict of axis sizes",
        ),
        (
            lambda: prove(jnp.sum, array(2), mesh="d4"),
            ValueError,
            "write axes like 'd=2,t=4'",
        ),
        (
            lambda: prove(jnp.sum, array(2), mesh={"d": 0}),
            ValueError,
            "axes have sizes of at least 1",
        ),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_it_is_exported() -> None:
    assert shardtypes.prove is prove and "prove" in shardtypes.__all__


def test_a_wrong_rule_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of a wrong program hangs on the rules alone: one that lets a partial sum through proves it."""
    case = WRONG["softmax_before_psum"]
    monkeypatch.setitem(RULES, "exp", RULES["neg"])
    assert prove(case.made(MESH), *case.args).ok
