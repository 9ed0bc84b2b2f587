"""Annotations of classes that hold unions of classes, as compilers have them: their values have a bounded size."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze, matching
from shardlint.lower import lower
from shardlint.project import Project

pytestmark = pytest.mark.once  # of what the engine does, another JAX changes nothing

CLASSES = 12
HEAD = """
from __future__ import annotations
from typing import Union
from shardtypes import f32
"""
#: What its constructor leaves is told by annotations, too.
MADE = """
class Made{0}:
    def __init__(self, a: Node, b: Node, c: Node):
        self.a = a
        self.b = b
        self.c = c
"""
DECLARED = """
class Declared{0}:
    w: f32['B M']
    a: Node
    b: Node
"""
USES = """
class Layer:
    w: f32['3 4']

class Net:
    layers: tuple[Layer, Layer]

def visit(node: Node, x: f32['B M'], w: f32['K N']):
    return x @ w

def nested(net: Net, x: f32['B 3'], y: f32['B 5']):
    x @ net.layers[1].w
    return y @ net.layers[1].w
"""


def source() -> str:
    names = [
        f"{kind}{number}" for kind in ("Made", "Declared") for number in range(CLASSES)
    ]
    classes = [
        text.format(number) for text in (MADE, DECLARED) for number in range(CLASSES)
    ]
    union = f"Node = Union[{', '.join(names)}]\n"
    return "\n".join([HEAD, *classes, union, USES])


def test_unions_of_classes_are_followed_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without one there would be 24 ** 4 instances in ``node``, each with what constructors leave."""
    sizes: list[int] = []
    instantiate = matching.instantiate

    def counted(*given: object) -> object:
        value = instantiate(*given)  # type: ignore[arg-type]  # as they were given
        sizes.append(matching.parts_in([value]))
        return value

    monkeypatch.setattr(matching, "instantiate", counted)
    text = source()
    module = lower(text.encode(), "program", "program.py").module
    found = analyze(Project({"program": module}), module)
    assert [event.code for event in found] == ["ST204", "ST204"]
    assert 1_000 < max(sizes) <= matching._MANY + 1
