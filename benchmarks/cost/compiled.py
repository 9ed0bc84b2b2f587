"""What a program holds and sends as XLA compiled it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax

from shardtypes import hlo
from shardtypes.semantics.cost import sent

_ADDRESS = 8  # XLA counts the table of where the parts of a tuple are


@dataclass(frozen=True)
class Measured:
    """Bytes on one device."""

    held: int
    sent: float


def measured(compiled: Any, devices: int) -> Measured:
    """Of a compiled program (``jax.stages.Compiled``)."""
    memory = compiled.memory_analysis()
    total = Fraction(0)
    for module in compiled.runtime_executable().hlo_modules():
        serialised = module.as_serialized_hlo_module_proto()
        for entry in hlo.communications(serialised, devices):
            total += _sent(entry, devices) * entry.rounds
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    results = len(jax.tree.leaves(compiled.out_info))
    if results > 1:
        held -= _ADDRESS * results
    return Measured(held, float(total))


def _sent(entry: hlo.Communication, devices: int) -> Fraction:
    """By the size of what one device has afterwards."""
    assert entry.groups is not None, f"groups of {entry.kind} are not known"
    if entry.kind == "ppermute":
        crossing = any(source != target for source, target in entry.groups)
        return sent("ppermute", entry.bytes, devices) * crossing
    count = len(entry.groups[0])
    held = Fraction(entry.bytes)
    if entry.kind == "all_gather":
        held /= count
    if entry.kind == "reduce_scatter":
        held *= count
    return sent(entry.kind, held, count)
