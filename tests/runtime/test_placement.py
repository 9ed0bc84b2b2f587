"""``shard(x, T)``: what it places, and what it refuses; constraints that JAX drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, auto_axes, explicit_axes
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, bf16, f32, i32

ONE = jnp.ones((8, 16))


@st.pytree_dataclass
class Layer:
    w: f32["M/d F"]
    b: f32["F"] | None = None


@pytest.mark.parametrize(
    ("value", "declared", "message"),
    [
        (jnp.ones((8, 16, 2)), f32["B/d M"], "value: rank is 3, expected 2"),
        (jnp.ones(8), f32["B/d M"], "value: rank is 1, expected 2"),
        (ONE, f32["B/d 4"], "value: dimension 1 is 16, expected 4"),
        (ONE, f32["B/d B"], "value: dimension 1 is 16, expected B = 8"),
        (ONE, f32["B/d B//2"], "value: dimension 1 is 16, expected B//2 = 4"),
        (ONE, bf16["B/d M"], "value: dtype is f32, expected bf16"),
        (np.ones((8, 16), np.int32), f32["B/d M"], "value: dtype is i32, expected f32"),
        (3, f32[""], "value: dtype is i32, expected f32"),
        ("text", f32[""], "value: expected a jax.Array, f32[''], got str"),
        (
            [ONE, jnp.ones((4, 2))],
            list[f32["B/d _"]],
            "value[1]: dimension 0 is 4, expected B = 8",
        ),
        (
            {"a": ONE, "b": (ONE,)},
            {"a": f32["B M"], "b": (f32["M B"],)},
            "value['b'][0]: dimension 0 is 8, expected M",
        ),
        (Layer(ONE, jnp.ones(8)), Layer, "value.b: dimension 0 is 8, expected F = 16"),
    ],
)
@pytest.mark.parametrize("where", ["eager", "jit"])
def test_another_dtype_rank_or_size_is_an_error(
    auto_mesh: Mesh, value: Any, declared: Any, message: str, where: str
) -> None:
    traced = where == "jit" and all(
        isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)
    )
    place: Any = (
        jax.jit(lambda x: st.shard(x, declared))
        if traced
        else lambda x: st.shard(x, declared)
    )
    with jax.set_mesh(auto_mesh), pytest.raises(st.ShapeError) as caught:
        place(value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_what_fits_is_placed(auto_mesh: Mesh, explicit_mesh: Mesh, kind: str) -> None:
    mesh = auto_mesh if kind == "auto" else explicit_mesh
    cases: list[tuple[Any, Any, Any]] = [
        (ONE, f32["B/d M/t"], "8/d 16/t"),
        (np.ones((8, 16)), f32["B/d ..."], None),
        (Layer(ONE, jnp.ones(16)), Layer, Layer("8/d 16", "16")),
        (Layer(ONE), Layer, Layer("8/d 16")),
        (
            {"a": [ONE, None]},
            {"a": [f32["B M/t"], f32["B"] | None]},
            {"a": ["8 16/t", None]},
        ),
        ([ONE, ONE[:, :4]], list[f32["B/t _"]], ["8/t 16", "8/t 4"]),
        (7, i32[""], ""),
    ]
    with jax.set_mesh(mesh):
        for value, declared, wanted in cases:
            if wanted is None:
                with pytest.raises(
                    ValueError,
                    match="any number of dimensions, so it has no PartitionSpec",
                ):
                    st.shard(value, declared)
                continue
            assert (
                jax.tree.map(lambda x: str(st.layout(x)), st.shard(value, declared))
                == wanted
            )
        with st.Scope() as scope:
            st.shard(ONE, f32["B M"])
            assert scope.sizes == {}  # names are those of the call


DROPPED = "(3 is not divisible by 2, the number of devices along 'd': JAX drops such a constraint)"
PADDED = "a size that its axes do not divide, which the compiler pads"


def dropped(role: str, declared: str, spec: P) -> Callable[[jax.Array], jax.Array]:
    def result(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), spec)

    def argument(x: Any) -> Any:
        return x * 2.0

    if role == "result":
        result.__annotations__["return"] = f32[declared]
        return st.typechecked(result)
    argument.__annotations__["x"] = f32[declared]
    return lambda x: st.typechecked(argument)(result(x))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_constraint_that_the_size_does_not_divide_is_never_verified(
    auto_mesh: Mesh, rows: int
) -> None:
    x = jnp.ones((rows, 16))
    message = DROPPED.replace("3 is", f"{rows} is")
    with jax.set_mesh(auto_mesh):
        for role in ("result", "argument"):
            for declared in ("B/d M", "B M"):
                _stats.reset()
                run = jax.jit(dropped(role, declared, P("d")))
                if (role, declared) == ("result", "B/d M"):
                    with pytest.raises(st.ShardingError) as caught:
                        run(x)
                    assert message in str(caught.value)
                    continue
                assert str(st.layout(run(x))) == f"{rows} 16"
                assert set(_stats.snapshot()["not_possible"]) == {PADDED}
        _stats.reset()
        assert (
            str(
                st.layout(
                    jax.jit(dropped("result", "B/d M/t", P("d", "t")))(
                        jnp.ones((8, 16))
                    )
                )
            )
            == "8/d 16/t"
        )
        assert not _stats.snapshot()["not_possible"]
        with pytest.raises(
            st.ShardingError,
            match="dimension 1 is sharded over 't', expected not sharded",
        ):
            # the other dimensions are compared
            jax.jit(dropped("argument", "B/d M", P("d", "t")))(x)


def test_where_a_result_goes_that_the_compiler_splits_over_half_an_axis(
    auto_mesh: Mesh,
) -> None:
    with jax.set_mesh(auto_mesh):
        made = jax.jit(dropped("argument", "B M", P("t")))(jnp.ones((6, 16)))
        lies = st.layout(made)
        assert lies.shard_shape in ((6, 16), (3, 16)) and str(lies) in (
            "6 16",
            "6/? 16",
        )
        with pytest.raises(st.ShardingError):
            st.check(f32, "B/t M", made)


@pytest.mark.parametrize(
    "kinds",
    [
        ("Explicit", "Explicit"),
        ("Auto", "Explicit"),
        ("Explicit", "Auto"),
        ("Auto", "Auto"),
    ],
)
@pytest.mark.parametrize("where", ["jit", "eager"])
def test_inside_auto_axes_and_explicit_axes(kinds: tuple[str, str], where: str) -> None:
    mesh = jax.make_mesh(
        (2, 4), ("d", "t"), axis_types=tuple(getattr(AxisType, kind) for kind in kinds)
    )

    def run(declared: str, x: jax.Array) -> None:
        def f(y: Any) -> Any:
            return y * 2

        f.__annotations__["y"] = f32[declared]
        checked = st.typechecked(f)
        out = P("d" if kinds[0] == "Explicit" else None)
        wrap = auto_axes(lambda y: checked(jnp.sin(y)), out_sharding=out)
        if set(kinds) == {"Auto"}:
            wrap = explicit_axes(lambda y: checked(jnp.sin(y)), in_sharding=P("d"))
        (jax.jit(wrap) if where == "jit" else wrap)(x)

    with jax.set_mesh(mesh):
        x = jax.device_put(ONE, NamedSharding(mesh, P("d")))
        _stats.reset()
        _stats.record()
        try:
            run("B/d M", x)
            seen = _stats.snapshot()
        finally:
            _stats.record(False)
        assert seen["checks"]["sharding"] and not seen["not_possible"]
        for wrong in ("B/t M", "B M", "B/d M/t"):
            with pytest.raises(st.ShardingError, match="declared f32"):
                run(wrong, x)


@st.pytree_dataclass
class Split:
    w: f32["M F/t"]


@st.typechecked
def initialised(scale: Any = 1.0, rng: st.key[""] | None = None) -> Split:
    return Split(jnp.ones((4, 8)) * scale)


@st.typechecked
def used(weights: Split) -> f32["M F/t"]:
    return weights.w


@st.typechecked
def widened(x: f32["M"]) -> Split:
    return Split(x[:, None] * jnp.ones((4, 8)))


@pytest.mark.parametrize("where", ["jit", "eager"])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_what_a_function_makes_may_be_placed_by_its_caller(
    auto_mesh: Mesh, explicit_mesh: Mesh, kind: str, where: str
) -> None:
    mesh = {"auto": auto_mesh, "explicit": explicit_mesh}[kind]
    run: Any = jax.jit if where == "jit" else lambda f: f
    rng = jax.random.key(0)
    with jax.set_mesh(mesh):
        _stats.reset()
        run(lambda: used(st.shard(initialised(2.0, rng), Split)))()
        run(
            lambda: st.shard(jax.vmap(initialised)(jnp.ones(3)), st.Array["n", Split])
        )()
        assert "what a function makes of no arrays" in str(
            _stats.snapshot()["not_possible"]
        )
        for refused in (
            # where they are used they are compared, and so is what is made of arrays
            lambda: used(initialised(2.0)),
            lambda: widened(jnp.ones(4)),
        ):
            with pytest.raises(st.ShardingError, match="'w': dimension 1 is not shard"):
                run(refused)()


@st.typechecked
def masked(x: f32["B/d L"], mask: f32["#B/d L"]) -> f32["B/d L"]:
    return jnp.where(mask > 0, x, 0)


def test_what_is_one_and_broadcasts_is_whole_on_each_device(auto_mesh: Mesh) -> None:
    @st.typed_shard_map(mesh=auto_mesh)
    def mapped(x: f32["B/d L"]) -> f32["B/d L"]:
        return masked(x, jnp.ones((1, x.shape[1])))

    with jax.set_mesh(auto_mesh):
        x = st.shard(jnp.ones((8, 6)), f32["B/d L"])
        for run in (masked, jax.jit(masked)):
            assert run(x, jnp.ones((1, 6))).shape == (8, 6)
            run(x, x)
            with pytest.raises(st.ShardingError, match="parameter 'mask'"):
                run(x, jnp.ones((8, 6)))
            with pytest.raises(st.ShapeError, match="parameter 'mask': dimension 0"):
                run(x, jnp.ones((4, 6)))
        assert mapped(x).shape == (8, 6)
