"""A jaxpr as the prover reads it: calls within it are written out, so that one flat list of steps is left.

``jit``, rematerialisation and functions with rules of their own for derivatives are their bodies. ``shard_map`` is a
step ``shard`` for each argument, its body, and a step ``unshard`` for each result. Loops and branches keep programs of
their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jax.extend import core as jex
from jax.sharding import NamedSharding

from shardtypes.meshes import entries_of
from shardtypes.prng_keys import is_key
from shardtypes.proving.places import Place, place_of
from shardtypes.proving.relation import Axes
from shardtypes.user_lines import Calls

Name: TypeAlias = int
"""Of a value, unique in a program and the programs inside it."""


Params: TypeAlias = dict[str, Any]
"""Of a primitive."""

AxisSizes: TypeAlias = tuple[tuple[str, int], ...]
"""Mesh axes in order, each with its size."""

_Written: TypeAlias = "tuple[list[Step], list[Operand]]"
"""The steps of what is written out, and its results."""

_SHARDINGS = frozenset({"sharding", "out_sharding", "ctx_mesh"})


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is written in the program."""

    value: Any
    dtype: Any


Operand: TypeAlias = "Name | Constant"


@dataclass(eq=False)
class Step:
    """One operation: its JAX primitive, parameters, operands and results, and the programs inside it."""

    primitive: str
    params: Params
    operands: list[Operand]
    results: list[Name]
    place: Place
    source: Any = None
    inside: tuple[Program, ...] = ()
    manual: AxisSizes = ()
    caller: Any = None

    @property
    def axes(self) -> dict[str, int]:
        """The mesh axes over which the step runs on devices of its own, with their sizes."""
        return dict(self.manual)

    @property
    def over(self) -> tuple[Any, ...]:
        """The mesh axes over which a collective goes; what other operations name so for an operation of JAX."""
        return axis_names(self.params)

    @cached_property
    def said(self) -> frozenset[tuple[str, str]]:
        """The parameters in words, but for shardings, which change no number: those of equal operations are equal."""
        told = {
            name: value
            for name, value in self.params.items()
            if name not in _SHARDINGS and value is not None
        }
        pairs = told.items()
        return frozenset((name, str(value)) for name, value in pairs)


def axis_names(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """Those that the parameters of a collective name."""
    if "axes" in params:
        found = params["axes"]
    else:
        found = params.get("axis_name", ())
    if isinstance(found, (tuple, list)):
        return tuple(found)
    return (found,)


@dataclass(eq=False)
class Program:
    """``types`` are JAX's (shape, dtype) of all values of the program; ``taken_apart`` the steps that hand an argument
    to ``shard_map``, whether or not a result needs it; ``placed`` the shardings that ``jit`` is told of values."""

    inputs: list[Name]
    steps: list[Step]
    outputs: list[Operand]
    types: dict[Name, Any] = field(default_factory=dict)
    taken_apart: list[Step] = field(default_factory=list)
    placed: dict[Name, Any] = field(default_factory=dict)

    def made(self) -> Iterator[Name]:
        """What its steps make, inside loops and branches too."""
        for step in self.all_steps():
            yield from step.results

    def all_steps(self) -> Iterator[Step]:
        """Those inside loops and branches included, each after what it stands in."""
        for step in self.steps:
            yield step
            for program in step.inside:
                yield from program.all_steps()

    def steps_in_rounds(
        self, around: tuple[int, ...] = ()
    ) -> Iterator[tuple[Step, tuple[int, ...]]]:
        """Those inside of loops with a known number of rounds included, each with these numbers, outermost first."""
        for step in self.steps:
            yield step, around
            if step.primitive == "scan":
                (body,) = step.inside
                yield from body.steps_in_rounds((*around, step.params["length"]))


def read(closed: Any) -> Program:
    """The program of a closed jaxpr, without what no result needs."""
    reader = _Reader()
    inputs = [reader.new(var.aval) for var in closed.jaxpr.invars]
    jaxpr = closed.jaxpr
    steps, outputs = reader.body(jaxpr, closed.consts, list(inputs), ())
    taken_apart = [step for step in steps if step.primitive == "shard"]
    return Program(
        inputs,
        needed(steps, outputs),
        outputs,
        reader.types,
        taken_apart,
        reader.placed,
    )


_CALLS = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "core_closed_call": "call_jaxpr",
    "eval_jaxpr": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "composite": "jaxpr",
    "xla_call": "call_jaxpr",
}


