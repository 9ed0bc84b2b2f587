"""What all tests share. Tests that need several devices start a process of their own: nothing here starts JAX."""

from __future__ import annotations

import os

from hypothesis import settings

# No accelerator is needed, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What is compiled here runs once: XLA takes longer to optimize it than the device to run it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# The machines that run this are shared and slow: time limits per example only make tests flicker.
settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("deep", max_examples=1000, deadline=None)
settings.load_profile("default")
