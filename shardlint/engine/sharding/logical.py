"""Calls that name dimensions: flax's logical axes and partitioning metadata, and our functions of the same names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from shardlint import ir
from shardlint.engine.annotations import resolve
from shardlint.engine.libraries import knows
from shardlint.engine.plain import innermost
from shardlint.engine.sharding import (
    labels,
    placements,
    rule_axes,
    rules_in_force,
)
from shardlint.engine.sharding.checks import check_axes, mesh_axes
from shardlint.engine.sharding.site import NONE, Site
from shardlint.engine.sharding.specs import axes_of, shown
from shardlint.engine.types import ArrayType
from shardlint.logical_rules import RuleList
from shardlint.ops.initializers import INITIALIZERS
from shardlint.ops.sharding.explicit import explicit_axes
from shardlint.outline import RULES_CONTEXTS, RULES_SETTERS
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    FunctionValue,
    MeshValue,
    PartialValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Unknown,
    Value,
)
from shardtypes.lang import format_shape

#: ``self.param`` of a module.
PARAM = "flax.linen.Module.param"
_CONSTRAINT = frozenset({"with_logical_constraint"})
_OLD_CONSTRAINT = "flax.linen.partitioning.with_sharding_constraint"
_CONSTRAINT_OPTIONS = {_OLD_CONSTRAINT: ("fallback",)}
_LOGICAL = frozenset({"with_logical_partitioning"})
_PARTITIONING = frozenset({"with_partitioning", "with_metadata"})
_TO_MESH = frozenset(
    {"logical_to_mesh_axes", "logical_to_mesh", "logical_to_mesh_sharding"}
)
#: flax's names for two of JAX's initializers.
_FLAX_INITIALIZERS = {
    f"{INITIALIZERS}.zeros_init": "zeros",
    f"{INITIALIZERS}.ones_init": "ones",
}


@knows(last=_LOGICAL | _PARTITIONING | _TO_MESH | RULES_CONTEXTS | RULES_SETTERS)
def call(site: Site) -> Value | None:
    """A function of flax or of ours that names dimensions, or says where names lie."""
    if not rules_in_force.is_library(site.qualname):
        return None
    if site.name in _LOGICAL | _PARTITIONING:
        is_nnx = site.qualname.startswith("flax.nnx.")
        return None if is_nnx else _partitioning(site)
    if site.name in _TO_MESH:
        return _to_mesh(site)
    if site.name in RULES_CONTEXTS:
        return PartialValue(
            ExternalValue(site.qualname), tuple(site.args), tuple(site.kwargs.items())
        )
    given = site.given("rules").get("rules", NONE)
    site.frame.rules = rules_in_force.from_value(given, None)
    return None


@knows(_FLAX_INITIALIZERS)
def initializer(site: Site) -> Value:
    """What flax calls an initializer of JAX's."""
    return ExternalValue(f"{INITIALIZERS}.{_FLAX_INITIALIZERS[site.qualname]}")


@knows((_OLD_CONSTRAINT,), last=_CONSTRAINT)
def constrained(site: Site) -> Value | None:
    """``with_logical_constraint(x, names)``."""
    if not rules_in_force.is_library(site.qualname):
        return None
    given = site.given(
        "x",
        "logical_axis_resources",
        *_CONSTRAINT_OPTIONS.get(site.qualname, ("rules", "mesh", "fallback")),
    )
    value, names = given.get("x"), given.get("logical_axis_resources")
    operand = site.operand(1, "logical_axis_resources")
    spec = names_in(site, names, operand)
    if value is None or spec is None:
        return None
    # what to do with a name that has no rule was decided where a fallback is given
    lists = (
        ()
        if "fallback" in given
        else rules_in_force.lists(site, given.get("rules", NONE))
    )
    named = check_names(site, spec, lists, operand)
    # a name without a rule is a name all the same
    keeps = named or not _has_repeats(spec)
    if not isinstance(value, ArrayValue):
        return (
            replace(value, names=spec)
            if keeps and isinstance(value, Unknown)
            else value
        )
    if named and check_rank(site, spec, value, operand):
        keeps = labels.check_order(site, value, spec, lists, operand)
    result = labels.named(value, spec) if keeps else value
    if named:
        sharding = _by_rules(spec, lists, given.get("mesh", NONE), site)
        placements.note_dropped(site, result, sharding, operand)
    return result


