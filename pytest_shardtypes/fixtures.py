"""The fixtures of ``pytest --shardtypes``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from jax.sharding import AbstractMesh, Mesh

from pytest_shardtypes import assertions, containment, meshes, traces
from pytest_shardtypes import collectives as compiled
from pytest_shardtypes.axes import BadMesh, MeshAxes
from pytest_shardtypes.devices import FORCED, ForcedDevices
from pytest_shardtypes.facts import note_collectives, note_leak
from pytest_shardtypes.failing_laws import FailingLaws
from pytest_shardtypes.golden import GoldenFiles
from pytest_shardtypes.options import OPTIONS
from pytest_shardtypes.variants import Variant
from shardtypes import layout_lookup, layouts, placement
from shardtypes.kept_meshes import forgetting_meshes


@pytest.fixture(autouse=True)
def _shardtypes_mesh(request: pytest.FixtureRequest) -> Iterator[Mesh | None]:
    """The mesh that this test is to run under, in force while it runs; None where it asks for none."""
    forced = request.config.stash[FORCED]
    _force_again(
        forced,
        lambda text: note_leak(
            request.node, f"began with {text}, which an earlier test had chosen"
        ),
    )
    try:
        axes = _wanted(request)
        mesh = None if axes is None else meshes.build_mesh(axes)
    except BadMesh as error:
        pytest.fail(f"{request.node.nodeid}: {error}", pytrace=False)
    with (
        forgetting_meshes(),
        containment.contained(lambda text: note_leak(request.node, text)),
    ):
        if mesh is None:
            yield None
        else:
            with jax.set_mesh(mesh):
                yield mesh
    _force_again(forced, lambda text: note_leak(request.node, f"left {text}"))


def _force_again(forced: ForcedDevices | None, say: Callable[[str], None]) -> None:
    """Force the devices again where a test has put others in their place."""
    if forced is None:
        return
    lost = forced.lost()
    if lost is not None:
        forced.force()
        say(lost)


@pytest.fixture
def mesh(_shardtypes_mesh: Mesh | None) -> Mesh:
    """The mesh of the marker ``mesh`` or ``meshes``, else of ``--shardtypes-mesh``; it is in force during the test."""
    if _shardtypes_mesh is None:
        pytest.fail(
            "no mesh to use: mark the test, as in @pytest.mark.mesh(d=2, t=4), or set --shardtypes-mesh=d=2,t=4",
            pytrace=False,
        )
    return _shardtypes_mesh


@pytest.fixture
def abstract_mesh() -> Callable[..., AbstractMesh]:
    """``abstract_mesh(d=64, t=1024, axis_types='explicit')``: a mesh of any size, without devices."""
    return meshes.abstract_mesh


@pytest.fixture
def assert_sharding() -> Callable[[Any, Any], None]:
    """``assert_sharding(x, 'B/d M')``: fail unless the array, or each array of a tree, is sharded as declared."""
    return assertions.assert_sharding


@pytest.fixture
def shard() -> Callable[..., Any]:
    """``shard(x, f32['B/d M'])``: the value placed on the mesh in force as the annotation says."""
    return placement.shard


@pytest.fixture
def layout() -> Callable[..., layouts.Layout]:
    """``layout(x)``: how a value is sharded; its text is a shape string."""
    return layout_lookup.layout


@pytest.fixture
def mesh_invariant() -> Callable[..., None]:
    """``mesh_invariant(f, *args)``: fail unless every mesh gives the numbers that one device gives."""
    from pytest_shardtypes import invariant  # takes its time to import

    return invariant.mesh_invariant


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Variant:
    """``variant(f)``: ``f`` as it is, compiled, under ``vmap``, and on each device; the test runs once for each."""
    chosen: Variant = request.param
    return chosen


@pytest.fixture
def assert_max_traces() -> Callable[..., Callable[..., Any]]:
    """``f = assert_max_traces(f, 1)``: fail in the call that JAX traces ``f`` for once too often."""
    return traces.assert_max_traces


@pytest.fixture
def laws() -> FailingLaws:
    """``laws.causal(f, "L")``: as ``shardtypes.laws``; a law that does not hold, or cannot be told, fails the test."""
    return FailingLaws()


@pytest.fixture
def collectives(
    request: pytest.FixtureRequest,
) -> Callable[..., tuple[compiled.Collective, ...]]:
    """``collectives(f, *args)``: the communication that the compiler put in, with axes, bytes and source lines."""

    def found(
        f: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> tuple[compiled.Collective, ...]:
        entries = compiled.collectives(f, *args, **kwargs)
        note_collectives(request.node, map(str, entries))
        return entries

    return found


@pytest.fixture
def assert_collectives(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``assert_collectives(f, *args, all_gather=0, psum=1)``: fail unless the compiled function has these numbers.

    ``assert_collectives(f, *args, golden='mlp')`` compares all of them with a file beside the test's, which
    ``--shardtypes-update`` writes.
    """
    config = request.config
    files = GoldenFiles(
        request.path.parent,
        config.rootpath,
        bool(config.getoption("shardtypes_update")),
    )

    def note(found: tuple[compiled.Collective, ...]) -> None:
        note_collectives(request.node, map(str, found))

    def check(
        f: Callable[..., Any], /, *args: Any, golden: str | None = None, **counts: int
    ) -> None:
        __tracebackhide__ = True
        compiled.assert_collectives(
            f, *args, golden=golden, files=files, seen=note, **counts
        )

    return check


def _wanted(request: pytest.FixtureRequest) -> MeshAxes | None:
    parameter = getattr(request, "param", None)
    if isinstance(parameter, MeshAxes):
        return parameter
    marker = request.node.get_closest_marker("mesh")
    if marker is not None:
        return meshes.marked_mesh(marker)
    if {"mesh", "mesh_invariant"} & set(request.fixturenames):
        return request.config.stash[OPTIONS].mesh
    return None
