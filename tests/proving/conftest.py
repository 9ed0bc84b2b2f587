"""Several devices, before anything starts JAX's backend."""

from __future__ import annotations

from tests.support import force_devices

force_devices()
