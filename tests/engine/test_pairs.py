"""Pairs of programs in ``fixtures/lint/pairs``: ``<<right||wrong>>`` is what they differ in. JAX accepts the one and
refuses the other; the linter says nothing about the one and reports the other."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jax
import pytest

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.rules import all_rules
from shardtypes.lang import parse

PAIRS = Path(__file__).parents[2] / "fixtures" / "lint" / "pairs"
HEAD = """from __future__ import annotations
import argparse, collections, dataclasses, enum, functools, itertools, math, types
from functools import partial
from typing import Any, Callable, NamedTuple
import equinox as eqx, flax.linen as nn, jax, jax.numpy as jnp, numpy as np
from einops import rearrange
from flax import nnx, struct
from flax.training.train_state import TrainState
from jax import lax
from shardtypes import f32, i32, pytree_dataclass
"""
_CHOICE = re.compile(r"<<((?:(?!>>).)*?)\|\|((?:(?!>>).)*?)>>", re.S)
_SIZES = dict(
    zip("BLMFGNQKDHTVE", (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43), strict=True)
)
_ON = {rule.code for rule in all_rules() if rule.default}


def pairs() -> Iterator[tuple[str, str]]:
    for path in sorted(PAIRS.glob("*.txt")):
        for part in re.split("^### ", path.read_text(), flags=re.M)[1:]:
            name, _, code = part.partition("\n")
            yield f"{path.stem}:{name}", code


def accepted(code: str, name: str) -> bool:
    """Whether JAX takes ``main`` with arrays of the annotated shapes, every size a prime of its own."""
    module = ModuleType(f"pair_{re.sub('[^a-z0-9]', '_', name)}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(HEAD + code, f"<{name}>", "exec"), module.__dict__)
        arrays = []
        for param in inspect.signature(module.main).parameters.values():
            dtype, text = (
                re.findall(r"\w+", str(param.annotation))[0],
                re.findall("[\"'](.*?)[\"']", param.annotation),
            )
            dims = parse(text[0]).dims
            sizes = [
                dim.size.evaluate({n: _SIZES[n] for n in dim.size.symbols})
                for dim in dims
                if dim.size
            ]
            arrays.append(
                jax.ShapeDtypeStruct(sizes, {"f32": "float32", "i32": "int32"}[dtype])
            )
        jax.eval_shape(module.main, *arrays)
    except (TypeError, ValueError, IndexError):
        return False
    finally:
        del sys.modules[module.__name__]
    return True


def reported(code: str) -> list[str]:
    module = lower((HEAD + code).encode(), "pair", "pair.py", False).module
    return [f"{event.code} {event.message}" for event in run(Project({"pair": module}), module).found()
            if event.code in _ON]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "code"), [pytest.param(*pair, id=pair[0]) for pair in pairs()]
)
def test_a_pair_is_told_apart(name: str, code: str) -> None:
    right, wrong = (
        _CHOICE.sub(lambda found, side=side: found[side], code) for side in (1, 2)
    )
    assert right != wrong
    assert accepted(right, name)
    assert not accepted(wrong, name)
    assert reported(right) == []
    assert reported(wrong)
