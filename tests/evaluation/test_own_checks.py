"""What a program asserts itself: where that fails, and holds on one device, nothing is taken as meant."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import pytest

from shardlint.evaluation.judgements import judge
from shardlint.evaluation.tree_checks import (
    assert_trees_all_close,
    assert_trees_all_equal,
)
from tests.evaluation.test_departures import program

pytestmark = pytest.mark.once  # JAX has no part in it

# That each device normalises by its own examples is common, and may be meant.
NORMALISED = """
import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def normalised(x):
    mean = {mean}
    variance = {variance}
    return (x - mean) / jnp.sqrt(variance)


def reference(x):
    x = x.reshape({groups}, -1, 3)
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True))
    return x.reshape(-1, 3)


def main():
    mesh = Mesh(np.asarray(jax.devices()){mesh}, {axes})
    run = jax.shard_map(normalised, mesh=mesh, in_specs=P({axes}), out_specs=P({axes}))
    x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
    result = run(x)
    {check}


if __name__ == "__main__":
    main()
"""
LOCAL = {"mean": "x.mean(0)", "variance": "x.var(0)"}
ALL = "np.testing.assert_allclose(result, reference(np.asarray(x)), rtol=1e-5)"
CHECKS = [
    ALL,
    "assert jnp.allclose(result, reference(np.asarray(x)))",
    "assert bool(np.all(np.abs(result - reference(np.asarray(x))) < 1e-4)), 'differs'",
    "jax.tree.map(np.testing.assert_array_almost_equal, [result], [reference(np.asarray(x))])",
    "chex.assert_trees_all_close({'a': result}, {'a': reference(x)}, rtol=1e-4)",
    "chex.assert_trees_all_equal(jnp.round(result, 3), jnp.round(reference(x), 3))",
    "np.testing.assert_equal(jnp.round(result, 3), jnp.round(reference(x), 3))",
    "for got, right in zip(result.ravel(), reference(x).ravel()):\n"
    "        np.testing.assert_almost_equal(got, right, decimal=4)",
]


def _of(
    check: str,
    groups: int = 1,
    mesh: str = "",
    axes: tuple[str, ...] = ("d",),
    mean: str = LOCAL["mean"],
    variance: str = LOCAL["variance"],
) -> str:
    text = NORMALISED.replace("{groups}", str(groups)).replace("{mesh}", mesh)
    text = text.replace("{axes}", str(axes)).replace("{check}", check)
    return text.replace("{mean}", mean).replace("{variance}", variance)


@pytest.mark.parametrize("check", CHECKS)
def test_what_may_be_meant_is_told_where_the_program_asserts_otherwise(
    check: str,
) -> None:
    (departure,) = judge(program(_of(check))).departures
    source = _of(check).splitlines()
    line = source[departure.culprit.step.value.where.place[0] - 1].strip()
    assert line in ("mean = x.mean(0)", "variance = x.var(0)")
    assert departure.refuted_by is not None
    assert "assert" in source[departure.refuted_by.place[0] - 1]


def test_it_is_not_where_the_program_asserts_nothing() -> None:
    found = judge(program(_of("print(result)")))
    assert found.departures == ()
    assert found.compared == () and len(found.reasons) == 1


def test_nor_where_what_it_asserts_holds() -> None:
    found = judge(program(_of(ALL, groups=8)))
    assert found.departures == ()


def test_nor_where_it_fails_on_one_device_too() -> None:
    found = judge(program(_of(ALL, groups=2)))
    assert found.departures == ()
    assert any("AssertionError" in reason for reason in found.reasons)


def test_over_two_axes_none_of_them_need_hold_alone() -> None:
    found = judge(program(_of(ALL, mesh=".reshape(4, 2)", axes=("d", "e"))))
    assert {one.axis for one in found.departures} <= {"d", "e"}
    assert found.departures != ()
    assert all(one.refuted_by is not None for one in found.departures)


def test_a_right_program_with_two_axes_is_silent() -> None:
    right = _of(
        ALL,
        mesh=".reshape(4, 2)",
        axes=("d", "e"),
        mean='lax.pmean(x.mean(0), ("d", "e"))',
        variance='lax.pmean(jnp.square(x - mean).mean(0), ("d", "e"))',
    )
    found = judge(program(right))
    assert found.departures == ()
    assert found.compared == ("d", "e")


# Each device scales by its own largest entry as the reference does for groups of two rows: it holds on eight alone.
SPREAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def center(x):
    return {center}


def spread(x):
    scaled = x / jnp.max(jnp.abs(x))
    deviations = scaled - center(scaled)
    return lax.{reduction}(jnp.square(deviations).mean(0), {axes})


def reference(x):
    grouped = x.reshape(8, -1, 3)
    scaled = grouped / np.abs(grouped).max((1, 2), keepdims=True)
    return scaled.reshape(-1, 3).var(0)


def main():
    mesh = Mesh(np.asarray(jax.devices()){shape}, {axes})
    run = jax.shard_map(spread, mesh=mesh, in_specs=P({axes}), out_specs=P())
    x = np.sin(np.arange(48.0)).reshape(16, 3)
    {check}


if __name__ == "__main__":
    main()
"""
RIGHT = {
    "center": "lax.pmean(x.mean(0), {axes})",
    "reduction": "pmean",
    "check": "np.testing.assert_allclose(run(x), reference(x), rtol=1e-4)",
}
MESHES = {
    "one axis": {"shape": "", "axes": '"d"'},
    "two axes": {"shape": ".reshape(4, 2)", "axes": '("d", "e")'},
}


