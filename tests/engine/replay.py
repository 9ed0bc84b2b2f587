"""Functions of a lint case that JAX can trace: their parameters are all arrays of known rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from shardlint import dtypes, ir
from shardlint.engine import Interpreter
from shardlint.engine.annotations import resolve
from shardlint.engine.types import ArrayType


def of_arrays(it: Interpreter, module: ir.Module) -> dict[str, tuple[ArrayType, ...]]:
    """The parameters' types of each such function of a module."""
    found: dict[str, tuple[ArrayType, ...]] = {}
    for node in module.body:
        if isinstance(node, ir.Function):
            types = [resolve(it, param.annotation, module.name) for param in node.params]
            arrays = tuple(
                t for t in types if isinstance(t, ArrayType) and t.shape is not None and t.shape.rank is not None
            )
            if arrays and len(arrays) == len(types):
                found[node.name] = arrays
    return found


def _dtype(declared: str) -> jnp.dtype[Any]:
    """A dtype, one of its family where a family is declared."""
    return jnp.dtype(next((d for d in ("float32", "int32", "uint32") if dtypes.fits(declared, d)), declared))


def arguments(types: tuple[ArrayType, ...], given: Mapping[str, int] | None = None) -> list[jax.ShapeDtypeStruct]:
    """What to trace such a function with: sizes of its own for every name, except those that are given."""
    names = sorted({name for t in types if t.shape for name in t.shape.names})
    sizes = {name: 2 + i for i, name in enumerate(names)} | dict(given or {})
    return [
        jax.ShapeDtypeStruct(
            tuple(d.size.evaluate(sizes) for d in t.shape.dims if d.size), _dtype(t.dtype or "float32")
        )
        for t in types
        if t.shape is not None
    ]
