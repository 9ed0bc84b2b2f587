"""Draws from distributions that JAX makes by rejection: not its numbers, but the same for the same key and shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.semantics.array import Array, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters, fresh
from shardtypes.semantics.local_sizes import axes_of
from shardtypes.semantics.primitive import Primitive, declare
from shardtypes.semantics.primitives.structure import plain
from shardtypes.semantics.values import Values

_KINDS = {"gamma": "standard_gamma", "poisson": "poisson", "binomial": "binomial"}


def _letters(operands: Sequence[Array], params: Params) -> Letters:
    own = tuple(plain(f"p{k}", operand) for k, operand in enumerate(operands))
    return Letters(own, (fresh("n", len(params["shape"])),))


def _own(operands: Sequence[Array], params: Params) -> frozenset[str]:
    """As of random bits: of a key of each device's own, or of a local size."""
    value = operands[0].value
    varying = (
        frozenset[str]() if value is None else frozenset(name for name, _ in value.axes)
    )
    return varying | axes_of(*params["shape"])


def _drawn(key: Any, *parameters: Any, shape: Sequence[int], kind: str) -> Any:
    generator = np.random.Generator(
        np.random.Philox([int(word) for word in np.ravel(key)])
    )
    if kind == "binomial":
        parameters = (parameters[0].astype(np.int64), parameters[1])
    try:
        drawn = getattr(generator, _KINDS[kind])(*parameters, size=tuple(shape))
    except ValueError:  # a parameter out of range, for which JAX gives NaN
        return np.full(tuple(shape), np.nan)
    return drawn.astype(np.float64)


sample: Primitive = declare(
    "sample",
    letters=_letters,
    shape=lambda operands, params, letters: [tuple(params["shape"])],
    dtype=lambda operands, params: ["float32"],
    values=Values(degrees=(None, None, None)),
    evaluate=_drawn,
    own=_own,
)
