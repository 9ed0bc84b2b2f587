"""NumPy's objects that make arrays of slices: ``np.mgrid[:4, :8]``, ``np.ogrid``, ``np.r_``, ``np.c_``, ``np.s_``, and
those of ``jax.numpy`` that have the same names."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from shardlint.evaluation.guards import refuse_size
from shardlint.evaluation.numpy_functions import read
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import asarray

_MAKERS: dict[str, Any] = {
    name: getattr(np, name) for name in ("mgrid", "ogrid", "r_", "c_")
}


def _made(name: str, item: Any) -> Any:
    """What NumPy makes of slices and arrays."""
    parts = item if isinstance(item, tuple) else (item,)
    lengths = [_length(part) for part in parts]
    refuse_size(math.prod(lengths) * len(lengths) if name == "mgrid" else sum(lengths))
    return _MAKERS[name][_plain(item)]


def _length(part: Any) -> int:
    """How many entries a slice stands for, or an array has."""
    if not isinstance(part, slice):
        return int(np.size(_plain(part)))
    if isinstance(part.step, complex):
        return int(abs(part.step))
    return len(range(part.start or 0, math.ceil(part.stop), math.ceil(part.step or 1)))


def _plain(value: Any) -> Any:
    """Numbers as NumPy takes them."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return read(value)


def _in_jax(name: str, item: Any) -> Any:
    made = _made(name, item)
    if isinstance(made, (list, tuple)):
        return [asarray(_in_32_bits(one)) for one in made]
    return asarray(_in_32_bits(made))


def _in_32_bits(array: Any) -> Any:
    """An array of the dtype that JAX gives it."""
    kinds = {"i": np.int32, "f": np.float32}
    return array.astype(kinds.get(array.dtype.kind, array.dtype))


for _name in _MAKERS:
    provide(f"numpy.{_name}[]")(functools.partial(_made, _name))
    provide(f"jax.numpy.{_name}[]")(functools.partial(_in_jax, _name))
for _name in ("s_", "index_exp"):
    provide(f"numpy.{_name}[]")(getattr(np, _name).__getitem__)
    provide(f"jax.numpy.{_name}[]")(getattr(np, _name).__getitem__)
