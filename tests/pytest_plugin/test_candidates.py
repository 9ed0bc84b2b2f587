"""Which files are imported to look for functions to trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_shardtypes.candidates import candidates

ANNOTATED = "from pkg.types import f32\ndef f(x: f32['B']): ..."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pkg/__init__.py": "",
        "pkg/types.py": "from shardtypes import f32",
        "pkg/layers.py": ANNOTATED,
        "pkg/fields.py": "class C:\n    w: f32[b'B']",
        "pkg/quoted.py": "def f(*, x: \"f32['B']\"): ...",
        "pkg/long.py": "def f(x: f32[jax.Array, 'B']): ...",
        "pkg/long_quoted.py": "def f(x: 'f32[Array, \"B\"]'): ...",
        "pkg/renamed.py": "from shardtypes.annotated import f32 as F\ndef f(x: F[Array, 'B']): ...",
        "pkg/plain.py": "def f(x: int) -> dict[str, int]: return {}['a']",
        "pkg/literal.py": "x = y['B']",
        "pkg/broken.py": "def f(x: f32['B']",
        "pkg/deep/inner.py": ANNOTATED,
        "pkg/deep/test_inner.py": ANNOTATED,
        "pkg/tests/helpers.py": ANNOTATED,
        "pkg/__main__.py": ANNOTATED,
        "pkg/not-a-module.py": ANNOTATED,
        "other/__init__.py": "from jaxtyping import Float, Array\ndef f(x: Float[Array, 'b']): ...",
        "src/flat.py": "import shardtypes\n" + ANNOTATED,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files(root: Path) -> None:
    found = {
        c.module: c.path
        for c in candidates(["pkg", "other", "flat", "absent", "pkg.deep.absent"], root)
    }
    assert sorted(found) == [
        "flat",
        "pkg.broken",  # whose item says that it does not import
        "pkg.deep.inner",
        "pkg.fields",
        "pkg.layers",
        "pkg.long",
        "pkg.long_quoted",
        "pkg.quoted",
        "pkg.renamed",
    ]
    assert found["flat"] == root / "src" / "flat.py"


def test_a_package_on_the_path(
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(root)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert [c.module for c in candidates(["pkg.deep"], elsewhere)] == ["pkg.deep.inner"]
    assert "pkg.layers" in [c.module for c in candidates(["pkg"], elsewhere)]