class _Reader:
    def __init__(self) -> None:
        self._names = itertools.count()
        self._calls = Calls()
        self.types: dict[Name, Any] = {}
        self.placed: dict[Name, Any] = {}

    def new(self, aval: Any) -> Name:
        name = next(self._names)
        self.types[name] = aval
        return name

    def body(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        given: list[Operand],
        manual: AxisSizes,
    ) -> _Written:
        """The steps of a jaxpr for these operands, and its results."""
        known: dict[Any, Operand] = dict(zip(jaxpr.invars, given, strict=True))
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            known[var] = Constant(value, getattr(var.aval, "dtype", None))
        steps: list[Step] = []

        def operand(atom: Any) -> Operand:
            if isinstance(atom, jex.Literal):
                return Constant(atom.val, getattr(atom.aval, "dtype", None))
            return known[atom]

        for eqn in jaxpr.eqns:
            operands = [operand(atom) for atom in eqn.invars]
            more, results = self._equation(eqn, operands, manual)
            steps += more
            known.update(zip(eqn.outvars, results, strict=True))
        return steps, [operand(atom) for atom in jaxpr.outvars]

    def _equation(
        self, eqn: Any, operands: list[Operand], manual: AxisSizes
    ) -> _Written:
        name = eqn.primitive.name
        if name == "shard_map":
            return self._mapped(eqn, operands, manual)
        if name in _CALLS and _CALLS[name] in eqn.params:
            jaxpr, consts = _opened(eqn.params[_CALLS[name]])
            if len(jaxpr.invars) == len(operands):
                written = self._called(eqn, jaxpr, consts, operands, manual)
                self._place(operands, eqn.params.get("in_shardings"))
                self._place(written[1], eqn.params.get("out_shardings"))
                return written
        if name == "custom_linear_solve":
            jaxpr, consts = _opened(eqn.params["jaxprs"].solve)
            # of the product, its transpose, and the solution
            lengths = tuple(eqn.params["const_lengths"])
            before = sum(lengths[:2])
            of_solution = operands[before : before + lengths[2]]
            right = operands[sum(lengths) :]
            given = [*of_solution, *right]
            return self._called(eqn, jaxpr, consts, given, manual)
        results = [self.new(var.aval) for var in eqn.outvars]
        inside = tuple(self._inner(jaxpr, manual) for jaxpr in _inside(eqn))
        caller = self._calls.line_of(eqn)
        step = Step(
            name,
            _params(eqn),
            operands,
            results,
            place_of(caller),
            eqn,
            inside,
            manual,
            caller,
        )
        return [step], list(results)

    def _place(self, values: Sequence[Operand], shardings: Any) -> None:
        """Keep what ``jit`` is told; of the calls that a value goes through, the outermost is read last."""
        for value, sharding in zip(values, shardings or (), strict=False):
            if isinstance(value, int) and isinstance(sharding, NamedSharding):
                self.placed[value] = sharding

    def _called(
        self,
        eqn: Any,
        jaxpr: Any,
        consts: Sequence[Any],
        operands: list[Operand],
        manual: AxisSizes,
    ) -> _Written:
        """The steps of a function that is called; those of a library's function are where the user calls it."""
        with self._called_by(eqn, jaxpr):
            return self.body(jaxpr, consts, operands, manual)

    @contextmanager
    def _called_by(self, eqn: Any, jaxpr: Any) -> Iterator[None]:
        """In the block the program that an equation calls is read."""
        before = self._calls
        self._calls = before.into(eqn, jaxpr)
        try:
            yield
        finally:
            self._calls = before

    def _inner(self, closed: Any, manual: AxisSizes) -> Program:
        jaxpr, consts = _opened(closed)
        inputs = [self.new(var.aval) for var in jaxpr.invars]
        steps, outputs = self.body(jaxpr, consts, list(inputs), manual)
        return Program(
            inputs, needed(steps, outputs), outputs, self.types, placed=self.placed
        )

    def _mapped(self, eqn: Any, operands: list[Operand], manual: AxisSizes) -> _Written:
        params = eqn.params
        jaxpr, consts = _opened(params["jaxpr"])
        mesh = params["mesh"]
        own = params.get(
            "newly_manual_axes", params.get("manual_axes", frozenset(mesh.axis_names))
        )
        every_size = dict(mesh.shape).items()
        sizes = {axis: size for axis, size in every_size if axis in own}
        inner = (*manual, *sizes.items())
        place = place_of(self._calls.line_of(eqn))
        steps = []
        given = []
        for number, (operand, spec, var) in enumerate(
            zip(operands, params["in_specs"], jaxpr.invars, strict=True)
        ):
            name = self.new(var.aval)
            about = {
                "dims": dims_of(spec, var.aval),
                "sizes": sizes,
                "number": number,
                "unreduced": unreduced_axes(spec),
            }
            steps.append(Step("shard", about, [operand], [name], place, eqn, (), inner))
            given.append(name)
        with self._called_by(eqn, jaxpr):
            body, results = self.body(jaxpr, consts, list(given), inner)
        steps += body
        outputs: list[Operand] = []
        for number, (result, spec, var) in enumerate(
            zip(results, params["out_specs"], eqn.outvars, strict=True)
        ):
            name = self.new(var.aval)
            about = {
                "dims": dims_of(spec, var.aval),
                "sizes": sizes,
                "number": number,
                "unreduced": unreduced_axes(spec),
            }
            steps.append(
                Step("unshard", about, [result], [name], place, eqn, (), inner)
            )
            outputs.append(name)
        return steps, outputs


