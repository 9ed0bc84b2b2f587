"""The *cost* reading of collectives: how many bytes one device sends.

Each collective is declared with what it ``sends`` (``primitives/collectives.py``). The convention is that of ring
algorithms, which move the least for large arrays: with ``n`` bytes of the operand on each of ``k`` devices that talk
with each other, one device sends

    all_gather                (k - 1) * n
    psum, pmax, pmin          2 * (k - 1) / k * n      a reduce_scatter, then an all_gather
    reduce_scatter            (k - 1) / k * n
    all_to_all                (k - 1) / k * n
    ppermute                  n

and receives as much. They are the lower bounds of Chan, Heimlich, Purkayastha, van de Geijn: "Collective communication:
theory, practice, and experience" (2007), and the factors by which NVIDIA's nccl-tests computes its bus bandwidth
(``doc/PERFORMANCE.md``, with the size of the whole array instead of ``n`` for gathers). What a network makes of it
(latency, trees, links of different width) is left out.
"""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType
from typing import Any

from shardtypes.semantics.primitive import PRIMITIVES, Sends
from shardtypes.semantics.primitives import collectives as collectives  # declares them

#: Collectives under the names that JAX, its internal primitives and XLA have for them, by the primitive's.
_NAMES = {
    "psum": "pmean psum_invariant unreduced_psum all_reduce",
    "all_gather": "all_gather_invariant all_gather_reduced",
    "reduce_scatter": "psum_scatter unreduced_reduce_scatter",
    "all_to_all": "pswapaxes",
    "ppermute": "pshuffle pbroadcast broadcast",
}
COLLECTIVES = MappingProxyType(
    {
        **{name: name for name, one in PRIMITIVES.items() if one.sends is not None},
        **{other: name for name, names in _NAMES.items() for other in names.split()},
    }
)
"""The primitive whose cost a collective has, by the collective's name; what is not there sends nothing."""


def sends(collective: str) -> Sends:
    """What a device sends in a collective of any of its names. Raises ``KeyError`` for what is none."""
    found = PRIMITIVES[COLLECTIVES[collective]].sends
    if found is None:
        raise KeyError(collective)
    return found


def sent(collective: str, held: int | Fraction, devices: int) -> Fraction:
    """The bytes that one of ``devices`` devices sends which hold ``held`` bytes of the operand each."""
    if devices == 1:
        return Fraction(0)
    count = Fraction(devices)
    made: Any = sends(collective)(Fraction(held), count, count - 1)
    return Fraction(made)
