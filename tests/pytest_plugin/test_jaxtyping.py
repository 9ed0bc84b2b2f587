"""Annotations of jaxtyping under ``pytest --shardtypes``: checked and counted as they stand, as jaxtyping would."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Float, jaxtyped

from shardtypes.array_types import array_annotation
from shardtypes.dtypes import array_spec
from shardtypes.errors import ShardTypeError
from shardtypes.jaxtyping_types import translated
from shardtypes.meshes import current_view
from shardtypes.scopes import Table
from shardtypes.sites import Site
from tests.pytest_plugin.conftest import Run

MODEL = """
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, jaxtyped


def norm(x: Float[Array, "*b d"], scale: Float[Array, " d"]) -> Float[Array, "*b d"]:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True)) * scale


def attend(q: Float[Array, "b q d"], k: Float[Array, "b k d"]) -> Float[Array, "b q k"]:
    def row(q: Float[Array, "b d"], k: Float[Array, "q d"]) -> Float[Array, "b q"]:
        return q @ k.T

    return jax.vmap(row)(q, k)


@jaxtyped(typechecker=None)
def checked(x: Float[Array, "b d"]) -> Float[Array, "d b"]:
    return x.T


def host(x: Float[np.ndarray, "b d"], y: Float[Array, "b d"] | None = None) -> Float[Array, "b d"]:
    return jnp.asarray(x)


def lookup(params: PyTree[Float[Array, "..."]], ids: Int[Array, "b l"]) -> dict[str, Float[Array, "b l v"]]:
    return {"logits": params["table"][ids]}


