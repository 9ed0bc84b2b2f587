"""On which positions of a dimension each number of a program may depend, whatever the values are.

A cell says for each element on which positions it may depend, and which elements are known numbers: those that the
program makes itself, such as a mask, and what they determine (zero times anything). What is not known how it depends
depends on all of its operands, so that nothing is taken to be independent that is not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from shardtypes.laws.cells import Cells, Depends
from shardtypes.laws.families import (
    CUMULATIVE,
    ELEMENTWISE,
    EXCHANGES,
    MOVES,
    REDUCTIONS,
    SUMS_OVER_DEVICES,
)
from shardtypes.laws.indexing import indexed
from shardtypes.laws.walk import (
    Change,
    Domain,
    Host,
    Join,
    Path,
    Shape,
    Walker,
    any_along,
    bind,
    named_axes,
)
from shardtypes.prng_keys import is_key

#: What masks are made of: such a number is taken for minus infinity.
LOW = -1e4
#: What makes nothing of such a number, or takes the greater one.
_SQUASHING = frozenset("exp exp2 logistic max select_n".split())
#: A factor that makes less than this of it leaves nothing of which that could be said.
_SMALL = 1e-3
#: What leaves such a number what it is, or the greater one.
_KEEP_LOW = frozenset(
    "add sub max select_n convert_element_type copy stop_gradient exp exp2".split()
)


class Dependence(Domain[Depends]):
    """What may depend on what. ``assumed`` is what was taken for granted."""

    def __init__(self, count: int) -> None:
        # After the positions, whether a number may be made of a mask's.
        self.count = count + 1
        self.assumed: dict[str, None] = {}

    # --- cells

    def given(self, value: Any, on: Host) -> Depends:
        """An argument whose values are unknown."""
        shape = np.shape(value)
        positions = np.broadcast_to(on, (self.count - 1, *shape))
        return Depends(
            np.concatenate([positions, np.zeros((1, *shape), bool)]),
            np.zeros(shape, bool),
        )

    def constant(self, value: Any) -> Depends:
        shape = np.shape(value)
        on = np.zeros((self.count, *shape), bool)
        if is_key(value):
            return Depends(on, np.zeros(shape, bool))
        return Depends(on, np.ones(shape, bool), np.asarray(value))

    def each(self, cell: Depends, change: Change) -> Depends:
        lead = len(self.devices)
        if cell.values is None:
            values = None
        else:
            values = change(cell.values, lead)
        return Depends(change(cell.on, lead + 1), change(cell.known, lead), values)

    def joined(self, cells: Sequence[Depends], join: Join) -> Depends:
        lead = len(self.devices)
        values = None
        if all(cell.values is not None for cell in cells):
            values = join([cell.values for cell in cells], lead)
        known = [
            cell.known if values is not None else np.zeros_like(cell.known)
            for cell in cells
        ]
        return Depends(
            join([cell.on for cell in cells], lead + 1), join(known, lead), values
        )

    # --- what is run

    def branch(self, index: Depends) -> int | None:
        if (
            index.values is None
            or not index.known.all()
            or np.unique(index.values).size != 1
        ):
            return None
        return int(index.values.flat[0])

    def branches(self, index: Depends, results: list[Cells]) -> Cells:
        found = []
        for cells in zip(*results, strict=True):
            on = np.logical_or.reduce([_plain(cell).on for cell in cells])
            found.append(self._made(on | _everywhere(index.on, on.ndim)))
        return found

    def looped(
        self, eqn: Any, path: Path, cells: Cells, walker: Walker[Depends]
    ) -> Cells:
        """Run the body until nothing depends on more than before; what ends the loop reaches everything it carries."""
        params = eqn.params
        first = params["cond_nconsts"]
        second = params["body_nconsts"]
        asked = cells[:first]
        fixed = cells[first : first + second]
        carry = cells[first + second :]
        carry = [_plain(cell, everything=True) for cell in carry]
        condition = params["cond_jaxpr"]
        body = params["body_jaxpr"]
        while True:
            (going,) = walker.evaluate(
                condition.jaxpr, condition.consts, [*asked, *carry], path
            )
            after = walker.evaluate(body.jaxpr, body.consts, [*fixed, *carry], path)
            joined = [
                replace(
                    cell,
                    on=cell.on | _plain(new).on | _everywhere(going.on, cell.on.ndim),
                )
                for cell, new in zip(carry, after, strict=True)
            ]
            if all(
                np.array_equal(a.on, b.on) for a, b in zip(carry, joined, strict=True)
            ):
                return joined
            carry = joined

    def opaque(self, eqn: Any, path: Path, cells: Cells) -> Cells:
        on = np.zeros(self.count, bool)
        for cell in cells:
            on = on | _plain(cell).on.reshape(self.count, -1).any(1)
        return [
            self._made(np.broadcast_to(_front(on, self._rank(v)), self._shape(v, True)))
            for v in eqn.outvars
        ]

    def equation(self, eqn: Any, path: Path, cells: Cells) -> Cells:
        name = eqn.primitive.name
        if name == "optimization_barrier":
            return cells
        if self._computable(name, cells):
            return [
                self.constant_everywhere(np.asarray(value))
                for value in self._bound(eqn, cells)
            ]
        found = self._by_family(eqn, name, cells)
        if found is None:
            return self.opaque(eqn, path, cells)
        return found

    def constant_everywhere(self, value: Host) -> Depends:
        """Known values, with dimensions of devices."""
        return Depends(
            np.zeros((self.count, *value.shape), bool),
            np.ones(value.shape, bool),
            value,
        )

    def _by_family(self, eqn: Any, name: str, cells: Cells) -> Cells | None:
        if name in ELEMENTWISE:
            return self._elementwise(eqn, name, cells)
        if name in MOVES:
            return self._moved(eqn, cells)
        if name in REDUCTIONS:
            return [self._reduced(eqn, name, cells[0])]
        cells = [_plain(cell) for cell in cells]
        if name in CUMULATIVE:
            return [self._accumulated(eqn, cells[0])]
        if name in ("dot_general", "conv_general_dilated"):
            return [self._multilinear(eqn, *cells)]
        if name in SUMS_OVER_DEVICES:
            return [self._over_devices(eqn, cell) for cell in cells]
        if name in EXCHANGES or name in ("reduce_window_sum", "reduce_window_max"):
            return [self._linear(eqn, cells)]
        if name in ("sort", "top_k"):
            return self._sorted(eqn, cells)
        if name.startswith("random_"):
            return self._random(eqn, name, cells)
        # each device may have another index
        if self.devices:
            return None
        on = indexed(eqn, name, cells)
        if on is None:
            return None
        return [self._made(on)]

    def _computable(self, name: str, cells: Cells) -> bool:
        if name.startswith("random_") or "callback" in name:
            return False
        return all(
            cell.values is not None and cell.known.all() and not cell.on.any()
            for cell in cells
        )

    def _bound(self, eqn: Any, cells: Cells) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bind(eqn, [cell.values for cell in cells], self.devices)

    # --- families

    def _elementwise(self, eqn: Any, name: str, cells: Cells) -> Cells:
        shape = self._shape(eqn.outvars[0], False)
        rank = self._rank(eqn.outvars[0])
        cells = [self._broadcast(cell, shape, rank) for cell in cells]
        on = np.logical_or.reduce([cell.on for cell in cells])
        known = np.logical_and.reduce([cell.known for cell in cells])
        if name not in _KEEP_LOW:
            # Numbers that are not known where a mask's are not kept: below anything, or not at all.
            low = np.logical_or.reduce([_low(cell) for cell in cells])
            on = on | (low & ~known)
        if not any(cell.known.any() for cell in cells):
            return [self._made(on) for _ in eqn.outvars]
        values = np.zeros(shape, eqn.outvars[0].aval.dtype)
        if known.any():
            values = np.asarray(self._values_of(eqn, cells))
            nan = known & _is_nan(values)
            on = on | nan
            known = known & ~nan & ~_uncertain(name, cells, values)
        made = _settled(on, known, values)
        if len(eqn.outvars) > 1:
            return [made for _ in eqn.outvars]
        return [self._determined(name, cells, made)]

    def _values_of(self, eqn: Any, cells: Cells) -> Any:
        """The values where all operands are known; any elsewhere."""
        whole = [
            cell.values
            if cell.values is not None
            else np.zeros(cell.known.shape, atom.aval.dtype)
            for cell, atom in zip(cells, eqn.invars, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bind(eqn, whole, self.devices)[0]

    def _determined(self, name: str, cells: Cells, made: Depends) -> Depends:
        """The same with what one operand alone determines."""
        if name in ("mul", "and"):
            for cell in cells:
                made = _set(made, _equals(cell, 0), 0)
        elif name == "or":
            for cell in cells:
                made = _set(
                    made, _equals(cell, True) if made_of_bools(cell) else None, True
                )
        elif name == "div":
            made = _set(made, _equals(cells[0], 0), 0)
        elif name == "select_n":
            made = _selected(_masked(made, cells), cells)
        elif name == "max":
            made = _greater(made, cells)
        elif name in ("add", "sub"):
            made = self._below(name, cells, made)
        return made

    def _below(self, name: str, cells: Cells, made: Depends) -> Depends:
        """A mask's number and any other: minus infinity, but for one that may be made of such numbers itself."""
        sign = -1.0 if name == "sub" else 1.0
        low = [_low(cells[0]), _low(cells[1], sign)]
        high = (_low(cells[0], -1.0) & ~cells[1].known) | (
            _low(cells[1], -sign) & ~cells[0].known
        )
        # with a mask's number it may be anything
        made = replace(made, on=made.on | high)
        for number, where in enumerate(low):
            other = cells[1 - number]
            where = where & ~other.known & ~other.on[-1]
            if where.any():
                self.assumed[
                    "a mask's numbers below -1e4 stand for minus infinity, and it leaves something"
                ] = None
                assert made.values is not None
                infinity = np.asarray(-np.inf, made.values.dtype)
                values = np.where(where, infinity, made.values)
                made = Depends(made.on, made.known | where, values)
        return made

    def _moved(self, eqn: Any, cells: Cells) -> Cells:
        name = eqn.primitive.name
        params = eqn.params
        lead = len(self.devices)
        on = moved(name, params, [cell.on for cell in cells], lead + 1)
        known = moved(name, params, [cell.known for cell in cells], lead)
        values: list[Any] = [None] * len(on)
        if any(cell.known.any() for cell in cells):
            whole = []
            for cell, atom in zip(cells, eqn.invars, strict=True):
                if cell.values is not None:
                    whole.append(cell.values)
                else:
                    whole.append(np.zeros(cell.known.shape, atom.aval.dtype))
            values = moved(name, params, whole, lead)
        return [Depends(*parts) for parts in zip(on, known, values, strict=True)]

    def _reduced(self, eqn: Any, name: str, cell: Depends) -> Depends:
        lead = len(self.devices)
        axes = tuple(axis + lead for axis in eqn.params["axes"])
        shifted = tuple(axis + 1 for axis in axes)
        low = _low(cell)
        if name in ("reduce_max", "argmax"):
            # Where something else is left, a mask's numbers are not the greatest.
            nothing_else = np.asarray(low.all(axes, keepdims=True))
            on = any_along(cell.on & (~low | nothing_else), shifted)
            on[-1] &= np.asarray(low.all(axes))  # a mask leaves something
        else:
            on = any_along(cell.on | low, shifted)
        known = np.asarray(cell.known.all(axes))
        if cell.values is None:
            return self._made(on)
        if known.any():
            values = np.asarray(self._values_of(eqn, [cell]))
            if name not in ("reduce_max", "argmax"):
                on = on & ~(known & ~cell.on.any(shifted).any(0))
            return _settled(on, known & ~_is_nan(values), values)
        decisive = {"reduce_and": False, "reduce_or": True}.get(name)
        if decisive is None or cell.values.dtype != bool:
            return self._made(on)
        known = any_along(cell.known & (cell.values == decisive), axes)
        return Depends(on & ~known, known, np.full(known.shape, decisive))

    def _accumulated(self, eqn: Any, cell: Depends) -> Depends:
        axis = eqn.params["axis"] + len(self.devices) + 1
        if eqn.params["reverse"]:
            on = np.flip(cell.on, axis)
        else:
            on = cell.on
        on = np.logical_or.accumulate(on, axis)
        if eqn.params["reverse"]:
            on = np.flip(on, axis)
        return self._made(on)

    def _multilinear(self, eqn: Any, left: Depends, right: Depends) -> Depends:
        """Of products: what depends on each factor where the other one is not zero."""
        lefts = _may_be_nonzero(left)
        rights = _may_be_nonzero(right)
        if eqn.primitive.name == "dot_general" and not self.devices:
            numbers = eqn.params["dimension_numbers"]
            on = np.stack(
                [
                    (_dot(a, rights, numbers) > 0) | (_dot(lefts, b, numbers) > 0)
                    for a, b in zip(left.on, right.on, strict=True)
                ]
            )
            return self._made(on)
        plain = _WithoutTypes(eqn)
        on = self._bits(plain, [left.on, np.broadcast_to(rights, right.on.shape)])
        return self._made(
            on | self._bits(plain, [np.broadcast_to(lefts, left.on.shape), right.on])
        )

    def _linear(self, eqn: Any, cells: Cells) -> Depends:
        return self._made(self._bits(eqn, [cell.on for cell in cells]))

    def _bits(self, eqn: Any, on: Sequence[Host]) -> Host:
        """What a primitive that adds makes of ones and zeros: nonzero where a one goes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (found,) = bind(
                eqn, [np.asarray(bits, np.float32) for bits in on], self.devices, more=1
            )
        array = np.asarray(found)
        return np.asarray((array != 0) | np.isnan(array))

    def _over_devices(self, eqn: Any, cell: Depends) -> Depends:
        names = [name for name, _ in self.devices]
        axes = tuple(names.index(name) + 1 for name in named_axes(eqn) if name in names)
        return self._made(
            np.broadcast_to(cell.on.any(axes, keepdims=True), cell.on.shape)
        )

    def _sorted(self, eqn: Any, cells: Cells) -> Cells:
        lead = len(self.devices) + 1
        if eqn.primitive.name == "sort":
            axis = eqn.params["dimension"] + lead
        else:
            rank = cells[0].on.ndim - lead
            axis = eqn.params.get("axis", -1) % rank + lead
        on = np.logical_or.reduce([cell.on for cell in cells]).any(axis, keepdims=True)
        return [
            self._made(np.broadcast_to(on, self._shape(v, True))) for v in eqn.outvars
        ]

    def _random(self, eqn: Any, name: str, cells: Cells) -> Cells | None:
        shape = self._shape(eqn.outvars[0], True)
        on = cells[0].on
        if name in ("random_bits", "random_split", "random_unwrap"):
            on = on.reshape(*on.shape, *(1,) * (len(shape) - on.ndim))
        elif name == "random_wrap":
            on = any_along(on, tuple(range(len(shape), on.ndim)))
        elif name in ("random_fold_in", "random_seed"):
            on = np.logical_or.reduce(
                [np.broadcast_to(cell.on, shape) for cell in cells]
            )
        else:
            return None
        return [self._made(np.broadcast_to(on, shape))]

    # --- shapes

    def _made(self, on: Host) -> Depends:
        return Depends(on, np.zeros(on.shape[1:], bool))

    def _shape(self, variable: Any, positions: bool) -> Shape:
        sizes = tuple(size for _, size in self.devices)
        return (*((self.count,) if positions else ()), *sizes, *variable.aval.shape)

    def _rank(self, variable: Any) -> int:
        return len(self.devices) + len(variable.aval.shape)

    def _broadcast(self, cell: Depends, shape: Shape, rank: int) -> Depends:
        """Scalars go with every place."""
        if cell.known.shape == shape:
            return cell
        more = (1,) * (rank - cell.known.ndim)

        def spread(array: Host, before: Shape) -> Host:
            return np.broadcast_to(
                array.reshape(*array.shape, *more), (*before, *shape)
            )

        if cell.values is None:
            values = None
        else:
            values = spread(cell.values, ())
        return Depends(spread(cell.on, (self.count,)), spread(cell.known, ()), values)


def moved(name: str, params: Any, arrays: Sequence[Host], lead: int) -> list[Host]:
    """What a primitive that only moves makes of arrays with so many dimensions in front."""
    front = tuple(range(lead))
    first = arrays[0]
    before = first.shape[:lead]
    if name == "reshape":
        return [first.reshape(*before, *params["new_sizes"])]
    if name == "transpose":
        return [first.transpose(*front, *(lead + at for at in params["permutation"]))]
    if name == "broadcast_in_dim":
        sizes = [1] * len(params["shape"])
        for at, place in enumerate(params["broadcast_dimensions"]):
            sizes[place] = first.shape[lead + at]
        spread = first.reshape(*before, *sizes)
        return [np.broadcast_to(spread, (*before, *params["shape"]))]
    if name == "squeeze":
        rank = first.ndim - lead
        gone = tuple(lead + at % rank for at in params["dimensions"])
        return [first.squeeze(gone)]
    if name == "expand_dims":
        new = tuple(lead + at for at in params["dimensions"])
        return [np.expand_dims(first, new)]
    if name == "rev":
        turned = tuple(lead + at for at in params["dimensions"])
        return [np.flip(first, turned)]
    if name == "concatenate":
        return [np.concatenate(arrays, lead + params["dimension"])]
    if name == "split":
        ends = np.cumsum(params["sizes"])
        return list(np.split(first, ends[:-1], lead + params["axis"]))
    if name == "slice":
        steps = params["strides"] or (1,) * (first.ndim - lead)
        cut = map(slice, params["start_indices"], params["limit_indices"], steps)
        whole = (slice(None),) * lead
        return [first[(*whole, *cut)]]
    return [_padded(first, arrays[1], params["padding_config"], lead)]


def _padded(
    array: Host, filling: Host, config: Sequence[tuple[int, int, int]], lead: int
) -> Host:
    sizes = []
    for size, (low, high, inner) in zip(array.shape[lead:], config, strict=True):
        between = max(size - 1, 0) * inner
        sizes.append(size + low + high + between)
    filling = filling.reshape(*filling.shape, *(1,) * len(sizes))
    made = np.array(np.broadcast_to(filling, (*array.shape[:lead], *sizes)))
    source: list[slice] = [slice(None)] * lead
    target: list[slice] = [slice(None)] * lead
    for size, whole, (low, _, inner) in zip(
        array.shape[lead:], sizes, config, strict=True
    ):
        step = inner + 1
        if low < 0:
            first = max(0, -(low // step))
        else:
            first = 0
        kept = [at for at in range(first, size) if 0 <= low + at * step < whole]
        if not kept:
            return made
        source.append(slice(kept[0], kept[-1] + 1))
        begin = low + kept[0] * step
        last = low + kept[-1] * step
        target.append(slice(begin, last + 1, step))
    made[tuple(target)] = array[tuple(source)]
    return made


def _dot(left: Host, right: Host, numbers: Any) -> Host:
    """``dot_general`` of ones and zeros."""
    (left_sum, right_sum), (left_batch, right_batch) = numbers
    left_free = _others(left, (*left_sum, *left_batch))
    right_free = _others(right, (*right_sum, *right_batch))
    a = np.asarray(left, np.float32).transpose(*left_batch, *left_free, *left_sum)
    b = np.asarray(right, np.float32).transpose(*right_batch, *right_sum, *right_free)
    batch = a.shape[: len(left_batch)]
    rows = [left.shape[at] for at in left_free]
    columns = [right.shape[at] for at in right_free]
    inner = math.prod(left.shape[at] for at in left_sum)
    a = a.reshape(*batch, math.prod(rows), inner)
    b = b.reshape(*batch, inner, math.prod(columns))
    return (a @ b).reshape(*batch, *rows, *columns)


def _others(array: Host, used: Sequence[int]) -> list[int]:
    """The other dimensions."""
    return [at for at in range(array.ndim) if at not in used]


class _WithoutTypes:
    """An equation whose results have the type of its operands."""

    def __init__(self, eqn: Any) -> None:
        self.primitive = eqn.primitive
        self.params = {**eqn.params, "preferred_element_type": None}


def _is_nan(values: Host) -> Host:
    return np.asarray(values != values)


def _plain(cell: Depends, everything: bool = False) -> Depends:
    """Without what is known of a mask's numbers, on which what is made of them may depend in any way."""
    low = _low(cell)
    known = cell.known & ~low
    if everything:
        known = np.zeros_like(low)
    return Depends(cell.on | low, known, cell.values)


