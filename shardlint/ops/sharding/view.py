"""The manual view: inside ``shard_map`` and ``pmap``, code sees one device's part of every array.

Sizes are local there. A dimension of global size ``B`` that is split over ``d`` has the local size ``B//|d|``, where
``|d|`` is the number of devices along ``d`` (a number where it is known) and the division is known to be even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.ops.sharding.state import split_marks
from shardlint.values import ArrayValue, Dimension
from shardtypes.lang import Facts, Size
from shardtypes.lang.frozen import frozen


@frozen
class View:
    """The mesh axes that are bound, with their sizes (None: not known). ``complete``: there are no others.

    ``kind`` is the transformation that binds them. ``transposes`` tells how gradients come out: True where JAX keeps
    track of what varies (``check_vma``), False where it does not, None where that is not known. ``declares`` tells
    whether annotations speak of axes: where none of a function does, they say nothing about how values are split, and
    give local sizes. ``mapped`` are the axes that ``vmap`` and ``pmap`` name: how many examples there are, and the axes
    of the mesh that split them (None: not known). ``bordered``: what makes the code manual is known, so that values
    from outside of it are the same along all these axes. ``called``: the axes are not spelled out, these are the
    program's names for them, which say nothing of other axes.
    """

    axes: tuple[tuple[str, int | None], ...] = ()
    complete: bool = False
    kind: str = "shard_map"
    transposes: bool | None = None
    declares: bool = True
    bordered: bool = False
    called: bool = False
    known: Mapping[str, int | None] = field(default_factory=dict, compare=False)
    mapped: Mapping[str, tuple[Size, tuple[str, ...] | None]] = field(
        default_factory=dict, compare=False
    )

    def size(self, axis: str) -> Size:
        """The number of devices along the axis, or of the examples that ``vmap`` maps over under that name."""
        if axis in self.mapped:
            return self.mapped[axis][0]
        number = dict(self.axes).get(axis) or self.known.get(axis)
        if number:
            return Size.const(number)
        return Size.symbol(f"|{axis}|")

    def count(self, axes: Iterable[str]) -> Size:
        total = Size.const(1)
        for axis in axes:
            total = total * self.size(axis)
        return total

    def binds(self, axis: str) -> bool | None:
        """Whether the axis is bound; None where that is not known."""
        if axis in dict(self.axes):
            return True
        return False if self.complete else None

    def local_size(self, size: Size | None, axes: Iterable[str]) -> Size | None:
        count = self.count(axes)
        if size is None or size.constant is None:
            if size is None:
                return None
            return size // count
        if count.constant is None:
            return _part(size, count)
        if size.constant % count.constant:
            return None
        return size // count

    def splitting(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes that split anything: those of more than one device."""
        return tuple(filter(self.has_several, axes))

    def has_several(self, axis: str) -> bool:
        """Whether there may be several devices along an axis."""
        return self.size(axis) != 1

    def tracked(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes along which it matters what a value is: those of several devices, and all where JAX keeps track of
        what varies, or may do so."""
        if self.transposes is False:
            return tuple(filter(self.has_several, axes))
        return tuple(axes)

    def understood(self, axes: tuple[str, ...] | None) -> bool:
        """Whether a dimension can be split like that."""
        return (
            axes is not None
            and len(set(axes)) == len(axes)
            and all(self.binds(axis) is not False for axis in axes)
        )

    def global_size(self, size: Size | None, axes: Iterable[str]) -> Size | None:
        """What ``local_size`` was made from."""
        for axis in axes:
            if size is not None:
                size = _times(size, self.size(axis))
        return size

    def enter(self, value: ArrayValue) -> ArrayValue:
        """A global array as one device holds it. Over axes that its annotation does not name nothing is claimed."""
        dims = value.dims
        if not self.divides((dim.size, dim.axes) for dim in dims or ()):
            return replace(value, dims=None, manual=True, unclear=EVERY_AXIS)
        if dims is not None:
            dims = tuple(self._entered(dim) for dim in dims)
        mine = frozenset(axis for dim in dims or () for axis in dim.axes or ())
        pending = value.pending or frozenset()
        return replace(
            value,
            dims=dims,
            manual=True,
            pending=pending,
            unclear=value.unclear.minus(mine | pending),
            marks=split_marks(mine),
        )

    def divides(self, dims: Iterable[tuple[Size | None, Iterable[str] | None]]) -> bool:
        """Whether no size of an annotation is a number that its axes cannot split evenly: that is reported where it is
        written, and says nothing about the array."""
        return all(
            size is None or not axes or self.local_size(size, axes) is not None
            for size, axes in dims
        )

    def _entered(self, dim: Dimension) -> Dimension:
        if not self.declares:
            return Dimension(dim.size, None, dim.label)
        if dim.axes is None or not self.understood(dim.axes):
            return Dimension(None)
        return Dimension(
            self.local_size(dim.size, dim.axes), self.splitting(dim.axes), dim.label
        )

    def leave(self, value: ArrayValue) -> ArrayValue:
        """The same array with global sizes."""
        if not value.manual or value.dims is None:
            return value
        dims = tuple(
            Dimension(self.global_size(d.size, d.axes or ()), d.axes, d.label)
            for d in value.dims
        )
        return replace(value, dims=dims, manual=False)

    def facts(self, facts: Facts, value: ArrayValue) -> Facts:
        """That the dimensions of a global array divide evenly."""
        for dim in value.dims or ():
            if (
                dim.axes
                and dim.size is not None
                and not dim.size.is_opaque
                and dim.size.constant is None
            ):
                facts = facts.divides(self.count(dim.axes), dim.size)
        return facts


def replicated(value: ArrayValue, constant: bool = False) -> ArrayValue:
    """The array, the same on every device."""
    if value.dims is None:
        dims = None
    else:
        dims = tuple(Dimension(dim.size, (), dim.label) for dim in value.dims)
    return replace(
        value,
        dims=dims,
        manual=True,
        numpy=False,
        pending=frozenset(),
        unclear=NO_AXIS,
        constant=constant,
    )


_PARTS: dict[str, tuple[Size, Size]] = {}


def _part(size: Size, count: Size) -> Size:
    """A known size over an unknown number of devices: some number, which may coincide with any other."""
    name = f"?{size}//{count}"
    _PARTS[name] = (size, count)
    return Size.symbol(name)


def parted(name: str) -> tuple[Size, Size] | None:
    """The size and the number of devices that a symbol stands for, if it is a part of a known size."""
    return _PARTS.get(name)


def _times(size: Size, count: Size) -> Size:
    """``size * count``, where an even division of size by count is taken back: ``B//(d*t)`` times t is ``B//d``."""
    total = Size.const(0)
    for monomial, coefficient in size.terms:
        product = Size({monomial: coefficient}) * count
        for atom in monomial:
            if atom.op == "//":
                whole, divisor = atom.args
            else:
                division = parted(atom.name)
                if division is None:
                    continue
                whole, divisor = division
            rest = divisor.divides_exactly(count)
            if rest is not None:
                others = list(monomial)
                others.remove(atom)
                if whole.constant is None or rest.constant:
                    part = whole // rest
                else:
                    part = _part(whole, rest)
                product = Size({tuple(others): coefficient}) * part
                break
        total = total + product
    return total
