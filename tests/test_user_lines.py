"""The line of the user's program that an operation comes from: of library functions the call, of what these call its
own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.core import jaxprs_in_params

from shardtypes.user_lines import Calls, frame_of

X = np.ones((1, 4), "float32")


def first(x: Any) -> Any:
    return jnp.where(x > 0, x, 0)  # JAX keeps the program of where with this line


def second(x: Any) -> Any:
    return jnp.where(x > 1, x, 0)


@jax.jit
def jitted(x: Any) -> Any:
    return lax.sin(x)


def calls_jitted(x: Any) -> Any:
    return jitted(x)


def mapped(x: Any) -> Any:
    y = lax.sin(x)
    return lax.psum(y, "i")


def mapped_jitted(x: Any) -> Any:
    return jitted(x)


def looped(x: Any) -> Any:
    return lax.map(lambda row: lax.sin(row), x)


def remade(x: Any) -> Any:
    return jax.checkpoint(lambda row: lax.sin(row))(x)


def _lines(f: Callable[..., Any], primitive: str) -> Iterator[str]:
    def read(jaxpr: Any, calls: Calls) -> Iterator[str]:
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == primitive:
                frame = frame_of(calls.line_of(eqn).source_info.traceback)
                lines = inspect.getsourcelines(inspect.getmodule(first))[0]  # type: ignore[arg-type]
                yield lines[frame.start_line - 1].strip()
            for inner in jaxprs_in_params(eqn.params):
                yield from read(inner, calls.into(eqn, inner))

    yield from read(jax.make_jaxpr(f)(X).jaxpr, Calls())


@pytest.mark.parametrize(
    ("f", "primitive", "line"),
    [
        (
            first,
            "select_n",
            "return jnp.where(x > 0, x, 0)  # JAX keeps the program of where with this line",
        ),
        (second, "select_n", "return jnp.where(x > 1, x, 0)"),
        (calls_jitted, "sin", "return lax.sin(x)"),
        (jax.pmap(mapped, axis_name="i"), "sin", "y = lax.sin(x)"),
        (jax.pmap(mapped, axis_name="i"), "psum", 'return lax.psum(y, "i")'),
        (jax.pmap(mapped_jitted), "sin", "return lax.sin(x)"),
        (jax.pmap(lambda x: second(x)), "select_n", "return jnp.where(x > 1, x, 0)"),
        (looped, "sin", "return lax.map(lambda row: lax.sin(row), x)"),
        (remade, "sin", "return jax.checkpoint(lambda row: lax.sin(row))(x)"),
    ],
)
def test_the_line_is_the_users(
    f: Callable[..., Any], primitive: str, line: str
) -> None:
    jax.make_jaxpr(first)(X)
    jax.make_jaxpr(calls_jitted)(X)
    assert set(_lines(f, primitive)) == {line}