def unreduced_axes(spec: Any) -> Axes:
    """The axes over which JAX itself keeps a value as partial sums."""
    return tuple(sorted(getattr(spec, "unreduced", ()) or ()))


def dims_of(spec: Any, aval: Any) -> tuple[Axes, ...]:
    """The mesh axes of each dimension, major to minor."""
    dims: list[Axes] = []
    for entry in entries_of(spec):
        if entry is None:
            dims.append(())
        elif isinstance(entry, tuple):
            dims.append(entry)
        else:
            dims.append((entry,))
    while len(dims) < len(aval.shape):
        dims.append(())
    return tuple(dims)


def _params(eqn: Any) -> Params:
    """The parameters, in the words of JAX 0.10."""
    params = dict(eqn.params)
    if eqn.primitive.name == "scan" and "num_consts" not in params:
        consts, carry, _ = (list(part) for part in params["ft_in"].unpack())
        params |= {"num_consts": len(consts), "num_carry": len(carry)}
    return params


def _opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    if hasattr(jaxpr, "consts"):
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, ()


def _inside(eqn: Any) -> list[Any]:
    """The programs of a loop or of branches; those of others are not taken apart."""
    name = eqn.primitive.name
    params = eqn.params
    if name == "scan":
        return [params["jaxpr"]]
    if name == "while":
        return [params["cond_jaxpr"], params["body_jaxpr"]]
    if name == "cond":
        return list(params["branches"])
    return []


def needed(steps: list[Step], outputs: Sequence[Operand]) -> list[Step]:
    """The steps without which the outputs cannot be computed."""
    wanted = {output for output in outputs if isinstance(output, int)}
    kept = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.results):
            kept.append(step)
            wanted.update(
                operand for operand in step.operands if isinstance(operand, int)
            )
    kept.reverse()
    return kept


def shape_of(program: Program, operand: Operand) -> tuple[int, ...]:
    if isinstance(operand, Constant):
        if is_key(operand.value):
            return tuple(operand.value.shape)
        return tuple(np.shape(operand.value))
    return tuple(program.types[operand].shape)
