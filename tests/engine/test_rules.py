"""Every rule's page is complete, and its two examples are programs that behave as they say."""

from __future__ import annotations

import re

import pytest

from shardlint.engine import analyze
from shardlint.jax_version import NEWEST
from shardlint.logical_rules import RuleList
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.rules import Rule, all_rules, rule

# Found outside the engine: the tests of the command line and of the evaluation run these examples.
FRONT = {"ST316", "ST318", "ST319", "ST901", "ST902", "ST903"}


pytestmark = pytest.mark.once  # JAX has no part in the pages


class Settings:
    def __init__(self, program: str) -> None:
        found = re.match(r"# mesh: (.*)", program)
        pairs = (part.split("=") for part in found.group(1).split(",")) if found else ()
        self.mesh: dict[str, int | None] = {name: int(size) for name, size in pairs}
        self.logical_rules: tuple[RuleList, ...] = ()
        self.explicit_axes: tuple[str, ...] | bool = ()
        self.jax = NEWEST


def codes(program: str) -> list[str]:
    module = lower(program.encode(), "example", "example.py").module
    return [
        event.code
        for event in analyze(Project({"example": module}), module, Settings(program))
    ]


@pytest.mark.parametrize("one", all_rules(), ids=lambda r: r.code)
def test_the_page_is_complete(one: Rule) -> None:
    docs = one.docs()
    assert [title for title, _ in docs.sections] == list(Rule.SECTIONS)
    assert docs.program("Example") and docs.program("Use instead")
    assert one.summary()
    assert rule(one.code) is one
    related = re.findall(r"ST\d{3}", docs.section("Related rules"))
    assert related and one.code not in related
    assert all(rule(code) is not None for code in related)
    words = [len(docs.section(title).split()) for title in Rule.SECTIONS[4:6]]
    assert min(words) > 5


@pytest.mark.parametrize(
    "one", [r for r in all_rules() if r.code not in FRONT], ids=lambda r: r.code
)
def test_the_examples_do_what_the_page_says(one: Rule) -> None:
    docs = one.docs()
    assert codes(docs.program("Example")) == [one.code]
    assert codes(docs.program("Use instead")) == []


def test_names_and_codes_are_unique() -> None:
    assert (
        len({r.code for r in all_rules()})
        == len({r.name for r in all_rules()})
        == len(all_rules())
    )
