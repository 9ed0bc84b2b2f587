"""Calls that place values: ``with_sharding_constraint``, ``device_put``, ``reshard``, and ``NamedSharding`` itself."""

from __future__ import annotations

from dataclasses import replace

from shardlint import ir
from shardlint.engine import matching
from shardlint.engine.annotations import resolve
from shardlint.engine.libraries import knows
from shardlint.engine.sharding import (
    checks,
    explicit,
    meshes,
    placements,
    rules_in_force,
)
from shardlint.engine.sharding.signatures import laid_out
from shardlint.engine.sharding.site import NONE, Site
from shardlint.engine.sharding.specs import (
    NAMED_SHARDING,
    PARTITION_SPEC,
    axes_named,
    make,
    shown,
    spec_of,
)
from shardlint.engine.trees import map_leaves
from shardlint.engine.types import says_something
from shardlint.ops.arrays import UNKNOWN_ARRAY, dims_of, sizes_argument
from shardlint.values import (
    ArrayValue,
    InstanceValue,
    IntValue,
    MeshValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Value,
)
from shardtypes.lang import Bindings

_CONSTRAINT = frozenset({"jax.lax.with_sharding_constraint"})
_PUT = frozenset({"jax.device_put"})
_RESHARD = frozenset({"jax.reshard", "jax.sharding.reshard"})
#: Options that say how the result of an operation is to lie.
LAYING_OUT = ("out_sharding", "device")
_FROM_PARTS = {
    "jax.make_array_from_callback": ("shape", "sharding", "data_callback"),
    "jax.make_array_from_single_device_arrays": ("shape", "sharding", "arrays"),
    "jax.make_array_from_process_local_data": (
        "sharding",
        "local_data",
        "global_shape",
    ),
}


@knows(PARTITION_SPEC | NAMED_SHARDING)
def made(site: Site) -> Value | None:
    """``P(…)``, and ``NamedSharding(mesh, spec)``."""
    spec = make(site.qualname, site.args, site.kwargs, (site.frame.module, site.at))
    if isinstance(spec, ShardingValue):
        check_sharding(site, spec)
    return spec


@knows(_CONSTRAINT | _PUT | _RESHARD)
def place(site: Site) -> Value | None:
    """The placed value."""
    if site.qualname in _CONSTRAINT:
        return _place(
            site,
            ("x", "shardings"),
            "refused" if placements.runs_now(site.it, site.frame) else "dropped",
        )
    if site.qualname in _PUT:
        return _place(site, ("x", "device"), "refused")
    return _place(site, ("xs", "out_shardings"), "refused", lenient=True)


def lay_out(site: Site, result: Value) -> Value:
    """The result of ``jnp.einsum(…, out_sharding=…)``, ``jnp.zeros(…, device=…)`` and all others that take a sharding
    for it."""
    name = next((one for one in LAYING_OUT if one in site.kwargs), "")
    sharding = site.kwargs.get(name)
    spec = spec_of(sharding) if sharding is not None else None
    if (
        sharding is None
        or spec is None
        or not isinstance(result, ArrayValue)
        or result.manual
        or result.numpy
    ):
        return result
    operand = site.operand(len(site.args), name)
    axes = checks.mesh_axes(site, sharding)
    if isinstance(sharding, SpecValue) and not checks.check_axes(
        site, spec, axes, operand
    ):
        return result
    if name == "out_sharding" and not explicit.check_types(site, sharding, operand):
        return result
    if (
        site.name == "einsum"
        and len([value for value in site.args if isinstance(value, ArrayValue)]) != 2
    ):
        return result  # JAX heeds it where it contracts
    if not checks.check_array(
        site, result, spec, axes, operand, "the result", "refused", lenient=True
    ):
        return result
    return placements.note(
        site, checks.placed(result, sharding, site.frame.mesh), sharding
    )


@knows(_FROM_PARTS)
def from_parts(site: Site) -> Value | None:
    """``make_array_from_callback(shape, sharding, …)`` and its like."""
    names = _FROM_PARTS[site.qualname]
    given = site.given(*names)
    sharding, shape = (
        given.get("sharding", NONE),
        given.get("shape", given.get("global_shape", NONE)),
    )
    sizes = (
        sizes_argument(shape) if isinstance(shape, (IntValue, SequenceValue)) else None
    )
    result = UNKNOWN_ARRAY if sizes is None else ArrayValue(dims_of(*sizes))
    spec = spec_of(sharding)
    if spec is None:
        return result
    operand = site.operand(names.index("sharding"), "sharding")
    axes = checks.mesh_axes(site, sharding)
    if not checks.check_array(
        site, result, spec, axes, operand, "the array", "refused"
    ):
        return result
    return placements.note(
        site, checks.placed(result, sharding, site.frame.mesh), sharding
    )


@knows(("shardtypes.make_partition_specs", "shardtypes.make_shardings"))
def of_type(site: Site) -> Value | None:
    """``make_partition_specs(T)`` and ``make_shardings(T)``."""
    if not site.operands:
        return None
    type_ = resolve(site.it, site.operands[0], site.frame.module)
    specs = laid_out(site.it, type_, rules_in_force.may_name_axes(site.it))
    if site.name != "make_shardings":
        return specs
    return _on_a_mesh(specs, _mesh(site, site.given("annotation", "mesh")))