def _by_rules(
    spec: SpecValue, lists: Sequence[RuleList], mesh: Value, site: Site
) -> ShardingValue | None:
    """How the rules split an array with these names, on the given mesh or the one in force."""
    found = {one.resolve(spec.entries or ()) for one in lists}
    axes = found.pop() if len(found) == 1 else None
    own = mesh if isinstance(mesh, MeshValue) else site.frame.mesh
    if axes is None or own is None or explicit_axes(own):
        return None
    return ShardingValue(own, SpecValue(axes, spec.place))


def _has_repeats(spec: SpecValue) -> bool:
    """Whether one name stands for two dimensions."""
    names = [name for entry in spec.entries or () for name in entry or ()]
    return len(names) != len(set(names))


def _partitioning(site: Site) -> Value:
    """``with_logical_partitioning(init, names)``: an initializer whose names are known."""
    given = site.given("fn", "names")
    operand = site.operand(1, "names")
    spec = names_in(site, given.get("names", NONE), operand)
    if len(site.args) > 2 or spec is None:
        return Unknown("an initializer with names")
    if rules_in_force.is_library(site.qualname, _LOGICAL):
        lists = rules_in_force.lists(site, given.get("rules", NONE))
        if check_names(site, spec, lists, operand):
            _check_clash(site, spec, lists, operand)
    else:
        check_axes(site, spec, mesh_axes(site, spec), operand)
    return PartialValue(ExternalValue(site.qualname), (given.get("fn", NONE), spec))


def _to_mesh(site: Site) -> Value | None:
    """``logical_to_mesh_axes(names)`` and its relatives: the spec that the rules make of logical names."""
    parameters = {"logical_to_mesh_sharding": ("names", "mesh", "rules")}.get(
        site.name, ("names", "rules")
    )
    given = dict(zip(parameters, site.args, strict=False)) | site.kwargs
    value = given.get("names", next(iter(given.values()), NONE))
    operand = site.operand(0, parameters[0])
    spec = names_in(site, value, operand)
    if spec is None or (
        site.name != "logical_to_mesh_axes" and not isinstance(value, SpecValue)
    ):
        return None  # a tree of them
    lists = rules_in_force.lists(site, given.get("rules", NONE))
    # that a name without a rule is not split is what some programs ask for here
    check_names(site, spec, lists, operand, misspelt=True, always=True)
    found = {one.resolve(spec.entries or ()) for one in lists}
    axes = found.pop() if len(found) == 1 else None
    unknown = None if spec.entries is None else (None,) * len(spec.entries)
    result = SpecValue(
        axes if axes is not None else unknown, (site.frame.module, site.at)
    )
    mesh = given.get("mesh")
    if site.name != "logical_to_mesh_sharding":
        return result
    return ShardingValue(mesh if isinstance(mesh, MeshValue) else None, result)


def names_of(init: Value | None) -> SpecValue | None:
    """The names that an initializer was given by ``with_logical_partitioning`` or ``with_partitioning``."""
    if (
        isinstance(init, PartialValue)
        and isinstance(init.func, ExternalValue)
        and len(init.args) == 2
    ):
        if rules_in_force.is_library(init.func.qualname, _LOGICAL | _PARTITIONING):
            return init.args[1] if isinstance(init.args[1], SpecValue) else None
    return None


@knows((PARAM,))
def parameter(site: Site) -> Value | None:
    """``self.param(name, init, shape, …)``."""
    init = site.given("name", "init_fn").get("init_fn")
    spec: SpecValue | None = None
    logical = False
    if isinstance(init, PartialValue) and names_of(init) is not None:
        logical = isinstance(init.func, ExternalValue) and rules_in_force.is_library(
            init.func.qualname, _LOGICAL
        )
        spec, init = names_of(init), init.args[0]
    array = made(site, init, site.args[2:])
    if array is None and isinstance(init, FunctionValue) and site.it.view is None:
        # flax holds what is there against what the function makes
        given = [Unknown("a key"), *site.args[2:]]
        found = site.it.call(site.frame, init, given, {}, site.at)
        array = found if isinstance(found, ArrayValue) else None
    if array is None:
        return None
    return _named_param(site, array, spec, logical, site.operand(1, "init_fn"))


