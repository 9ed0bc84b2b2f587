"""Decompositions that leave signs open, as those of the columns of ``q`` in ``q, r = jnp.linalg.qr(x)``."""

from __future__ import annotations

from shardtypes.proving.program import Program
from shardtypes.proving.words import operation

_FREE = frozenset({"qr", "geqrf", "householder_product", "eigh", "eig", "svd", "schur"})


def free_signs(program: Program) -> str | None:
    """The first decomposition of what devices hold, with its place; None where there is none."""
    for step in program.all_steps():
        if step.manual and step.primitive in _FREE:
            return f"{operation(step)} ({step.place})"
    return None
