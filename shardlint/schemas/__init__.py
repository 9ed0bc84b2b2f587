"""The JSON schemas of what other tools read and write: findings, settings, baselines."""

from __future__ import annotations

from importlib.resources import files

NAMES = ("findings", "settings", "baseline")


def schema_text(name: str) -> str:
    """One of ``NAMES``, as JSON."""
    return (files(__name__) / f"{name}.json").read_text(encoding="utf-8")