@knows(("flax.linen.partitioning.param_with_axes",))
def parameter_with_axes(site: Site) -> Value | None:
    """``param_with_axes(name, init, shape, …, axes=names)``."""
    given = site.given("name", "init_fn")
    operand = site.operand(len(site.args), "axes")
    spec = names_in(site, given.get("axes", NONE), operand)
    array = made(site, given.get("init_fn"), site.args[2:])
    if (
        spec is not None
        and array is not None
        and not check_rank(site, spec, array, operand)
    ):
        return array
    if spec is not None:
        lists = rules_in_force.lists(site)
        if check_names(site, spec, lists, operand):
            _check_clash(site, spec, lists, operand)
    return None if array is None else _named_param(site, array, spec, True, operand)


def _named_param(
    site: Site,
    array: ArrayValue,
    spec: SpecValue | None,
    logical: bool,
    operand: ir.Expr | None,
) -> ArrayValue:
    if spec is None or not check_rank(site, spec, array, operand) or not logical:
        return array
    return labels.named(array, spec)


def made(site: Site, init: Value | None, given: Sequence[Value]) -> ArrayValue | None:
    """What one of JAX's initializers makes; None for any other function. ``given`` follows the key."""

    inner = None if init is None else innermost(init)
    if (
        init is None
        or not isinstance(inner, ExternalValue)
        or not inner.qualname.startswith(INITIALIZERS)
    ):
        return None
    made = site.it.call(site.frame, init, [Unknown("a key"), *given], {}, site.at)
    return made if isinstance(made, ArrayValue) and made.dims is not None else None


def names_in(
    site: Site, value: Value | None, operand: ir.Expr | None
) -> SpecValue | None:
    """Logical names: a tuple of them, a spec made of them, or one of our annotations. Their place is the argument."""
    place = (site.frame.module, operand.at) if operand is not None else None
    match value:
        case SequenceValue(items=items, kind="tuple"):
            return SpecValue(tuple(axes_of(item) for item in items), place)
        case SpecValue(entries=entries):
            return SpecValue(entries, place or value.place)
        case _:
            pass
    if operand is not None and site.qualname.startswith("shardtypes."):
        type_ = resolve(site.it, operand, site.frame.module)
        if (
            isinstance(type_, ArrayType)
            and type_.shape is not None
            and type_.shape.rank is not None
        ):
            return SpecValue(
                tuple((dim.name,) if dim.name else () for dim in type_.shape.dims),
                place,
            )
    return None


def check_names(
    site: Site,
    spec: SpecValue,
    lists: Sequence[RuleList],
    operand: ir.Expr | None,
    misspelt: bool = False,
    axes: Iterable[str] = (),
    always: bool = False,
) -> bool:
    """Names that occur twice, and names that no rule mentions; ``misspelt``: only near ones. ``axes`` of a mesh may be
    named as well. False after a report.

    Where no rules are in force flax does nothing with names, and so takes one that occurs twice, unless they are looked
    up ``always``.
    """
    at = operand.at if operand is not None else site.at
    looked_up = always or any(one.rules for one in lists)
    if not lists:
        looked_up = always or rules_in_force.may_name_axes(site.it)
    seen: set[str] = set()
    known = frozenset(axes).union(*(one.names for one in lists))
    for entry in spec.entries or ():
        if entry is None or len(entry) != 1:
            continue
        name = entry[0]
        if name in seen and looked_up:
            site.report(
                "ST402",
                at,
                f"two dimensions have the logical name {name!r}, which flax refuses: rename one of them",
            )
            return False
        seen.add(name)
        if lists and name not in known:
            near = get_close_matches(name, known, 1)
            if misspelt and not near:
                continue
            source = next((one.source for one in lists if one.source), "")
            text = f"no rule{' of ' + source if source else ''} mentions the logical axis {name!r}"
            text += (
                f"; did you mean {near[0]!r}?"
                if near
                else ": the dimension is replicated; add a rule"
            )
            site.report("ST401", at, text, _rule_places(lists))
            return False
    rule_axes.check(site, spec, lists)
    return True


