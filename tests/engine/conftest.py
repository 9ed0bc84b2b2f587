"""Eight devices on the CPU: some of the programs that the linter is silent about make a mesh of them."""

from __future__ import annotations

from tests.support import force_devices

force_devices()
