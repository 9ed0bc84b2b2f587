"""Why a result may depend on the number of devices on purpose."""

from __future__ import annotations

from shardlint.evaluation.comparison import (
    Difference,
    Outcome,
    Resized,
    numbers_of,
)
from shardlint.evaluation.culprits import Culprit, Trace
from shardlint.evaluation.flat_state import has_the_same_rows
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.meshes import Spec
from shardlint.evaluation.parting import OWN, Parting
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.trees import flatten, leaf_at, paths_of

OWN_GROUPS = "each device forms groups of its own rows"
_EXCHANGES = frozenset(
    f"jax.lax.{name}" for name in collectives("exchanges") | {"axis_index"}
)


def excuse_of(
    parting: Parting,
    trace: Trace,
    leaf: Array,
    culprit: Culprit,
    difference: Difference | Resized,
    is_whole: bool,
) -> str | None:
    """Why a result may differ on purpose where this expression is the first to differ, empty where there is nothing to
    say of that; None if nothing tells so. One that ``is_whole`` is shared by all devices, or right but for a factor."""
    region, axis = parting.region, parting.axis
    value = culprit.step.value
    if axis in value.array.own and trace.has_own([value.number]):
        return OWN
    if culprit.is_put_together_wrongly and region.stacked is None:
        return None  # the result is right as it is
    if _is_part(region, leaf, culprit):
        return ""  # whoever gets the parts of all devices may combine them
    if culprit.joins_rows and _has_the_same_rows(parting, difference):
        return "each device keeps rows of its own"
    reason = _reason_to_differ(trace, leaf, culprit, difference)
    if reason is not None:
        return reason
    if is_whole or culprit.has_partial_sum or culprit.mixes_shards(axis):
        return None
    if axis not in value.given.names and _is_data_axis(parting.many, region, axis):
        # of a function that is mapped as it is, such as jnp.sum, no expression is known
        is_followed = value.is_inside
        return "each device's examples are a batch of its own" if is_followed else ""
    return None


def division_by_local_size(trace: Trace, leaf: Array) -> Culprit | None:
    """Where a sum over all devices is divided by the local size of what was summed, and used as the mean: that is no
    matter of what each device has by itself."""
    for culprit in trace.culprits(leaf.sources):
        value = culprit.step.value
        is_division = culprit.divides_by_local_size(trace.axis)
        if (
            is_division
            and trace.axis not in value.array.own
            and trace.mixes(value.number)
        ):
            return culprit
    return None


def _is_part(region: Region, leaf: Array, culprit: Culprit) -> bool:
    """Whether ``pmap`` gives each device's part of a sum as it is, or what a function that takes the largest or the
    smallest gave of its own: of other functions, that a result is the largest one may be chance."""
    step = culprit.step
    is_result = leaf.sources == frozenset({step.value.number})
    is_result &= region.stacked is not None
    if not is_result or step.kind != "part":
        return False
    return step.monoid == "sum" or step.takes_extreme


def _reason_to_differ(
    trace: Trace, leaf: Array, culprit: Culprit, difference: Difference | Resized
) -> str | None:
    """Why results may differ on purpose where this expression is the first to differ; None if nothing tells so."""
    if culprit.groups_rows and not trace.are_sent(culprit.step.value.number):
        return OWN_GROUPS
    if culprit.takes_blocks:
        return "each device takes a block of its own"
    if culprit.scales:
        return "it multiplies by a number of devices"
    if isinstance(difference, Resized) and not culprit.adds_shards(trace.axis):
        return difference.reason
    if trace.has_one_each(leaf.sources):
        return "each device has one entry of a sharded array"
    return None


def _has_the_same_rows(parting: Parting, difference: Difference | Resized) -> bool:
    """Whether a result has the same rows on both numbers of devices, in another order."""
    one, two = (
        numbers_of(leaf_at(region.results, difference.path))
        for region in (parting.region, parting.twin)
    )
    return has_the_same_rows(one, two)


def axes_of_result(region: Region, difference: Difference | Resized) -> frozenset[str]:
    """The mesh axes over which a result is put together from different parts."""
    if region.stacked is not None:
        return frozenset(region.split)
    spec = spec_of_result(region, difference)
    return spec.mentioned if spec else frozenset()


def spec_of_result(region: Region, difference: Difference | Resized) -> Spec | None:
    """The spec of a result of ``shard_map``; None where there is none."""
    if region.stacked is not None:
        return None
    results, wanted = region.places
    paths = paths_of(flatten(results)[1])
    spec: Spec | None = wanted[paths.index(difference.path)]
    return spec


def _is_data_axis(many: Outcome, region: Region, axis: str) -> bool:
    """Whether devices along an axis have examples of their own, and nothing else: all that is sharded over it is so in
    its first dimension, and devices exchange nothing but sums and averages."""
    assert many.recorder is not None
    exchanged = any(
        axis in one.given.names and one.name in _EXCHANGES
        for one in many.recorder.values
    )
    return region.split.get(axis, frozenset()) == {0} and not exchanged
