"""What NumPy's generators give, beside what the models say."""

from __future__ import annotations

import numpy as np
import pytest

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue

CALLS = """
rng.normal(size=(16, 7, 3)) | rng.normal(0.0, 2.0, (4,)) | rng.uniform(-1, 1, size=5) | rng.random((2, 3))
rng.standard_normal(size=(2, 1)) | rng.integers(3, 8, 16) | rng.integers(0, 9, size=(3, 2))[:, None]
np.random.normal(size=(2, 2)) | np.random.randn(4, 3) | np.random.rand(2) | np.random.randint(0, 5, (2, 3))
np.random.RandomState(0).randn(3, 2) | rng.normal(size=(4, 6)).astype(np.float32).T
"""


@pytest.mark.once
@pytest.mark.parametrize("call", [one.strip() for one in CALLS.replace("\n", "|").split("|") if one.strip()])
def test_shape(call: str) -> None:
    text = f"import numpy as np\nrng = np.random.default_rng(0)\nx = {call}\n"
    module = lower(text.encode(), "m", "m.py").module
    value = dict(run(Project({"m": module}), module).it.seen.values())["x"]
    scope: dict[str, np.ndarray] = {}
    exec(text, scope)
    assert isinstance(value, ArrayValue) and value.dims is not None
    assert [dim.size.constant if dim.size else None for dim in value.dims] == list(scope["x"].shape)
