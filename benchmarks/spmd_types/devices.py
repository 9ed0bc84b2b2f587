"""Run JAX programs on eight devices beside one: ``python -m benchmarks.spmd_types.devices FOLDER`` prints answers."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any


def outcome(path: Path) -> str:
    """``right`` or ``wrong`` in numbers, or ``raises`` and what."""
    import jax

    module = _load(path)
    try:
        found = jax.jit(module.main)()
    except Exception as error:  # noqa: BLE001 - whatever the program raises is the outcome
        return f"raises {type(error).__name__}"
    return "right" if _same(found, jax.jit(module.reference)()) else "wrong"


def _load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _same(found: Any, wanted: Any) -> bool:
    """Whether every device holds its part of what one device computes."""
    import jax

    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return all(_same_array(one, other) for one, other in pairs)


def _same_array(found: Any, wanted: Any) -> bool:
    import numpy as np

    if found.shape != wanted.shape:
        return False
    shards = found.addressable_shards
    return all(
        np.allclose(one.data, wanted[one.index], rtol=1e-3, atol=1e-4) for one in shards
    )


if __name__ == "__main__":
    print(
        json.dumps(
            {
                path.stem: outcome(path)
                for path in sorted(Path(sys.argv[1]).glob("*.py"))
            }
        )
    )
