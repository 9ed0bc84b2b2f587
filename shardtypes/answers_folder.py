"""Where the compiler's answers are kept: in JAX's own persistent cache, else where a test run says, else nowhere."""

from __future__ import annotations

from pathlib import Path

import jax

_named: Path | None = None


def keep_in(folder: Path | None) -> Path | None:
    """Keep answers in a folder where JAX has no cache, or nowhere. Returns the one before it."""
    global _named
    before, _named = _named, folder
    return before


def folder_in_force() -> Path | None:
    """Where answers are kept: below JAX's persistent cache, where that is on and lies on a disk."""
    # JAX adds its options there
    configured: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    is_on: bool = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    if not configured or not is_on:
        return _named
    if "://" in configured:  # in a bucket, which JAX writes with a library of its own
        return None
    return Path(configured, "shardtypes")
