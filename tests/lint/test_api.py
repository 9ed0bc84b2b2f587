"""``shardlint.check_paths`` and ``shardlint.check_source``: data, nothing printed, nothing ended."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import shardlint
from tests.lint.adopting import HEAD, MODEL, NORM, SWAPPED, lint, project
from tests.support import run_python


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return project(tmp_path, {"a.py": MODEL, "b.py": "x = 1\n"})


def test_the_same_findings_as_the_command(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = shardlint.check_paths(["a.py", folder / "b.py"])
    assert shardlint.check_paths("a.py").checked == 1
    assert shardlint.check_paths(folder / "b.py").checked == 1
    assert capfd.readouterr() == ("", "")
    assert (result.checked, result.problems, result.skipped) == (2, (), ())
    command = lint(folder, "--format", "json", ".")
    for found, printed in zip(result.findings, json.loads(command.stdout), strict=True):
        assert isinstance(found, shardlint.Finding)
        for key in ("code", "name", "severity", "message", "path", "cell"):
            assert getattr(found, key) == printed[key]
        for key in ("line", "column", "end_line", "end_column", "url"):
            assert getattr(found, key) == printed[key]
        assert dict(found.witness) == printed["witness"]
        assert [dataclasses.asdict(related) for related in found.related] == printed[
            "related"
        ]
    concise = lint(folder, "--format", "concise").stdout.splitlines()
    assert [str(found) for found in result.findings] == concise


def test_findings_are_frozen(folder: Path) -> None:
    found = shardlint.check_paths(["."]).findings[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.code = "ST000"  # type: ignore[misc]  # which is what is tested
    with pytest.raises(TypeError):
        found.witness["B"] = 3  # type: ignore[index]  # as above


def test_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of no file at all, and of one that is there and has another text; imports are found from where it is."""
    monkeypatch.chdir(tmp_path)
    project(tmp_path, {"pkg/sizes.py": "H = 4\n", "pkg/model.py": "x = 1\n"})
    text = (
        "import jax.numpy as jnp\nfrom sizes import H\n"
        "y = jnp.zeros((2, 3)).reshape(H, H)\n"
    )
    (found,) = shardlint.check_source(text, "pkg/model.py").findings
    assert (found.path, found.line, found.code[:3]) == ("pkg/model.py", 3, "ST2")
    assert shardlint.check_source(f"{HEAD}{NORM}").findings[0].path == "source.py"
    latin = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
    assert shardlint.check_source(latin).findings == ()
    (broken,) = shardlint.check_source("x = (\n", "new.py").findings
    assert broken.code == "ST902"
    assert not (tmp_path / "new.py").exists()


def test_a_fix(folder: Path) -> None:
    text = "x = 1  # shardlint: ignore[ST201] no more\n"
    (found,) = shardlint.check_source(text).findings
    assert found.fix == shardlint.Fix(
        "remove the suppression", "safe", (shardlint.Edit(1, 8, 1, 42, ""),)
    )


def test_fingerprints(folder: Path) -> None:
    before = [found.fingerprint for found in shardlint.check_paths(["a.py"]).findings]
    (folder / "a.py").write_text(f"{HEAD}{SWAPPED}\n\n{NORM}")
    after = [found.fingerprint for found in shardlint.check_paths(["a.py"]).findings]
    assert sorted(before) == sorted(after)
    assert len(set(before)) == 2


def test_settings(folder: Path) -> None:
    def codes(settings: object) -> list[str]:
        assert settings is None or isinstance(settings, dict | str | Path)
        result = shardlint.check_paths(["."], settings, cache=False)
        return [found.code for found in result.findings]

    assert codes({"select": ["ST201"]}) == ["ST201"]
    assert codes({"extend-exclude": ["a.py"]}) == []
    (folder / "other.toml").write_text('ignore = ["ST2"]\n')
    assert codes("other.toml") == []
    assert codes(None) == ["ST204", "ST201"]
    (folder / "shardlint.toml").write_text('ignore = ["ST204"]\n')
    assert codes(None) == ["ST201"]
    assert not (folder / ".shardlint_cache").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mehs": {}}, "settings: unknown key 'mehs'"),
        ({"select": ["ST99"]}, "'ST99' in 'select' is not a rule code"),
        ("gone.toml", "gone.toml: cannot be read: No such file or directory"),
        ({"baseline": "gone.json"}, "gone.json: there is no such baseline"),
    ],
)
def test_settings_that_cannot_be_used(
    folder: Path, settings: dict[str, object] | str, message: str
) -> None:
    with pytest.raises(shardlint.ConfigError) as caught:
        shardlint.check_paths(["."], settings)
    assert message in str(caught.value)


def test_work_that_cannot_be_done(folder: Path) -> None:
    result = shardlint.check_paths(["gone.py", "b.py"])
    assert result.problems == ("gone.py: no such file or directory",)
    assert (result.checked, result.findings) == (1, ())


def test_the_package_itself_imports_nothing() -> None:
    """The command line imports it first: it pays nothing for the interface."""
    code = (
        "import sys, shardlint; assert 'shardlint.api' not in sys.modules; "
        "assert {'check_paths', 'Finding'} <= set(dir(shardlint)); "
        "shardlint.check_source; assert 'shardlint.api' in sys.modules; "
        "shardlint.no_such_name"
    )
    done = run_python("-c", code)
    last = done.stderr.splitlines()[-1]
    assert last == "AttributeError: module 'shardlint' has no attribute 'no_such_name'"
