"""Where a program asks on which device it runs: what it computes from that may change with the mesh on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import source_info_util
from jax._src.core import jaxprs_in_params  # no public way to find the programs inside a program

_PLACE = frozenset({"axis_index"})
_RANDOM = frozenset({"random_bits", "threefry2x32", "random_fold_in", "rng_bit_generator"})


def dependence(f: Callable[..., Any], *args: Any) -> str | None:
    """What in a program depends on the device by construction; None where nothing does, or it is not known."""
    try:
        equations = list(_equations(jax.make_jaxpr(f)(*args).jaxpr))
    except Exception:  # noqa: BLE001 - it ran before; a program that cannot be read has nothing to say here
        return None
    place = next((equation for equation in equations if equation.primitive.name in _PLACE), None)
    random = next((equation for equation in equations if equation.primitive.name in _RANDOM), None)
    if place is None:
        return None
    where = source_info_util.summarize(place.source_info)
    if random is None:
        return f"it uses the device index ({where})"
    return f"it draws random numbers and uses the device index ({where}): per-device keys give other numbers"


def _equations(program: Any) -> Iterator[Any]:
    for equation in program.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)
