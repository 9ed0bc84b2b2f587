"""Run programs under spmd_types, with its Python: ``python peer.py FOLDER``; by program what it raises, as JSON.

It has eight ranks that exchange nothing: types are checked while rank 0 runs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

import spmd_types as spmd
from spmd_types.checker import typecheck


def said(module: types.ModuleType) -> str:
    """The first error, or nothing."""
    sizes, names = tuple(module.AXES.values()), tuple(module.AXES)
    torch.distributed.init_process_group(
        backend="fake", rank=0, world_size=8, store=FakeStore()
    )
    try:
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        with spmd.set_current_mesh(mesh), typecheck(local=module.LOCAL):
            module.main()
    except Exception as error:  # noqa: BLE001 - whatever is raised is the answer
        return f"{type(error).__name__}: {error}"
    finally:
        torch.distributed.destroy_process_group()
    return ""


def _load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    print(
        json.dumps(
            {
                path.stem: said(_load(path))
                for path in sorted(Path(sys.argv[1]).glob("*.py"))
            }
        )
    )
