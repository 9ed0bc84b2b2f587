"""Operations between the devices along mesh axes. ``axes`` are the simulated axes ``(name, number of devices)``, the
first being the major one.

``sends`` is the one table of what each collective costs; ``shardtypes.semantics.cost`` says in which terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.semantics.array import Array, Dim, Params, SizesDiffer
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters
from shardtypes.semantics.local_sizes import gathered, sharded
from shardtypes.semantics.primitive import Primitive, Pull, declare, evaluating
from shardtypes.semantics.primitives.structure import plain
from shardtypes.semantics.relation import (
    ALIKE,
    SAME,
    UNKNOWN,
    VARYING,
    ZERO,
    Breach,
    Fault,
    Monoid,
    Relation,
    Relations,
    split,
)
from shardtypes.semantics.simulated import Axis, Simulated, on_devices
from shardtypes.semantics.values import Values

Groups = Sequence[Sequence[int]] | None
Over = Callable[[Relation, str, int], Relation]


def _same_dims(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    return Letters((own,), (own,))


def _kept_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [operands[0].dims]


def _relating(
    over: Callable[[Relation, str, Params], Relation],
) -> Callable[..., Sequence[Relations]]:
    """A rule for one axis as a rule for all axes of a collective."""

    def relate(
        given: Sequence[Relations], operands: Sequence[Array], params: Params
    ) -> Sequence[Relations]:
        relations = given[0]
        changed = {
            name: over(relations[name], name, params) for name, _ in params["axes"]
        }
        return [relations.changed(changed)]

    return relate


def ended(
    relation: Relation, axis: str, fault: Fault, kind: Relation = UNKNOWN
) -> Relation:
    """A relation that a collective brought to an end."""
    return Relation(kind.kind, breach=Breach(axis, fault, 0, relation))


def _grouped(
    x: Simulated,
    axes: Sequence[Axis],
    groups: Groups,
    combine: Callable[[list[Simulated]], list[Simulated]],
) -> Simulated:
    """Each group of devices combines what they hold."""
    devices = x.flattened(axes)
    found = list(devices)
    for members in groups or [range(len(devices))]:
        for device, value in zip(
            members, combine([devices[i] for i in members]), strict=True
        ):
            found[device] = value
    return Simulated.assembled(found, axes)


def _together(
    function: Callable[..., Any], stacked: Callable[..., Any]
) -> Callable[[list[Simulated]], list[Simulated]]:
    """The same result for all devices of a group. ``stacked`` is the function on arrays with a dimension of other
    devices in front."""

    def combine(devices: list[Simulated]) -> list[Simulated]:
        (result,) = on_devices(
            lambda *arrays: [function(arrays)],
            devices,
            1,
            lambda *arrays: stacked(arrays),
        )
        return [result] * len(devices)

    return combine


# --- reductions ---------------------------------------------------------------------------------------------------


def _summed(relation: Relation, axis: str, params: Params) -> Relation:
    if params["groups"] is not None:
        return UNKNOWN
    if relation.kind == "part":
        return (
            SAME.times(relation.power)
            if relation.monoid == "sum"
            else ended(relation, axis, "partial", ALIKE)
        )
    if relation.kind == "same":
        return Relation(
            "same",
            power=relation.power + 1,
            breach=Breach(axis, "repeated", 0, relation),
        )
    if relation.kind == "split":
        return ended(relation, axis, "rows", ALIKE)
    return relation if relation.kind == "zero" else ALIKE


def _extreme(monoid: Monoid) -> Callable[[Relation, str, Params], Relation]:
    def over(relation: Relation, axis: str, params: Params) -> Relation:
        if params["groups"] is not None:
            return UNKNOWN
        if relation.kind == "part":
            return (
                SAME.times(relation.power)
                if relation.monoid == monoid
                else ended(relation, axis, "partial", ALIKE)
            )
        if relation.kind == "split":
            return ended(relation, axis, "rows", ALIKE)
        return relation if relation.kind in ("same", "zero") else ALIKE

    return over


def _pull_psum(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Under ``check_vma`` the cotangent of a sum goes to every device as it is; without, the devices' cotangents are
    added."""
    if operands[0].varying is not None:
        return [cotangent]
    return [psum(cotangent, **params)]


