"""Arrays of JAX among those of NumPy: in its functions, operators and Python's own, they give what they give in JAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.running import NUMBERS, evaluated, in_jax

pytestmark = pytest.mark.once  # what they give does not change with JAX

EXPRESSIONS = """
a + y; y - a; a < y; y > a; a == y; a @ y; np.float32(3) < y; np.int64(7) * y; np.float64(2) == y.sum()
np.sum(y); np.sum(m, axis=0); np.sum(m, 1, keepdims=True); np.prod(y); np.max(m, axis=1); np.min(y)
np.amax(y); np.amin(m); np.any(y > 2); np.all(y > 2, axis=0); np.mean(y); np.std(m, axis=0); np.var(y)
np.abs(y); np.sqrt(y); np.maximum(y, 3); np.where(y > 2, a, y); np.stack([y, y]); np.concatenate([a, y])
np.linalg.norm(y); np.cumsum(y); np.argmax(y); np.reshape(m, 6); np.allclose(a, y); np.dot(a, y)
np.less(a, y); np.add(a, y); a[y.argmax()]; a**y; divmod(y, 3); divmod(7, y); round(y / 7, 2); round(y[2] / 7)
abs(-y); float(y[1]); a.sum() - y.sum(); max(np.float32(2), y.sum()); np.transpose(m); np.squeeze(m[:1])
"""
NAMED = {
    text.strip(): text.strip()
    for line in EXPRESSIONS.strip().splitlines()
    for text in line.split(";")
}
PROGRAMS = {
    name: (
        "import numpy as np\nimport jax.numpy as jnp\n\n\ndef main():\n"
        "    a, y = np.arange(1.0, 7.0), jnp.asarray([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])\n"
        "    m = y.reshape(2, 3)\n"
        f"    made = {text}\n"
        "    return [1 * one for one in (made if isinstance(made, tuple) else (made,))]\n"
    )
    for name, text in NAMED.items()
}


def test_they_give_what_they_give_in_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, PROGRAMS, NUMBERS)
    assert len(wanted) > 40
    for name, text in PROGRAMS.items():
        found = evaluated(text)
        assert len(found) == len(wanted[name]), name
        for one, numbers in zip(found, wanted[name], strict=True):
            assert np.shape(one) == np.shape(numbers), name
            assert np.allclose(one, numbers), name
