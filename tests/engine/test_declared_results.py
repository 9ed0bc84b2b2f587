"""Findings about a shape that only the annotation of a result says name that annotation."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

HEAD = """
import jax.numpy as jnp
import solvers
from jaxtyping import Array, Float

def solve(y0: Float[Array, "2"]) -> Float[Array, "ts"]:
    return solvers.solve(y0).ys

def both(y0: Float[Array, "2"]) -> tuple[Float[Array, "ts"], Float[Array, "ts 2"]]:
    found = solvers.solve(y0)
    return found.ts, found.ys

def doubled(y0: Float[Array, "2"]) -> Float[Array, "2"]:
    return y0 * 2

def f(y0: Float[Array, "2"]):
    """
PLACE = "declared floating['ts'] here"


@pytest.mark.parametrize(
    ("body", "code", "places"),
    [
        ("solve(y0)[:, 0]", "ST214", [PLACE]),
        ("ys = solve(y0); ys[:, 0]", "ST214", [PLACE]),
        ("ts, ys = both(y0); ts[:, 0]", "ST214", [PLACE]),
        ("jnp.transpose(solve(y0), (1, 0))", "ST208", [PLACE]),
        ("ts, ys = both(y0); ts + ts.reshape(1, 2, 3)[0, 0, 0, 0]", "ST214", []),
        ("doubled(y0)[:, 0]", "ST214", []),
        ("y0[:, 0]", "ST214", []),
    ],
)
def test_the_annotation_is_named(body: str, code: str, places: list[str]) -> None:
    module = lower((HEAD + body + "\n").encode(), "example", "example.py").module
    events = analyze(Project({"example": module}), module)
    assert [event.code for event in events] == [code]
    assert [text for _, _, text in events[0].related] == places
