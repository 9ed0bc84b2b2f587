"""Names of dimensions that flax keeps beside arrays: variables and initializers of ``flax.nnx``, and layers that are
given such initializers."""

from __future__ import annotations

from shardlint.engine.libraries import knows
from shardlint.engine.sharding import layer_names, logical, rules_in_force
from shardlint.engine.sharding.checks import check_axes, mesh_axes
from shardlint.engine.sharding.site import NONE, Site
from shardlint.values import (
    ArrayValue,
    Dimension,
    ExternalValue,
    PartialValue,
    SpecValue,
    Value,
)

_INITIALIZERS = frozenset({"flax.nnx.with_partitioning", "flax.nnx.with_metadata"})
_VARIABLES = frozenset(
    f"flax.nnx.{name}"
    for name in ("Variable", "Param", "BatchStat", "Cache", "Intermediate")
)
#: What releases of flax call the names of a variable's dimensions.
_KEYS = ("sharding", "sharding_names", "out_sharding")
_OWN_RULES = "sharding_rules"  # of one variable: those in force do not matter to it


@knows(_VARIABLES | layer_names.NAMED, first=True)
def check(site: Site) -> None:
    """A variable or a layer that is made: at most as many names as its arrays have dimensions."""
    if (
        site.qualname in _VARIABLES
        and site.args
        and not {"eager_sharding", _OWN_RULES} & site.kwargs.keys()
    ):
        for key in _KEYS:
            if key not in site.kwargs:
                continue
            operand = site.operand(len(site.args), key)
            spec = logical.names_in(site, site.kwargs[key], operand)
            value = site.args[0]
            if spec is None or not _check_names(site, spec, key):
                continue
            # a scalar stands for something else
            if isinstance(value, ArrayValue) and value.dims:
                logical.check_rank(site, spec, value, operand)
    for option, rank in layer_names.ranks(
        site.qualname, site.args, site.kwargs
    ).items():
        spec = logical.names_of(site.kwargs.get(option))
        if spec is not None:
            array = ArrayValue((Dimension(None),) * rank)
            logical.check_rank(site, spec, array, site.operand(len(site.args), option))


@knows(_INITIALIZERS)
def call(site: Site) -> Value | None:
    """``nnx.with_partitioning(init, names)``: an initializer with names, or what it makes."""
    if _OWN_RULES in site.kwargs:
        return None
    # applied to a key and a shape
    if len(site.args) > 2 and isinstance(site.args[1], SpecValue):
        array = logical.made(site, site.args[0], site.args[3:])
        if array is not None:
            logical.check_rank(site, site.args[1], array, None)
        return array
    given = (
        site.given("initializer", "sharding")
        if site.name == "with_partitioning"
        else site.given("initializer")
    )
    key = next((key for key in _KEYS if key in given), None)
    spec = (
        None
        if key is None
        else logical.names_in(site, given[key], site.operand(1, key))
    )
    if spec is None or key is None:
        return None
    _check_names(site, spec, key)
    return PartialValue(
        ExternalValue(site.qualname), (given.get("initializer", NONE), spec)
    )


def _check_names(site: Site, spec: SpecValue, key: str) -> bool:
    """Without rules the names are mesh axes. With rules a name that they do not mention is one."""
    axes, operand = mesh_axes(site, spec), site.operand(1, key)
    if not rules_in_force.may_name_axes(site.it):
        return check_axes(site, spec, axes, operand)
    lists = rules_in_force.lists(site)
    if axes is not None and not logical.check_names(
        site, spec, lists, operand, axes=axes
    ):
        return False
    logical.check_refused(site, spec, lists, operand)
    return True
