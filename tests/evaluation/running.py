"""A program as the linter evaluates it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from shardlint.cli import main
from shardlint.evaluation import guards, meshes, modules
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.random import key_data
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.trees import flatten
from tests.support import run

IN_JAX = """
import json
import sys
import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 8)
found = {}
for name, text in json.loads(open(sys.argv[1]).read()).items():
    scope = {"__name__": "program"}
    exec(compile(text, name, "exec"), scope)
    leaves = jax.tree.leaves(scope["main"]())
    found[name] = judged(leaves)
print(json.dumps(found))
"""

NUMBERS = """
def judged(leaves):
    return [np.asarray(leaf).tolist() for leaf in leaves]
"""


def findings(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str
) -> list[dict[str, object]]:
    """What the linter finds in a program, of the rules that runs in numbers have to do with."""
    (folder / "program.py").write_text(text)
    main(
        [
            "--no-cache",
            "--jobs",
            "1",
            "--format",
            "json",
            "--select",
            "ST104,ST204,ST301,ST302,ST305,ST311,ST316",
            str(folder),
        ]
    )
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def in_jax(folder: Path, programs: Mapping[str, str], judged: str) -> Any:
    """What a function ``judged`` says of the leaves that each program's ``main()`` gives in JAX on eight devices."""
    (folder / "programs.json").write_text(json.dumps(programs))
    (folder / "runs.py").write_text(judged + IN_JAX)
    ended = run([sys.executable, folder / "runs.py", folder / "programs.json"])
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


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
        return [_numbers(leaf) for leaf in flatten(result)[0]]


def _numbers(leaf: Any) -> np.ndarray:
    """A leaf as an array of NumPy; of keys their two words."""
    if not isinstance(leaf, Array):
        return np.asarray(leaf)
    return np.asarray(key_data(leaf).numbers())


def main_of(body: str) -> str:
    """A program's ``main()`` with such a body, which is indented by eight columns."""
    lines = body.strip("\n").splitlines()
    dedented = "\n".join(line.removeprefix(" " * 8) for line in lines)
    return f"\ndef main():\n{indent(dedented, '    ')}\n"


AS_NUMBERS = """
def judged(leaves):
    def numbers(leaf):
        if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf, np.float64).tolist()
    return [numbers(leaf) for leaf in leaves]
"""
"""What ``in_jax`` is to give of each program: the numbers of its leaves."""


def assert_computes(text: str, expected: list[object], tolerance: float = 2e-4) -> None:
    """That a program computes the same leaves, as it is evaluated here, as it did in JAX."""
    found = evaluated(text)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            one.astype(np.float64), other, rtol=tolerance, atol=tolerance
        )


def computed_by_jax(programs: Mapping[str, str]) -> Any:
    """A fixture of a module: the numbers that JAX computes of each of these programs, all in one process."""

    @pytest.fixture(scope="module")
    def wanted(
        tmp_path_factory: pytest.TempPathFactory,
    ) -> dict[str, list[object]]:
        folder = tmp_path_factory.mktemp("jax")
        found: dict[str, list[object]] = in_jax(folder, programs, AS_NUMBERS)
        return found

    return wanted


def programs_of(head: str, bodies: Mapping[str, str]) -> dict[str, str]:
    """Programs that begin alike, each with another ``main()``."""
    return {name: head + main_of(body) for name, body in bodies.items()}


def programs_of_expressions(head: str, groups: Iterable[str]) -> dict[str, str]:
    """Programs that begin alike and give one expression each, by these: a line of a text each."""
    lines = [line for text in groups for line in text.strip().splitlines()]
    return programs_of(head, {line: f"        return {line}" for line in lines})
