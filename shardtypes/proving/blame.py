"""The line to change: where the first value that means nothing was made, and what else a person has to look at."""

from __future__ import annotations

from collections.abc import Sequence

from shardtypes.proving.described import described, moved
from shardtypes.proving.missing_reduction import MissingReduction, awaiting
from shardtypes.proving.program import Constant, Name, Step
from shardtypes.proving.relation import Related
from shardtypes.proving.verdict import Where
from shardtypes.proving.walk import Culprit, Walk
from shardtypes.proving.words import same_rows


def blamed(walk: Walk, names: Sequence[Name]) -> Where | None:
    """Where wrong results begin; None where that is not known."""
    found = walk.culprit(names)
    if found is None:
        return None
    where = described(walk, found)
    part = awaiting(found)
    if part is None:
        better = _shared_indices(walk, found, where)
    else:
        better = MissingReduction(walk, found, part, where).where()
    return better or where


def _shared_indices(walk: Walk, found: Culprit, where: Where) -> Where | None:
    """Rows of a shard are read at places that are the same for all shards: where these were computed."""
    if found.step.primitive != "gather":
        return None
    table = found.operands[0]
    if table is None:
        return None
    shared = _axes_without_places(walk, found.step, table)
    maker = _maker_of_indices(walk, found.step, where)
    if not shared or maker is None:
        return None
    return moved(where, maker, same_rows(shared))


def _axes_without_places(walk: Walk, step: Step, table: Related) -> list[str]:
    """The axes that shard a dimension of the table in which the indices are the same on all devices."""
    index = step.operands[1]
    if isinstance(index, Constant):
        varying = set()
    else:
        varying = walk.varying(index)
    read = step.params["dimension_numbers"].start_index_map
    sharding = [axis for dim in read for axis in table.sharding(dim)]
    return [axis for axis in sharding if axis not in varying]


def _maker_of_indices(walk: Walk, step: Step, where: Where) -> Step | None:
    """The nearest operation on another line that the indices of a lookup come from."""
    makers = walk.makers([step.operands[1]])
    computed = (one for one in makers if one.primitive != "shard")
    near = (one for one in computed if one.place.file == where.place.file)
    return next((one for one in near if one.place != where.place), None)
