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
            "*test_marker.py::test_each: 't' in 't' is no axis; write axes like d=2,t=4",
            "test_fixture.py::test_too_many: the mesh d=4,t=4 needs 16 devices and there are 8: "
            "run with --shardtypes-devices=16*",
            "test_fixture.py::test_positional: the marker mesh takes axes by keyword, as in mesh(d=2, t=4), not 'd=4'",
            "*: axis_types='manual' is unknown; use 'auto' or 'explicit'",
            "no mesh to use: mark the test, as in @pytest.mark.mesh(d=2, t=4), or set --shardtypes-mesh=d=2,t=4",
        ]
    )
