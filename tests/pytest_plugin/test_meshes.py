"""Markers and fixtures for meshes."""

from __future__ import annotations

import pytest

from .conftest import Run


def test_meshes_in_tests(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax, pytest, unittest
        from jax.sharding import AxisType

        @pytest.mark.mesh(d=2, t=4)
        def test_marker(mesh):
            assert mesh.axis_names == ("d", "t") and mesh.devices.shape == (2, 4)
            assert set(mesh.axis_types) == {AxisType.Auto}
            assert jax.sharding.get_mesh() == mesh

        @pytest.mark.mesh(d=2)
        def test_in_force_without_the_fixture():
            assert dict(jax.sharding.get_mesh().shape) == {"d": 2}

        def test_not_in_force_elsewhere():
            assert jax.sharding.get_mesh().empty

        @pytest.mark.mesh(d=4, axis_types="explicit")
        def test_explicit(mesh):
            assert set(mesh.axis_types) == {AxisType.Explicit}

        SEEN = []

        @pytest.mark.meshes("d=8", "d=2,t=4", axis_types="explicit")
        @pytest.mark.parametrize("x", [1, 2])
        def test_each(mesh, x):
            SEEN.append((dict(mesh.shape), x))
            assert set(mesh.axis_types) == {AxisType.Explicit}

        @pytest.mark.meshes("d=1", "t=2")
        def test_each_without_the_fixture():
            SEEN.append(dict(jax.sharding.get_mesh().shape))

        def test_all_seen():
            assert len(SEEN) == 6 and {"d": 1} in SEEN and ({"d": 2, "t": 4}, 2) in SEEN

        def test_abstract(abstract_mesh):
            mesh = abstract_mesh(d=64, t=1024, axis_types="explicit")
            x = jax.ShapeDtypeStruct((128, 2048), "float32", sharding=jax.NamedSharding(mesh, jax.P("d", "t")))
            assert jax.eval_shape(lambda x: x * 2, x).sharding.spec == jax.P("d", "t")

        @pytest.mark.mesh(d=2)
        class TestMethods(unittest.TestCase):
            def test_in_force(self):
                assert dict(jax.sharding.get_mesh().shape) == {"d": 2}
        """
    )
    result = run("--shardtypes", "-v", "--strict-markers")
    result.assert_outcomes(passed=13)
    result.stdout.fnmatch_lines(["*::test_each[[]*d=2,t=4*] PASSED*"])


@pytest.mark.once
def test_bad_meshes(pytester: pytest.Pytester, run: Run) -> None:
    """Each failure is its own, in one line, and the run goes on."""
    pytester.makepyfile(
        test_fixture="""
        import pytest

        @pytest.mark.mesh(d=4, t=4)
        def test_too_many(mesh): pass

        @pytest.mark.mesh("d=4")
        def test_positional(mesh): pass

        @pytest.mark.mesh(d=2, axis_types="manual")
        def test_kind(mesh): pass

        def test_none(mesh): pass

        def test_fine(): pass
        """,
        test_marker="""
        import pytest

        @pytest.mark.meshes("d=2", "t")
        def test_each(mesh): pass
        """,
    )
    result = run("--shardtypes", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=5)
    result.stdout.fnmatch_lines(
        [
            "*test_marker.py::test_each: 't' in 't' is not an axis; write axes like d=2,t=4",
            "test_fixture.py::test_too_many: the mesh d=4,t=4 needs 16 devices and there are 8: "
            "run with --shardtypes-devices=16*",
            "test_fixture.py::test_positional: the marker mesh takes axes by keyword, as in mesh(d=2, t=4), not 'd=4'",
            "*: axis_types='manual' is unknown; use 'auto' or 'explicit'",
            "no mesh to use: mark the test, as in @pytest.mark.mesh(d=2, t=4), or set --shardtypes-mesh=d=2,t=4",
        ]
    )


def test_a_mesh_that_shard_map_keeps_ends_with_its_test(
    pytester: pytest.Pytester, run: Run
) -> None:
    """JAX binds a function to the mesh of its first call; here that is one of ours, as of an abstract trace."""
    pytester.makepyfile(
        layers="""
        import functools, jax
        from jax.sharding import PartitionSpec as P
        from shardtypes import f32

        @functools.partial(jax.shard_map, in_specs=(P("d", "t"), P("t")), out_specs=P("d"))
        def product(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
            return jax.lax.psum(x @ w, "t")

        @functools.partial(jax.shard_map, in_specs=P("d"), out_specs=P("d"), axis_names={"d"})
        def over_one(x: f32["B/d M"]) -> f32["B/d M"]:
            return x + jax.lax.axis_size("d")
        """,
        model="""
        import layers
        from shardtypes import f32

        def mlp(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
            return layers.product(x, w)
        """,
        test_model="""
        import jax, jax.numpy as jnp, pytest
        from jax.sharding import Mesh
        from layers import over_one, product
        from model import mlp
        from shardtypes import f32

        X, W = jnp.ones((8, 16)), jnp.ones((16, 32))

        @pytest.fixture
        def placed(mesh, shard):
            return shard(X, f32["B/d M/t"]), shard(W, f32["M/t F"])

        @pytest.mark.meshes("d=2,t=4", "t=2,d=1", "d=2,t=4")
        @pytest.mark.parametrize("f", [product, mlp])
        def test_each(placed, f):
            assert (jax.jit(f)(*placed) == 16).all() and (f(*placed) == 16).all()

        @pytest.mark.mesh(d=2, t=4)
        def test_invariant(placed, mesh_invariant):
            mlp(*placed)
            mesh_invariant(mlp, X, W)
            mlp(*placed)

        @pytest.mark.meshes("d=8", "d=2,t=4", "t=2,d=2")
        def test_axis_names_stay(mesh):
            for _ in range(2):
                assert (jax.jit(over_one)(X) == 1 + mesh.shape["d"]).all()

        @pytest.mark.mesh(d=2, t=4)
        def test_one_mesh_in_a_test(mesh, placed):
            mlp(*placed)
            with jax.set_mesh(Mesh(mesh.devices.T, ("d", "t"))), pytest.raises(ValueError, match="context mesh"):
                product(X, W)
        """,
    )
    result = run("--shardtypes")
    result.assert_outcomes(passed=3 + 6 + 1 + 3 + 1)
    result.stdout.fnmatch_lines(["annotated functions traced: 3 of 3 hold"])
