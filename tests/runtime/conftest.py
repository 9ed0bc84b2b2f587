"""Eight devices on the CPU for the tests of the runtime; set before anything starts JAX."""

from __future__ import annotations

from tests.support import force_devices

force_devices()

import jax  # noqa: E402 - after the flag
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

from shardtypes import switches  # noqa: E402

# Most tests call a function once: what is generated has to be right about what they try.
switches.calls_before_generated = 0


@pytest.fixture
def auto_mesh() -> Mesh:
    """d=2, t=4, Auto axes."""
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("d", "t"))


@pytest.fixture
def explicit_mesh() -> Mesh:
    """d=2, t=4, Explicit axes."""
    return jax.make_mesh(
        (2, 4), ("d", "t"), axis_types=(jax.sharding.AxisType.Explicit,) * 2
    )
