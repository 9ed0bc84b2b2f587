"""What is known of instances ends where something may write their attributes."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

PROGRAM = """
import jax.numpy as jnp
from shardtypes import f32

class Config:
    def __init__(self, **given):
        self.width = 64
        WRITE

    def grow(self):
        GROW

def elsewhere(config, names):
    ELSEWHERE

def f(x: f32['B 8']):
    config = Config()
    BETWEEN
    return x @ jnp.zeros((config.width, 4))
"""


def codes(**parts: str) -> list[str]:
    program = PROGRAM
    for name in ("WRITE", "GROW", "ELSEWHERE", "BETWEEN"):
        program = program.replace(name, parts.get(name.lower(), "pass"))
    module = lower(program.encode(), "example", "example.py").module
    return [event.code for event in analyze(Project({"example": module}), module)]


def test_what_nothing_writes_is_known() -> None:
    assert codes() == ["ST204"]


@pytest.mark.parametrize(
    "parts",
    [
        {"write": "for name in given: setattr(self, name, given[name])"},
        {"write": "self.__dict__.update(given)"},
        {"write": "vars(self).update(given)"},
        {"grow": "self.width = 8"},
        {"grow": "self.width -= 56"},
        {"elsewhere": "config.width = 8"},
        {"elsewhere": "setattr(config, 'width', 8)"},
        {"elsewhere": "for name in names: setattr(config, name, 8)"},
        {"between": "config.width = 8"},
    ],
    ids=str,
)
def test_what_something_may_write_is_not(parts: dict[str, str]) -> None:
    assert codes(**parts) == []
