"""``{U:t}`` on Explicit axes, where JAX's types say *unreduced* and *reduced*: every face of the checks knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from pytest_shardtypes.assertions import assert_sharding
from shardtypes import _stats, f32

PENDING = P("d", None, unreduced={"t"})
WHOLE = P("d", None)
REDUCED = "expected a partial sum over '{}', got a value that is already reduced"


@pytest.fixture(autouse=True)
def _mesh(explicit_mesh: Mesh) -> Iterator[None]:
    with jax.set_mesh(explicit_mesh):
        _stats.reset()
        yield


def partial_sum(x: Any, w: Any) -> Any:
    return jnp.einsum("bm,mf->bf", x, w, out_sharding=PENDING)


def operands() -> tuple[jax.Array, jax.Array]:
    return jax.device_put(jnp.ones((8, 4)), P("d", "t")), jax.device_put(
        jnp.ones((4, 3)), P("t", None)
    )


def value(spec: P) -> jax.Array:
    made = partial_sum(*operands())
    return made if spec is PENDING else jax.sharding.reshard(made, spec)


def checked(annotation: Any, role: str) -> Callable[[Any], Any]:
    """A function whose parameter, result or field is declared so."""

    @st.pytree_dataclass
    class Holder:
        field: annotation

    def f(x: Any) -> Any:
        return x

    if role == "field":
        f.__annotations__["x"] = Holder
        return lambda x: st.typechecked(f)(Holder(field=x))
    f.__annotations__["x" if role == "parameter" else "return"] = annotation
    return st.typechecked(f)


DOORS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(
        lambda x: jnp.sum(jax.sharding.reshard(jax.tree.leaves(f(x))[0], WHOLE))
    ),
    "remat": lambda f: jax.jit(jax.checkpoint(f)),
    "scan": lambda f: jax.jit(
        lambda x: jax.lax.scan(lambda c, _: (c, f(x)), 0, None, length=2)[1]
    ),
}


@pytest.mark.parametrize("role", ["parameter", "result", "field"])
@pytest.mark.parametrize("door", DOORS)
def test_as_declared_is_silent_and_whole_where_pending_is_declared_is_an_error(
    door: str, role: str
) -> None:
    run = DOORS[door]
    run(checked(f32["B/d F {U:t}"], role))(value(PENDING))
    run(checked(f32["B/d F"], role))(value(WHOLE))
    assert not _stats.snapshot()["not_possible"]
    with pytest.raises(st.ShardingError, match=REDUCED.format("t")):
        run(checked(f32["B/d F {U:t}"], role))(value(WHOLE))
    with pytest.raises(
        st.ShardingError, match="dimension 0 is sharded over 'd', expected not sharded"
    ):
        run(checked(f32["B F {U:t}"], role))(value(PENDING))


@pytest.mark.parametrize("door", DOORS)
def test_pending_where_nothing_is_declared(door: str) -> None:
    """A parameter says all; whoever gets a result or a local may still reduce it, so that is counted."""
    run = DOORS[door]
    for role in ("parameter", "field"):
        with pytest.raises(st.ShardingError) as caught:
            run(checked(f32["B/d F"], role))(value(PENDING))
        where = "f: parameter 'x'" + (", field 'field'" if role == "field" else "")
        assert str(caught.value) == (
            f"{where}: the value is a partial sum over 't', which its annotation does not declare\n"
            "  declared f32['B/d F']\n  actual   f32[8/d, 3 {U:t}] on mesh d=2, t=4\n  B = 8, F = 3, bound here\n"
            "  reduce it (jax.sharding.reshard; inside shard_map lax.psum), or declare it, as in {U:t}"
        )
    assert not _stats.snapshot()["not_possible"]
    run(checked(f32["B/d F"], "result"))(value(PENDING))
    assert set(_stats.snapshot()["not_possible"]) == {
        "a result or a local is a partial sum over axes that its annotation does not declare"
    }


def test_a_maximum_is_no_sum() -> None:
    if not hasattr(jax.sharding, "UnreducedKind"):
        with pytest.raises(TypeError):  # this JAX has sums only
            P("d", unreduced={"t"}, unreduced_kind="max")  # type: ignore[call-arg,unused-ignore]
        return
    spec = P("d", None, unreduced={"t"}, unreduced_kind=jax.sharding.UnreducedKind.max)
    made = jax.ShapeDtypeStruct(
        (8, 3), jnp.float32, sharding=NamedSharding(jax.sharding.get_mesh(), spec)
    )
    lies = st.layout(made)
    assert (
        repr(lies) == "Layout('8/d 3 {U:t}' on mesh d=2, t=4, a partial max)"
        and lies.spec == spec
    )
    assert lies != st.layout(f32["8/d 3 {U:t}"])
    with pytest.raises(
        st.ShardingError,
        match="expected a partial sum over 't', got a partial max over 't'",
    ):
        assert_sharding(made, "B/d F {U:t}")


@pytest.mark.parametrize(
    "spec",
    [P(None, None, reduced={"t"}), P("d", None, reduced={"t"}), P(reduced={"d", "t"})],
)
def test_reduced_is_shown_and_is_otherwise_as_whole(spec: P) -> None:
    x = jax.sharding.reshard(jnp.ones((8, 3)), spec)
    dims = "8/d 3" if "d" in str(spec.update(reduced=set())) else "8 3"
    over = " and ".join(repr(axis) for axis in sorted(spec.reduced))
    lies = st.layout(x)
    assert (
        str(lies) == dims
        and repr(lies) == f"Layout({dims!r} on mesh d=2, t=4, reduced over {over})"
    )
    assert (
        lies.reduced == spec.reduced
        and lies.spec == x.sharding.spec
        and len(lies.indices()) == 8
    )
    assert lies == st.layout(f32[dims])
    for door in ("eager", "jit"):
        DOORS[door](checked(f32[dims], "parameter"))(x)
        DOORS[door](checked(f32[dims], "result"))(x)
    assert not _stats.snapshot()["not_possible"]
    with pytest.raises(st.ShardingError, match=f"reduced over {over}\n"):
        checked(f32["B F/t"], "parameter")(x)


def test_the_gradient_of_reduced_weights_is_pending() -> None:
    x = jax.device_put(jnp.ones((8, 4)), P("d", None))

    @st.typechecked
    def loss(w: f32["M F"]) -> f32[""]:
        return jnp.sum(x @ w)

    @st.typechecked
    def gradient(w: f32["M F"]) -> f32["M F {U:d}"]:
        return jax.grad(loss)(w)

    w = jax.sharding.reshard(jnp.ones((4, 3)), P(None, None, reduced={"d"}))
    for run in (gradient, jax.jit(gradient)):
        assert st.layout(run(w)).pending == {"d"}
        with pytest.raises(st.ShardingError, match=REDUCED.format("d")):
            run(jnp.ones((4, 3)))


def test_layouts() -> None:
    made = value(PENDING)
    lies = st.layout(made)
    assert (
        str(lies) == "8/d 3 {U:t}" and lies.pending == {"t"} and lies.replicated == ()
    )
    assert (
        lies.spec == PENDING
        and lies.shard_shape == (4, 3)
        and lies.bytes_per_device == 48
    )
    assert (
        len(lies.indices()) == 8
        and "a partial sum over &#x27;t&#x27;" in lies._repr_html_()
    )
    struct = jax.ShapeDtypeStruct((8, 3), jnp.float32, sharding=made.sharding)
    for same in (struct, f32["8/d 3 {U:t}"]):
        assert st.layout(same) == lies
    assert st.layout(made.sharding, shape=(8, 3)) == lies != st.layout(value(WHOLE))
    assert str(st.layout(made.sharding)) == "_/d ... {U:t}"
    seen: list[str] = []
    jax.jit(lambda y: (seen.append(repr(st.layout(y))), y)[1])(made)
    assert seen == ["Layout('8/d 3 {U:t}' on mesh d=2, t=4)"]


def test_placing(auto_mesh: Mesh) -> None:
    x = jnp.arange(24.0).reshape(8, 3)
    for place in (
        lambda x: st.shard(x, f32["B/d F {U:t}"]),
        jax.jit(lambda x: st.shard(x, f32["B/d F {U:t}"])),
    ):
        made = place(x)
        assert st.layout(made).pending == {"t"}
        np.testing.assert_array_equal(jax.sharding.reshard(made, P()), x)
    assert_sharding(made, "B/d F {U:t}")
    assert_sharding({"y": made}, {"y": f32["B/d F {U:t}"]})
    for wrong in ("B/d F", "B/d F {U:d,t}".replace("B/d", "B"), "B F {U:t}"):
        with pytest.raises(st.ShardingError):
            assert_sharding(made, wrong)
    assert not isinstance(made, f32["B/d F"]) and isinstance(made, f32["B/d F {U:t}"])
    with pytest.raises(ValueError) as caught:
        st.make_shardings(f32["B/d {U:t}"], auto_mesh)
    assert str(caught.value) == (
        "f32['B/d {U:t}']: JAX keeps partial sums over Explicit mesh axes only, not over 't': make the mesh with "
        "axis_types=(jax.sharding.AxisType.Explicit, …), or reduce it"
    )


def test_specs() -> None:
    assert st.make_partition_specs({"w": f32["B/d {U:t}"]}) == {
        "w": P("d", unreduced={"t"})
    }
    assert st.make_shardings(f32["B/d F {U:t}"]).spec == PENDING
    assert st.ShapeSpec.parse("B/d {U:t}").partition_spec() == P("d", unreduced={"t"})
    assert not st.is_fully_sharded(PENDING) and not st.is_fully_sharded(
        f32["B/d {U:t}"]
    )
    # what is pending over an axis is not split over it
    with st.axis_rules([("B", "d"), ("F", "t")]):
        assert st.make_partition_specs(f32["B F {U:t}"]) == PENDING


def test_explain() -> None:
    def right(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F {U:t}"]:
        return partial_sum(x, w)

    def wrong(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
        return partial_sum(x, w)

    def whole(y: f32["B/d F {U:t}"]) -> f32["B/d F {U:t}"]:
        return jax.sharding.reshard(y, WHOLE)

    told = st.explain(right, *operands())
    assert [row.differs for row in (*told.arguments, *told.results)] == ["", "", ""]
    assert [(row.chosen, row.replicated) for row in told.results] == [
        ("f32[8/d, 3 {U:t}]", False)
    ]
    (row,) = st.explain(wrong, *operands()).results
    assert (
        row.differs
        == "the value is a partial sum over 't', which its annotation does not declare"
    )
    told = st.explain(whole, value(PENDING))
    assert told.arguments[0].differs == ""
    assert told.results[0].differs == REDUCED.format("t")


def test_typed_shard_map() -> None:
    @st.typed_shard_map
    @st.typechecked
    def reduce(y: f32["B/d F {U:t}"]) -> f32["B/d F"]:
        return jax.lax.psum(y, "t")

    @st.typed_shard_map
    def leave(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F {U:t}"]:
        return jax.lax.pcast(x @ w, "t", to="unreduced")

    @st.typed_shard_map
    @st.typechecked
    def total(w: f32["M F"]) -> f32[""]:
        return jnp.sum(w)

    for run in (lambda f, *a: f(*a), lambda f, *a: jax.jit(f)(*a)):
        assert st.layout(run(leave, *operands())).pending == {"t"}
        np.testing.assert_array_equal(run(reduce, value(PENDING)), np.full((8, 3), 4.0))
        with pytest.raises(ValueError, match="in_specs"):  # JAX's own
            run(reduce, value(WHOLE))
        # JAX lets the result be reduced as well, and no annotation says that: with check_vma=False it is not asked.
        w = jax.sharding.reshard(jnp.ones((4, 3)), P(None, None, reduced={"t"}))
        assert (
            float(run(st.typed_shard_map(total.__wrapped__, check_vma=False), w)) == 12
        )


@pytest.mark.parametrize("vma", [True, False])
def test_arguments_of_shard_map(vma: bool) -> None:
    def body(annotation: Any, spec: P, x: jax.Array) -> Any:
        def f(y: Any) -> Any:
            return jax.lax.psum(y, "t") if vma or "t" in str(spec) else y

        f.__annotations__["y"] = annotation
        mapped = jax.shard_map(
            st.typechecked(f), in_specs=spec, out_specs=WHOLE, check_vma=vma
        )
        return jax.jit(mapped)(x)

    body(f32["B/d F {U:t}"], PENDING, value(PENDING))
    body(f32["B/d F"], WHOLE, value(WHOLE))
    with pytest.raises(st.ShardingError, match="the value is a partial sum over 't'"):
        body(f32["B/d F"], PENDING, value(PENDING))
    with pytest.raises(st.ShardingError, match=REDUCED.format("t")):
        body(f32["B/d F {U:t}"], WHOLE, value(WHOLE))


def test_computed_values_in_shard_map() -> None:
    def run(annotation: Any, leave: bool) -> Any:
        def f(y: Any) -> Any:
            return y

        f.__annotations__["y"] = annotation

        def body(x: jax.Array, w: jax.Array) -> jax.Array:
            y = x @ w
            return jax.lax.psum(
                st.typechecked(f)(
                    jax.lax.pcast(y, "t", to="unreduced") if leave else y
                ),
                "t",
            )

        return jax.jit(
            jax.shard_map(body, in_specs=(P("d", "t"), P("t", None)), out_specs=WHOLE)
        )(*operands())

    unknown = "inside shard_map or pmap: whether a value that varies is a partial sum"
    run(f32["B/d F {U:t}"], True)
    assert unknown not in _stats.snapshot()["not_possible"]
    run(f32["B/d F {U:t}"], False)
    assert unknown in _stats.snapshot()["not_possible"]
    with pytest.raises(st.ShardingError, match="the value is a partial sum over 't'"):
        run(f32["B/d F"], True)
    _stats.reset()
    run(f32["B/d F"], False)
    assert (
        "inside shard_map or pmap: a value may vary over an axis that its annotation lacks"
        in (_stats.snapshot()["not_possible"])
    )


def test_on_auto_axes_nothing_is_ever_pending(auto_mesh: Mesh) -> None:
    with jax.set_mesh(auto_mesh):
        x = jax.device_put(jnp.ones((8, 3)), NamedSharding(auto_mesh, WHOLE))
        for door in ("eager", "jit"):
            DOORS[door](checked(f32["B/d F"], "parameter"))(x)
            with pytest.raises(st.ShardingError, match=REDUCED.format("t")):
                DOORS[door](checked(f32["B/d F {U:t}"], "parameter"))(x)