def _uncertain(name: str, cells: Cells, values: Host) -> Host:
    """Where what is made of minus infinity that stands for another number is not what is made of that."""
    standing = [cell.known & cell.on.any(0) for cell in cells]
    found: Host = np.asarray(np.logical_or.reduce(standing))
    if name in _SQUASHING:
        return np.zeros_like(found)
    if name not in _KEEP_LOW and name not in ("mul", "div"):
        return found
    if not jax.numpy.issubdtype(values.dtype, jax.numpy.floating):
        return found
    uncertain = found & ~(np.asarray(values, np.float64) <= LOW)
    for number, where in enumerate(standing):
        if len(cells) != 2 or cells[1 - number].values is None:
            continue
        other = np.asarray(cells[1 - number].values, np.float64)
        if name == "mul":
            uncertain |= where & (np.abs(other) < _SMALL)
        elif name == "div":
            inverse = 1 / np.maximum(np.abs(other), 1e-300)
            uncertain |= where & (inverse < _SMALL)
        else:  # what is added again may be what was taken away
            sign = -1 if name == "sub" else 1
            uncertain |= where & (other * sign >= -LOW)
    return np.asarray(uncertain)


def _settled(on: Host, known: Host, values: Host | None) -> Depends:
    """What is known depends on nothing, but for a mask's numbers."""
    made = Depends(on, known, values)
    return Depends(on & (~known | _low(made)), known, values)


