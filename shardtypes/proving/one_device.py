"""The program on one device: its operations by what they are of, and the values that no argument reaches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardtypes.proving import constants
from shardtypes.proving.evaluation import (
    UNCHANGED,
    Held,
    Unevaluated,
    constant,
    one_step,
)
from shardtypes.proving.program import Constant, Name, Operand, Program, Step

_ALIASES = {"psum_invariant": "psum", "all_gather_invariant": "all_gather"}


class OneDevice:
    """The program on one device: its operations by what they are of, and its constants."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.alias: dict[Name, Operand] = {}
        self.values: dict[Name, Any] = {}
        self.repeated: dict[Name, Any] = {}
        self._by_operands: dict[Any, list[Step]] = {}
        self._by_params: dict[Any, dict[Any, list[Step]]] = {}
        self.makers = {name: step for step in program.steps for name in step.results}
        self._keys: dict[Step, set[Any]] = {}
        for step in program.steps:
            if is_identity(step):
                for name, operand in zip(step.results, step.operands, strict=True):
                    self.alias[name] = self.resolved(operand)
                continue
            operands = [self.resolved(operand) for operand in step.operands]
            keys = {
                tuple(map(self._key, operands)),
                tuple(literal_key(operand) for operand in operands),
            }
            self._keys[step] = keys
            for key in keys:
                self._by_operands.setdefault((_kind(step), key), []).append(step)
            self._compute(step)

    def _key(self, operand: Operand) -> Any:
        if isinstance(operand, Constant) or operand in self.values:
            return CONSTANT
        return operand

    def like(self, step: Step, pattern: Any) -> list[Step]:
        """The operations of this kind by these operands."""
        return self._by_operands.get((_kind(step), pattern), [])

    def equal(self, step: Step, pattern: Any) -> list[Step]:
        """Those that have the same parameters as well."""
        key = _kind(step), pattern
        if key not in self._by_params:
            found = self._by_params[key] = {}
            for one in self._by_operands.get(key, ()):
                found.setdefault(one.said, []).append(one)
        return self._by_params[key].get(step.said, [])

    def is_of(self, step: Step, pattern: Any) -> bool:
        """Whether an operation is found by these operands."""
        return pattern in self._keys.get(step, ())

    def resolved(self, operand: Operand) -> Operand:
        """The value that an operand is, past operations that change nothing."""
        if isinstance(operand, int):
            return self.alias.get(operand, operand)
        return operand

    def value(self, operand: Operand | None) -> Any:
        """The value of a constant; None of anything else."""
        if operand is None:
            return None
        if isinstance(operand, Constant):
            return constant(operand)
        return self.values.get(operand)

    def _compute(self, step: Step) -> None:
        given = [self.value(self.resolved(operand)) for operand in step.operands]
        if any(value is None for value in given):
            return
        if not is_small(step, self.program, 1):
            if step.primitive == "broadcast_in_dim" and np.size(given[0]) == 1:
                self.repeated[step.results[0]] = given[0]
            return
        try:
            found = one_step(step, [Held(value) for value in given], self.program)
        except Unevaluated:
            return
        for name, held in zip(step.results, found, strict=True):
            self.values[name] = np.asarray(held.array).reshape(
                self.program.types[name].shape
            )


def number_in(value: Any) -> int | None:
    """The integer that an array holds everywhere; None if it does not."""
    if value is None or np.asarray(value).dtype.kind not in "iu":
        return None
    flat = np.asarray(value).ravel()
    if flat.size and np.all(flat == flat[0]):
        return int(flat[0])
    return None


def is_identity(step: Step) -> bool:
    """Whether an operation changes no number."""
    if step.primitive not in UNCHANGED:
        return False
    return len(step.operands) == len(step.results)


def name_of(step: Step) -> str:
    """The name of a primitive, whatever JAX knows of which values vary."""
    return _ALIASES.get(step.primitive, step.primitive)


def _kind(step: Step) -> tuple[str, int, int]:
    """What an operation has in common with the same one of other sizes."""
    return name_of(step), len(step.results), len(step.inside)


CONSTANT = "constant"
"""Stands for each value that no argument reaches."""


def literal_key(operand: Operand) -> Any:
    """What is written in the program is like any other constant."""
    if isinstance(operand, Constant):
        return CONSTANT
    return operand


def is_small(step: Step, program: Program, devices: int) -> bool:
    """Whether what an operation makes of constants is computed."""
    if step.inside or step.primitive in ("shard", "unshard"):
        return False
    entries = sum(
        math.prod(getattr(program.types[name], "shape", ())) for name in step.results
    )
    return entries * devices <= constants.MOST and step.primitive in _COMPUTED


_COMPUTED = frozenset(
    """iota axis_index add sub mul div rem neg sign max min pow integer_pow exp exp2 log log1p sqrt rsqrt square abs sin
    cos tanh floor ceil round eq ne lt le gt ge and or not xor select_n convert_element_type broadcast_in_dim reshape
    squeeze expand_dims transpose concatenate slice clamp reduce_max reduce_min reduce_sum reduce_and reduce_or cumsum
    rev psum""".split()
)
