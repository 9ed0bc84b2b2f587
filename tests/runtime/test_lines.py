"""Tracebacks of functions with checks in their bodies show the lines that ran."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

from shardtypes import f32, typechecked


def fails(x: Any) -> Any:
    raise ValueError


def other(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any) -> Any:
        return function(*args)

    return called


@typechecked
def with_local(x: f32["n"]) -> f32["n"]:
    y: f32["n"] = x + 1
    return fails(y)


@other
@typechecked
def with_two_decorators(x: f32["n"]) -> f32["n"]:
    y: f32["n"] = x + 1

    return fails(y)


@typechecked
def with_inner(x: f32["n"]) -> f32["n"]:
    def inner(y: f32["n"]) -> f32["n"]:
        z: f32["n"] = y
        return fails(z)

    return inner(x)


@typechecked
class Checked:
    def method(self, x: f32["n"]) -> f32["n"]:
        y: f32["n"] = x + 1
        return fails(y)


def around(count: int) -> Callable[..., Any]:
    @other
    @other
    @typechecked
    def nested(x: f32["n"]) -> f32["n"]:
        y: f32["n"] = x + count
        return fails(y)

    return nested


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (with_local, ["return fails(y)"]),
        (with_two_decorators, ["return fails(y)"]),
        (with_inner, ["return inner(x)", "return fails(z)"]),
        (Checked().method, ["return fails(y)"]),
        (around(1), ["return fails(y)"]),
    ],
)
def test_the_lines_are_those_that_ran(
    function: Callable[..., Any], lines: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        function(jnp.ones(3))
    frames = traceback.extract_tb(caught.value.__traceback__)
    names = (
        "with_local",
        "with_two_decorators",
        "with_inner",
        "inner",
        "method",
        "nested",
    )
    assert [frame.line for frame in frames if frame.name in names] == lines
