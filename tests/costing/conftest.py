"""Eight devices on the CPU, set before anything starts JAX: programs are collected here, before the other tests."""

from __future__ import annotations

from tests.support import force_devices

force_devices()
