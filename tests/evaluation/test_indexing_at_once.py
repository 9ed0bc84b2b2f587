"""Reading and writing at positions, for all devices and examples at once: what each computes by itself, and JAX."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evaluation.running import NUMBERS, evaluated, in_jax

# of each example: x (4, 5, 6), rows (3,), columns (3,), table (2, 3), all positions in range
FORMS = """
x[rows]
x[rows, columns]
x[:, columns]
x[:, rows, columns]
x[rows, :, columns]
x[rows[0]]
x[rows[0], columns]
x[..., columns]
x[1, :, columns]
x[:, None, columns]
x[table]
x[table, 1:3]
x[table, rows]
x[rows[:, None], columns]
x[1:3, columns[0], ::2]
x[::-1, 1]
x[rows, 2, columns]
x.at[rows].set(0.5)
x.at[rows, columns].add(1.5)
x.at[:, columns].multiply(2.0)
x.at[:, columns].set(x[:, rows] * 2)
x.at[rows, :, columns].add(x[rows, :, columns])
x.at[rows, :, columns].min(0.1)
x.at[table].max(0.2)
x.at[1:3].set(x[0])
x.at[2].add(x[0, 0])
x.at[rows[0], 1:3].set(jnp.arange(6.0))
x.at[..., columns[0]].set(7.0)
jnp.take(x, rows, axis=1)
jnp.take_along_axis(x[:2], table[:, :, None], axis=1)
jnp.take_along_axis(x[0, :2], table, axis=1)
jax.grad(lambda x: (x[rows, :, columns] ** 2).sum())(x)
jax.grad(lambda x: (jnp.take_along_axis(x[:2], table[:, :, None], axis=1) ** 2).sum())(x)
jnp.put_along_axis(x[:2], table[:, :, None], 3.0, axis=1, inplace=False)
""".strip().splitlines()

PROGRAM = """
import jax
import jax.numpy as jnp

def example(x, rows, columns, table):
    return {form}

def main():
    x = jnp.sin(jnp.arange(5 * 120.0)).reshape(5, 4, 5, 6)
    rows = (jnp.arange(15) * 7 % 4).reshape(5, 3)
    columns = (jnp.arange(15) * 3 % 5).reshape(5, 3)
    table = (jnp.arange(30) * 5 % 4).reshape(5, 2, 3)
    apart = jax.vmap(example)(x, rows, columns, table)
    return apart, jax.vmap(example, (0, None, 0, None))(x, rows[0], columns, table[1])
"""
PROGRAMS = {form: PROGRAM.replace("{form}", form) for form in FORMS}


@pytest.fixture(scope="module")
def of_jax(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("jax")
    return in_jax(folder, PROGRAMS, NUMBERS)


@pytest.mark.parametrize("form", FORMS)
def test_all_at_once(form: str, of_jax: Any, compared: Counter[bool]) -> None:
    for mine, theirs in zip(evaluated(PROGRAMS[form]), of_jax[form], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert compared[True]
