"""The check of one array against one annotation, compiled once per annotation.

Order: is it an array, dtype, rank, sizes, sharding. A failed check leaves the bindings as they were.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jax

# the class of every concrete array: no public name
from jax._src.array import ArrayImpl
from jax.sharding import SingleDeviceSharding

from shardtypes import _stats, messages
from shardtypes.accepted_dtypes import DTypeClass, accepts
from shardtypes.array_text import describe
from shardtypes.declared_array import (
    ANYTHING,
    BROADCAST,
    CONSTANT,
    NAME,
    DeclaredArray,
)
from shardtypes.errors import ShapeError, ShardTypeError
from shardtypes.frames import table_of_caller
from shardtypes.jit_border import install_in_time
from shardtypes.lang import Dim, Shape, Size
from shardtypes.lang.messages import stands_for, within_several
from shardtypes.logical_rules import rules_in_force as rules
from shardtypes.meshes import View, current_view
from shardtypes.scopes import Deferred, Table
from shardtypes.sharding_check import check_sharding, nothing_known
from shardtypes.sites import Binding, Site

install_in_time()
ARRAY_TYPES = (jax.Array, jax.ShapeDtypeStruct)
HERE = Site("", "")

# Classes already found to be arrays, and whether they are tracers: isinstance with JAX's is slow.
_array_classes: dict[type, bool] = {}


def _is_tracer(value: Any) -> bool | None:
    """Whether an array is a traced one; None for what is no array."""
    if not isinstance(value, ARRAY_TYPES):
        return None
    found = _array_classes[type(value)] = isinstance(value, jax.core.Tracer)
    return found


class ArraySpec(DeclaredArray):
    """A compiled array annotation. Made once per distinct annotation and shared by all who use it."""

    __slots__ = ()

    @classmethod
    def compile(cls, dtype: DTypeClass, shape: Shape, text: str) -> ArraySpec:
        """The compiled form of ``dtype[shape]``; ``text`` is how messages show it."""
        return cls(dtype, shape, text)

    def check(self, value: Any, table: Table, view: View, site: Site) -> None:
        """Check a value, binding names in ``table``. Raises ``ShapeError`` or ``ShardingError``."""
        __tracebackhide__ = True
        kind_of_value = type(value)
        traced = _array_classes.get(kind_of_value)
        if traced is None and (traced := _is_tracer(value)) is None:
            raise ShapeError(messages.not_an_array(self.text, value), site)
        # a tracer looks its attributes up there one by one
        described = value.aval if traced else value
        dtype = described.dtype
        if dtype is not self.wanted_dtype:
            self._check_dtype(dtype, value, site)
        shape: tuple[Any, ...] = described.shape
        if view.bound:
            shape = self._global_shape(shape, view, site)
        before = len(table.sizes)
        mark = None if self.simple else table.mark()
        try:
            self._check_sizes(shape, table, value, site)
            plain = (
                kind_of_value is ArrayImpl
                and type(value.sharding) is SingleDeviceSharding
            )
            if (
                self.sharded
                or not (plain or (traced and nothing_known(value, described)))
                or rules()
            ):
                check_sharding(self, value, table, view, site)
            if table.deferred:
                settle(table)
        except Exception as error:
            if isinstance(error, ShardTypeError) and not error.bindings:
                error.bindings = table.bound(self.names)
            if mark is not None:
                table.rollback(mark)
            else:
                table.forget_from(before)
            raise

    def check_here(self, value: Any, site: Site = HERE) -> None:
        """Check a value, binding names in the open ``Scope``, else in the checked call in whose body the caller
        stands, else for this check only."""
        table = table_of_caller() or Table()
        self.check(value, table, current_view(), site)

    def check_shape(self, value: Any, table: Table, view: View, site: Site) -> None:
        """As ``check``, of the dtype, the rank and the sizes alone: its sharding is left open."""
        __tracebackhide__ = True
        if _is_tracer(value) is None:
            raise ShapeError(messages.not_an_array(self.text, value), site)
        if value.dtype is not self.wanted_dtype:
            self._check_dtype(value.dtype, value, site)
        mark = table.mark()
        try:
            shape = (
                self._global_shape(value.shape, view, site)
                if view.bound
                else value.shape
            )
            self._check_sizes(shape, table, value, site)
            settle(table)
        except ShardTypeError as error:
            error.bindings = error.bindings or table.bound(self.names)
            table.rollback(mark)
            raise

    def _check_sizes(
        self, shape: tuple[Any, ...], table: Table, value: Any, site: Site
    ) -> None:
        __tracebackhide__ = True
        plan = self.plan
        if len(shape) != self.rank or self.variadic is not None:
            plan = self._expand(shape, table, value, site)
        sizes, places = table.sizes, table.places
        index = 0
        for kind, want, _ in plan:
            got = shape[index]
            if kind == NAME:
                bound = sizes.get(want)
                if bound is None:
                    sizes[want] = got
                    places[want] = (site, index)
                elif bound != got:
                    self._size_error(index, want, bound, got, value, site)
            elif kind == CONSTANT:
                if want != got:
                    message = messages.size_differs(
                        index, str(want), got, self.text, describe(value)
                    )
                    raise ShapeError(message, site, messages.OTHER_SIZE)
            elif kind != ANYTHING:
                self._expression(index, kind, want, got, table, value, site)
            index += 1
        if _stats.recording:
            _stats.count("shape")

    def _check_dtype(self, dtype: Any, value: Any, site: Site) -> None:
        __tracebackhide__ = True
        if dtype == self.wanted_dtype or accepts(self.dtype, dtype):
            return
        want = self.dtype.__name__
        got = messages.short_dtype(dtype)
        message = messages.wrong_dtype(want, got, self.text, describe(value))
        raise ShapeError(message, site, messages.other_dtype(self.wanted_dtype))

    def _global_shape(
        self, shape: tuple[Any, ...], view: View, site: Site
    ) -> tuple[Any, ...]:
        """Local sizes times the sizes of their axes. What is 1 and may broadcast is 1 on all devices."""
        if not self.sharded:
            return shape
        dims = self.aligned(self.shape.dims, len(shape))
        if dims is None:
            return shape
        result = []
        for size, dim in zip(shape, dims, strict=True):
            whole = dim.kind == "broadcast" and size == 1
            for axis in () if whole else dim.axes:
                factor = view.bound.get(axis)
                if factor is not None:
                    size = size * factor
                elif view.mesh is None or axis not in view.mesh.axis_names:
                    raise ShapeError(
                        messages.unbound_axis(axis, view.bound, self.text), site
                    )
            result.append(size)
        return tuple(result)

    def _expand(
        self, shape: tuple[Any, ...], table: Table, value: Any, site: Site
    ) -> tuple[tuple[int, Any, Dim], ...]:
        """The plan with the variadic dimension repeated as often as the value needs."""
        __tracebackhide__ = True
        at, count = self.variadic, len(shape) - self.rank + 1
        if at is None or count < 0:
            want = str(self.rank) if at is None else f"at least {self.rank - 1}"
            message = messages.wrong_rank(want, len(shape), self.text, describe(value))
            raise ShapeError(message, site, messages.OTHER_RANK)
        name = self.shape.dims[at].name
        middle = shape[at : at + count]
        if name is not None:
            bound = table.variadics.get(name)
            if bound is None:
                table.variadics[name] = middle
                table.places["*" + name] = (site, at)
            elif bound != middle:
                self._several_error(name, bound, middle, value, site)
        return (
            self.plan[:at]
            + ((ANYTHING, None, self.shape.dims[at]),) * count
            + self.plan[at + 1 :]
        )

    def _several_error(
        self,
        name: str,
        want: tuple[Any, ...],
        got: tuple[Any, ...],
        value: Any,
        site: Site,
    ) -> None:
        """Other dimensions in the place of ``*name`` than before."""
        __tracebackhide__ = True
        actual = describe(value)
        if len(want) != len(got):
            rank = str(self.rank - 1 + len(want))
            message = messages.wrong_rank(
                rank, self.rank - 1 + len(got), self.text, actual
            )
            raise ShapeError(message, site, clash={"*" + name})
        first = next(i for i, size in enumerate(want) if size != got[i])
        message = messages.size_differs(
            (self.variadic or 0) + first,
            within_several(want[first], name),
            got[first],
            self.text,
            actual,
        )
        raise ShapeError(message, site, clash={"*" + name})

    def _size_error(
        self, dim: int, name: str, want: Any, got: Any, value: Any, site: Site
    ) -> None:
        __tracebackhide__ = True
        message = messages.size_differs(
            dim, stands_for(name, want), got, self.text, describe(value)
        )
        raise ShapeError(message, site, clash={name})

    def _expression(
        self,
        index: int,
        kind: int,
        size: Any,
        got: Any,
        table: Table,
        value: Any,
        site: Site,
    ) -> None:
        __tracebackhide__ = True
        if kind == BROADCAST and got == 1:
            return
        unknown = [name for name in size.symbols if name not in table.sizes]
        if unknown:
            if size.symbol_name is not None:
                table.bind(size.symbol_name, got, site, index)
            else:
                table.deferred.append(
                    Deferred(
                        size, got, Binding(site, index), self.text, kind == BROADCAST
                    )
                )
            return
        want = _computed(size, table)
        if want != got:
            message = messages.size_differs(
                index, _shown(size, want), got, self.text, describe(value)
            )
            error = ShapeError(message, site, clash=size.symbols)
            error.expected = want
            raise error


def _computed(size: Size, table: Table) -> Any:
    """A size expression for the sizes that are bound; None where it divides by zero for these."""
    try:
        return size.evaluate(table.sizes)
    except ZeroDivisionError:
        return None


def _shown(size: Size, value: Any) -> str:
    return (
        stands_for(size, value)
        if value is not None
        else f"{size}, which divides by zero"
    )


def settle(table: Table) -> None:
    """Compare the deferred expressions whose names are all known by now."""
    waiting: list[Deferred] = []
    for item in table.deferred:
        if any(name not in table.sizes for name in item.size.symbols):
            waiting.append(item)
            continue
        want = _computed(item.size, table)
        if want != item.actual and item.own:
            count_own_name(str(item.size), item.actual, want, item.binding)
        elif want != item.actual:
            table.deferred.clear()
            message = messages.size_differs(
                item.binding.dim or 0,
                _shown(item.size, want),
                item.actual,
                item.declared,
                str(item.actual),
            )
            error = ShapeError(message, item.binding.site, clash=item.size.symbols)
            error.bindings = table.bound(sorted(item.size.symbols))
            error.expected = want
            raise error
    table.deferred[:] = waiting


def abandon(table: Table, names: Collection[str] | None = None) -> None:
    """Count expressions that never could be compared, at the end of a call; or those that await one of ``names``."""
    waiting: list[Deferred] = []
    for item in table.deferred:
        if item.own:
            waiting += [item] * (names is not None)  # a name that nothing else has
            continue
        missing = sorted(name for name in item.size.symbols if name not in table.sizes)
        if names is not None and not any(name in names for name in missing):
            waiting.append(item)
            continue
        _stats.count_not_possible(
            f"size {item.size} not compared: {', '.join(missing)} is not bound"
        )
    table.deferred[:] = waiting


def leave_own_names(own: Table, table: Table, site: Site, owner: str) -> None:
    """Compare the names of a value that are its own with those of the call: they may stand for other sizes."""
    binding = Binding(Site(f"{site}, names of {owner}", ""), None)
    inside = [item for item in own.deferred if item.own]
    abandon(own)
    mine = [
        Deferred(Size.of(name), size, binding, "", False, own=True)
        for name, size in own.sizes.items()
    ]
    for item in (*inside, *mine):
        if item not in table.deferred:
            table.deferred.append(item)
    settle(table)


def count_own_name(name: str, size: Any, other: Any, binding: Binding) -> None:
    """Count a name that means one size inside of a value and another one in the call that it is given to."""
    _stats.count_not_possible(
        f"{binding.site.function}: {name} is {size} there and {other} outside, which may be meant"
    )
