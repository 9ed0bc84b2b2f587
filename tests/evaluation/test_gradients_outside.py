"""Gradients that are taken outside of the mapped functions which they go through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import NUMBERS, findings, in_jax

# with `up` of zeros, what it is multiplied with shows in the gradient alone
_PROGRAM = """import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P


def low_rank(x, down, up):
    return x @ down @ up


def body(down, up, x):
    adapters = {{one.__name__: one for one in (low_rank,)}}
    added = adapters["low_rank"](x, down, up)
    return jnp.mean((x + {added}) ** 2)


def updated(up, slope):
    return up - 0.1 * jax.lax.psum(slope, "m") / jax.lax.axis_size("m")


def main():
    mesh = jax.make_mesh((8,), ("m",), axis_types=(AxisType.Auto,))
    loss = jax.shard_map(
        body, mesh=mesh, in_specs=(P(None, "m"), P("m"), P()), out_specs=P(), check_vma=False
    )
    update = jax.shard_map(
        updated, mesh=mesh, in_specs=P("m"), out_specs=P("m"), check_vma=False
    )
    down = jax.random.normal(jax.random.key(0), (4, 16))
    up = jnp.zeros((16, 4))
    x = jax.random.normal(jax.random.key(1), (6, 4))
    {slope}
    return {result}


if __name__ == "__main__":
    main()
"""

_SLOPES = {
    "grad": "slope = jax.grad(loss, 1)(down, up, x)",
    "value_and_grad": "value, slope = jax.value_and_grad(lambda u: loss(down, u, x))(up)",
    "vjp": "value, back = jax.vjp(loss, down, up, x); slope = back(2.0 * value)[1]",
    "outside": "slope = jax.grad(lambda u: 3.0 * loss(down, 2.0 * u, x))(up)",
}
_RESULTS = {
    "given back": "slope",
    "used": "up - 0.1 * slope",
    "given on": "loss(down, up - slope, x)",
}


def _programs(added: str) -> dict[str, str]:
    found = {
        name: _PROGRAM.format(added=added, slope=slope, result="up - 0.1 * slope")
        for name, slope in _SLOPES.items()
    }
    for name, result in _RESULTS.items():
        found[name] = _PROGRAM.format(added=added, slope=_SLOPES["grad"], result=result)
    return found


RIGHT = _programs('jax.lax.psum(added, "m")')
WRONG = _programs("added")

# the loss is larger on more devices, which may be meant: nothing is known of its gradient
SCALED = _PROGRAM.format(
    added='jax.lax.psum(added, "m")',
    slope="slope = jax.grad(lambda u: loss(down, u, x) * mesh.shape['m'])(up)",
    result="slope",
)


@pytest.mark.parametrize("name", [*RIGHT, "scaled"])
def test_right_programs_have_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    assert findings(capsys, tmp_path, {**RIGHT, "scaled": SCALED}[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_gradient_is_compared_where_results_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    (finding,) = findings(capsys, tmp_path, WRONG[name])
    assert (finding["code"], finding["line"]) == ("ST316", 13)
    message = finding["message"]
    assert isinstance(message, str)
    assert "'s gradient" in message
    assert "jnp.mean is divided by the number of devices" in message


@pytest.mark.once
def test_jax_computes_another_gradient(tmp_path: Path) -> None:
    right, wrong = (in_jax(tmp_path, one, NUMBERS) for one in (RIGHT, WRONG))
    assert all(right[name] != wrong[name] for name in RIGHT)
