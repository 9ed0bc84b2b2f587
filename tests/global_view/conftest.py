"""Eight devices on the CPU: the oracle of these tests is what JAX does with real shardings."""

from __future__ import annotations

from tests.support import force_devices

force_devices()
