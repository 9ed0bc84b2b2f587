"""Forcing a number of CPU devices, whether or not something has started JAX already.

JAX reads the number at three moments, each too late for the one before it: from the environment when it is
imported, from its configuration when its first operation starts the backend, and again when the backend is restarted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass, field

import pytest

XLA_FLAG = "--xla_force_host_platform_device_count"


class WrongDevices(RuntimeError):
    """JAX did not come up with the devices that were asked for."""


@dataclass
class ForcedDevices:
    """Holds JAX to ``count`` CPU devices, and puts the environment back in the end.

    ``restarts`` says in words, once for each restart, what had started JAX with other devices.
    """

    count: int
    environ: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    restarts: list[str] = field(default_factory=list)
    _before: dict[str, str | None] = field(default_factory=dict)

    def force(self) -> None:
        """Make the next start of JAX, here and in child processes, come up with ``count`` devices.

        A backend that runs with another number is restarted; arrays made before stay usable.
        """
        self._set(
            "XLA_FLAGS", merged_xla_flags(self.environ.get("XLA_FLAGS", ""), self.count)
        )
        self._set("JAX_NUM_CPU_DEVICES", str(self.count))
        self._set("JAX_PLATFORMS", "cpu")
        if "jax" not in sys.modules:
            return
        import jax

        if _running():
            if _on_cpu() and len(jax.local_devices()) == self.count:
                return
            from jax.extend.backend import clear_backends

            self.restarts.append(_restarting(self.count))
            clear_backends()
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", self.count)

    def lost(self) -> str | None:
        """The devices that are there in place of the forced ones, in words; None where those are."""
        if not _running():
            return None
        import jax

        found = jax.local_devices()
        if len(found) == self.count and found[0].platform == "cpu":
            return None
        return f"{len(found)} {found[0].platform} device{'s' * (len(found) > 1)}"

    def verify(self) -> None:
        """Force again where something undid it, start JAX, and count. Raises ``WrongDevices``."""
        self.force()
        import jax

        found = jax.local_devices()
        if len(found) != self.count or found[0].platform != "cpu":
            raise WrongDevices(
                f"wanted {self.count} CPU devices, JAX has {len(found)} ({found[0].platform}); "
                "something in this test run sets them itself: look for jax_num_cpu_devices, jax_platforms or "
                f"{XLA_FLAG} in conftest.py and the test modules"
            )

    def restore(self) -> None:
        """Put the environment variables back."""
        for name, value in self._before.items():
            if value is None:
                self.environ.pop(name, None)
            else:
                self.environ[name] = value
        self._before.clear()

    def _set(self, name: str, value: str) -> None:
        self._before.setdefault(name, self.environ.get(name))
        self.environ[name] = value


def merged_xla_flags(flags: str, count: int) -> str:
    """The user's ``XLA_FLAGS`` with the device count in them, once."""
    kept = [flag for flag in flags.split() if flag.partition("=")[0] != XLA_FLAG]
    return " ".join([*kept, f"{XLA_FLAG}={count}"])


def _restarting(count: int) -> str:
    import jax

    had = jax.local_devices()
    alive = len(jax.live_arrays())
    kept = (
        f"; arrays made before ({alive}) stay usable, on the devices they were made on"
        if alive
        else ""
    )
    return (
        f"JAX was already running with {len(had)} {had[0].platform} device{'s' * (len(had) > 1)} "
        f"and was restarted with {count}{kept}"
    )


def _on_cpu() -> bool:
    import jax

    return jax.default_backend() == "cpu"


def _running() -> bool:
    # Asking for the devices would start the backend, so this private question has no public form.
    from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


#: The devices that the run forced, for its fixtures; None where it takes those that are there.
FORCED = pytest.StashKey[ForcedDevices | None]()
