"""What a test leaves behind must not decide the next: an open scope, checks switched off, a mesh in force."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from jax.sharding import Mesh

from shardtypes import switches
from shardtypes.scopes import _current

# What decides which devices JAX starts with, in the processes that the next test starts as well.
_NAMES = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS")
_DEVICE = "jax_default_device"


@contextmanager
def contained(say: Callable[[str], None]) -> Iterator[None]:
    """Undo after the block what it left behind, and say what that was."""
    mesh, table, checks = (
        jax.sharding.get_mesh(),
        _current.get(),
        switches.on_by_default,
    )
    environ = {name: os.environ.get(name) for name in _NAMES}
    device = getattr(jax.config, _DEVICE)
    try:
        yield
    finally:
        if _current.get() is not table:
            _current.set(table)
            say("left a scope open")
        if switches.on_by_default is not checks:
            switches.enabled(checks)
            say(
                "left the checks switched off"
                if checks
                else "left the checks switched on"
            )
        if jax.sharding.get_mesh() != mesh:
            jax.set_mesh(mesh if isinstance(mesh, Mesh) and not mesh.empty else None)
            say("left a mesh in force")
        if getattr(jax.config, _DEVICE) != device:
            jax.config.update(_DEVICE, device)
            say("left another default device")
        for name, value in environ.items():
            if os.environ.get(name) != value:
                _restore(name, value)
                say(f"left another {name}")


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