def _reducing(
    name: str,
    function: Callable[..., Any],
    over: Callable[[Relation, str, Params], Relation],
    pull: Pull | None = None,
) -> Primitive:
    return declare(
        name,
        letters=_same_dims,
        shape=_kept_shape,
        values=Values(),
        evaluate=lambda x, **params: x,
        pull=pull,
        relate=_relating(over),
        simulate=lambda x, axes, groups: _grouped(
            x, axes, groups, _together(function, function)
        ),
        vary=lambda varying, params: varying - set(params["axes"]),
        # each part is reduced on its way around the ring, and goes around once more
        sends=lambda held, devices, others: held * 2 * others / devices,
    )


psum = _reducing("psum", sum, _summed, _pull_psum)
pmax = _reducing("pmax", lambda arrays: np.maximum.reduce(arrays), _extreme("max"))
pmin = _reducing("pmin", lambda arrays: np.minimum.reduce(arrays), _extreme("min"))


def _pull_pvary(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    if operands[0].varying is None:
        return [cotangent]
    added = tuple(axis for axis in params["axes"] if axis not in operands[0].varying)
    return [psum(cotangent, axes=added, groups=None) if added else cotangent]


pvary = declare(
    "pvary",
    letters=_same_dims,
    shape=_kept_shape,
    values=Values(jointly=frozenset({0})),
    evaluate=lambda x, **params: x,
    pull=_pull_pvary,
    relate=lambda given, operands, params: [given[0]],
    simulate=lambda x, axes: x,
    vary=lambda varying, params: varying | set(params["axes"]),
)


# --- gathers and scatters -----------------------------------------------------------------------------------------


def _count(axes: Sequence[Axis]) -> int:
    total = 1
    for _, size in axes:
        total *= size
    return total


def _names(params: Params) -> frozenset[str]:
    return frozenset(name for name, _ in params["axes"])


def _shown_axes(params: Params) -> str:
    return ", ".join(repr(name) for name, _ in params["axes"])


def _group_size(params: Params) -> int:
    return len(params["groups"][0]) if params["groups"] else _count(params["axes"])


def _gathered_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    count, at = _group_size(params), params["dimension"]
    if not params["tiled"]:
        sizes.insert(at, count)
    else:
        size = sizes[at]
        sizes[at] = None if size is None else gathered(size * count, _names(params))
    return [tuple(sizes)]


def _gathered(
    relations: Sequence[Relations], operands: Sequence[Array], params: Params
) -> Sequence[Relations]:
    given, at = relations[0], params["dimension"]
    found: dict[str, Relation] = {}
    for name in given:
        found[name] = _moved(given[name], at) if not params["tiled"] else given[name]
    for name, _ in params["axes"]:
        found[name] = _gathered_over(given[name], name, params)
    return [Relations.of(found, given.otherwise)]


def _moved(relation: Relation, at: int) -> Relation:
    """A relation after a dimension was put in at a place."""
    if relation.kind != "split" or relation.dim is None or relation.dim < at:
        return relation
    return split(relation.dim + 1, relation.power)


def _gathered_over(relation: Relation, axis: str, params: Params) -> Relation:
    whole = (
        params["groups"] is None
        and params["tiled"]
        and relation.dim == params["dimension"]
    )
    if relation.kind == "split" and whole:
        return SAME.times(relation.power)
    if relation.kind == "zero":
        return ZERO
    return (
        ended(relation, axis, "repeated", ALIKE) if relation.kind == "same" else ALIKE
    )


def _gather(
    x: Simulated, axes: Sequence[Axis], dimension: int, tiled: bool, groups: Groups
) -> Simulated:
    join = np.concatenate if tiled else np.stack
    return _grouped(
        x,
        axes,
        groups,
        _together(
            lambda arrays: join(arrays, axis=dimension),
            lambda arrays: join(arrays, axis=dimension + 1),
        ),
    )


def _pull_gather(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [reduce_scatter(cotangent, **params)]


all_gather = declare(
    "all_gather",
    letters=lambda operands, params: Letters((plain("d", operands[0]),), ((),)),
    shape=_gathered_shape,
    values=Values(),
    evaluate=lambda x, **params: x,
    pull=_pull_gather,
    relate=_gathered,
    simulate=_gather,
    sends=lambda held, devices, others: held * others,
)


def _scattered_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    at = params["dimension"]
    if not params["tiled"]:
        _refuse_other_than_one_each(sizes[at], params)
        del sizes[at]
    else:
        sizes[at] = _part_of(sizes[at], params)
    return [tuple(sizes)]


def _refuse_other_than_one_each(size: Dim, params: Params) -> None:
    """Raises SizesDiffer where a dimension has not one entry for each device."""
    count = _group_size(params)
    if isinstance(size, int) and size != count:
        raise SizesDiffer(
            f"a dimension of {int(size)} is not one entry for each of the {count} devices along {_shown_axes(params)}"
        )


def _part_of(size: Dim, params: Params) -> Dim:
    """The size of each device's part of a dimension. Raises SizesDiffer."""
    if size is None:
        return None
    count = _group_size(params)
    if isinstance(size, int) and size % count:
        raise SizesDiffer(
            f"a dimension of {size} is not divided by {count}, the number of devices along {_shown_axes(params)}"
        )
    part: Dim = sharded(size // count, _names(params))
    return part


def _scattered(
    relations: Sequence[Relations], operands: Sequence[Array], params: Params
) -> Sequence[Relations]:
    given, at = relations[0], params["dimension"]
    found = {name: given[name] for name in given}
    for name, _ in params["axes"]:
        found[name] = _scattered_over(given[name], name, at, params)
    return [Relations.of(found, given.otherwise)]


def _scattered_over(relation: Relation, axis: str, at: int, params: Params) -> Relation:
    if params["groups"] is not None or not params["tiled"]:
        return UNKNOWN
    if relation.kind == "part" and relation.monoid == "sum":
        return split(at, relation.power)
    if relation.kind == "same":
        return Relation(
            "split",
            at,
            power=relation.power + 1,
            breach=Breach(axis, "repeated", 0, relation),
        )
    if relation.kind == "zero":
        return ZERO
    return ended(relation, axis, "rows" if relation.kind == "split" else "partial")


def _scatter(
    x: Simulated, axes: Sequence[Axis], dimension: int, tiled: bool, groups: Groups
) -> Simulated:
    def combine(devices: list[Simulated]) -> list[Simulated]:
        count = len(devices)

        def parts(*arrays: Any) -> Sequence[Any]:
            pieces = np.split(sum(arrays), count, axis=dimension)
            return (
                pieces
                if tiled
                else [np.squeeze(piece, axis=dimension) for piece in pieces]
            )

        return list(on_devices(parts, devices, count))

    return _grouped(x, axes, groups, combine)


def _pull_scatter(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [all_gather(cotangent, **params)]


reduce_scatter = declare(
    "reduce_scatter",
    letters=lambda operands, params: Letters((plain("d", operands[0]),), ((),)),
    shape=_scattered_shape,
    values=Values(),
    evaluate=lambda x, **params: x,
    pull=_pull_scatter,
    relate=_scattered,
    simulate=_scatter,
    sends=lambda held, devices, others: held * others / devices,
)


def _exchanged_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    count = _group_size(params)
    apart, together = params["split_axis"], params["concat_axis"]
    sizes[apart] = _part_of(sizes[apart], params)
    second = sizes[together]
    sizes[together] = (
        None if second is None else gathered(second * count, _names(params))
    )
    return [tuple(sizes)]


def _exchanged(
    relations: Sequence[Relations], operands: Sequence[Array], params: Params
) -> Sequence[Relations]:
    given = relations[0]
    found = {name: given[name] for name in given}
    for name, _ in params["axes"]:
        relation = given[name]
        whole = params["groups"] is None and relation.dim == params["concat_axis"]
        if relation.kind == "split" and whole:
            found[name] = split(params["split_axis"], relation.power)
        elif relation.kind == "zero":
            found[name] = ZERO
        else:
            found[name] = VARYING if relation.kind == "varying" else UNKNOWN
    return [Relations.of(found, given.otherwise)]


def _exchange(
    x: Simulated,
    axes: Sequence[Axis],
    split_axis: int,
    concat_axis: int,
    groups: Groups,
) -> Simulated:
    def combine(devices: list[Simulated]) -> list[Simulated]:
        count = len(devices)

        def parts(*arrays: Any) -> Sequence[Any]:
            pieces = [np.split(array, count, axis=split_axis) for array in arrays]
            return [
                np.concatenate([piece[i] for piece in pieces], axis=concat_axis)
                for i in range(count)
            ]

        return list(on_devices(parts, devices, count))

    return _grouped(x, axes, groups, combine)


def _pull_exchange(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    back = {
        **params,
        "split_axis": params["concat_axis"],
        "concat_axis": params["split_axis"],
    }
    return [all_to_all(cotangent, **back)]


all_to_all = declare(
    "all_to_all",
    letters=lambda operands, params: Letters((plain("d", operands[0]),), ((),)),
    shape=_exchanged_shape,
    values=Values(),
    evaluate=lambda x, **params: x,
    pull=_pull_exchange,
    relate=_exchanged,
    simulate=_exchange,
    sends=lambda held, devices, others: held * others / devices,
)


# --- permutations and the device's own index ------------------------------------------------------------------------


def _permuted(
    x: Simulated, axes: Sequence[Axis], perm: Sequence[tuple[int, int]]
) -> Simulated:
    if len(axes) == 1 and axes[0] in x.axes:
        return _permuted_along(axes[0], x, perm)
    devices = x.flattened(axes)
    (nothing,) = on_devices(lambda array: [np.zeros_like(array)], [devices[0]], 1)
    found = [nothing] * len(devices)
    for source, target in perm:
        found[target] = devices[source]
    return Simulated.assembled(found, axes)


def _permuted_along(
    axis: Axis, x: Simulated, perm: Sequence[tuple[int, int]]
) -> Simulated:
    """What devices hold that differ along an axis, sent along it."""
    place = x.axes.index(axis)
    rows = np.moveaxis(x.spread(x.axes), place, 0)
    found = np.zeros_like(rows)
    for source, target in perm:
        found[target] = rows[source]
    return Simulated.of(x.axes, np.moveaxis(found, 0, place))


def _permuted_over(relation: Relation, axis: str, params: Params) -> Relation:
    if relation.kind == "zero":
        return ZERO
    count = _count(params["axes"])
    if sorted(target for _, target in params["perm"]) != list(range(count)):
        return UNKNOWN  # the others get zeros
    if relation.kind in ("same", "part", "alike"):
        return relation
    return VARYING if relation.kind in ("split", "varying") else UNKNOWN


def _for_some_devices(operands: Sequence[Array], params: Params) -> frozenset[str]:
    """A permutation that leaves some devices out is written for a number of devices."""
    named = {device for pair in params["perm"] for device in pair}
    left_out = bool(named) and len(named) < _count(params["axes"])
    return frozenset(name for name, _ in params["axes"]) if left_out else frozenset()


def _pull_permute(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    back = tuple((target, source) for source, target in params["perm"])
    return [ppermute(cotangent, axes=params["axes"], perm=back)]


ppermute = declare(
    "ppermute",
    letters=_same_dims,
    shape=_kept_shape,
    values=Values(jointly=frozenset({0})),
    evaluate=lambda x, **params: x,
    pull=_pull_permute,
    relate=_relating(_permuted_over),
    simulate=_permuted,
    own=_for_some_devices,
    sends=lambda held, devices, others: held,
)


def index_of(axes: Sequence[Axis], checked: bool) -> Array:
    """``axis_index``: the number of the device along the axes; ``checked`` where types say what varies."""
    relations = Relations.of({name: VARYING for name, _ in axes})
    value = None
    if evaluating():
        parts = [
            Simulated.everywhere(np.asarray(i, np.int32)) for i in range(_count(axes))
        ]
        value = Simulated.assembled(parts, axes)
    return Array(
        (),
        "int32",
        relations=relations,
        value=value,
        varying=frozenset(axes) if checked else None,
    )
