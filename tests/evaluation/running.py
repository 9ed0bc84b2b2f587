"""A program as the linter evaluates it."""

from __future__ import annotations

import numpy as np

from shardlint.evaluation import guards, meshes, modules
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.trees import flatten


def evaluated(text: str) -> list[np.ndarray]:
    """The leaves of what ``main()`` of a program gives, as it is evaluated here."""
    world = modules.World(
        lambda name, importer: (
            ("program", "program.py", text) if name == "program" else None
        )
    )
    with (
        evaluation(),
        meshes.on_machine(meshes.Machine(8)),
        guards.running(guards.Run(400_000)),
    ):
        module = world.module("program")
        assert module is not None
        result = module.names["main"]()
    return [
        np.asarray(leaf.numbers() if hasattr(leaf, "numbers") else leaf)
        for leaf in flatten(result)[0]
    ]
