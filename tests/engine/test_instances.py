"""What is known of instances ends where something may write their attributes."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

PROGRAM = """
import jax
import jax.numpy as jnp
from shardtypes import f32

class Config:
    def __init__(self, **given):
        self.width = 64
        WRITE

    def grow(self):
        GROW

class Holder:
    def __init__(self, held):
        self.held = held

    def grow(self):
        self.held.grow()

KEPT = []

def keep(config):
    KEPT.append(config)

def grow(many):
    many.append(8)

def elsewhere(config, names):
    ELSEWHERE

def f(x: f32['B 8'], given: Config, anything):
    config = MAKE
    BETWEEN
    return x @ jnp.zeros((config.width, 4))
"""


def codes(**parts: str) -> list[str]:
    program = PROGRAM
    for name in ("WRITE", "GROW", "ELSEWHERE", "BETWEEN"):
        program = program.replace(name, parts.get(name.lower(), "pass"))
    program = program.replace("MAKE", parts.get("make", "given"))
    module = lower(program.encode(), "example", "example.py").module
    return [event.code for event in analyze(Project({"example": module}), module)]


def test_what_nothing_writes_is_known() -> None:
    assert codes() == codes(make="Config()") == ["ST204"]


WRITTEN: list[dict[str, str]] = [
    {"write": "for name in given: setattr(self, name, given[name])"},
    {"write": "self.__dict__.update(given)"},
    {"write": "vars(self).update(given)"},
    {"grow": "self.width = 8"},
    {"grow": "self.width -= 56"},
    {"elsewhere": "config.width = 8"},
    {"elsewhere": "setattr(config, 'width', 8)"},
    {"elsewhere": "for name in names: setattr(config, name, 8)"},
]


@pytest.mark.parametrize("parts", WRITTEN, ids=str)
def test_what_something_may_write_is_not_known_of_what_is_given(
    parts: dict[str, str],
) -> None:
    assert codes(**parts) == []


@pytest.mark.parametrize("parts", WRITTEN[3:], ids=str)
def test_what_nothing_has_written_yet_is_known_of_what_is_made_here(
    parts: dict[str, str],
) -> None:
    assert codes(make="Config()", **parts) == ["ST204"]


@pytest.mark.parametrize(
    "between",
    [
        "config.width = 8",
        "config.grow()",
        "setattr(config, 'width', 8)",
        "config.__dict__.update(width=8)",
        "elsewhere(config, ())",
        "elsewhere(*[config], ())",
        "[elsewhere(one, ()) for one in [config]]",
        "other = config; other.width = 8",
        "held = {'c': [config]}; held['c'][0].width = 8",
        "held = [config]; elsewhere(held[0], ())",
        "anything(config)",
        "anything([config])",
        "anything(config.grow)",
        "anything(lambda: elsewhere(config, ()))",
        "run = lambda: elsewhere(config, ()); run()",
        "jax.lax.map(lambda i: config.grow(), x)",
        "jax.jit(config.grow)()",
        "(config if anything else Config()).grow()",
        "other = config if anything else Config(); other.width = 8",
        "for one in anything: config.grow()",
        "for one in [config]: one.grow()",
        "try: config.grow()\n    finally: pass",
        "if anything: config.grow()",
        "keep(config); anything()",
        "Holder(config).held.width = 8",
        "Holder(config).grow()",
    ],
)
def test_what_is_written_by_any_way_is_seen_or_forgotten(between: str) -> None:
    parts = {"grow": "self.width = 8", "elsewhere": "config.width = 8"}
    assert codes(make="Config()", between=between, **parts) == []


@pytest.mark.parametrize(
    "between",
    [
        "len([config])",
        "jnp.zeros(config.width)",
        "str(config)",
        "other = Config(); other.grow()",
    ],
)
def test_what_is_only_read_is_still_known(between: str) -> None:
    assert codes(make="Config()", between=between, grow="self.width = 8") == ["ST204"]


@pytest.mark.parametrize(
    ("between", "known"),
    [
        ("other = one if anything else two; other.append(8)", []),
        ("other = one; other.append(8)", ["ST204"]),
        ("other = list(one); other.append(8)", []),
        ("for i in anything: one.append(8)", []),
        ("grow(one)", ["ST204"]),
        ("grow(list(one))", []),
        ("one += [8]", ["ST204"]),
        ("other = one; other += [8]", ["ST204"]),
    ],
)
def test_lists_are_followed_under_all_their_names(
    between: str, known: list[str]
) -> None:
    lines = f"one, two = [4], [3, 4]\n    {between}\n    config.width = 8 * len(one)"
    assert codes(make="Config()", between=lines) == known
