"""Projects of a few modules, written in tests."""

from __future__ import annotations

from collections.abc import Mapping

from shardlint import ir
from shardlint.lower import lower


def lowered(texts: Mapping[str, str]) -> dict[str, ir.Module]:
    """The modules of these texts, by name, each as if in a file of its own beside the others."""
    return {
        name: lower(text.encode(), name, f"{name}.py").module
        for name, text in texts.items()
    }
