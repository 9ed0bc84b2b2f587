"""The proof: what holds of each value of a program on devices, for all arguments, from the rules of its operations.

Each operation is found again in the program on one device by its operands, so that nothing hangs on how the two
programs happen to be written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from shardtypes.prng_keys import is_key
from shardtypes.proving import constants, lookups
from shardtypes.proving.alignment import Pairs, aligned
from shardtypes.proving.evaluation import Held, Unevaluated, constant, one_step
from shardtypes.proving.exact.evaluation import Number
from shardtypes.proving.exact.region import DRAWS, MOST, NotExact, Region
from shardtypes.proving.one_device import (
    CONSTANT,
    OneDevice,
    is_identity,
    is_small,
    name_of,
    number_in,
)
from shardtypes.proving.program import Constant, Name, Operand, Program, Step, shape_of
from shardtypes.proving.random_draws import Drawn
from shardtypes.proving.relation import Sizes
from shardtypes.proving.rules import RULES, Case
from shardtypes.proving.rules.case import exact
from shardtypes.proving.state import (
    State,
    States,
    Unknown,
    checked,
    either,
    row,
    same,
    settled,
    stacked,
)

_MOST_ROUNDS = 8
_NEAR = 40
"""Operations that are followed back in exact arithmetic to what is known."""


@dataclass
class Proved:
    """``outputs`` are the states of the results, None where nothing is known; ``ends`` says of operations where
    knowledge ends what is missing. ``known`` of ``all`` operations have a result of which the relation is known.
    ``claims`` has it of each value, with the value of one device that it is a relation to. ``identities`` tells whether
    exact arithmetic was needed, ``draws`` whether what devices draw at random was taken for what one device draws."""

    outputs: States
    known: int
    all: int
    ends: list[tuple[Step, str]] = field(default_factory=list)
    claims: dict[Name, tuple[State, Name]] = field(default_factory=dict)
    identities: bool = False
    draws: bool = False

    @property
    def share(self) -> float:
        if self.all:
            return self.known / self.all
        return 1.0


def propagated(
    many: Program,
    one: Program,
    given: Sequence[State | None],
    sizes: Sizes,
    mapped: Mapping[Name, State | None] | None = None,
    mapped_axes: frozenset[str] = frozenset(),
    drawn: Drawn | None = None,
) -> Proved:
    """Follow the arguments, which are related as ``given``, to the results. ``mapped`` are values that ``pmap`` hands
    to its devices along ``mapped_axes``, with their states; of what these return it is the state on the devices.
    ``drawn`` are random numbers that one device takes over from the devices."""
    pairs, _ = aligned(many, one)
    run = _Propagation(sizes, mapped or {}, mapped_axes, pairs, drawn or {})
    outputs = run.program(
        many,
        one,
        [_Fact(state, name) for state, name in zip(given, one.inputs, strict=True)],
    )
    results = zip(many.outputs, one.outputs, strict=False)
    for number, (output, result) in enumerate(results):
        if isinstance(output, int) and output in run.returned:
            outputs[number] = run.returned[output]
        elif shape_of(many, output) != shape_of(one, result):
            # constants of any length are alike, but not the same
            outputs[number] = None
    ends = [
        (step, why) for step, why in run.ends if step.results[0] not in run.returned
    ]
    return Proved(
        outputs,
        run.known + len(run.returned),
        run.all,
        ends,
        run.claims,
        run.identities,
        run.draws,
    )


@dataclass(frozen=True)
class _Fact:
    """What is known of a value: its state, and which value of the program on one device it is."""

    state: State | None
    partner: Operand | None


_Facts: TypeAlias = dict[Name, _Fact]
_NOTHING = _Fact(None, None)


@dataclass(frozen=True)
class _Kept:
    """What devices put together and may take apart again just so: each has its own back. ``one`` is what one device
    puts together."""

    dims: Any
    state: State
    one: Name


class _Propagation:
    def __init__(
        self,
        sizes: Sizes,
        mapped: Mapping[Name, State | None],
        mapped_axes: frozenset[str],
        pairs: Pairs,
        drawn: Drawn,
    ) -> None:
        self.sizes = sizes
        self.mapped = mapped
        self.mapped_axes = mapped_axes
        self.pairs = pairs
        self.drawn = drawn
        self.taken_over = {partner for _, partner in drawn.values()}
        self.draws = False
        self.computed: dict[Name, Held] = {}
        self.repeated: dict[Name, Held] = {}
        self.returned: dict[Name, State] = {}
        self.kept: dict[Name, _Kept] = {}
        self.passed: dict[Name, Name] = {}
        self.symbols: dict[Name, lookups.Symbol] = {}
        self.carried: dict[Name, tuple[Any, lookups.Symbol, Name]] = {}
        self.known = self.all = 0
        self.ends: list[tuple[Step, str]] = []
        self.claims: dict[Name, tuple[State, Name]] = {}
        self.left = [MOST]
        self.regions: list[Region] = []
        self.identities = False

    def program(self, many: Program, one: Program, given: Sequence[_Fact]) -> States:
        facts, single = self._facts(many, one, given)
        return self._outputs(many, one, facts, single)

    def _outputs(
        self, many: Program, one: Program, facts: _Facts, single: OneDevice
    ) -> States:
        found = []
        for output, other in zip(many.outputs, one.outputs, strict=False):
            fact = self._fact(output, single.resolved(other), facts, single)
            found.append(fact)
        return found

    def _fact(
        self,
        operand: Operand,
        other: Operand | None,
        facts: _Facts,
        single: OneDevice,
    ) -> State | None:
        """What is known of an operand, if it is this one on one device."""
        if isinstance(operand, Constant):
            return self._constant(
                Held(constant(operand)), single.value(other), operand.dtype
            )
        fact = facts.get(operand)
        if fact is not None and fact.state is not None and fact.partner == other:
            return fact.state
        held = self.computed.get(operand)
        if held is not None:
            return self._constant(held, single.value(other), None)
        return None

    def _constant(self, held: Held, whole: Any, dtype: Any) -> State | None:
        if whole is None or is_key(held.array) or is_key(whole):
            return None
        try:
            return constants.state_of(held, whole, _rounding(dtype), self.sizes)
        except Unknown:
            return None

    def _facts(
        self, many: Program, one: Program, given: Sequence[_Fact]
    ) -> tuple[_Facts, OneDevice]:
        single = OneDevice(one)
        facts: _Facts = dict(zip(many.inputs, given, strict=True))
        self.regions.append(Region(many, one, single, self.sizes, self.left))
        for step in many.steps:
            self._step(step, many, one, facts, single)
        self.regions.pop()
        return facts, single

    def _step(
        self,
        step: Step,
        many: Program,
        one: Program,
        facts: _Facts,
        single: OneDevice,
    ) -> None:
        if is_identity(step):
            for name, operand in zip(step.results, step.operands, strict=True):
                self._pass_on(name, operand, facts, single)
            return
        self.all += 1
        if step.results[0] in self.drawn:
            self._draw(step.results[0], facts)
            return
        self._compute(step, many)
        if self._alone(step, many, facts, single):
            self.known += 1
            return
        try:
            other = self._other(step, facts, single)
            states = self._fitting(
                step, self._states(step, other, many, one, facts, single), many
            )
        except Unknown as error:
            if self._look_up(step, many, one, facts, single) or self._in_exact(
                step, many, facts
            ):
                self.known += 1
                return
            states = [None] * len(step.results)
            if all(name in self.computed or name in self.kept for name in step.results):
                self.known += 1  # a number of the device's own
            elif self._operands_known(step, facts):
                self.ends.append((step, str(error)))
            partners: Sequence[Name | None] = [
                self.kept[name].one if name in self.kept else None
                for name in step.results
            ]
        else:
            partners = other.results
            self.known += 1
            if any(state is None for state in states):
                self._in_exact(step, many, facts)
        for name, state, partner in zip(step.results, states, partners, strict=True):
            if state is not None or facts.get(name, _NOTHING).state is None:
                facts[name] = _Fact(state, partner)
                self._claim(name, facts[name])

    def _draw(self, name: Name, facts: _Facts) -> None:
        """Random numbers that one device takes over from the devices: any numbers, each device's for its own shard."""
        facts[name] = _Fact(*self.drawn[name])
        self._claim(name, facts[name])
        self.known += 1
        self.draws = True

    def _in_exact(self, step: Step, many: Program, facts: _Facts) -> bool:
        """In exact arithmetic, an operation that no rule covers: whether all its results have a relation again."""
        region = self.regions[-1]
        own = (
            set(step.results)
            <= self.computed.keys() | self.kept.keys() | self.mapped.keys()
        )
        if (
            own
            or not step.manual
            or step.params.get("unreduced")
            or set(step.axes) & self.mapped_axes
        ):
            return False
        try:
            operands = [
                self._exact_operand(operand, many, facts, region)
                for operand in step.operands
            ]
            region.run(step, operands)
            found = [self._exact_fact(name, region) for name in step.results]
        except (NotExact, Unknown, ValueError, IndexError, OverflowError):
            return False
        related = [
            name
            for name, fact in zip(step.results, found, strict=True)
            if fact.state is not None
        ]
        for name, fact in zip(step.results, found, strict=True):
            facts[name] = fact
            self._claim(name, fact)
        for name in related:
            self.identities = True
            rests = region.rests.pop(name)
            self.ends = [end for end in self.ends if end[0] not in rests]
        return len(related) == len(found)

    def _exact_operand(
        self, operand: Operand, many: Program, facts: _Facts, region: Region
    ) -> list[Number]:
        """What an operand is on devices. Raises ``NotExact``."""
        found = self._exact_constant(operand, many)
        if found is not None:
            return found
        assert isinstance(operand, int)
        name = self._origin(operand)
        if name not in region.devices:
            if not self._may_be_any(name, many, facts):
                self._follow(name, many, facts, region)
            if name not in region.devices:
                self._take(name, many, facts, region)
        return region.devices[name]

    def _may_be_any(self, name: Name, many: Program, facts: _Facts) -> bool:
        """Whether a value can be any numbers that are related as is known: not a part, of which the same one may be
        used elsewhere, nor an index or a mask, of which more is known than its relation."""
        state = facts.get(name, _NOTHING).state
        if state is None or state.parts:
            return False
        return bool(jnp.issubdtype(many.types[name].dtype, jnp.inexact))

    def _take(self, name: Name, many: Program, facts: _Facts, region: Region) -> None:
        """Anything that is related as is known."""
        fact = facts.get(name, _NOTHING)
        if fact.state is None or fact.partner is None:
            raise NotExact("nothing is known of an operand")
        region.known(name, fact.state, fact.partner, shape_of(many, name))

    def _follow(self, name: Name, many: Program, facts: _Facts, region: Region) -> None:
        """A part, or what has no relation, is computed from what it is made of, if that is near: parts of one value
        are the same numbers wherever they are used."""
        order: dict[Step, None] = {}
        left = [name]
        rest = set[Name]()
        while left:
            one = left.pop()
            if one in region.devices or one in rest:
                continue
            rest.add(one)
            maker = region.maker(one)
            if maker is None or self._may_be_any(one, many, facts):
                continue
            order.pop(maker, None)
            order[maker] = None
            if len(order) > _NEAR:
                return
            left += [
                self._origin(o)
                for o in maker.operands
                if self._exact_constant(o, many) is None
            ]
        try:
            for one in rest:
                if region.maker(one) not in order:
                    self._take(one, many, facts, region)
            for step in sorted(order, key=region.place):
                if is_identity(step):
                    continue
                region.run(
                    step,
                    [
                        self._exact_operand(o, many, facts, region)
                        for o in step.operands
                    ],
                )
        except NotExact:
            return

    def _exact_constant(self, operand: Operand, many: Program) -> list[Number] | None:
        if isinstance(operand, Constant):
            return [Held(constant(operand))] * DRAWS
        held = self.computed.get(operand)
        if held is None and operand in self.repeated:
            held = self.repeated[operand]
            shape = shape_of(many, operand)
            array = np.asarray(held.array)
            ones = (1,) * len(shape)
            apart = array.reshape(*array.shape, *ones)
            repeated = np.broadcast_to(apart, array.shape + shape)
            held = Held(repeated, held.axes)
        if held is None:
            return None
        return [held] * DRAWS

    def _exact_fact(self, name: Name, region: Region) -> _Fact:
        partner = self.pairs.get(name)
        if partner is None:
            state = None
        else:
            state = region.observed(name, partner)
        return _Fact(state, partner if state is not None else None)

    def _claim(self, name: Name, fact: _Fact) -> None:
        self.claims.pop(name, None)  # of an earlier round of a loop
        if fact.state is not None and isinstance(fact.partner, int):
            self.claims[name] = fact.state, fact.partner

    def _origin(self, operand: Operand) -> Name:
        while isinstance(operand, int) and operand in self.passed:
            operand = self.passed[operand]
        if isinstance(operand, int):
            return operand
        return -1

    def _pass_on(
        self, name: Name, operand: Operand, facts: _Facts, single: OneDevice
    ) -> None:
        if isinstance(operand, Constant):
            self.computed[name] = Held(constant(operand))
            facts[name] = _Fact(None, None)
            return
        facts[name] = facts[operand]
        self.passed[name] = operand
        if operand in self.symbols:
            self.symbols[name] = self.symbols[operand]
        if operand in self.computed:
            self.computed[name] = self.computed[operand]

    def _operands_known(self, step: Step, facts: _Facts) -> bool:
        return all(
            isinstance(operand, Constant)
            or operand in self.computed
            or facts[operand].state is not None
            for operand in step.operands
        )

    def _held(self, operand: Operand) -> Held | None:
        """The values that are computed: of constants, and of what is made of them alone."""
        if isinstance(operand, Constant):
            return Held(constant(operand))
        return self.computed.get(operand)

    def _compute(self, step: Step, many: Program) -> None:
        given = []
        for operand in step.operands:
            held = self._held(operand)
            if held is None or is_key(held.array):
                return
            given.append(held)
        own = step.primitive == "axis_index" or any(held.axes for held in given)
        if not is_small(step, many, math.prod(self.sizes.values()) if own else 1):
            if (
                step.primitive == "broadcast_in_dim"
                and shape_of(many, step.operands[0]) == ()
            ):
                self.repeated[step.results[0]] = given[0]
            return
        try:
            found = one_step(step, given, many)
        except Unevaluated:
            return
        self.computed |= dict(zip(step.results, found, strict=True))

    def _other(self, step: Step, facts: _Facts, single: OneDevice) -> Step:
        """The same operation on one device. Raises ``Unknown``."""
        written = [
            CONSTANT if isinstance(one, Constant) else facts[one].partner
            for one in step.operands
        ]
        partners = [
            CONSTANT if isinstance(one, int) and one in self.computed else partner
            for one, partner in zip(step.operands, written, strict=True)
        ]
        partner = self.pairs.get(step.results[0], -1)
        beside = single.makers.get(partner)
        for pattern in dict.fromkeys((tuple(partners), tuple(written))):
            if (
                beside is not None
                and single.is_of(beside, pattern)
                and self._is_same(beside, step, facts, single)
            ):
                return beside
            found = self._best(step, pattern, beside, facts, single)
            if found is not None:
                return found
        if any(partner is None for partner in partners):
            raise Unknown("nothing is known of an operand")
        raise Unknown("one device does not do this")

    def _look_up(
        self,
        step: Step,
        many: Program,
        one: Program,
        facts: _Facts,
        single: OneDevice,
    ) -> bool:
        """An operation on indices of a sharded table."""
        if len(step.results) != 1 or not step.manual or step.inside:
            return False
        if step.primitive in ("shard", "unshard"):
            return self._carry(step, facts, single)
        try:
            other = self._other(step, facts, single)
            operands = [
                self._looked_at(a, single.resolved(b), many, facts, single)
                for a, b in zip(step.operands, other.operands, strict=True)
            ]
            local = shape_of(many, step.results[0])
            whole = shape_of(one, other.results[0])
            site = lookups.Site(
                step.primitive,
                step.params,
                other.params,
                operands,
                local,
                whole,
                self.sizes,
            )
            found = lookups.follow(site)
            if isinstance(found, State):
                found = checked(found, local, self.sizes)
        except (Unknown, ValueError, IndexError, KeyError, TypeError, OverflowError):
            return False
        (name,) = step.results
        if isinstance(found, State):
            facts[name] = _Fact(found, other.results[0])
        else:
            facts[name] = _Fact(None, other.results[0])
            self.symbols[name] = found
        self._claim(name, facts[name])
        return True

    def _carry(self, step: Step, facts: _Facts, single: OneDevice) -> bool:
        """An index or a mask that devices keep for a gradient, and take back."""
        (operand,), (name,) = step.operands, step.results
        origin = self._origin(operand)
        try:
            other = self._other(step, facts, single)
        except Unknown:
            return False
        dims = step.params["dims"]
        if dims != other.params["dims"]:
            return False
        if step.primitive == "unshard":
            whole = {axis for axes in dims for axis in axes} == set(
                step.params["sizes"]
            )
            if operand not in self.symbols or not whole:
                return False
            self.carried[name] = dims, self.symbols[operand], other.results[0]
        else:
            put, symbol, one = self.carried.get(origin, (None, None, None))
            if (
                symbol is None
                or put != dims
                or one != single.resolved(other.operands[0])
            ):
                return False
            self.symbols[name] = symbol
        facts[name] = _Fact(None, other.results[0])
        return True

    def _looked_at(
        self,
        operand: Operand,
        other: Operand,
        many: Program,
        facts: _Facts,
        single: OneDevice,
    ) -> lookups.Operand:
        shape = shape_of(many, operand)
        state = self._fact(operand, other, facts, single)
        name = operand if isinstance(operand, int) else None
        if isinstance(operand, int) and facts[operand].partner == other:
            symbol = self.symbols.get(operand)
        else:
            symbol = None
        held = self._held(operand)
        value = single.value(other)
        if held is None and name in self.repeated:
            held = self.repeated[name]
        if value is None and isinstance(other, int):
            value = single.repeated.get(other)
        own = self._own(held)
        number = number_in(value)
        if name is not None:
            root = self._origin(operand)
        else:
            root = None
        return lookups.Operand(root, state, symbol, own, number, shape)

    def _own(self, held: Held | None) -> Any:
        """The integer that a value is on each device; None if it is none."""
        if held is None or np.asarray(held.array).dtype.kind not in "iu":
            return None
        array = np.asarray(held.array, np.int64)
        axes = list(held.axes)
        lead = array.shape[: len(axes)]
        flat = array.reshape(*lead, -1)
        is_empty = not flat.shape[-1]
        if is_empty or np.any(flat != flat[..., :1]):
            return None
        places = [axes.index(axis) for axis in self.sizes if axis in axes]
        numbers = np.transpose(flat[..., 0], places)
        for at, axis in enumerate(self.sizes):
            if axis not in axes:
                numbers = np.expand_dims(numbers, at)
        return np.broadcast_to(numbers, tuple(self.sizes.values()))

    def _alone(
        self, step: Step, many: Program, facts: _Facts, single: OneDevice
    ) -> bool:
        """An operation that changes nothing on one device, and which JAX leaves out there."""
        if (
            step.primitive not in _LEFT_OUT
            or len(step.results) != 1
            or isinstance(step.operands[0], Constant)
        ):
            return False
        fact = facts[step.operands[0]]
        if (
            fact.state is None
            or fact.partner is None
            or step.operands[0] in self.computed
        ):
            return False
        try:
            self._other(step, facts, single)
        except Unknown:
            pass
        else:
            return False
        params = dict(step.params)
        state = fact.state
        try:
            if step.primitive in ("mul", "div"):
                state = _scaled(state, step)
            else:
                shapes = [shape_of(many, step.results[0])]
                case = Case(
                    step.primitive,
                    params,
                    params,
                    [state],
                    [shape_of(many, step.operands[0])],
                    shapes,
                    [state.whole],
                    self.sizes,
                )
                (state,) = RULES[step.primitive](case)
            state = checked(state, shape_of(many, step.results[0]), self.sizes)
        except Unknown:
            return False
        facts[step.results[0]] = _Fact(state, fact.partner)
        self._claim(step.results[0], facts[step.results[0]])
        return True

    def _best(
        self,
        step: Step,
        pattern: Any,
        beside: Step | None,
        facts: _Facts,
        single: OneDevice,
    ) -> Step | None:
        """Of several with these operands the one with the same parameters, and of these the one in the same line."""
        like = single.like(step, pattern)
        if len(like) < 2:
            if like:
                return like[0]
            return None
        candidates = single.equal(step, pattern) or like
        if beside in candidates and self._is_known(beside, step, facts, single):
            return beside
        return next(
            (one for one in candidates if self._is_known(one, step, facts, single)),
            None,
        )

    def _is_same(self, one: Step, step: Step, facts: _Facts, single: OneDevice) -> bool:
        """Whether it is the same operation, of operands whose relation is known."""
        fits = (
            name_of(one) == name_of(step)
            and _alike(one, step)
            and _same_params(one, step)
        )
        return fits and self._is_known(one, step, facts, single)

    def _is_known(
        self, one: Step, step: Step, facts: _Facts, single: OneDevice
    ) -> bool:
        operands = [single.resolved(operand) for operand in one.operands]
        return all(
            self._fact(a, b, facts, single) is not None
            for a, b in zip(step.operands, operands, strict=True)
        )

    def _states(
        self,
        step: Step,
        other: Step,
        many: Program,
        one: Program,
        facts: _Facts,
        single: OneDevice,
    ) -> Sequence[State | None]:
        operands = [single.resolved(operand) for operand in other.operands]
        if step.params.get("unreduced"):
            raise Unknown("JAX itself keeps partial sums")
        if step.primitive == "shard":
            return [self._shard(step, other, many, one, facts, single)]
        found = [
            self._computed_state(name, partner, single)
            for name, partner in zip(step.results, other.results, strict=True)
        ]
        if all(state is not None for state in found):
            return found
        states = [
            self._fact(a, b, facts, single)
            for a, b in zip(step.operands, operands, strict=True)
        ]
        if step.primitive in ("scan", "while", "cond"):
            loop: Callable[..., States] = getattr(self, f"_{step.primitive}")
            return loop(step, other, states)
        if any(state is None for state in states):
            raise Unknown("nothing is known of an operand")
        if step.primitive == "unshard":
            return [self._unshard(step, other, states[0], many, one)]
        return self._ruled(step, other, states, many, one)  # type: ignore[arg-type]

    def _fitting(
        self, step: Step, states: Sequence[State | None], many: Program
    ) -> Sequence[State | None]:
        """Of a loop or of branches, the states that fit the shapes."""
        if not step.inside:
            return states
        found: States = []
        for name, state in zip(step.results, states, strict=True):
            try:
                found.append(
                    state and checked(state, tuple(many.types[name].shape), self.sizes)
                )
            except Unknown:
                found.append(None)
        return found

    def _computed_state(
        self, name: Name, partner: Name, single: OneDevice
    ) -> State | None:
        held = self.computed.get(name)
        whole = single.values.get(partner)
        if held is None or whole is None:
            return None
        return self._constant(held, whole, None)

    def _ruled(
        self, step: Step, other: Step, states: list[State], many: Program, one: Program
    ) -> list[State]:
        shapes = [shape_of(many, operand) for operand in step.operands]
        results = [tuple(many.types[name].shape) for name in step.results]
        wholes = [tuple(one.types[name].shape) for name in other.results]
        case = Case(
            step.primitive,
            step.params,
            other.params,
            states,
            shapes,
            results,
            wholes,
            self.sizes,
            _floats(step, many),
        )
        rule = RULES.get(step.primitive)
        try:
            if rule is not None:
                found = rule(case)
            else:
                found = self._opaque(step, other, case)
            return [
                checked(state, shape, self.sizes)
                for state, shape in zip(found, results, strict=True)
            ]
        except Unknown:
            if rule is not None and _is_plain(case) and _same_params(step, other):
                return [same(whole) for whole in wholes]
            raise
        except (
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            ZeroDivisionError,
        ) as error:
            raise Unknown(f"{step.primitive} could not be followed: {error}") from error

    def _opaque(self, step: Step, other: Step, case: Case) -> list[State]:
        """An operation without a rule gives the same for the same."""
        if (
            not _is_plain(case)
            or not _same_params(step, other)
            or other.results[0] in self.taken_over
        ):
            raise Unknown(f"no rule for {step.primitive}")
        exact(case.states)
        return [same(whole) for whole in case.wholes]

    # --- into and out of shard_map -----------------------------------------------------------------------------------

    def _shard(
        self,
        step: Step,
        other: Step,
        many: Program,
        one: Program,
        facts: _Facts,
        single: OneDevice,
    ) -> State:
        (name,) = step.results
        if name in self.mapped:
            given = self.mapped[name]
            if given is None:
                raise Unknown("an argument of each device's own")
            return given
        (operand,), (partner,) = step.operands, other.operands
        if step.params["dims"] != other.params["dims"]:
            raise Unknown("sharded otherwise on one device")
        kept = self.kept.get(self._origin(operand))
        if (
            kept is not None
            and kept.dims == step.params["dims"]
            and kept.one == single.resolved(partner)
        ):
            return kept.state
        state = self._fact(operand, single.resolved(partner), facts, single)
        if state is None:
            raise Unknown("nothing is known of an operand")
        if {axis for axes in step.params["dims"] for axis in axes} & state.over:
            raise Unknown("a partial result is taken apart")
        dims = tuple(
            (*mine, *more)
            for mine, more in zip(state.dims, step.params["dims"], strict=True)
        )
        whole = shape_of(one, other.results[0])
        found = State(whole, dims, state.parts, state.factor, state.uniform, state.zero)
        return checked(found, tuple(many.types[name].shape), self.sizes)

    def _unshard(
        self, step: Step, other: Step, state: State | None, many: Program, one: Program
    ) -> State:
        assert state is not None
        if step.params["dims"] != other.params["dims"]:
            raise Unknown("put together otherwise on one device")
        own = set(step.params["sizes"])
        if own & self.mapped_axes:
            self.returned[step.results[0]] = state
            raise Unknown("each device returns its own")
        named = [axis for axes in step.params["dims"] for axis in axes]
        # every device's own is in there
        if (state.axes | state.over) & own <= set(named):
            self.kept[step.results[0]] = _Kept(
                step.params["dims"], state, other.results[0]
            )
        if state.over & own and not state.zero:
            raise Unknown("a partial result is returned")
        dims = []
        for dim, axes in enumerate(step.params["dims"]):
            mine = state.dims[dim]
            if mine != axes and not mine and dim in state.uniform and axes:
                if not set(axes) & (state.axes | state.over):
                    mine = axes
            if mine[len(mine) - len(axes) :] != axes:
                raise Unknown("returned as sharded otherwise")
            dims.append(mine[: len(mine) - len(axes)])
        left = {axis for axes in dims for axis in axes}
        if not left.isdisjoint(own):
            raise Unknown("sharded, but returned as replicated")
        if len(set(named)) != len(named):
            raise Unknown("sharded, but returned as replicated")
        parts = tuple(pair for pair in state.parts if pair[0] not in own)
        whole = shape_of(one, other.results[0])
        found = State(
            whole, tuple(dims), parts, state.factor, state.uniform, state.zero
        )
        local = shape_of(many, step.results[0])
        return checked(settled(found, local), local, self.sizes)

    # --- loops and branches --------------------------------------------------------------------------------------

    def _inner(
        self, many: Program, one: Program, states: Sequence[State | None]
    ) -> States:
        given = [
            _Fact(state, name) for state, name in zip(states, one.inputs, strict=True)
        ]
        return self.program(many, one, given)

    def _tried(
        self, many: Program, one: Program, states: Sequence[State | None]
    ) -> States:
        """Without counting: what comes of these states."""
        saved = self.known, self.all, len(self.ends)
        found = self._inner(many, one, states)
        self.known, self.all = saved[:2]
        if all(state is not None for state in found):
            del self.ends[saved[2] :]
        return found

    def _fixed(self, step: Step, carry: States, again: Any) -> States:
        """What holds of what a loop carries, in every round."""
        for _ in range(_MOST_ROUNDS):
            after = again(carry)
            merged = [
                either(old, new, self.sizes)
                for old, new in zip(carry, after, strict=True)
            ]
            if any(
                m is None and a is not None and b is not None
                for m, a, b in zip(merged, carry, after, strict=True)
            ):
                self.ends.append(
                    (step, "what the loop carries has another relation after a round")
                )
            if merged == carry:
                return carry
            carry = merged
        return [None] * len(carry)

    def _scan(self, step: Step, other: Step, states: States) -> States:
        for name in ("length", "reverse", "num_consts", "num_carry"):
            if step.params[name] != other.params[name]:
                raise Unknown(f"the loop has another {name} on one device")
        fixed = step.params["num_consts"]
        carried = step.params["num_carry"]
        (body,), (single,) = step.inside, other.inside
        consts = states[:fixed]
        rows = [row(state) for state in states[fixed + carried :]]

        def again(carry: States) -> States:
            results = self._tried(body, single, [*consts, *carry, *rows])
            return results[:carried]

        carry = self._fixed(step, states[fixed : fixed + carried], again)
        last = self._inner(body, single, [*consts, *carry, *rows])
        length = step.params["length"]
        rows = [stacked(state, length) for state in last[carried:]]
        return [*carry, *rows]

    def _while(self, step: Step, other: Step, states: States) -> States:
        for name in ("cond_nconsts", "body_nconsts"):
            if step.params[name] != other.params[name]:
                raise Unknown("another loop on one device")
        asked = step.params["cond_nconsts"]
        done = step.params["body_nconsts"]
        for_cond = states[:asked]
        for_body = states[asked : asked + done]
        cond, body = step.inside
        cond_of_one, body_of_one = other.inside

        def again(carry: States) -> States:
            return self._tried(body, body_of_one, [*for_body, *carry])

        carry = self._fixed(step, states[asked + done :], again)
        (wanted,) = self._inner(cond, cond_of_one, [*for_cond, *carry])
        self._inner(body, body_of_one, [*for_body, *carry])
        if wanted is None or not wanted.plain:
            raise Unknown("how often the loop runs depends on the device")
        return carry

    def _cond(self, step: Step, other: Step, states: States) -> States:
        which, *given = states
        are_alike = len(step.inside) == len(other.inside)
        if which is None or not which.plain or not are_alike:
            raise Unknown("which branch is taken depends on the device")
        found: States | None = None
        for a, b in zip(step.inside, other.inside, strict=True):
            results = self._inner(a, b, given)
            if found is None:
                found = results
            else:
                found = [
                    either(x, y, self.sizes)
                    for x, y in zip(found, results, strict=True)
                ]
        return found or []


