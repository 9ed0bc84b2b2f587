"""The same messages from a cold cache, a warm one, and after a dependency has changed."""

from __future__ import annotations

from pathlib import Path

from tests.mypy_plugin.cases import found_by_file, run_mypy

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
RETURNED = (
    6,
    "E",
    (
        "Incompatible return value: expected f32['O'], got f32['B']: dimension 0 is B, expected O "
        "(fails for B=2, O=3) [return-value]"
    ),
)


def test_cold_warm_and_changed_dependency(project: Path) -> None:
    (project / "library.py").write_text(LIBRARY)
    (project / "user.py").write_text(USER)
    for _ in ("cold", "warm"):
        assert found_by_file(run_mypy(project, "user.py")) == {
            "user.py": [REVEALED, RETURNED]
        }

    (project / "library.py").write_text(
        LIBRARY.replace("f32['out']", "f32['out batch']")
    )
    changed = (5, "N", "Revealed type is \"Array[f32, dims[Literal['O B']]]\"")
    assert found_by_file(run_mypy(project, "user.py")) == {
        "user.py": [changed, RETURNED]
    }

    (project / "user.py").write_text(USER.replace("return x", "return project(x, w)"))
    (project / "library.py").write_text(LIBRARY)
    assert found_by_file(run_mypy(project, "user.py")) == {"user.py": [REVEALED]}
