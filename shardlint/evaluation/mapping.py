"""``vmap``, ``pmap`` and ``shard_map`` in guarded code: a mapped function runs once, for all devices or examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shardlint.evaluation import meshes, refusals, unmade
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import (
    layouts,
    mapped_call,
    note_argument,
    rounds_so_far,
    row_order,
    takes_varying,
    tick,
)
from shardlint.evaluation.meshes import Mesh, Spec
from shardlint.evaluation.outside import provide
from shardlint.evaluation.row_orders import RowOrder
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.collectives import binding, bound
from shardtypes.semantics.lowerings.convert import AxisOutOfRange, asarray, axis_of
from shardtypes.semantics.primitives import mapping as p
from shardtypes.semantics.relation import Relation, Relations, split
from shardtypes.semantics.simulated import EXAMPLES, Axis
from shardtypes.semantics.trees import (
    flatten,
    map_leaves,
    paths_of,
    spread_prefix,
    unflatten,
)

NO_MESH = "shard_map over a mesh that is not known"


def _is_axis(value: Any) -> bool:
    return value is None or isinstance(value, int)


def _is_arraylike(value: Any) -> bool:
    return (
        isinstance(value, (Array, int, float, complex))
        or type(value).__module__ == "numpy"
    )


def _per_argument(axes: Any, count: int) -> list[Any]:
    if isinstance(axes, (tuple, list)):
        if len(axes) != count:
            raise ValueError(f"in_axes has {len(axes)} entries for {count} arguments")
        return list(axes)
    return [axes] * count


def _dimension(axis: Any, array: Array) -> int:
    """The mapped dimension of an argument. One that it has not is no mistake that is told here: equinox passes on
    numbers as they are."""
    try:
        return axis_of(axis, array.rank)
    except AxisOutOfRange as error:
        raise ValueError(str(error)) from error


def _mapped_sizes(args: Sequence[Any], axes: Sequence[Any]) -> set[int]:
    sizes = set()
    for arg, wanted in zip(args, axes, strict=True):
        leaves = flatten(arg)[0]
        for leaf, axis in zip(
            leaves, spread_prefix(wanted, arg, _is_axis), strict=True
        ):
            if axis is not None:
                array = asarray(leaf)
                sizes.add(int(array.dims[_dimension(axis, array)]))  # type: ignore[arg-type]  # a number
    return sizes


def _entered(arg: Any, wanted: Any, axis: Axis) -> Any:
    leaves, structure = flatten(arg)
    made = []
    for leaf, dimension in zip(
        leaves, spread_prefix(wanted, arg, _is_axis), strict=True
    ):
        if dimension is None:
            made.append(leaf)
        else:
            array = asarray(leaf)
            made.append(
                p.unstack(array, axis=axis, dimension=_dimension(dimension, array))
            )
    return unflatten(structure, made)


def _left(result: Any, wanted: Any, axis: Axis, takes_first: bool = False) -> Any:
    """A result with the mapped axis in a dimension. Where that is to be in none, ``pmap`` ``takes_first`` of what
    differs, ``vmap`` refuses it."""
    leaves, structure = flatten(result)
    made: list[Any] = []
    for leaf, dimension in zip(
        leaves, spread_prefix(wanted, result, _is_axis), strict=True
    ):
        array = asarray(leaf)
        if dimension is None and takes_first:
            made.append(p.unreplicate(array, axes=(axis,), checked=False))
        elif dimension is None:
            if array.value is not None and array.value.varies_along(axis[0]):
                raise ValueError(
                    "out_axes is None for what differs from example to example"
                )
            made.append(array)
        else:
            made.append(
                p.restack(
                    array, axis=axis, dimension=axis_of(dimension, array.rank + 1)
                )
            )
    return unflatten(structure, made)


def _no_size(what: str, sizes: set[int], filters: bool) -> ValueError:
    """The error of arguments that have not one size to map over. Which of them a library maps that ``filters`` them, as
    equinox and nnx do, is not looked at here."""
    if filters or not sizes:
        return ValueError(f"{what} over sizes {sorted(sizes)}")
    return refusals.sizes_disagree(what, sizes, "ST211")


@provide("jax.vmap")
def vmap(
    fun: Any = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    filters: bool = False,
) -> Any:
    if fun is None:
        return functools.partial(
            vmap,
            in_axes=in_axes,
            out_axes=out_axes,
            axis_name=axis_name,
            axis_size=axis_size,
            filters=filters,
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        tick()
        axes = _per_argument(in_axes, len(args))
        named = dict.fromkeys(kwargs, 0)
        sizes = _mapped_sizes([*args, *kwargs.values()], [*axes, *named.values()])
        if axis_size is not None:
            sizes.add(axis_size)
        if len(sizes) != 1:
            raise _no_size("vmap", sizes, filters)
        name = f"{EXAMPLES}{next(meshes.machine().examples)}"
        axis = (name, int.__int__(sizes.pop()))
        inner = [
            _entered(arg, wanted, axis) for arg, wanted in zip(args, axes, strict=True)
        ]
        given = {name: _entered(value, 0, axis) for name, value in kwargs.items()}
        named_axis = {} if axis_name is None else {axis_name: axis}
        with binding(named_axis, bound().checked):
            result = fun(*inner, **given)
        return _left(result, out_axes, axis)

    return _like(mapped, fun)


provide("equinox.filter_vmap")(functools.partial(vmap, filters=True))


def _like(made: Any, function: Any) -> Any:
    """A wrapper with the name of what it wraps."""
    made.__name__ = getattr(function, "__name__", "mapped")
    made.__wrapped__ = function
    return made


@provide("jax.pmap")
def pmap(
    fun: Any = None,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    devices: Any = None,
    axis_size: int | None = None,
    filters: bool = False,
    **options: Any,
) -> Any:
    if fun is None:
        return functools.partial(
            pmap,
            axis_name=axis_name,
            in_axes=in_axes,
            out_axes=out_axes,
            static_broadcasted_argnums=static_broadcasted_argnums,
            filters=filters,
        )
    static = (
        (static_broadcasted_argnums,)
        if isinstance(static_broadcasted_argnums, int)
        else static_broadcasted_argnums
    )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        tick()
        axes = [
            None if i in static else one
            for i, one in enumerate(_per_argument(in_axes, len(args)))
        ]
        moving = [
            (arg, one)
            for i, (arg, one) in enumerate(zip(args, axes, strict=True))
            if i not in static
        ]
        sizes = _mapped_sizes([arg for arg, _ in moving], [one for _, one in moving])
        if len(sizes) != 1:
            raise _no_size("pmap", sizes, filters)
        size = int.__int__(sizes.pop())
        if size > meshes.machine().devices:
            raise NotEvaluable("pmap over more devices than there are")
        axis = (axis_name or meshes.UNNAMED, size)
        meshes.machine().made.append(Mesh((size,), (axis[0],)))
        meshes.machine().pmapped.add(axis[0])
        order = row_order()
        inner = [
            arg if i in static else _entered(_stacked_rows(arg, one, order), one, axis)
            for i, (arg, one) in enumerate(zip(args, axes, strict=True))
        ]
        given = {name: _entered(value, 0, axis) for name, value in kwargs.items()}
        given_then = _as_it_is((args, kwargs))
        inner = [note_argument(fun, arg) for arg in inner]
        with binding({axis[0]: axis}), refusals.mapped_by(fun), mapped_call():
            result = fun(*inner, **given)
        found = _left(result, out_axes, axis, takes_first=True)
        for observer in observers:
            observer(
                Region(
                    fun,
                    given_then,
                    found,
                    (result, out_axes),
                    {axis[0]: frozenset({0})},
                    size,
                )
            )
        return found

    return _like(mapped, fun)


provide("equinox.filter_pmap")(functools.partial(pmap, filters=True))


def _stacked_rows(arg: Any, wanted: Any, order: RowOrder | None) -> Any:
    """An argument of ``pmap`` with its rows in another order."""
    if order is None:
        return arg
    leaves, structure = flatten(arg)
    dimensions = spread_prefix(wanted, arg, _is_axis)
    ordered = [
        order.ordered_over_devices(asarray(leaf)) if dimension == 0 else leaf
        for leaf, dimension in zip(leaves, dimensions, strict=True)
    ]
    return unflatten(structure, ordered)


# --- shard_map --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """One call of a mapped function: what it is given and gives, for whoever compares.

    ``places`` are the results as the devices have them, with what puts them together: a spec for each, or for ``pmap``
    its ``out_axes``. ``split`` are the dimensions of
    arguments that are sharded, by axis. ``stacked`` is the number of devices whose values follow each other in a first
    dimension, as ``pmap`` has them. ``rounds`` are those of each ``while_loop`` that led to the results. With
    ``is_gradient`` the results are the gradient of what calls of mapped functions led to, and it is taken outside of
    these.
    """

    function: Any
    arguments: Any
    results: Any
    places: Any
    split: Mapping[str, frozenset[int]]
    stacked: int | None = None
    rounds: tuple[int, ...] = field(default_factory=rounds_so_far)
    is_gradient: bool = False


def replicated_axes(region: Region) -> list[tuple[str, ...]]:
    """The axes of a region over which each of its results is given as replicated."""
    results, wanted = region.places
    if region.stacked is not None:
        dimensions = spread_prefix(wanted, results, _is_axis)
        return [
            tuple(region.split) if dimension is None else () for dimension in dimensions
        ]
    return [_unmentioned(region, spec) for spec in wanted]


def _unmentioned(region: Region, spec: Spec | None) -> tuple[str, ...]:
    mentioned = frozenset[str]() if spec is None else spec.mentioned
    return tuple(axis for axis in region.split if axis not in mentioned)


Observer = Callable[[Region], None]
observers: list[Observer] = []
Entered = Callable[[Any, Any], None]
"""Takes a function that is mapped by its specs, and what it is given."""
entered: list[Entered] = []


@contextmanager
def met_in() -> Iterator[list[Region]]:
    """The calls of mapped functions in the block."""
    found: list[Region] = []
    observer = found.append
    observers.append(observer)
    try:
        yield found
    finally:
        observers.remove(observer)


def note_gradient(
    function: Any, given: Any, gradient: Any, calls: Sequence[Region]
) -> None:
    """Tell observers of a gradient through ``calls`` of mapped functions, by what its function is given. Not of one
    that is taken in a mapped function, nor through ``pmap``, which has the gradients of all devices one after
    another."""
    is_other = any(one.is_gradient or one.stacked is not None for one in calls)
    known = [leaf for leaf in flatten(given)[0] if isinstance(leaf, Array)]
    leaves = flatten(gradient)[0]
    arrays = [*known, *(leaf for leaf in leaves if isinstance(leaf, Array))]
    if bound().axes or is_other or not all(map(_is_whole, arrays)):
        return
    split: dict[str, frozenset[int]] = {}
    for call in calls:
        for axis, dimensions in call.split.items():
            split[axis] = split.get(axis, frozenset()) | dimensions
    wanted = [None] * len(leaves)
    region = Region(
        function, known, gradient, (gradient, wanted), split, is_gradient=True
    )
    for observer in observers:
        observer(region)


def _as_it_is(given: Any) -> Any:
    """What a mapped function is given, which the program may write to afterwards: NumPy's arrays, and dicts and lists
    of arrays."""
    if not observers:
        return given
    return map_leaves(
        lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, given
    )


def _is_whole(array: Array) -> bool:
    """Whether an array is one for all devices and examples, with numbers."""
    return array.value is not None and not array.value.axes


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, (Spec, str))


def _spec(value: Any) -> Spec:
    if isinstance(value, Spec):
        return value
    if value is None:
        return Spec()
    raise NotEvaluable("a spec that is no PartitionSpec")


def _rows(leaf: Any, spec: Spec, order: RowOrder) -> Any:
    """An argument of ``shard_map`` with its rows in another order, if they are sharded over the axis alone."""
    array = asarray(leaf)
    named = spec.axes(array.rank)
    is_sharded = bool(named) and tuple(named[0]) == (order.axis,)
    return order.ordered(array) if is_sharded else leaf


def _entering(
    leaf: Any, spec: Spec, axes: Mapping[str, Axis], checked: bool, path: str
) -> Any:
    """The part of an argument that each device gets."""
    array = asarray(leaf)
    if len(spec) > array.rank:
        raise refusals.is_longer(path, len(spec), array.rank, spec.where)
    named = spec.axes(array.rank)
    relations: dict[str, Relation] = {}
    mentioned = set()
    for dimension, names in enumerate(named):
        for name in names:
            if name not in axes:
                continue
            relations[name] = split(dimension)
            mentioned.add(name)
    rest = tuple(axis for name, axis in axes.items() if name not in mentioned)
    array = p.replicate(array, axes=rest, checked=checked)
    for dimension, names in enumerate(named):
        for name in names:
            if name in axes:
                size = int(array.dims[dimension])  # type: ignore[arg-type]  # a number
                if size % axes[name][1]:
                    raise refusals.does_not_divide(
                        f"argument {path}" if path else "the argument",
                        dimension,
                        size,
                        (name,),
                        axes[name][1],
                        spec.where,
                    )
                array = p.shard(array, axis=axes[name], dimension=dimension)
    layouts().note_inside(array, leaf)
    outer = array.relations if array.relations is not None else Relations()
    varying = frozenset(axes[name] for name in mentioned) if checked else None
    return replace(array, relations=outer.changed(relations), varying=varying)


def _split_dimensions(
    entering: Sequence[Array], axes: Mapping[str, Axis]
) -> dict[str, frozenset[int]]:
    """The dimensions of arrays that are sharded over each axis."""
    found: dict[str, set[int]] = {name: set() for name in axes}
    for array in entering:
        for name in axes:
            dimension = array.sharded_dimension(name)
            if dimension is not None:
                found[name].add(dimension)
    return {name: frozenset(dimensions) for name, dimensions in found.items()}


def _leaving(
    leaf: Any, spec: Spec, axes: Mapping[str, Axis], checked: bool, path: str
) -> Any:
    """A result, put together from what the devices have."""
    array = asarray(leaf)
    named = spec.axes(array.rank)
    mentioned = {name for names in named for name in names}
    rest = tuple(axis for name, axis in axes.items() if name not in mentioned)
    differing = {
        axis[0] for axis in rest if array.varying is not None and axis in array.varying
    }
    if checked and differing and not takes_varying():
        raise refusals.may_differ(path, differing, array, spec.where)
    array = p.unreplicate(array, axes=rest, checked=checked) if rest else array
    for dimension, names in enumerate(named):
        for name in reversed(names):
            if name in axes:
                array = p.unshard(array, axis=axes[name], dimension=dimension)
    inner = array.relations
    kept = (
        None
        if inner is None
        else Relations.of({n: inner[n] for n in inner if n not in axes})
    )
    return replace(array, relations=kept, varying=None)


@provide("jax.shard_map")
@provide("jax.smap")
def shard_map(
    f: Any = None,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    check_rep: bool = True,
    auto: Any = frozenset(),
    *,
    axis_names: Any = None,
    check_vma: bool = True,
    **options: Any,
) -> Any:
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_rep=check_rep,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    checked = bool(check_vma and check_rep)

    def mapped(*args: Any) -> Any:
        tick()
        over = mesh if mesh is not None else meshes.current()
        if not isinstance(over, Mesh):
            raise NotEvaluable(NO_MESH)
        names = [
            name
            for name in over.axis_names
            if axis_names is None or not axis_names or name in axis_names
        ]
        names = [name for name in names if name not in bound().axes]
        axes = {name: (name, int.__int__(over.shape[name])) for name in names}
        args = unmade.filled(args, in_specs)
        for tell in entered:
            tell(f, args)
        specs = spread_prefix(in_specs, args, _is_spec)
        leaves, structure = flatten(args)
        order = row_order()
        if order is not None:
            leaves = [
                _rows(leaf, _spec(one), order)
                for leaf, one in zip(leaves, specs, strict=True)
            ]
        entering = [
            _entering(leaf, _spec(one), axes, checked, path)
            for leaf, one, path in zip(leaves, specs, paths_of(structure), strict=True)
        ]
        given = _as_it_is(args)
        inner = [
            note_argument(f, leaf, None if one is None else _spec(one).where)
            for leaf, one in zip(entering, specs, strict=True)
        ]
        with binding(axes, checked), mapped_call():
            result = f(*unflatten(structure, inner))
        wanted = spread_prefix(out_specs, result, _is_spec)
        results, made = flatten(result)
        leaving = [
            _leaving(leaf, _spec(one), axes, checked, path)
            for leaf, one, path in zip(results, wanted, paths_of(made), strict=True)
        ]
        found = unflatten(made, leaving)
        for observer in observers:
            observer(
                Region(
                    f, given, found, (result, wanted), _split_dimensions(entering, axes)
                )
            )
        return found

    return _like(mapped, f)