def _low(cell: Depends, sign: float = 1.0) -> Host:
    """Where a cell is known to have a mask's number."""
    if cell.values is None or not jax.numpy.issubdtype(
        cell.values.dtype, jax.numpy.floating
    ):
        return np.zeros(cell.known.shape, bool)
    values = np.asarray(cell.values, np.float64)
    return np.asarray(cell.known & (sign * values <= LOW))


def _everywhere(on: Host, rank: int) -> Host:
    """What anything in it depends on, for arrays of so many dimensions, that of the positions among them."""
    anything = any_along(on.reshape(on.shape[0], -1), 1)
    return _front(anything, rank - 1)


def _front(on: Host, rank: int) -> Host:
    return on.reshape(-1, *(1,) * rank)


def _greater(made: Depends, cells: Cells) -> Depends:
    """Of a mask's number and another one the other."""
    for low, other in (cells, cells[::-1]):
        where = _low(low) & ~other.known
        made = replace(made, on=np.where(where, other.on, made.on))
    return made


def _equals(cell: Depends, value: Any) -> Host | None:
    if cell.values is None:
        return None
    equal: Host = cell.known & (cell.values == value)
    return equal


def made_of_bools(cell: Depends) -> bool:
    """Whether the known values are truth values."""
    return cell.values is not None and cell.values.dtype == bool


