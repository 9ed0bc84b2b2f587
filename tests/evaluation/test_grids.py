"""Arrays that are made of slices, ``np.mgrid[:4, :8]`` and the like: those that NumPy and JAX make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardlint.evaluation.errors import NotEvaluable
from tests.evaluation.running import evaluated, in_jax

pytestmark = pytest.mark.once  # what they make does not change with JAX

ITEMS = {
    "mgrid": ("[:4]", "[:3, :2]", "[1:7:2, -1:1:5j]", "[:n, : n + 1]"),
    "ogrid": ("[:4]", "[:3, 2:6]"),
    "r_": ("[1:4]", "[1:4, 0, 5]", "[np.arange(3), 7]"),
    "c_": ("[np.arange(3), np.arange(3, 6)]",),
}
PROGRAMS = {
    f"{module}.{name}{item}": (
        "import numpy as np\nimport jax.numpy as jnp\nn = 3\n\n\n"
        f"def main():\n    made = {module}.{name}{item}\n    return [1 * one for one in made]\n"
    )
    for module in ("np", "jnp")
    for name, items in ITEMS.items()
    for item in items
}
PROGRAMS["np.s_[1:3, ::2]"] = (
    "import numpy as np\n\n\ndef main():\n    return np.arange(20).reshape(4, 5)[np.s_[1:3, ::2]]\n"
)
JUDGED = """
def judged(leaves):
    return [[np.asarray(leaf).tolist(), str(np.asarray(leaf).dtype)] for leaf in leaves]
"""


def test_they_are_those_of_numpy_and_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, PROGRAMS, JUDGED)
    for name, text in PROGRAMS.items():
        found = evaluated(text)
        assert len(found) == len(wanted[name]), name
        for one, (numbers, dtype) in zip(found, wanted[name], strict=True):
            assert np.allclose(one, numbers), name
            assert np.dtype(dtype).kind == one.dtype.kind, name


def test_one_beyond_all_bounds_is_not_made() -> None:
    text = (
        "import numpy as np\n\n\ndef main():\n    return np.mgrid[:100_000, :100_000]\n"
    )
    with pytest.raises(NotEvaluable, match="beyond all bounds"):
        evaluated(text)