def swapped(x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    return x.T
"""
TESTS = """
import jax.numpy as jnp
import numpy as np
from layers import attend, checked, host, lookup, norm, swapped


def test_right():
    norm(jnp.ones((4, 4, 8)), jnp.ones(8))
    attend(jnp.ones((2, 3, 4)), jnp.ones((2, 5, 4)))
    checked(jnp.ones((2, 3)))
    host(np.ones((2, 3), "float32"))
    lookup({"table": jnp.ones((7, 3))}, jnp.zeros((2, 2), int))


def test_wrong():
    swapped(jnp.ones((2, 3)))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A module that knows jaxtyping alone, and its tests."""
    pytester.makepyfile(layers=MODEL, test_layers=TESTS)
    return pytester


def test_calls_are_checked_and_counted(project: pytest.Pytester, run: Run) -> None:
    """No function of another one shares its names, as with ours; arrays of NumPy and trees are left to jaxtyping."""
    done = run("--shardtypes")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*ShapeError: swapped: the result: dimension 0 is 3, expected b = 2",
            "*declared Float[[]Array, 'b d'[]]",
            "checks run: * shape, 1 by jaxtyping, 1 failed",
            "annotated functions reached: 7 of 7",
        ]
    )
    assert "trace of" not in done.stdout.str()


@pytest.mark.parametrize("off", ["--no-shardtypes-jaxtyping", "JAXTYPING_DISABLE"])
def test_turned_off(
    project: pytest.Pytester, run: Run, off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [off]
    if off == "JAXTYPING_DISABLE":
        monkeypatch.setenv(off, "1")
        options = []
    done = run("--shardtypes", *options)
    done.assert_outcomes(passed=2)
    assert "by jaxtyping" not in done.stdout.str()
    assert "annotated functions reached" not in done.stdout.str()


def test_a_module_that_mentions_shardtypes_is_traced(
    project: pytest.Pytester, run: Run
) -> None:
    """For all sizes, as functions with our annotations are."""
    project.makepyfile(layers=f"{MODEL}\n# shardtypes\n", test_layers="")
    done = run("--shardtypes")
    done.stdout.fnmatch_lines(
        [
            "E   swapped: fails for b=11, d=13: swapped: the result: dimension 0 is 13, expected b = 11",
            "annotated functions traced: 3 of 6 hold",
            "*PyTree*() raises RuntimeError: PyTree cannot be instantiated: give an example*",
        ]
    )
    done.assert_outcomes(passed=3, failed=1)


def test_what_a_sharded_array_is(pytester: pytest.Pytester, run: Run) -> None:
    """These annotations say nothing of shardings, on a mesh and in manual code, where sizes are those of a device."""
    pytester.makepyfile(
        layers="""
            from jaxtyping import Array, Float


            def double(x: Float[Array, "b d"]) -> Float[Array, "b d"]:
                return x + x


            def eight(x: Float[Array, "8 d"]) -> Float[Array, "8 d"]:
                return x + x
        """,
        test_layers="""
            import jax
            import jax.numpy as jnp
            import pytest
            from jax.sharding import PartitionSpec as P
            from layers import double, eight
            from shardtypes import f32


            @pytest.mark.mesh(d=8)
            def test_global(mesh, shard):
                x = shard(jnp.ones((8, 16)), f32["B/d M"])
                double(x)
                jax.jit(double)(x)
                eight(x)


            @pytest.mark.mesh(d=8)
            def test_manual(mesh):
                jax.shard_map(double, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(jnp.ones((8, 16)))


            @pytest.mark.mesh(d=8)
            def test_wrong(mesh):
                jax.shard_map(eight, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(jnp.ones((8, 16)))
        """,
    )
    done = run("--shardtypes")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*eight: parameter 'x': dimension 0 is 1, expected 8"])


# --- jaxtyping as the oracle --------------------------------------------------------------------------------------

DTYPES = ["Float", "Float32", "Int", "Num", "Shaped", "Bool", "Key"]
ARRAYS = ["float32", "bfloat16", "int8", "uint8", "bool", "key"]


@st.composite
def annotations(draw: st.DrawFn) -> str:
    token = st.sampled_from(["a", "b", "c", "2", "3", "_", "#a", "#b", "a+1", "2*b"])
    tokens = draw(st.lists(token, max_size=3))
    if draw(st.booleans()):
        several = draw(st.sampled_from(["...", "*s", "*#s"]))
        tokens.insert(draw(st.integers(0, len(tokens))), several)
    return " ".join(tokens)


def array(dtype: str, shape: tuple[int, ...]) -> jax.Array:
    if dtype == "key":
        return jax.random.split(jax.random.key(0), shape)
    return jnp.zeros(shape, dtype)


@jaxtyped(typechecker=None)
def accepted_by_jaxtyping(values: list[jax.Array], hints: list[object]) -> bool:
    return all(isinstance(v, h) for v, h in zip(values, hints, strict=True))  # type: ignore[arg-type]  # types as values


def accepted_by_us(values: list[jax.Array], hints: list[object]) -> bool:
    table = Table()
    for value, hint in zip(values, hints, strict=True):
        found = array_annotation(translated(hint))
        assert found is not None
        try:
            array_spec(found).check(value, table, current_view(), Site("", ""))
        except ShardTypeError:
            return False
    return True


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(DTYPES),
            annotations(),
            st.sampled_from(ARRAYS),
            st.lists(st.integers(1, 4), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_same_arrays_are_accepted(
    cases: list[tuple[str, str, str, tuple[int, ...]]],
) -> None:
    hints: list[object] = []
    for name, text, _, _ in cases:
        hints.append(getattr(jaxtyping, name)[Array, text])
    values = [array(dtype, shape) for _, _, dtype, shape in cases]
    try:
        wanted = accepted_by_jaxtyping(values, hints)
    except (NameError, jaxtyping.AnnotationError):
        assume(False)  # it wants a name before the expression that it stands in
    accepted = accepted_by_us(values, hints)
    if any("*#s" in text for _, text, _, _ in cases):
        assert accepted or not wanted  # of these, nothing is compared
    else:
        assert accepted == wanted


def test_what_stays_jaxtypings() -> None:
    of_numpy = Float[np.ndarray, "b"]
    assert translated(of_numpy) is of_numpy
    assert translated(dict[str, of_numpy]) == dict[str, of_numpy]  # type: ignore[valid-type]  # a type as a value
    assert translated(int) is int
    ours = translated(Float[Array, "b"])
    assert translated(Float[Array, "b"]) is ours
    assert ours != translated(Float[Array, "c"])
    assert repr(ours) == "Float[Array, 'b']"
