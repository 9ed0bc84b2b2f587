"""One program on eight devices: ``python -m benchmarks.whole_programs.worker PROGRAM REFERENCE ANSWER [alone]``.

REFERENCE is a file with the numbers that the correct program gets on one device. If it is missing, they are computed by
PROGRAM's own ``reference()`` and kept there. ANSWER is where the outcome is written, as JSON. With ``alone`` every mesh
that the program makes has one device, and all its axes the size one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.whole_programs.loading import load

TOLERANCE = 1e-4
"""Relative and absolute, as in the programs' own ``check()``."""

_LONGEST = 200

Numbers = dict[str, np.ndarray]


def main(program: Path, reference: Path, answer: Path, alone: bool = False) -> None:
    """Run the program and write what came of it."""
    if alone:
        _make_meshes_of_one_device()
    # Whatever the program raises is the outcome.
    try:
        module = load(program)
        found = _numbers(module.main())
    except Exception as error:  # noqa: BLE001
        outcome, detail = "raises", _described(error)
    else:
        if not reference.exists():
            numbers: dict[str, Any] = {**_numbers(module.reference())}
            np.savez(reference, **numbers)
        outcome, detail = compare(found, dict(np.load(reference)))
    answer.write_text(json.dumps({"outcome": outcome, "detail": detail}))


def _make_meshes_of_one_device() -> None:
    plain_mesh = jax.sharding.Mesh

    class OneDevice(plain_mesh):  # type: ignore[misc, valid-type]
        def __new__(cls, devices: Any, axis_names: Any, **options: Any) -> Any:
            return plain_mesh(first(axis_names), axis_names, **options)

    def first(axis_names: Any) -> np.ndarray:
        count = 1 if isinstance(axis_names, str) else len(axis_names)
        return np.array(jax.devices()[:1]).reshape((1,) * count)

    def make_mesh(axis_shapes: Any, axis_names: Any, **options: Any) -> Any:
        options["devices"] = jax.devices()[:1]
        return made(tuple(1 for _ in axis_shapes), axis_names, **options)

    def pmap(function: Any, *args: Any, **options: Any) -> Any:
        options["devices"] = jax.devices()[:1]
        return mapped(function, *args, **options)

    made, mapped = jax.make_mesh, jax.pmap
    jax.make_mesh, jax.pmap = make_mesh, pmap
    jax.sharding.Mesh = OneDevice  # type: ignore[misc]
    # A program that maps over all devices, without a mesh, asks how many there are.
    jax.device_count = jax.local_device_count = lambda *args: 1


def _numbers(tree: Any) -> Numbers:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path): np.asarray(leaf, np.float64)
        for path, leaf in leaves
    }


def _described(error: Exception) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:_LONGEST]


def compare(found: Numbers, wanted: Numbers) -> tuple[str, str]:
    """``agrees``, or ``differs`` and where most."""
    if found.keys() != wanted.keys():
        return "differs", f"results {sorted(found)}, on one device {sorted(wanted)}"
    worst, where = 0.0, ""
    for name, right in wanted.items():
        if found[name].shape != right.shape:
            return (
                "differs",
                f"{name} has shape {found[name].shape}, on one device {right.shape}",
            )
        error = np.abs(found[name] - right)
        near = error <= TOLERANCE * (1 + np.abs(right))  # false for NaN
        largest = float(np.max(error, where=~near, initial=0.0))
        if not near.all() and not largest <= worst:
            worst, where = largest, name
    return ("differs", f"by {worst:.3g} in {where}") if where else ("agrees", "")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), alone="alone" in sys.argv[4:])