def _mesh(site: Site, given: dict[str, Value]) -> MeshValue | None:
    """The mesh that is given, or that in force."""
    mesh = given.get("mesh")
    return mesh if isinstance(mesh, MeshValue) else site.frame.mesh


@knows(("shardtypes.shard",))
def shard(site: Site) -> Value | None:
    """``shard(x, T)``: the value, placed as its type says. Names stand for sizes of this value alone."""
    given = site.given("x", "annotation", "mesh")
    operand = site.operand(1, "annotation")
    if operand is None or "x" not in given:
        return None
    if site.it.view is not None:
        return given["x"]  # what one device has is where it is
    type_ = resolve(site.it, operand, site.frame.module)
    if not says_something(type_):
        return checks.unplaced(given["x"])
    value, bindings = map_leaves(given["x"], _as_jax_has_it), Bindings()
    where = site.operand(0, "x") or operand
    what = "the value"
    found = matching.check_at(
        site.it, site.frame, type_, value, bindings, what, where.at
    )
    if found is not None:
        if not found.kind:  # JAX makes arrays of numbers, too
            site.report("ST202", where.at, found.message, found.declared, found.witness)
        return checks.unplaced(value)
    value = matching.refine(site.it, type_, value, bindings)
    own = _mesh(site, given)
    named = rules_in_force.may_name_axes(site.it)
    shardings = _on_a_mesh(laid_out(site.it, type_, named), own)
    for array, one, name in checks.pairs(value, shardings, what):
        spec = spec_of(one)
        axes = checks.mesh_axes(site, one)
        if spec is not None and not (
            checks.check_axes(site, spec, axes, operand)
            and checks.check_array(site, array, spec, axes, operand, name, "refused")
        ):
            return value
    result = checks.placed(value, shardings, own)
    return placements.note(site, result, shardings, operand)


def _as_jax_has_it(value: Value) -> Value:
    """An array whose sharding is not known yet; of one of NumPy's JAX decides which dtype it has."""
    if not isinstance(value, ArrayValue) or value.manual:
        return value
    if value.numpy:
        value = replace(value, numpy=False, dtype=None)
    return checks.unplaced(value)


def _on_a_mesh(specs: Value, mesh: MeshValue | None) -> Value:
    match specs:
        case SpecValue():
            return ShardingValue(mesh, specs)
        case SequenceValue(items=items):
            return SequenceValue(tuple(_on_a_mesh(item, mesh) for item in items))
        case InstanceValue(cls=cls, fields=fields):
            return InstanceValue(
                cls, tuple((name, _on_a_mesh(item, mesh)) for name, item in fields)
            )
        case _:
            return specs


def check_sharding(site: Site, sharding: ShardingValue) -> None:
    """``NamedSharding(mesh, spec)``: JAX refuses repeated axes, and those that its mesh does not have."""
    checks.check_axes(
        site, sharding.spec, meshes.sizes(sharding.mesh), site.operand(1, "spec")
    )


def _place(
    site: Site,
    names: tuple[str, str],
    indivisible: checks.Indivisible,
    lenient: bool = False,
) -> Value | None:
    given = site.given(*names)
    value, sharding = given.get(names[0]), given.get(names[1])
    if value is None or sharding is None:
        return None
    operand = site.operand(1, names[1])
    # whatever the value is; a NamedSharding was judged where it was made
    for leaf in checks.shardings_in(sharding):
        if isinstance(leaf, SpecValue):
            checks.check_axes(
                site,
                leaf,
                checks.mesh_axes(site, leaf) or checks.made_axes(site, leaf),
                operand,
            )
    for array, one, what in checks.pairs(value, sharding, "the value"):
        spec = spec_of(one)
        if spec is None:
            continue
        if (
            site.qualname in _CONSTRAINT
            and array.manual
            and _names_manual(site, spec, operand)
        ):
            break
        axes = checks.mesh_axes(site, one)
        # what NamedSharding itself refuses was reported where it was made
        if isinstance(one, SpecValue) and not checks.check_axes(
            site, spec, axes, operand
        ):
            break
        if not checks.check_array(
            site, array, spec, axes, operand, what, indivisible, lenient
        ):
            break
        if site.qualname in _CONSTRAINT and not explicit.check_constraint(
            site, array, one, operand
        ):
            break
        if site.qualname in _RESHARD and not explicit.check_types(site, one, operand):
            break
    own = sharding.mesh if isinstance(sharding, ShardingValue) else site.frame.mesh
    if site.qualname in _CONSTRAINT and explicit.mixed(own):
        return value  # the type that it has says nothing of automatic axes
    result = checks.placed(value, sharding, site.frame.mesh)
    return placements.note(
        site, result, sharding, operand, site.qualname in _CONSTRAINT
    )


def _names_manual(site: Site, spec: SpecValue, operand: ir.Expr | None) -> bool:
    """Report a constraint inside of ``shard_map`` that names an axis over which the code is manual: of one device's
    part there is nothing to place along it. A view that no ``shard_map`` was seen to make says less."""
    view = site.it.view
    if view is None or view.kind != "shard_map" or view.transposes is None:
        return False
    own = {axis for axis, _ in view.axes} - set(view.mapped)
    axis = next((one for one in axes_named(spec) if one in own), None)
    if axis is None:
        return False
    at = site.place(spec, operand)
    text = f"with_sharding_constraint: {shown(spec)} names {axis!r}, a Manual axis: name Auto axes only"
    site.report("ST305", at, text, site.origin(spec, at))
    return True
