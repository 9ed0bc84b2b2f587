"""Eight devices on the CPU; set before anything starts JAX."""

from __future__ import annotations

from tests.support import force_devices

force_devices()
