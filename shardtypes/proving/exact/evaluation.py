"""A program in exact arithmetic, on simulated devices.

Which functions are linear, products or opaque is what ``shardtypes.semantics`` declares of them. A truth value of which
nothing is known is a number, and what it chooses is a product: what holds for all numbers holds for 0 and 1.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

import shardtypes.semantics.primitives as declarations
from shardtypes.prng_keys import is_key
from shardtypes.proving.evaluation import (
    UNCHANGED,
    Held,
    Unevaluated,
    aligned_to,
    constant,
    on_all,
    one_step,
    rounds,
    summed,
)
from shardtypes.proving.exact import field
from shardtypes.proving.exact.field import NotExact, Residues
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.semantics.primitive import PRIMITIVES
from shardtypes.semantics.primitives.elementwise import broadcast_letters
from shardtypes.semantics.values import Values

Number: TypeAlias = "Held"
"""What each device holds: an array, of which no argument is known to reach it, or ``Residues``."""


class Exactly:
    """One run, with one choice of what opaque functions are; ``left`` entries may still be computed."""

    def __init__(self, seed: int, left: list[int]) -> None:
        self.seed = seed
        self.left = left

    def program(self, program: Program, given: Sequence[Number]) -> list[Number]:
        """The results. Raises ``NotExact``."""
        known: dict[Name, Number] = dict(zip(program.inputs, given, strict=True))

        def value(operand: Operand) -> Number:
            if isinstance(operand, Constant):
                return Held(constant(operand))
            return known[operand]

        for step in program.steps:
            results = self.step(
                step, [value(operand) for operand in step.operands], program
            )
            known.update(zip(step.results, results, strict=True))
        return [value(output) for output in program.outputs]

    def step(
        self, step: Step, operands: list[Number], program: Program
    ) -> list[Number]:
        """The results of one operation. Raises ``NotExact``."""
        if step.primitive in _LOOPS:
            loop: Callable[..., list[Number]] = getattr(self, f"_{step.primitive}")
            return loop(step, operands, program)
        self.left[0] -= _work(step, operands, program)
        if self.left[0] < 0:
            raise NotExact("too large")
        with np.errstate(all="ignore"):
            return self._one(step, operands, program)

    def _one(
        self, step: Step, operands: list[Number], program: Program
    ) -> list[Number]:
        try:
            known = not any(isinstance(one.array, Residues) for one in operands)
            if known and step.primitive == "unshard":
                _same_everywhere(step, operands[0].axes, operands[0].array)
            if known:
                return one_step(step, operands, program)
            if step.primitive in UNCHANGED:
                return operands
            rule = _RULES.get(step.primitive) or _declared(step.primitive)
            if any(
                "complex" in str(_dtype(one, program))
                for one in (*step.operands, *step.results)
            ):
                raise NotExact("complex numbers")
            if rule is None:
                raise NotExact(f"nothing is declared of {step.primitive}")
            return rule(_Site(self, step, program), operands)
        except (
            Unevaluated,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise NotExact(f"{step.primitive}: {error}") from error

    # --- loops and branches --------------------------------------------------------------------------------------

    def _scan(
        self, step: Step, operands: list[Number], program: Program
    ) -> list[Number]:
        params = step.params
        body = step.inside[0]
        fixed = params["num_consts"]
        carried = params["num_carry"]
        length = params["length"]
        consts = operands[:fixed]
        carry = operands[fixed : fixed + carried]
        rows = operands[fixed + carried :]
        if not length:
            raise NotExact("a loop without rounds")
        stacked: list[list[Number]] = []
        for number in reversed(range(length)) if params["reverse"] else range(length):
            row = [_each(held, partial(_taken, number)) for held in rows]
            results = self.program(body, [*consts, *carry, *row])
            carry = results[:carried]
            stacked.append(results[carried:])
        if params["reverse"]:
            stacked.reverse()
        return [
            *carry,
            *(
                _stacked([one[i] for one in stacked], step)
                for i in range(len(stacked[0]))
            ),
        ]

    def _while(
        self, step: Step, operands: list[Number], program: Program
    ) -> list[Number]:
        asked = step.params["cond_nconsts"]
        done = step.params["body_nconsts"]
        cond = operands[:asked]
        body = operands[asked : asked + done]
        carry = operands[asked + done :]
        for _ in range(_MOST_ROUNDS):
            (wanted,) = self.program(step.inside[0], [*cond, *carry])
            if isinstance(wanted.array, Residues) or np.size(wanted.array) != 1:
                raise NotExact("how often a loop runs is not known")
            if not np.any(wanted.array):
                return carry
            carry = self.program(step.inside[1], [*body, *carry])
        raise NotExact("too many rounds")

    def _cond(
        self, step: Step, operands: list[Number], program: Program
    ) -> list[Number]:
        which, *given = operands
        if not isinstance(which.array, Residues) and np.size(which.array) == 1:
            (number,) = np.ravel(which.array)
            index = min(max(int(number), 0), len(step.inside) - 1)
            return self.program(step.inside[index], given)
        if len(step.inside) != 2 or not _is_choice(step, program):
            raise NotExact("which branch is taken is not known")
        off, on = (self.program(inside, given) for inside in step.inside)
        site = _Site(self, step, program)
        return [_chosen(site, which, [a, b]) for a, b in zip(off, on, strict=True)]


def _work(step: Step, operands: list[Number], program: Program) -> int:
    """How many entries are computed, or products added up by the hundred."""
    axes = {axis for one in operands for axis in one.axes}
    devices = math.prod(step.axes.get(axis, 1) for axis in axes)
    entries = (
        sum(
            math.prod(getattr(program.types[name], "shape", ()))
            for name in step.results
        )
        * devices
    )
    if step.primitive == "dot_general":
        (over, _), _ = step.params["dimension_numbers"]
        inner = math.prod(
            _first(operands[0].array).shape[len(operands[0].axes) + dim] for dim in over
        )
        return int(entries * (1 + inner // 100))
    return int(entries)


_LOOPS = frozenset({"scan", "while", "cond"})
_MOST_ROUNDS = 500


def _is_choice(step: Step, program: Program) -> bool:
    """Whether the number of a branch is a truth value."""
    operand = step.operands[0]
    maker = next((one for one in program.all_steps() if operand in one.results), None)
    return (
        maker is not None
        and maker.primitive == "convert_element_type"
        and _is_truth(maker.operands[0], program)
    )


def _is_truth(operand: Operand, program: Program) -> bool:
    return str(_dtype(operand, program)) == "bool"


def _dtype(operand: Operand, program: Program) -> Any:
    if isinstance(operand, Constant):
        return operand.dtype
    return program.types[operand].dtype


# --- arrays of devices ----------------------------------------------------------------------------------------------


def _first(array: Any) -> Any:
    if isinstance(array, Residues):
        return array.p
    return array


def exact(held: Number) -> Number:
    """In residues."""
    if isinstance(held.array, Residues):
        return held
    if is_key(held.array):
        raise NotExact("a key among numbers")
    return Held(field.residues(held.array), held.axes)


def _each(held: Number, function: Callable[[Any, int], Any]) -> Number:
    """What moves entries, of an array with leading dimensions for devices."""
    at = len(held.axes)
    if isinstance(held.array, Residues):
        q = held.array.q
        return Held(
            Residues(
                function(held.array.p, at), None if q is None else function(q, at)
            ),
            held.axes,
        )
    return Held(function(held.array, at), held.axes)


def _taken(number: int, array: Any, at: int) -> Any:
    return np.take(array, number, axis=at)


def _stacked(seen: list[Number], step: Step) -> Number:
    if not any(isinstance(one.array, Residues) for one in seen):
        return rounds(seen, step)
    values = [exact(one) for one in seen]
    p = rounds([Held(one.array.p, one.axes) for one in values], step)
    if any(one.array.q is None for one in values):
        return Held(Residues(p.array, None), p.axes)
    q = rounds([Held(one.array.q, one.axes) for one in values], step)
    return Held(Residues(p.array, q.array), p.axes)


class _Site:
    """An operation, with the run that it is in."""

    def __init__(self, run: Exactly, step: Step, program: Program) -> None:
        self.run = run
        self.step = step
        self.program = program

    @property
    def tag(self) -> str:
        params = sorted(
            (k, str(v)) for k, v in self.step.params.items() if k not in _NO_MATTER
        )
        return f"{_SAME.get(self.step.primitive, self.step.primitive)} {params}"

    @property
    def whole(self) -> bool:
        """Whether the results are whole numbers or truth values."""
        return not jnp.issubdtype(
            self.program.types[self.step.results[0]].dtype, jnp.inexact
        )

    def applied(self, arrays: list[Any], axes: Sequence[tuple[str, ...]]) -> list[Held]:
        """The operation itself, on whole numbers or floats."""
        operands = [Held(array, own) for array, own in zip(arrays, axes, strict=True)]
        return one_step(self.step, operands, self.program)


_NO_MATTER = frozenset(
    {"sharding", "out_sharding", "accuracy", "weak_type", "shape", "sharding_spec"}
)
_SAME = {"psum_invariant": "psum", "pmax": "reduce_max", "pmin": "reduce_min"}

_Rule: TypeAlias = Callable[[_Site, list[Number]], list[Number]]


def _beside(
    operands: Sequence[Number], step: Step
) -> tuple[list[Residues], tuple[str, ...]]:
    """Operands of one shape (or scalars), with a leading dimension for each axis of any; and these axes."""
    values = [exact(one) for one in operands]
    present = tuple(
        axis for axis in step.axes if any(axis in one.axes for one in values)
    )
    rank = max(one.rank for one in (Held(v.array.p, v.axes) for v in values))
    found = []
    for one in values:
        p, q = (
            None if part is None else _ranked(part, one.axes, present, rank)
            for part in (one.array.p, one.array.q)
        )
        found.append(Residues(p, q))
    return found, present


def _ranked(
    array: Any, axes: tuple[str, ...], present: tuple[str, ...], rank: int
) -> Any:
    array = aligned_to(Held(array, axes), present)
    lead = len(present)
    return array.reshape(
        array.shape[:lead] + (1,) * (rank - array.ndim + lead) + array.shape[lead:]
    )


# --- by what is declared ----------------------------------------------------------------------------------------------


def _linear(site: _Site, operands: list[Number]) -> list[Number]:
    """What adds and moves entries; indices that choose them have to be known."""
    controls = _controls(site.step.primitive, len(operands))
    places = [number for number in range(len(operands)) if number not in controls]
    for number in controls:
        if isinstance(operands[number].array, Residues):
            raise NotExact("an index that is not known")
    values = {number: exact(operands[number]) for number in places}
    axes = [one.axes for one in operands]
    found: list[list[Held]] = []
    parts = _parts(values.values())
    for part in parts:
        arrays = [
            getattr(values[number].array, part)
            if number in values
            else operands[number].array
            for number in range(len(operands))
        ]
        if site.step.primitive in _ADDED_AS_FLOATS:
            arrays = [
                array.astype(np.float64) if number in values else array
                for number, array in enumerate(arrays)
            ]
            found.append(
                [
                    Held(_exact_floats(one.array), one.axes)
                    for one in site.applied(arrays, axes)
                ]
            )
        else:
            found.append(site.applied(arrays, axes))
    results = []
    for number, one in enumerate(found[0]):
        if len(found) > 1:
            q = _whole_numbers(found[1][number].array) % field.Q
        else:
            q = None
        results.append(Held(Residues(_whole_numbers(one.array) % field.P, q), one.axes))
    return results


_ADDED_AS_FLOATS = frozenset({"scatter-add", "scatter_add"})
"""JAX has made up its mind that these add floats."""


def _exact_floats(array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype != np.float64 or not np.all(np.abs(array) < 2**53):
        raise NotExact("a sum of too many numbers")
    return array.astype(np.int64)


def _whole_numbers(array: Any) -> Any:
    """What an operation gives for whole numbers, which has to be computed without rounding."""
    array = np.asarray(array)
    if array.dtype != np.int64:
        raise NotExact(f"whole numbers become {array.dtype}")
    return array


def _put_together(site: _Site, operands: list[Number]) -> list[Number]:
    """What devices return as the same has to be the same."""
    _same_everywhere(site.step, operands[0].axes, operands[0].array.p)
    return _linear(site, operands)


def _same_everywhere(step: Step, axes: tuple[str, ...], array: Any) -> None:
    """Raises ``NotExact`` where devices return different values along axes of which their spec says nothing."""
    named = {axis for names in step.params["dims"] for axis in names}
    for number, axis in enumerate(axes):
        if axis in step.params["sizes"] and axis not in named:
            first = np.take(array, [0], axis=number)
            if is_key(array) or not np.array_equal(
                np.broadcast_to(first, array.shape), array
            ):
                raise NotExact("devices return different values")


def _controls(primitive: str, count: int) -> set[int]:
    if primitive in ("gather", "scatter", "scatter-add", "scatter_add"):
        return {1}
    if primitive == "dynamic_slice":
        return set(range(1, count))
    if primitive == "dynamic_update_slice":
        return set(range(2, count))
    return set()


def _product(site: _Site, operands: list[Number]) -> list[Number]:
    """A sum of products of two operands."""
    left, right = (exact(one) for one in operands)
    axes: list[tuple[str, ...]] = []

    def function(x: Any, y: Any) -> Any:
        (found,) = site.applied([x, y], [left.axes, right.axes])
        axes.append(found.axes)
        return found.array

    found = field.bilinear(function, left.array, right.array)
    return [Held(found, axes[0])]


def _entrywise_product(site: _Site, operands: list[Number]) -> list[Number]:
    (a, b), present = _beside(operands, site.step)
    return [Held(field.times(a, b), present)]


def _quotient(site: _Site, operands: list[Number]) -> list[Number]:
    if site.whole:
        return _opaque(site, operands)
    (a, b), present = _beside(operands, site.step)
    return [Held(field.times(a, field.inverse(b)), present)]


def _parts(numbers: Iterable[Held]) -> tuple[str, ...]:
    """The residues that all of them have."""
    if any(one.array.q is None for one in numbers):
        return ("p",)
    return ("p", "q")


def _opaque(site: _Site, operands: list[Number]) -> list[Number]:
    values, present = _beside(operands, site.step)
    return [Held(field.opaque(site.tag, site.run.seed, values), present)]


def _symmetric(site: _Site, operands: list[Number]) -> list[Number]:
    values, present = _beside(operands, site.step)
    return [Held(field.symmetric(site.tag, site.run.seed, values), present)]


@cache
def _declared(primitive: str) -> _Rule | None:
    """From the declaration of the operation that has this name."""
    for module in pkgutil.iter_modules(declarations.__path__):
        importlib.import_module(f"{declarations.__name__}.{module.name}")
    found = PRIMITIVES.get(primitive)
    if found is None or not isinstance(found.values, Values):
        return None
    values = found.values
    entrywise = found.letters is broadcast_letters
    if values.jointly and not values.controls and values.degrees == ():
        return _linear
    if values.each == frozenset({0, 1}):
        return _entrywise_product if entrywise else _product
    return _opaque if entrywise else None


# --- what is more than its declaration ----------------------------------------------------------------------------


def _exponential(site: _Site, operands: list[Number]) -> list[Number]:
    found = field.exponential(operands[0].array)
    if found is None:
        return _opaque(site, operands)
    return [Held(found, operands[0].axes)]


def _power(site: _Site, operands: list[Number]) -> list[Number]:
    (held,) = operands
    if site.whole and site.step.params["y"] < 0:
        return _opaque(site, operands)
    return [Held(field.power(held.array, int(site.step.params["y"])), held.axes)]


def _square(site: _Site, operands: list[Number]) -> list[Number]:
    return [Held(field.times(operands[0].array, operands[0].array), operands[0].axes)]


def _one_minus_square(site: _Site, operands: list[Number]) -> list[Number]:
    (square,) = _square(site, operands)
    return [Held(field.one_minus(square.array), square.axes)]


def _converted(site: _Site, operands: list[Number]) -> list[Number]:
    """Floats and whole numbers are what they are; of a float, the whole part is opaque."""
    (held,) = operands
    old = _dtype(site.step.operands[0], site.program)
    new = site.step.params["new_dtype"]
    if jnp.issubdtype(new, jnp.complexfloating):
        raise NotExact("complex numbers")
    if new == np.bool_ and old != np.bool_:
        return [_unequal(site, held)]
    if jnp.issubdtype(new, jnp.inexact) or old == np.bool_ or np.can_cast(old, new):
        return [held]
    values, present = _beside(operands, site.step)
    return [Held(field.opaque(f"as {new}", site.run.seed, values), present)]


def _unequal(site: _Site, held: Number) -> Number:
    """Whether a number is not zero."""
    return _minus(1, _equal(site, held))


def _equal(site: _Site, held: Number) -> Number:
    value = held.array
    opposite = field.minus(0, value)
    return Held(field.symmetric("is zero", site.run.seed, [value, opposite]), held.axes)


def _minus(number: int, held: Number) -> Number:
    return Held(field.minus(number, held.array), held.axes)


def _difference(site: _Site, operands: list[Number], turned: bool = False) -> Number:
    (a, b), present = _beside(operands[::-1] if turned else operands, site.step)
    return Held(field.difference(a, b), present)


def _compared(site: _Site, operands: list[Number]) -> list[Number]:
    """Whether a difference is zero, or above."""
    name = site.step.primitive
    if name in ("eq", "ne"):
        found = _equal(site, _difference(site, operands))
        return [found if name == "eq" else _minus(1, found)]
    turned = name in ("lt", "ge")
    if jnp.issubdtype(_dtype(site.step.operands[0], site.program), jnp.inexact):
        gap = _difference(site, operands, turned)
        above = Held(
            field.opaque("is above zero", site.run.seed, [gap.array]), gap.axes
        )
    else:  # whole numbers wrap around, and so may their difference
        values, present = _beside(operands[::-1] if turned else operands, site.step)
        above = Held(field.opaque("is above", site.run.seed, values), present)
    return [above if name in ("gt", "lt") else _minus(1, above)]


def _logical(site: _Site, operands: list[Number]) -> list[Number]:
    """Of truth values, products; of other numbers it is opaque."""
    if not _is_truth(site.step.results[0], site.program):
        return _opaque(site, operands)
    name = site.step.primitive
    if name == "not":
        return [_minus(1, exact(operands[0]))]
    (a, b), present = _beside(operands, site.step)
    both = field.times(a, b)
    if name == "and":
        return [Held(both, present)]
    times = 1 if name == "or" else 2

    def found(x: Any, y: Any, product: Any, prime: int) -> Any:
        return (x + y - times * product) % prime

    return [Held(field.on_both(found, a, b, both), present)]


def _selected(site: _Site, operands: list[Number]) -> list[Number]:
    which, *cases = operands
    if not isinstance(which.array, Residues):
        return [_picked(site, which, cases)]
    if len(cases) != 2 or not _is_truth(site.step.operands[0], site.program):
        raise NotExact("which of several values is taken is not known")
    return [_chosen(site, which, cases)]


def _picked(site: _Site, which: Number, cases: list[Number]) -> Number:
    """By a number that is known."""
    values = [exact(one) for one in cases]
    axes = [which.axes, *(one.axes for one in values)]
    parts = _parts(values)
    found = [
        site.applied(
            [which.array, *(getattr(one.array, part) for one in values)], axes
        )[0]
        for part in parts
    ]
    return Held(
        Residues(found[0].array, found[1].array if len(found) > 1 else None),
        found[0].axes,
    )


def _chosen(site: _Site, which: Number, cases: list[Number]) -> Number:
    """The first of two, and their difference so many times."""
    (mask, off, on), present = _beside([which, *cases], site.step)

    def found(times: Any, first: Any, second: Any, prime: int) -> Any:
        difference = (second - first) % prime
        return (first + times * difference) % prime

    return Held(field.on_both(found, mask, off, on), present)


def _reduced(site: _Site, operands: list[Number]) -> list[Number]:
    """An opaque function of all entries, in any order."""
    held = operands[0]
    axes = tuple(axis + len(held.axes) for axis in site.step.params["axes"])
    total = np.sum(
        field.signature(site.step.primitive, site.run.seed, held.array),
        axis=axes,
        dtype=np.uint64,
    )
    return [Held(field.drawn_from(total), held.axes)]


def _position(site: _Site, operands: list[Number]) -> list[Number]:
    """An opaque function of all entries in their order."""
    held = operands[0]
    (axis,) = site.step.params["axes"]
    total = _in_order(site, held, axis)
    return [Held(field.drawn_from(total), held.axes)]


def _in_order(site: _Site, held: Number, axis: int) -> Any:
    at = axis + len(held.axes)
    places = np.arange(held.array.p.shape[at]).reshape(
        [-1 if dim == at else 1 for dim in range(held.array.p.ndim)]
    )
    found = field.signature(site.tag, site.run.seed, held.array, places)
    return np.sum(found, axis=at, dtype=np.uint64)


def _sorted(site: _Site, operands: list[Number]) -> list[Number]:
    """Each place of each result is an opaque function of all entries in their order."""
    values, present = _beside(operands, site.step)
    lead = len(present)
    rank = values[0].p.ndim - lead
    params = site.step.params
    name = next(
        name for name in ("dimension", "axis", "operand_axis") if name in params
    )
    dim = params[name] % rank
    total: Any = np.uint64(0)
    for number, value in enumerate(values):
        mixed = field.opaque(f"operand {number}", site.run.seed, [value])
        total = total * np.uint64(31) + _in_order(site, Held(mixed, present), dim)
    found = []
    for number, name_ in enumerate(site.step.results):
        size = site.program.types[name_].shape[dim]
        places = np.arange(size, dtype=np.uint64).reshape(
            [-1 if d == lead + dim else 1 for d in range(lead + rank)]
        )
        state = (
            np.expand_dims(total, lead + dim)
            + places * np.uint64(0x9E3779B97F4A7C15)
            + np.uint64(number + 1)
        )
        found.append(Held(field.drawn_from(state), present))
    return found


def _exchanged(site: _Site, operands: list[Number]) -> list[Number]:
    """A collective that adds and moves."""
    found = []
    for held in operands:
        if not isinstance(held.array, Residues):
            found += on_all(site.step, [held])
            continue
        (p,) = on_all(site.step, [Held(held.array.p, held.axes)])
        q = None
        if held.array.q is not None:
            q = (
                _whole_numbers(
                    on_all(site.step, [Held(held.array.q, held.axes)])[0].array
                )
                % field.Q
            )
        found.append(Held(Residues(_whole_numbers(p.array) % field.P, q), p.axes))
    return found


def _extreme(site: _Site, operands: list[Number]) -> list[Number]:
    """The largest of all devices: an opaque function of what they hold, in any order."""
    found = []
    for one in operands:
        held = exact(one)
        seen = field.signature(site.tag, site.run.seed, held.array)
        # A sum of these over the devices, in two halves, as whole numbers may be added in any width.
        low = (seen & np.uint64(0xFFFFFFFF)).astype(np.int64)
        high = (seen >> np.uint64(32)).astype(np.int64)
        low_sum, high_sum = (
            summed(site.step, Held(part, held.axes)) for part in (low, high)
        )
        state = low_sum.array.astype(np.uint64) + (
            high_sum.array.astype(np.uint64) << np.uint64(32)
        )
        found.append(Held(field.drawn_from(state), low_sum.axes))
    return found


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        """concatenate slice dynamic_slice dynamic_update_slice gather scatter scatter-add scatter_add pad split stack
        unstack tile shard""".split(),
        _linear,
    ),
    **dict.fromkeys(
        """psum psum_invariant all_gather all_gather_invariant reduce_scatter all_to_all ppermute pbroadcast""".split(),
        _exchanged,
    ),
    **dict.fromkeys(("pmax", "pmin"), _extreme),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compared),
    **dict.fromkeys(("and", "or", "xor", "not"), _logical),
    **dict.fromkeys(
        ("reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_prod"), _reduced
    ),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("sort", "top_k"), _sorted),
    **dict.fromkeys(("max", "min"), _symmetric),
    "add_any": _linear,
    "unshard": _put_together,
    "conv_general_dilated": _product,
    "div": _quotient,
    "exp": _exponential,
    "integer_pow": _power,
    "square": _square,
    "one_minus_square": _one_minus_square,
    "convert_element_type": _converted,
    "select_n": _selected,
    **dict.fromkeys(
        "bitcast_convert_type cbrt erf_inv exp2 expm1 log1p log2 logistic".split(),
        _opaque,
    ),
}
