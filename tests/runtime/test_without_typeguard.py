"""Annotations need no typeguard: it is asked for where something is to be checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import run_python

HIDE = (
    "import sys, importlib.abc\n"
    "class Hidden(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name.partition('.')[0] == 'typeguard':\n"
    "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    "sys.meta_path.insert(0, Hidden())\n"
)


def run(program: str) -> str:
    done = run_python("-c", HIDE + program)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.once
def test_annotations_and_checks_by_hand_work() -> None:
    program = (
        "import json\nimport jax.numpy as jnp\n"
        "from shardtypes import Array, Scope, ShapeError, check, f32, layout, pytree_dataclass\n"
        "@pytree_dataclass\nclass Layer:\n    w: f32['M F']\n"
        "def f(x: f32['B/d M'], layers: Array['layers', Layer]) -> f32['B']: ...\n"
        "try:\n    check(f32, 'B B', jnp.ones((2, 3)))\n"
        "except ShapeError as error:\n    said = str(error).splitlines()[0]\n"
        "print(json.dumps([str(f.__annotations__['x']), isinstance(jnp.ones(3), f32['N']), said,\n"
        "    str(layout(jnp.ones(3))), 'typeguard' in sys.modules]))\n"
    )
    expected = [
        "f32['B/d M']",
        True,
        "check: dimension 1 is 3, expected B = 2",
        "3",
        False,
    ]
    assert json.loads(run(program)) == expected


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("typechecked", ""),
        ("register_with_typeguard", ""),
        ("install_import_hook", "'package'"),
    ],
)
def test_what_checks_functions_says_what_to_install(name: str, arguments: str) -> None:
    program = (
        f"import shardtypes\ntry:\n    shardtypes.{name}({arguments})\n"
        "except ModuleNotFoundError as error:\n    print(error.name, '|', error)\n"
    )
    said = f"typeguard | shardtypes.{name} needs typeguard: install it with pip install 'shardtypes[jax]'\n"
    assert run(program) == said


@pytest.mark.once
def test_errors_are_typeguards_where_it_is_installed() -> None:
    for order in (
        "import typeguard, shardtypes",
        "import shardtypes; shardtypes.f32; import typeguard",
    ):
        done = run_python(
            "-c",
            f"{order}; print(issubclass(shardtypes.ShapeError, typeguard.TypeCheckError))",
        )
        assert done.stdout.strip() == "True", done.stderr


@pytest.mark.once
def test_typeguard_loads_nothing_heavy_for_programs_without_our_annotations(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(
        "import json, sys, typeguard\n@typeguard.typechecked\ndef f(x: list[int]) -> int: return x[0]\n"
        "f([1])\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = run_python("program.py", cwd=tmp_path)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "shardtypes" in loaded, "typeguard finds us by our entry point"
    assert not loaded & {"jax", "numpy", "libcst"}
