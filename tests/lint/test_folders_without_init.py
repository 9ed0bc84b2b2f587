"""Folders of modules without ``__init__.py``, in no project: imports mean the same from wherever the linter is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main

pytestmark = pytest.mark.once  # JAX has no part in it

MAKE = "import jax.numpy as jnp\n\ndef make(n):\n    return jnp.ones((n, 3))\n"
IMPORTS = {
    "of_a_name": "from tools.arrays import make\n",
    "of_a_module": "from tools import arrays\nmake = arrays.make\n",
    "below": "from tools.deep import low\nmake = low.make\n",
    "as_another": "import tools.deep.low as low\nmake = low.make\n",
    "relative": "from ..tools import arrays\nmake = arrays.make\n",
}


@pytest.mark.parametrize("started", ["", "models", "tools/deep", ".."])
@pytest.mark.parametrize("whole", [True, False], ids=["the folder", "the file"])
@pytest.mark.parametrize("text", IMPORTS.values(), ids=IMPORTS)
def test_imports_mean_the_same(
    text: str, whole: bool, started: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, content in {
        "tools/arrays.py": MAKE,
        "tools/deep/low.py": MAKE,
        "models/use.py": f"{text}y = make(2) @ make(2)\n",
    }.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.chdir(tmp_path / "work" / started)
    asked = tmp_path / "work" if whole else tmp_path / "work" / "models" / "use.py"
    main(
        [
            "--format",
            "concise",
            "--jobs",
            "1",
            "--no-cache",
            "--no-evaluate",
            str(asked),
        ]
    )
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [
        "ST204"
    ]


def test_a_file_of_a_project_takes_nothing_from_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder beside a project is none that its imports are looked up in."""
    for name, content in {
        "project/pyproject.toml": "[project]\nname = 'project'\n",
        "project/use.py": f"{IMPORTS['of_a_name']}y = make(2) @ make(2)\n",
        "tools/arrays.py": MAKE,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.chdir(tmp_path)
    main(
        ["--format", "concise", "--jobs", "1", "--no-cache", "--no-evaluate", "project"]
    )
    assert capsys.readouterr().out == ""
