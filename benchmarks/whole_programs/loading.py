"""Programs that are files, as modules."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path


def load(path: Path) -> types.ModuleType:
    """Import a file under its own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
