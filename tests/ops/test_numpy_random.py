"""What NumPy's generators give, beside what the models say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue
from tests.ops.strategies import positive
from tests.ops.tables import case, family, optional

CALLS = """
rng.normal(size=(16, 7, 3)) | rng.normal(0.0, 2.0, (4,)) | rng.uniform(-1, 1, size=5) | rng.random((2, 3))
rng.standard_normal(size=(2, 1)) | rng.integers(3, 8, 16) | rng.integers(0, 9, size=(3, 2))[:, None]
np.random.normal(size=(2, 2)) | np.random.randn(4, 3) | np.random.rand(2) | np.random.randint(0, 5, (2, 3))
np.random.RandomState(0).randn(3, 2) | rng.normal(size=(4, 6)).astype(np.float32).T
"""


@pytest.mark.once
@pytest.mark.parametrize(
    "call", [one.strip() for one in CALLS.replace("\n", "|").split("|") if one.strip()]
)
def test_shape(call: str) -> None:
    text = f"import numpy as np\nrng = np.random.default_rng(0)\nx = {call}\n"
    module = lower(text.encode(), "m", "m.py").module
    value = dict(run(Project({"m": module}), module).it.seen.values())["x"]
    scope: dict[str, np.ndarray] = {}
    exec(text, scope)
    assert isinstance(value, ArrayValue) and value.dims is not None
    assert [dim.size.constant if dim.size else None for dim in value.dims] == list(
        scope["x"].shape
    )


def generated(name: str) -> Callable[..., object]:
    return lambda *args, **kwargs: getattr(np.random.default_rng(0), name)(
        *args, **kwargs
    )


def legacy(name: str) -> Callable[..., object]:
    return lambda *args, **kwargs: getattr(np.random.RandomState(0), name)(
        *args, **kwargs
    )


GENERATOR = "numpy.random.Generator"
size = optional(
    st.one_of(
        st.none(),
        st.integers(0, 4),
        positive,
        st.lists(st.integers(-1, 3), max_size=2).map(tuple),
    )
)
sizes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
parameter = optional(st.one_of(st.just(1.0), st.builds(np.ones, positive)))
counts = st.one_of(st.just(0), st.builds(lambda shape: np.zeros(shape, int), positive))

test_numpy_random = family(
    *(case(GENERATOR, name, parameter, scale=optional(st.just(2.0)), size=size, function=generated(name))
      for name in ("normal", "laplace", "logistic", "gumbel")),
    case(GENERATOR, "uniform", parameter, high=optional(st.just(2.0)), size=size, function=generated("uniform")),
    *(case(GENERATOR, name, size=size, dtype=optional(st.just(np.float32)), function=generated(name))
      for name in ("random", "standard_normal", "standard_exponential")),
    case(GENERATOR, "integers", counts, st.just(5), size=size, function=generated("integers")),
    case(GENERATOR, "randint", counts, st.just(5), size=size, function=legacy("randint")),
    case("numpy.random", "normal uniform", parameter, size=size),
    case("numpy.random", "random random_sample", size=size),
    case("numpy.random", "randint", counts, st.just(5), size=size),
    case("numpy.random", "rand randn", drawn=sizes.map(lambda drawn: (list(drawn), {}))),
    *(case(GENERATOR, name, drawn=sizes.map(lambda drawn: (list(drawn), {})), function=legacy(name))
      for name in ("rand", "randn")),
)  # fmt: skip
