"""Calls that place values: ``with_sharding_constraint``, ``device_put``, ``reshard``, and ``NamedSharding`` itself."""

from __future__ import annotations

from shardlint.engine.sharding import checks, meshes, placements
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import spec_of
from shardlint.values import ShardingValue, SpecValue, Value

_CONSTRAINT = frozenset({"jax.lax.with_sharding_constraint"})
_PUT = frozenset({"jax.device_put"})
_RESHARD = frozenset({"jax.reshard", "jax.sharding.reshard"})


def place(site: Site) -> Value | None:
    """The placed value; None for any other call."""
    if site.qualname in _CONSTRAINT:
        return _place(site, ("x", "shardings"), "dropped")
    if site.qualname in _PUT:
        return _place(site, ("x", "device"), "refused")
    if site.qualname in _RESHARD:
        return _place(site, ("xs", "out_shardings"), "refused")
    return None


def check_sharding(site: Site, sharding: ShardingValue) -> None:
    """``NamedSharding(mesh, spec)``: JAX refuses repeated axes, and those that its mesh does not have."""
    checks.check_axes(site, sharding.spec, meshes.sizes(sharding.mesh), site.operand(1, "spec"))


def _place(site: Site, names: tuple[str, str], indivisible: checks.Indivisible) -> Value | None:
    given = site.given(*names)
    value, sharding = given.get(names[0]), given.get(names[1])
    if value is None or sharding is None:
        return None
    operand = site.operand(1, names[1])
    for array, one, what in checks.pairs(value, sharding, "the value"):
        spec = spec_of(one)
        if spec is None:
            continue
        axes = checks.mesh_axes(site, one)
        # what NamedSharding itself refuses was reported where it was made
        if isinstance(one, SpecValue) and not checks.check_axes(site, spec, axes, operand):
            break
        if not checks.check_array(site, array, spec, axes, operand, what, indivisible):
            break
    return placements.note(site, checks.placed(value, sharding), sharding)
