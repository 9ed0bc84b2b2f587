"""Fourier transforms of complex numbers, which need their dimensions whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.semantics.array import Array, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters, in_place
from shardtypes.semantics.primitive import Primitive, declare
from shardtypes.semantics.primitives.structure import plain
from shardtypes.semantics.values import Values


def _letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    whole = frozenset(letter for k in params["axes"] for letter in own[k])
    return Letters((own,), (own,), whole, along=in_place(whole))


def _evaluate(x: Any, *, axes: Sequence[int], inverse: bool) -> Any:
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=tuple(axes))


fft: Primitive = declare(
    "fft",
    letters=_letters,
    shape=lambda operands, params, letters: [operands[0].dims],
    values=Values(jointly=frozenset({0})),
    evaluate=_evaluate,
    # its matrix is symmetric
    pull=lambda cotangent, operands, results, params: [fft(cotangent, **params)],
)