def _may_be_nonzero(cell: Depends) -> Host:
    zero = _equals(cell, 0)
    if zero is None:
        return np.ones(cell.known.shape, bool)
    return ~zero


def _set(made: Depends, where: Host | None, value: Any) -> Depends:
    """Elements known to have a value."""
    if where is None or not where.any():
        return made
    assert made.values is not None
    values = np.where(where, np.asarray(value, made.values.dtype), made.values)
    return Depends(made.on & ~where, made.known | where, values)


def _masked(made: Depends, cells: Cells) -> Depends:
    """Where it is not known which case is taken, it may be a mask's number."""
    which, *cases = cells
    on = np.array(made.on)
    low = np.logical_or.reduce([_low(case) for case in cases])
    on[-1] |= ~which.known & low
    return replace(made, on=on)


def _selected(made: Depends, cells: Cells) -> Depends:
    """The case that a known predicate chooses."""
    which, *cases = cells
    if which.values is None:
        return made
    for number, case in enumerate(cases):
        where = which.known & (which.values.astype(np.int64) == number)
        on = np.where(where, case.on, made.on)
        known = np.where(where, case.known, made.known)
        values = made.values
        if case.values is not None:
            if values is None:
                values = case.values
            else:
                values = np.where(where, case.values, values)
        made = Depends(on, known, values)
    return made
