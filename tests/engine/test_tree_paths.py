"""The paths of leaves are those that JAX gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.config import Config
from shardlint.run import check

HEAD = """
import functools
from dataclasses import dataclass
from typing import NamedTuple
import equinox as eqx
import flax
import jax
import jax.numpy as jnp
from shardtypes import f32, pytree_dataclass

class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array

class Module(eqx.Module):
    w: jax.Array
    b: jax.Array

@flax.struct.dataclass
class Struct:
    w: jax.Array
    name: str = flax.struct.field(pytree_node=False, default="struct")

@pytree_dataclass
class Typed:
    w: f32['2']

@functools.partial(jax.tree_util.register_dataclass, data_fields=['w'], meta_fields=['name'])
@dataclass
class Registered:
    w: jax.Array
    name: str

x = jnp.ones(2)
"""
TREES = {
    "array": "x",
    "dict": "{'b': x, 'a': x}",
    "numbers as keys": "{2: x, 1: x}",
    "list": "[x, (x, x)]",
    "None": "{'a': None, 'b': [x, None, x]}",
    "named tuple": "Pair(x, [x])",
    "equinox": "Module(x, x)",
    "struct": "Struct(x)",
    "typed": "Typed(x)",
    "registered": "Registered(x, 'name')",
    "nested": "{'layers': [Module(x, x), Pair(x, x)], 'head': (Struct(x), {'w': x})}",
}
TEXTS = {
    "keystr": "jax.tree_util.keystr(path)",
    "simple": "jax.tree_util.keystr(path, simple=True, separator='/')",
    "str": "'|'.join(str(entry) for entry in path)",
    "f-string": "'|'.join(f'<{entry}>' for entry in path)",
}


def shown_as(
    name: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """What the linter shows of a name."""
    (tmp_path / "a.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    report = check(["a.py"], Config(), cache=False, show_types=True)
    assert report.problems == []
    return {shown.name: shown.text for shown in report.types}[name]


@pytest.mark.once
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tree", TREES)
def test_paths_are_written_as_jax_writes_them(
    tree: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"""{HEAD}
def text(path):
    return {TEXTS[text]}

tree = {TREES[tree]}
written = " ".join([text(path) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)])
"""
    scope: dict[str, object] = {}
    exec(program, scope)
    assert shown_as("written", program, tmp_path, monkeypatch) == repr(scope["written"])


def test_a_path_below_something_unknown_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"""{HEAD}
def written(tree: dict):
    return [jax.tree_util.keystr(path) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]

found = written(unknown())
"""
    assert "unknown" in shown_as("found", program, tmp_path, monkeypatch)
