"""What happens at the border of mapped code: a dimension becomes an axis of devices or examples, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardtypes.semantics.array import Array, Dim, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters, fresh
from shardtypes.semantics.local_sizes import gathered, sharded
from shardtypes.semantics.primitive import Primitive, declare
from shardtypes.semantics.primitives.collectives import psum
from shardtypes.semantics.primitives.elementwise import div, number
from shardtypes.semantics.simulated import Axis, Simulated, on_devices
from shardtypes.semantics.values import Values

_KEPT = Values(jointly=frozenset({0}))


def _nothing(operands: Sequence[Array], params: Params) -> Letters:
    """The relations at a border are given by whoever maps."""
    return Letters((fresh("d", operands[0].rank),), ((),))


def _identity(x: Any, **params: Any) -> Any:
    return x


# --- a dimension of examples: vmap and pmap ------------------------------------------------------------------------


def _without(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [
        tuple(
            size for k, size in enumerate(operands[0].dims) if k != params["dimension"]
        )
    ]


unstack: Primitive = declare(
    "unstack",
    letters=_nothing,
    shape=_without,
    values=_KEPT,
    evaluate=_identity,
    simulate=Simulated.spread_over,
    pull=lambda cotangent, operands, results, params: [restack(cotangent, **params)],
)


def _with(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    sizes.insert(params["dimension"], params["axis"][1])
    return [tuple(sizes)]


restack: Primitive = declare(
    "restack",
    letters=_nothing,
    shape=_with,
    values=_KEPT,
    evaluate=_identity,
    simulate=Simulated.collected,
    pull=lambda cotangent, operands, results, params: [unstack(cotangent, **params)],
)


# --- a dimension that is split over devices: shard_map ---------------------------------------------------------------


def _local(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    size = sizes[params["dimension"]]
    name, count = params["axis"]
    sizes[params["dimension"]] = (
        None if size is None else sharded(size // count, frozenset({name}))
    )
    return [tuple(sizes)]


def _split(x: Simulated, axis: Axis, dimension: int) -> Simulated:
    _, size = axis
    return Simulated.along(
        axis,
        list(
            on_devices(lambda array: np.split(array, size, axis=dimension), [x], size)
        ),
    )


shard: Primitive = declare(
    "shard",
    letters=_nothing,
    shape=_local,
    values=_KEPT,
    evaluate=_identity,
    simulate=_split,
    pull=lambda cotangent, operands, results, params: [unshard(cotangent, **params)],
)


def _inside(cotangent: Array, operand: Array) -> Array:
    """The cotangent of what leaves mapped code, which varies over the axes that this does."""
    return replace(cotangent, varying=operand.varying)


def _global(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    size = sizes[params["dimension"]]
    name, count = params["axis"]
    sizes[params["dimension"]] = (
        None if size is None else gathered(size * count, frozenset({name}))
    )
    return [tuple(sizes)]


def _joined(x: Simulated, axis: Axis, dimension: int) -> Simulated:
    (found,) = on_devices(
        lambda *arrays: [np.concatenate(arrays, axis=dimension)], x.devices(axis), 1
    )
    return found


unshard: Primitive = declare(
    "unshard",
    letters=_nothing,
    shape=_global,
    values=_KEPT,
    evaluate=_identity,
    simulate=_joined,
    pull=lambda cotangent, operands, results, params: [
        _inside(shard(cotangent, **params), operands[0])
    ],
)


# --- the same value on all devices -----------------------------------------------------------------------------------


def _same(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [operands[0].dims]


def _pull_replicate(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Each device had the value: their cotangents are added, unless types that vary have seen to that."""
    if params["checked"] or not params["axes"]:
        return [cotangent]
    return [psum(cotangent, axes=params["axes"], groups=None)]


replicate: Primitive = declare(
    "replicate",
    letters=_nothing,
    shape=_same,
    values=_KEPT,
    evaluate=_identity,
    pull=_pull_replicate,
    simulate=lambda x, axes, checked: x,
)


def _first(x: Simulated, axes: Sequence[Axis], checked: bool) -> Simulated:
    return x.flattened(axes)[0]


def _pull_first(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Without types that vary, each device gets its share of the cotangent, as a sum over them is to come."""
    if params["checked"]:
        return [_inside(cotangent, operands[0])]
    total = 1
    for _, size in params["axes"]:
        total *= size
    return [div(cotangent, number(float(total), cotangent))]


unreplicate: Primitive = declare(
    "unreplicate",
    letters=_nothing,
    shape=_same,
    values=_KEPT,
    evaluate=_identity,
    pull=_pull_first,
    simulate=_first,
)