def _check_clash(
    site: Site, spec: SpecValue, lists: Sequence[RuleList], operand: ir.Expr | None
) -> None:
    """Two dimensions of a parameter whose only rules ask for one mesh axis: one of them is never split.

    Where a name has several rules the others are meant for this case, and activations are often laid out so that a
    batch dimension goes first: neither is reported.
    """
    clashes = [_clash(spec, one) for one in lists]
    if not clashes or any(clash is None for clash in clashes):
        return
    first, second, axis = clashes[0] or ("", "", "")
    at = operand.at if operand is not None else site.at
    text = f"{_both_on(first, second, axis)}, so {second!r} is replicated: give it another rule"
    site.report("ST402", at, text, _rule_places(lists))


def _clash(spec: SpecValue, rules: RuleList) -> tuple[str, str, str] | None:
    """The name that gets an axis, the one that does not, and the axis."""
    only = {
        name: axes
        for name, axes in rules.rules
        if sum(other == name for other, _ in rules.rules) == 1
    }
    result = rules.resolve(spec.entries or ())
    if result is None:
        return None
    for entry, axes in zip(spec.entries or (), result, strict=True):
        wanted = only.get(entry[0]) if entry else None
        if not wanted or axes:
            continue
        for other, taken in zip(spec.entries or (), result, strict=True):
            common = [axis for axis in wanted if axis in (taken or ())]
            if other and other[0] in only and common:
                return other[0], (entry or ("",))[0], common[0]
    return None


def check_refused(
    site: Site, spec: SpecValue, lists: Sequence[RuleList], operand: ir.Expr | None
) -> None:
    """Two dimensions of a variable of ``flax.nnx`` that its rules lay on one mesh axis: unlike linen, which leaves one
    of them whole, it asks JAX for both."""
    clashes = [_both_on_one(spec, one) for one in lists]
    if not clashes or any(clash is None for clash in clashes):
        return
    first, second, axis = clashes[0] or ("", "", "")
    at = operand.at if operand is not None else site.at
    text = f"{_both_on(first, second, axis)}, which JAX refuses: give one of them another rule"
    site.report("ST402", at, text, _rule_places(lists))


def _both_on(first: str, second: str, axis: str) -> str:
    return f"the logical axes {first!r} and {second!r} both map to mesh axis {axis!r}"


def _both_on_one(spec: SpecValue, rules: RuleList) -> tuple[str, str, str] | None:
    """Two names and the axis that both lie on, where each has one rule, or is itself an axis."""
    found: dict[str, str] = {}
    for entry in spec.entries or ():
        for name in entry or ():
            given = [axes for other, axes in rules.rules if other == name]
            axes = (given[0] if len(given) == 1 else None) if given else (name,)
            for axis in axes or ():
                if axis in found:
                    return found[axis], name, axis
                found[axis] = name
    return None


def check_rank(
    site: Site, spec: SpecValue, value: ArrayValue, operand: ir.Expr | None
) -> bool:
    """As many names as dimensions. False after a report.

    Fewer names may be meant for the leading dimensions, unless one of them is what a later dimension is called.
    """
    if (
        value.dims is None
        or spec.entries is None
        or len(spec.entries) == len(value.dims)
    ):
        return True
    if len(spec.entries) < len(value.dims) and not labels.shifted(value, spec):
        return True
    at = operand.at if operand is not None else site.at
    related: tuple[tuple[str, int, str], ...] = ()
    if spec.place is not None and spec.place[0] == site.frame.module:
        related = (
            ((site.frame.module, site.at, "given to the array here"),)
            if spec.place[1] != at
            else ()
        )
        at = spec.place[1]
    names = shown(spec).removeprefix("P")
    sizes = [dim.size for dim in value.dims]
    what = f"is {format_shape(sizes)!r}, of rank" if any(sizes) else "has rank"
    text = (
        f"{names} has {len(spec.entries)} names, but the array {what} {len(value.dims)}"
    )
    site.report("ST404", at, text, related)
    return False


def _rule_places(lists: Sequence[RuleList]) -> tuple[tuple[str, int, str], ...]:
    return tuple(
        (*one.place, "the rules are here") for one in lists if one.place is not None
    )
