"""The same messages from a cold cache, a warm one, and after a dependency has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.mypy_plugin.heads import may_hold_unasked, mentions_annotations
from tests.mypy_plugin.cases import found_by_file, run_mypy
from tests.mypy_plugin.conftest import LOG

pytestmark = pytest.mark.once

LIBRARY = """\
from shardtypes import f32

def project(x: f32['batch'], w: f32['batch out']) -> f32['out']: ...
"""
USER = """\
from library import project
from shardtypes import f32

def use(x: f32['B'], w: f32['B O']) -> f32['O']:
    reveal_type(project(x, w))
    return x
"""
REVEALED = (5, "N", "Revealed type is \"Array[f32, dims[Literal['O']]]\"")
RETURNED = [
    (
        6,
        "E",
        "result of use: expected f32['O'], got f32['B']: dimension 0 is B, expected O (fails for B=2, O=3) "
        "[shardlint-ST201]",
    ),
    (6, "N", "line 4: declared f32['O'] here"),
]


STEPS = """\
from shardtypes import f32

def embed(x: f32['batch']) -> f32['batch M']: ...
def head(x: f32['batch M']) -> f32['batch']: ...
tokens: f32['4']
"""
STEPPING = """\
import library
def run() -> None:
    x = library.embed(library.tokens)
    x = library.head(x)
    reveal_type(x)
"""


def test_cold_warm_and_changed_dependency(project: Path) -> None:
    (project / "library.py").write_text(LIBRARY)
    (project / "user.py").write_text(USER)
    for _ in ("cold", "warm"):
        assert found_by_file(run_mypy(project, "user.py")) == {
            "user.py": [REVEALED, *RETURNED]
        }

    (project / "library.py").write_text(
        LIBRARY.replace("f32['out']", "f32['out batch']")
    )
    changed = (5, "N", "Revealed type is \"Array[f32, dims[Literal['O B']]]\"")
    assert found_by_file(run_mypy(project, "user.py")) == {
        "user.py": [changed, *RETURNED]
    }

    (project / "user.py").write_text(USER.replace("return x", "return project(x, w)"))
    (project / "library.py").write_text(LIBRARY)
    assert found_by_file(run_mypy(project, "user.py")) == {"user.py": [REVEALED]}


def test_a_file_without_annotations_in_worker_processes(project: Path) -> None:
    """Its variables have arrays of different shapes, one after the other."""
    (project / "library.py").write_text(STEPS)
    (project / "user.py").write_text(STEPPING)
    revealed = (5, "N", "Revealed type is \"Array[f32, dims[Literal['4']]]\"")
    lines = run_mypy(project, "user.py", arguments=("-n", "2"))
    assert found_by_file(lines) == {"user.py": [revealed]}


MAKING = """\
import jax
import jax.numpy as jnp

def made() -> jax.Array:
    return jnp.zeros((3, 4))
"""
SHOWING = """\
import library

def use() -> None:
    reveal_type(library.made())
"""


@pytest.mark.long
def test_what_is_shown_follows_the_body_of_another_file(project: Path) -> None:
    """Neither file has annotations of ours, and no type that mypy compares has changed."""
    (project / "user.py").write_text(SHOWING)
    for sizes in ("3, 4", "5,"):
        (project / "library.py").write_text(MAKING.replace("3, 4", sizes))
        shape = sizes.replace(",", "")
        revealed = f"Revealed type is \"Array[f32, dims[Literal['{shape}']]]\""
        for _ in ("cold", "warm"):
            found = found_by_file(run_mypy(project, "user.py"))
            assert found == {"user.py": [(4, "N", revealed)]}


def test_installed_packages_are_taken_from_the_cache(project: Path) -> None:
    """All of them, also those with annotations, and those that only have words of ours."""
    imports = "import filelock\nimport IPython.core.debugger\nimport jaxtyping\n"
    (project / "user.py").write_text(imports + STEPS)
    run_mypy(project, "user.py")
    lines = run_mypy(project, "user.py", arguments=("-v",))
    anew = [line for line in lines if "Metadata abandoned" in line]
    assert [line.split(" for ")[1].split(":")[0] for line in anew] == ["user"]


def test_what_is_not_annotated_is_not_rewritten(warm_cache: Path) -> None:
    """Else it would import the stub, and JAX, and whatever JAX imports in turn would be one circle with JAX."""
    lines = (warm_cache.parent / LOG).read_text().splitlines()
    circles = [line for line in lines if "Scheduling SCC of size" in line]
    assert any("jax._src.core" in line for line in circles)
    assert not any("IPython" in line and "jax." in line for line in circles)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("from shardtypes import Float\n", True),
        ("from names import f32 as F\n", True),
        ("from names import (\n    bf16, f32 as F,\n)\n", True),
        ("from names import (\n    f32 as F  # short\n)\n", True),
        ("from names import bf16, \\\n    f32 as F\n", True),
        ("import names\nx: names.f32[ 'B']\n", True),
        ("'''A registry key as its target.'''\n", False),
        ("'''If given an integer as argument, switch.'''\n", False),
        ("with opened(key) as f:\n    pass\n", False),
    ],
)
def test_words_in_prose_are_no_annotations(
    tmp_path: Path, text: str, answer: bool
) -> None:
    (tmp_path / "code.py").write_text(text)
    assert mentions_annotations(str(tmp_path / "code.py")) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("y = jit(f)(x)\n", True),
        ("y = (\n    jit(f)  # compiled\n    (x)\n)\n", True),
        ("y = table['f'] (x)\n", True),
        ("y = (f if fast else g)(x)\n", True),
        ("y = jit(f) \\\n    (x)\n", True),
        ("reveal_type(x)\n", True),
        ("y = f(x) + (z)\n", False),
        ("def f(x):\n    return g(x)[0]\n", False),
    ],
)
def test_files_without_calls_of_values_are_left_alone(
    tmp_path: Path, text: str, answer: bool
) -> None:
    (tmp_path / "code.py").write_text(text)
    assert may_hold_unasked(str(tmp_path / "code.py")) == answer
    assert may_hold_unasked(str(tmp_path / "missing.py"))
