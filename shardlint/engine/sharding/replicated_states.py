"""States of optimizers that ``jit`` replicates beside the sharded parameters that they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shardlint.engine.sharding import checks
from shardlint.engine.sharding.placed import Placement
from shardlint.engine.sharding.specs import shown, spec_of
from shardlint.values import (
    ArrayValue,
    DictValue,
    InstanceValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Unknown,
    Value,
)


def found(
    value: Value, shardings: Value, placements: Mapping[int, Placement]
) -> tuple[str, SpecValue] | None:
    """What is wrong with the shardings of a result that has the state of an optimizer, beside its parameters or made of
    some that the program has placed, and the spec of the state."""
    for state, spec, path in _states(value, shardings, ""):
        if (
            spec.entries is None
            or any(entry != () for entry in spec.entries)
            or state.moments_of is None
        ):
            continue
        sharded = _spec_of_parameters(state.moments_of, value, shardings, placements)
        if sharded is not None:
            text = (
                f"result{path}, an optimizer state, is replicated ({shown(spec)}) though its parameters are sharded "
                f"({shown(sharded)}): each device holds all moments; give the state the shardings of its parameters"
            )
            return text, spec
    return None


def _states(
    value: Value, shardings: Value, path: str
) -> Iterator[tuple[Unknown, SpecValue, str]]:
    """The states of optimizers in a result, with the specs that a prefix tree gives them."""
    if isinstance(value, Unknown):
        spec = (
            spec_of(shardings)
            if isinstance(shardings, (SpecValue, ShardingValue))
            else None
        )
        if spec is not None and value.moments_of is not None:
            yield value, spec, path
        return
    whole = isinstance(shardings, (SpecValue, ShardingValue))
    below = {} if whole else dict(_children(shardings))
    for key, item in _children(value):
        if whole or key in below:
            yield from _states(item, shardings if whole else below[key], f"{path}{key}")


def _children(value: Value) -> Iterator[tuple[str, Value]]:
    """The entries of a tree, with what to call them."""
    if isinstance(value, SequenceValue):
        yield from ((f"[{index}]", item) for index, item in enumerate(value.items))
    elif isinstance(value, DictValue):
        yield from ((f"[{key!r}]", item) for key, item in value.items)
    elif isinstance(value, InstanceValue):
        yield from ((f".{name}", item) for name, item in value.fields)


def _spec_of_parameters(
    parameters: Value,
    value: Value,
    shardings: Value,
    placements: Mapping[int, Placement],
) -> SpecValue | None:
    """A spec that shards one of these parameters, if all of them are among the results, or lie where it is known."""
    results = [
        (array, spec_of(one)) for array, one, _ in checks.pairs(value, shardings, "")
    ]
    specs: list[SpecValue] = []
    for wanted, _ in checks.arrays(parameters, ""):
        place = next(
            (
                index
                for index, (array, _) in enumerate(results)
                if _is_alike(array, wanted)
            ),
            None,
        )
        spec = _own_spec(wanted, placements) if place is None else results.pop(place)[1]
        if spec is None and place is None:
            return None
        if spec is not None and any(spec.entries or ()):
            specs.append(spec)
    return specs[0] if specs else None


def _own_spec(
    array: ArrayValue, placements: Mapping[int, Placement]
) -> SpecValue | None:
    """How an array is sharded that a function is given; None where that is not known of each of its dimensions, or
    where it is not sharded at all as far as is known."""
    if id(array) in placements:
        return placements[id(array)].spec
    axes = [dim.axes for dim in array.dims or ()]
    return SpecValue(tuple(axes)) if None not in axes and any(axes) else None


def _is_alike(one: ArrayValue, other: ArrayValue) -> bool:
    """Whether two arrays have the same shape, as far as it is known."""
    if one.dims is None or other.dims is None:
        return False
    return [dim.size for dim in one.dims] == [dim.size for dim in other.dims]
