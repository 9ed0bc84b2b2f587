"""``jax.lax``'s collectives on simulated devices. The axes in force, with their sizes, are a context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import DeviceCount
from shardtypes.semantics.lowerings.convert import asarray, axis_of
from shardtypes.semantics.lowerings.operators import divide
from shardtypes.semantics.primitives import collectives as p
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Lowering, Unsupported, lowering
from shardtypes.semantics.simulated import Axis
from shardtypes.semantics.telling import Telling

_F = TypeVar("_F", bound=Lowering)
Kind: TypeAlias = Literal["combines", "exchanges", "asks", "casts"]
"""What devices do in a collective: they combine what they hold to one value, which all get; they give each other parts;
each asks where it is; or only the type changes."""
_kinds: dict[str, Kind] = {}


def collective(name: str, kind: Kind) -> Callable[[_F], _F]:
    """Register the decorated function as the lowering of a collective of ``jax.lax``."""
    _kinds[name] = kind
    return lowering(f"jax.lax.{name}")


def collectives(*kinds: Kind) -> frozenset[str]:
    """The names of the collectives of these kinds."""
    return frozenset(name for name, kind in _kinds.items() if kind in kinds)


class UnboundAxis(NameError):
    """Raised for a collective over an axis that nothing binds. ``bound`` are those that are."""

    def __init__(self, axis: object, bound: tuple[str, ...]) -> None:
        super().__init__(f"unbound axis name: {axis}")
        self.axis = axis
        self.bound = bound


@dataclass(frozen=True, slots=True)
class Bound:
    """The mesh axes that are bound: by the name that the program gives each, the simulated axis. ``checked`` tells that
    types keep track of what varies over them (``check_vma``)."""

    axes: Mapping[str, Axis] = field(default_factory=dict)
    checked: bool = False


_bound: ContextVar[Bound] = ContextVar("shardtypes_bound", default=Bound())  # noqa: B039 - frozen


def bound() -> Bound:
    return _bound.get()


def typed(array: Array) -> Array:
    """An array as types see it that keep track of what varies: one that is made where axes are bound, or comes from
    outside, varies over none of them."""
    if _bound.get().checked and array.varying is None:
        return replace(array, varying=frozenset())
    return array


_tell = Telling[[Array, tuple[Axis, ...]]]("shardtypes_telling_reductions")
"""Each array that ``pmean``, ``pmax`` or ``pmin`` is given, and the axes: these change nothing of what all devices
along the axes hold alike."""
telling_reductions = _tell.to


def _tell_arrays(x: Any, axis_name: Any, groups: Any) -> None:
    if not _tell.is_heard or groups is not None:
        return
    from shardtypes.semantics.trees import flatten

    axes = axes_named(axis_name)
    for leaf in flatten(x)[0]:
        _tell(asarray(leaf), axes)


@contextmanager
def binding(axes: Mapping[str, Axis], checked: bool = False) -> Iterator[None]:
    """Bind axes in the block, besides those that are bound."""
    token = _bound.set(Bound({**_bound.get().axes, **axes}, checked))
    try:
        yield
    finally:
        _bound.reset(token)


def axes_named(axis_name: Any) -> tuple[Axis, ...]:
    """The simulated axes of an ``axis_name`` argument, major to minor. Raises UnboundAxis as JAX does."""
    if isinstance(axis_name, (tuple, list)):
        names = axis_name
    else:
        names = (axis_name,)
    found: list[Axis] = []
    for name in names:
        if isinstance(name, (tuple, list)):
            found.extend(axes_named(name))
        elif name not in _bound.get().axes:
            raise UnboundAxis(name, tuple(_bound.get().axes))
        else:
            found.append(_bound.get().axes[name])
    return tuple(found)


def _groups(given: Any) -> Any:
    if given is None:
        return None
    return tuple(tuple(int(i) for i in group) for group in given)


def _mapped(tree: Any, function: Callable[[Array], Array]) -> Any:
    """A function of every array of a tree: collectives take trees."""
    from shardtypes.semantics.trees import map_leaves

    return map_leaves(lambda leaf: function(asarray(leaf)), tree)


def size_of(axis_name: Any) -> int:
    axes = axes_named(axis_name)
    total = 1
    for _, size in axes:
        total *= size
    return DeviceCount(total, frozenset(name for name, _ in axes))


def _reduction(primitive: Callable[..., Array]) -> Callable[..., Any]:
    def function(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
        axes = axes_named(axis_name)
        groups = _groups(axis_index_groups)
        if (
            isinstance(x, (int, float))
            and not isinstance(x, bool)
            and primitive is p.psum
        ):
            # a constant, as in JAX
            return x * (size_of(axis_name) if groups is None else len(groups[0]))
        if primitive is not p.psum:
            _tell_arrays(x, axis_name, groups)
        return _mapped(x, lambda leaf: primitive(leaf, axes=axes, groups=groups))

    return function


psum = collective("psum", "combines")(_reduction(p.psum))
pmax = collective("pmax", "combines")(_reduction(p.pmax))
pmin = collective("pmin", "combines")(_reduction(p.pmin))


@collective("pmean", "combines")
def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    if axis_index_groups is None:
        count = size_of(axis_name)
    else:
        count = len(axis_index_groups[0])
    _tell_arrays(x, axis_name, axis_index_groups)
    total = psum(
        _mapped(x, lambda leaf: leaf), axis_name, axis_index_groups=axis_index_groups
    )
    return _mapped(total, lambda leaf: divide(leaf, count))


@collective("pvary", "casts")
@collective("pcast", "casts")
def pvary(x: Any, axis_name: Any, **options: Any) -> Any:
    if options.get("to") not in (None, "varying"):
        raise Unsupported("a cast to another kind of variance")
    return _mapped(x, lambda leaf: p.pvary(typed(leaf), axes=axes_named(axis_name)))


@collective("all_gather", "exchanges")
def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    **options: Any,
) -> Any:
    axes = axes_named(axis_name)
    groups = _groups(axis_index_groups)

    def gather(leaf: Array) -> Array:
        at = axis_of(axis, leaf.rank + (not tiled))
        return p.all_gather(
            leaf, axes=axes, dimension=at, tiled=bool(tiled), groups=groups
        )

    return _mapped(x, gather)


@collective("psum_scatter", "exchanges")
def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    axes = axes_named(axis_name)
    groups = _groups(axis_index_groups)

    def scatter(leaf: Array) -> Array:
        at = axis_of(scatter_dimension, leaf.rank)
        return p.reduce_scatter(
            leaf, axes=axes, dimension=at, tiled=bool(tiled), groups=groups
        )

    return _mapped(x, scatter)


@collective("all_to_all", "exchanges")
def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    axes = axes_named(axis_name)
    groups = _groups(axis_index_groups)

    def exchange(leaf: Array) -> Array:
        apart = axis_of(split_axis, leaf.rank)
        together = axis_of(concat_axis, leaf.rank)
        if tiled:
            return p.all_to_all(
                leaf, axes=axes, split_axis=apart, concat_axis=together, groups=groups
            )
        # the split dimension, one entry for each device, goes; a new one stands where the parts are put together
        if apart == together:
            return p.all_to_all(
                leaf, axes=axes, split_axis=apart, concat_axis=together, groups=groups
            )
        if apart < together:
            together += 1
        else:
            apart += 1
        wide = s.expand_dims(leaf, axes=(together,))
        found = p.all_to_all(
            wide, axes=axes, split_axis=apart, concat_axis=together, groups=groups
        )
        return s.squeeze(found, axes=(apart,))

    return _mapped(x, exchange)


@collective("ppermute", "exchanges")
def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    pairs = tuple((int(source), int(target)) for source, target in perm)
    return _mapped(
        x, lambda leaf: p.ppermute(leaf, axes=axes_named(axis_name), perm=pairs)
    )


@collective("pshuffle", "exchanges")
def pshuffle(x: Any, axis_name: Any, perm: Any) -> Any:
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


@collective("axis_index", "asks")
def axis_index(axis_name: Any) -> Array:
    return p.index_of(axes_named(axis_name), bound().checked)


@collective("axis_size", "asks")
def axis_size(axis_name: Any) -> int:
    return size_of(axis_name)
