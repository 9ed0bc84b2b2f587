"""``--since REV``: what functions hold and send now, and what they did in the revision."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from shardlint.schemas import schema_text
from tests.lint.adopting import lint, project
from tests.test_packaging import commit_all, git

pytestmark = pytest.mark.once  # JAX has no part in it

HEAD = """
import jax
from jax import lax
from shardtypes import f32, typed_shard_map

"""
GATHERED = """
@typed_shard_map
def layer(x: f32["B/d M"], up: f32["M/d F/t"], down: f32["F/t M"]) -> f32["B/d M"]:
    weight = lax.all_gather(up, "d", axis=0, tiled=True)
    return lax.psum(jax.nn.gelu(x @ weight) @ down, "t")
"""
WHOLE = """
@typed_shard_map
def layer(x: f32["B/d M"], up: f32["M F/t"], down: f32["F/t M"]) -> f32["B/d M"]:
    return lax.psum(jax.nn.gelu(x @ up) @ down, "t")
"""
GLOBAL = """
def total(x: f32["B M"]) -> f32["B"]:
    return x.sum(1)
"""
CHANGED = """
model.py:8: the cost of layer has changed
  each device holds 8*B*M/d + 8*M*F/t bytes, 8*B*M/d + 4*M*F/(d*t) + 4*F*M/t bytes before
  each device sends 8*B*M*(t-1)/(d*t) bytes, 4*M*F*(d-1)/(d*t) + 8*B*M*(t-1)/(d*t) bytes before
    - up float32['M/d F/t']: 4*M*F/(d*t) bytes
    - all_gather over d: 4*M*F*(d-1)/(d*t) bytes
    + up float32['M F/t']: 4*M*F/t bytes
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository whose ``model.py`` gathers a weight."""
    project(tmp_path, {"model.py": HEAD + GATHERED, ".gitignore": ".*_cache\n"})
    (tmp_path / ".git").rmdir()
    commit_all(tmp_path)
    return tmp_path


def changes(folder: Path, *arguments: str) -> list[str]:
    """What is printed of costs, without the name of the command."""
    done = lint(folder, "--since", "HEAD", *arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    own = [line.removeprefix("shardlint: ") for line in lines]
    return [line for line in own if line.startswith(" ") or "the cost of" in line]


def test_what_is_held_and_sent(folder: Path) -> None:
    (folder / "model.py").write_text(HEAD + WHOLE)
    assert changes(folder) == CHANGED.strip("\n").splitlines()
    assert changes(folder, "--quiet") == []


def test_as_data_and_as_notices(folder: Path) -> None:
    (folder / "model.py").write_text(HEAD + WHOLE)
    done = lint(folder, "--since", "HEAD", "--format", "json")
    whole = json.loads(done.stdout)
    jsonschema = importlib.import_module("jsonschema")
    jsonschema.validate(whole, json.loads(schema_text("findings")))
    assert whole["findings"] == []
    (change,) = whole["costs"]
    assert (change["function"], change["path"], change["line"]) == (
        "layer",
        "model.py",
        8,
    )
    sent = [change[when]["moved"]["formula"] for when in ("before", "after")]
    assert sent == [
        "4*M*F*(d-1)/(d*t) + 8*B*M*(t-1)/(d*t)",
        "8*B*M*(t-1)/(d*t)",
    ]
    done = lint(folder, "--since", "HEAD", "--format", "github", "--quiet")
    assert done.stdout.startswith(
        "::notice file=model.py,line=8,title=cost of layer::each device holds "
    )
    assert done.stderr == ""


def test_nothing_is_said_of_what_costs_the_same(folder: Path) -> None:
    """Other lines, other names of locals, functions that are neither sharded nor send."""
    assert changes(folder) == []
    text = HEAD + GLOBAL + GATHERED.replace("weight", "whole")
    (folder / "model.py").write_text(text)
    assert changes(folder) == []


def test_a_function_that_is_new_and_one_that_is_gone(folder: Path) -> None:
    renamed = GATHERED.replace("def layer", "def block")
    (folder / "model.py").write_text(HEAD + renamed)
    found = changes(folder)
    held = "8*B*M/d + 4*M*F/(d*t) + 4*F*M/t"
    assert found[0] == "model.py:8: the cost of block has changed"
    assert found[1] == f"  each device holds {held} bytes, 0 bytes before"
    assert "model.py: the cost of layer has changed" in found
    assert f"  each device holds 0 bytes, {held} bytes before" in found


def test_a_file_that_was_renamed(folder: Path) -> None:
    git("mv", "model.py", "layers.py", cwd=folder)
    assert changes(folder) == []
    (folder / "layers.py").write_text(HEAD + WHOLE)
    assert changes(folder)[0] == "layers.py:8: the cost of layer has changed"


def test_what_is_not_known(folder: Path) -> None:
    """A sum of what is known does not stand for all."""
    listed = GATHERED.replace(
        "psum(jax.nn.gelu(x @ weight) @ down", "psum(unknown(x, weight)"
    )
    (folder / "model.py").write_text(f"{HEAD}from elsewhere import unknown\n{listed}")
    found = changes(folder)
    assert "    + not counted: lax.psum of what is not known to be an array" in found
    sent = "  each device sends 4*M*F*(d-1)/(d*t) bytes and what is not known, "
    assert any(line.startswith(sent) for line in found)


def test_only_files_that_were_asked_for(folder: Path) -> None:
    (folder / "model.py").write_text(HEAD + WHOLE)
    (folder / "other.py").write_text(HEAD + GATHERED.replace("layer", "other"))
    first = [line for line in changes(folder, "other.py") if "the cost of" in line]
    assert first == ["other.py:8: the cost of other has changed"]


def test_an_edit_of_a_helper_in_another_file(folder: Path) -> None:
    """What a function sends counts its helpers; it is compared where its own file has changed."""
    helper = (
        "\ndef gathered(x):\n    return lax.all_gather(x, 'd', axis=0, tiled=True)\n"
    )
    (folder / "helper.py").write_text(HEAD + helper)
    used = GATHERED.replace(
        'lax.all_gather(up, "d", axis=0, tiled=True)', "gathered(up)"
    )
    (folder / "model.py").write_text(f"{HEAD}from helper import gathered\n{used}")
    assert changes(folder, "model.py") == []


def test_a_revision_that_is_no_python(folder: Path) -> None:
    (folder / "model.py").write_text("def layer(psum:\n")
    commit_all(folder)
    (folder / "model.py").write_text(HEAD + WHOLE)
    done = lint(folder, "--since", "HEAD")
    assert "shardlint: costs are not compared: " in done.stderr
