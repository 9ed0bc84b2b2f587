"""The JSON schemas of what other tools read and write: findings, settings, baselines."""

from __future__ import annotations

from importlib.resources import files

NAMES = ("findings", "settings", "baseline")


def schema_text(name: str) -> str:
    """One of ``NAMES``, as JSON."""
    file = files(__name__).joinpath(f"{name}.json")
    return file.read_text(encoding="utf-8")
