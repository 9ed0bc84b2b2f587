"""Devices' means, that are averaged with equal weights though the devices have different numbers of entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardlint.cli import main
from tests.evaluation.running import NUMBERS, in_jax

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def mean_loss(w, x, y, mask):
    error = jnp.square(x @ w - y)
    return {mean}


def step(w, x, y, mask):
    loss, grad = jax.value_and_grad(mean_loss)(w, x, y, mask)
    return w - 0.1 * lax.pmean(grad, "data"), lax.pmean(loss, "data")


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows = P("data")
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), rows, rows, rows), out_specs=(P(), P()), check_vma=False
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 5)).astype(np.float32)
    y = rng.normal(size=(32,)).astype(np.float32)
    mask = {mask}
    return jax.jit(mapped)(jnp.zeros(5), x, y, mask)


if __name__ == "__main__":
    main()
"""
CENTRED = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

def centre(x, mask):
    mean = lax.pmean(jnp.sum(x * mask) / {count}, "data")
    return (x - mean) * mask


def share_above(x, mask):
    above = jnp.sum((centre(x, mask) > 0.1) * mask)
    return lax.psum(above, "data") / lax.psum(jnp.sum(mask), "data")


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        share_above, mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False
    )
    x = np.random.default_rng(0).normal(size=(32,)).astype(np.float32) + np.arange(32)
    return mapped(x, (np.arange(32) % 7 < 4).astype(np.float32))


if __name__ == "__main__":
    main()
"""
UNEVEN = "(np.arange(32) % 7 < 4).astype(np.float32)"
EVEN = "(np.arange(32) % 4 < 3).astype(np.float32)"
RIGHT = "jnp.sum(error * mask) / lax.pmean(jnp.sum(mask), 'data')"
OF_LOCAL_COUNTS = (
    "jnp.sum(error * mask) / jnp.sum(mask)",
    "jnp.sum(error * mask) / jnp.maximum(jnp.sum(mask), 1)",
    "jnp.divide(jnp.sum(error * mask), mask.sum() + 1e-8)",
    "jnp.mean(error, where=mask > 0)",
    "jnp.mean(error, axis=0, where=mask > 0, keepdims=False)",
    "error.mean(where=mask > 0)",
    "jnp.average(error, weights=mask)",
)


def found(
    folder: Path, capsys: pytest.CaptureFixture[str], mean: str, mask: str = UNEVEN
) -> list[dict[str, Any]]:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(mean=mean, mask=mask))
    main(["--no-cache", "--format", "json", str(path)])
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return findings


@pytest.mark.parametrize("mean", OF_LOCAL_COUNTS)
def test_a_mean_by_local_counts(
    mean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finding,) = found(tmp_path, capsys, mean)
    assert finding["code"] == "ST316"
    line = PROGRAM.format(mean=mean, mask=UNEVEN).splitlines()[finding["line"] - 1]
    assert mean in line
    assert "averaged with equal weights" in finding["message"]
    assert finding["message"].endswith("over 'data', it is the same")


@pytest.mark.parametrize("mean", [RIGHT, "jnp.mean(error * mask)", "jnp.mean(error)"])
def test_a_mean_by_the_same_count_everywhere(
    mean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(tmp_path, capsys, mean) == []


@pytest.mark.parametrize("mean", OF_LOCAL_COUNTS[:1])
def test_local_counts_that_are_equal(
    mean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No number tells that they could be others."""
    assert found(tmp_path, capsys, mean, EVEN) == []


def test_the_same_program_on_one_device_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mesh of one device that is made afterwards does not hide that of several."""
    path = tmp_path / "program.py"
    text = PROGRAM.format(mean=OF_LOCAL_COUNTS[0], mask=UNEVEN)
    text = text.replace("def main():", "def main(devices=8):")
    text = text.replace("make_mesh((8,)", "make_mesh((devices,)")
    path.write_text(text + "    main(1)\n")
    assert main(["--no-cache", "--format", "json", str(path)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert "(0.022313 and" in finding["message"]


@pytest.mark.parametrize("divided", ["lax.pmean({}, 'data')", "{}"])
def test_the_mean_is_blamed_and_not_what_is_compared_with_it(
    divided: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(CENTRED.format(count=divided.format("jnp.sum(mask)")))
    main(["--no-cache", "--format", "json", str(path)])
    findings = json.loads(capsys.readouterr().out)
    places = [(one["code"], one["line"]) for one in findings]
    assert places == ([("ST316", 9)] if divided == "{}" else [])
    texts = [one["message"] for one in findings]
    assert all("these means are averaged with equal weights" in one for one in texts)


def test_what_jax_computes(tmp_path: Path) -> None:
    """All local counts give the same other loss than the count of all; where they are equal, the same one."""
    programs = {
        mean: PROGRAM.format(mean=mean, mask=UNEVEN)
        for mean in (RIGHT, *OF_LOCAL_COUNTS)
    }
    programs["even"] = PROGRAM.format(mean=OF_LOCAL_COUNTS[0], mask=EVEN)
    programs["even, right"] = PROGRAM.format(mean=RIGHT, mask=EVEN)
    results = in_jax(tmp_path, programs, NUMBERS)
    losses = {name: loss for name, (_, loss) in results.items()}
    local = losses[OF_LOCAL_COUNTS[0]]
    assert local != pytest.approx(losses[RIGHT], rel=1e-2)
    for mean in OF_LOCAL_COUNTS:
        assert losses[mean] == pytest.approx(local, rel=1e-5)
    assert losses["even"] == pytest.approx(losses["even, right"], rel=1e-5)
