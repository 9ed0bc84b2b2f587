"""What of the results may depend on what of the arguments, for a whole program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

# no public way to find the programs inside a program
from jax._src.core import jaxprs_in_params

from shardtypes.laws.arguments import Call
from shardtypes.laws.cells import Cells
from shardtypes.laws.dependence import Dependence
from shardtypes.laws.differences import on_host
from shardtypes.laws.program import Program
from shardtypes.laws.walk import Host, Walker

_MOST_BITS = 2e8


def affordable(jaxpr: Any, count: int) -> bool:
    """Whether what depends on what can be followed in seconds."""
    return count * _elements(jaxpr.jaxpr) <= _MOST_BITS


def _elements(jaxpr: Any) -> float:
    total = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            times = float(eqn.params.get("length", 1) or 1)
        else:
            times = 1.0
        inside = sum(_elements(inner) for inner in jaxprs_in_params(eqn.params))
        total += times * (
            inside + sum(math.prod(getattr(v.aval, "shape", ())) for v in eqn.outvars)
        )
    return total


def depends(
    program: Program,
    call: Call,
    on: Sequence[Host],
    count: int,
    fixed: str | None = None,
) -> tuple[Dependence, list[Host]] | None:
    """For each leaf of the result on what it may depend, of what ``on`` names in the arguments; None where the program
    cannot be followed. Truth values and integers that were given and do not have the dimension are as they are, and so
    is the argument that is ``fixed``."""
    dependence = Dependence(count)
    cells: Cells = []
    with program.surroundings():
        values = [on_host(value) for value in program.placed(call.values)]
    for leaf, value, bits in zip(call.leaves, values, on, strict=True):
        if leaf.name == fixed or (
            leaf.kind in "bi" and not isinstance(leaf.axis, int) and not leaf.made
        ):
            cells.append(dependence.constant(value))
            dependence.assumed[f"with {leaf.name} as given"] = None
        else:
            cells.append(dependence.given(leaf.value, bits))
    try:
        with program.surroundings():
            results = Walker(dependence).run(program.jaxpr, cells)
    except Exception:  # noqa: BLE001 - what cannot be followed is not proved
        return None
    return dependence, [np.asarray(cell.on)[:count] for cell in results]