_LEFT_OUT = frozenset(
    "mul div psum psum_invariant pmax pmin all_gather all_gather_invariant reduce_scatter all_to_all".split()
)


def _scaled(state: State, step: Step) -> State:
    """Multiplied or divided by a number."""
    number = step.operands[1]
    if (
        not isinstance(number, Constant)
        or np.ndim(number.value)
        or state.monoid not in (None, "sum")
    ):
        raise Unknown("one device does not do this")
    if (
        not jnp.issubdtype(number.dtype, jnp.inexact)
        or not np.isfinite(float(number.value))
        or float(number.value) == 0
    ):
        raise Unknown("one device does not do this")
    exact = float(number.value)
    factor = Fraction(exact).limit_denominator(10_000)
    allowed = _rounding(number.dtype) * abs(exact)
    if abs(float(factor) - exact) > allowed:
        raise Unknown("one device does not do this")
    return replace(
        state,
        factor=state.factor * factor
        if step.primitive == "mul"
        else state.factor / factor,
    )


def _alike(one: Step, step: Step) -> bool:
    if len(one.results) != len(step.results):
        return False
    return len(one.inside) == len(step.inside)


def _same_params(a: Step, b: Step) -> bool:
    return a.said == b.said


def _is_plain(case: Case) -> bool:
    """Whether all operands are the very same as on one device, and the results as large."""
    operands = all(
        state.plain and shape == state.whole
        for state, shape in zip(case.states, case.shapes, strict=True)
    )
    collective = (
        "axes" in case.params and case.primitive.startswith("p")
    ) or "axis_name" in case.params
    return operands and not collective and list(case.results) == list(case.wholes)


def _floats(step: Step, program: Program) -> bool:
    """Whether a sum of operands is taken to the sum of results, as far as numbers go: nothing is rounded."""
    result = program.types[step.results[0]].dtype
    operands = [_dtype(operand, program) for operand in step.operands]
    if step.primitive == "convert_element_type":
        if operands[0] == np.bool_ or result == np.bool_:
            return False
        return jnp.issubdtype(result, jnp.inexact) or not jnp.issubdtype(
            operands[0], jnp.inexact
        )
    return bool(jnp.issubdtype(result, jnp.inexact))


def _dtype(operand: Operand, program: Program) -> Any:
    if isinstance(operand, Constant):
        return operand.dtype
    return program.types[operand].dtype


def _rounding(dtype: Any) -> float:
    if dtype is not None and jnp.issubdtype(dtype, jnp.floating):
        return 4 * float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call] # its stubs leave it out
    return 1e-6
