"""Whatever fails inside the plugin is a reported error, and mypy goes on."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import mypy.api
import pytest
from mypy.nodes import Context

from shardlint.mypy_plugin import findings, hooks
from shardlint.mypy_plugin.findings import Findings
from shardlint.ops import registry
from tests.mypy_plugin.cases import configure, found_by_file

pytestmark = pytest.mark.once

CODE = """\
import jax.numpy as jnp
from shardtypes import f32

def f(x: f32['B M'], y: f32['M']) -> f32['B M']:
    reveal_type(jnp.sum(x))
    x + jnp.sum(x, axis=0) + jnp.zeros(3)
    return y
"""
PLEASE = "this place was not checked, please report it (--show-traceback shows where) [shard-internal]"


@pytest.fixture
def failing_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(call: registry.Call) -> registry.Value:
        raise KeyError("broken")

    broken = {
        **registry.MODELS,
        "jax.numpy.sum": registry.Model("jax.numpy.sum", fails, "a, axis=None"),
    }
    monkeypatch.setattr(registry, "_models", MappingProxyType(broken))


def run(
    project: Path, monkeypatch: pytest.MonkeyPatch, code: str, *arguments: str
) -> tuple[list[str], str]:
    """mypy in this process, where something was broken: its lines and its standard error. The linter is not broken in a
    process beside it."""
    monkeypatch.setattr(findings, "is_worth_it", lambda: False)
    configure(project)
    (project / "code.py").write_text(code)
    monkeypatch.chdir(project)
    out, errors, _ = mypy.api.run(["--no-error-summary", *arguments, "code.py"])
    return out.splitlines(), errors


@pytest.mark.usefixtures("failing_model")
def test_a_file_that_the_linter_cannot_check_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, errors = run(project, monkeypatch, CODE)
    whole = (
        "code.py: shardlint itself failed here: KeyError: 'broken'; this file was not checked fully, please report it "
        "(--traceback shows where) [shard-internal]"
    )
    assert sorted(found_by_file(lines)["code.py"]) == [
        (1, "E", whole),
        (5, "N", 'Revealed type is "Array[Any, Any]"'),
    ]
    assert errors == ""


@pytest.mark.usefixtures("failing_model")
def test_the_traceback_is_shown_on_request(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(project, monkeypatch, CODE, "--show-traceback")
    errors = capsys.readouterr().err
    assert "Traceback (most recent call last)" in errors
    assert "in fails" in errors


def test_a_failing_hook_is_reported_where_it_is_called(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(findings: Findings, path: str, node: Context) -> None:
        if path == "code.py" and node.line == 6:
            raise KeyError("broken")

    monkeypatch.setattr(Findings, "arrays_at", fails)
    lines, errors = run(project, monkeypatch, CODE.replace("return y", "return 1"))
    found = sorted(found_by_file(lines)["code.py"])
    told = "the mypy plugin shardlint.mypy_plugin failed at Array.__add__: KeyError: 'broken'"
    assert (6, "E", f"{told}; {PLEASE}") in found
    assert any("Incompatible return value type" in text for _, _, text in found)
    assert errors == ""
    run(project, monkeypatch, CODE, "--show-traceback")
    assert "in fails" in capsys.readouterr().err


def test_a_file_that_cannot_be_prepared_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: object) -> bool:
        raise IndexError("unread")

    monkeypatch.setattr(hooks, "rewrite", fails)
    lines, _ = run(project, monkeypatch, CODE.replace("return y", "return 1"))
    found = sorted(found_by_file(lines)["code.py"])
    told = f"the mypy plugin shardlint.mypy_plugin failed at reading code.py: IndexError: unread; {PLEASE}"
    assert found[0] == (1, "E", told)
    assert any("Incompatible return value type" in text for _, _, text in found)