def _spread(mesh: dict[str, str], **changed: str) -> str:
    text = SPREAD
    for name, value in {**RIGHT, **changed, **mesh}.items():
        text = text.replace("{" + name + "}", value)
    return text


@pytest.mark.parametrize("mesh", MESHES)
def test_a_program_that_holds_on_its_own_mesh_alone_is_silent(mesh: str) -> None:
    found = judge(program(_spread(MESHES[mesh])))
    assert found.departures == ()
    assert found.failing is None


CHANGED = [
    ({"center": "x.mean(0)"}, "a lax.pmean over {axes} of this value", ".mean(0)"),
    ({"reduction": "psum"}, "lax.pmean here", "lax.psum("),
    ({"center": "lax.psum(x.mean(0), {axes})"}, "lax.pmean here", "lax.psum("),
]


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize(("changed", "text", "line"), CHANGED)
def test_the_change_with_which_an_assertion_holds(
    changed: dict[str, str], text: str, line: str, mesh: str
) -> None:
    source = _spread(MESHES[mesh], **changed)
    found = judge(program(source))
    assert found.departures == ()
    assert found.failing is not None
    axes = MESHES[mesh]["axes"].strip("()").replace(", ", " and ").replace('"', "'")
    mended = found.failing.mended
    assert mended.text == text.replace("{axes}", axes)
    assert line in source.splitlines()[mended.where.place[0] - 1]
    assert "assert" in source.splitlines()[found.failing.where.place[0] - 1]


def test_nothing_is_said_where_no_change_helps() -> None:
    check = RIGHT["check"].replace("reference(x)", "reference(x) + 1")
    found = judge(program(_spread(MESHES["one axis"], check=check)))
    assert found.failing is None
    assert any("AssertionError" in reason for reason in found.reasons)


# All devices are to draw the same threshold.
SAMPLED = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def below(key, x):
    {own}
    level = jax.random.uniform(key, ())
    return lax.psum(jnp.sum(x < level), "d")


def main():
    mesh = Mesh(np.asarray(jax.devices()), ("d",))
    run = jax.shard_map(below, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())
    key, x = jax.random.key(5), jnp.sin(jnp.arange(64.0))
    level = jax.random.uniform(key, ())
    assert run(key, x) == np.sum(np.asarray(x) < level)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "own", ["key = jax.random.fold_in(key, lax.axis_index('d'))", ""]
)
def test_a_key_that_should_be_the_same_on_all_devices(own: str) -> None:
    found = judge(program(SAMPLED.replace("{own}", own)))
    texts = [] if found.failing is None else [found.failing.mended.text]
    assert texts == (["no jax.random.fold_in here"] if own else [])


@pytest.mark.parametrize(
    "check",
    [
        "assert float(jnp.sum(result)) > 1e6, 'too small'",
        "np.testing.assert_array_less(1e6, np.asarray(result))",
        "assert not np.any(np.asarray(result) < 1e6)",
        "assert not np.allclose(result, result)",
        "assert result.shape == (1,)",
        "raise AssertionError('not done')",
    ],
)
def test_what_is_to_be_larger_says_nothing(check: str) -> None:
    found = judge(program(_of(check)))
    assert found.departures == ()
    assert found.failing is None
    assert any("AssertionError" in reason for reason in found.reasons)


def test_trees_are_compared_as_in_chex() -> None:
    one = {"a": jnp.ones(3), "b": [jnp.zeros(2)]}
    near = jax.tree.map(lambda leaf: leaf + 1e-5, one)
    for other, holds in ((one, True), (near, False), ({"a": jnp.ones(3)}, False)):
        for ours, theirs in (
            (assert_trees_all_close, chex.assert_trees_all_close),
            (assert_trees_all_equal, chex.assert_trees_all_equal),
        ):
            for function in (ours, theirs):
                if holds:
                    function(one, other, one)
                    continue
                with pytest.raises(AssertionError):
                    function(one, other)
    assert_trees_all_close(one, near, rtol=1e-4, atol=1e-4)
    chex.assert_trees_all_close(one, near, rtol=1e-4, atol=1e-4)


def test_examples_of_vmap_are_no_devices() -> None:
    center = "jax.vmap(lambda row: row.mean(), in_axes=1)(x)"
    source = _spread(MESHES["two axes"], center=center)
    found = judge(program(source))
    assert found.failing is not None
    mended = found.failing.mended
    assert mended.text == "a lax.pmean over 'd' and 'e' of this value"
    assert "row.mean()" in source.splitlines()[mended.where.place[0] - 1]
