"""The rules as Markdown: the page of one, the table of all by family, and all in one page."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby

from shardlint.rules import all_rules
from shardlint.rules.base import Rule

#: By the digit that their codes start with.
FAMILIES = {
    "1": "Annotations, specs and options",
    "2": "Shapes and dtypes",
    "3": "Sharding",
    "4": "Logical axes",
    "9": "The linter's own",
}
_INTRODUCTION = """\
# The rules of shardlint

A rule's code is never used for another. `shardlint explain CODE` prints one of these pages.
"""


def family(rule: Rule) -> str:
    """The codes and the subject of a rule's family: ``'ST3xx: Sharding'``."""
    digit = rule.code[2]
    return f"ST{digit}xx: {FAMILIES[digit]}"


def families() -> list[tuple[str, tuple[Rule, ...]]]:
    """The families with their rules, by code."""
    return [(title, tuple(rules)) for title, rules in groupby(all_rules(), family)]


def anchor(rule: Rule) -> str:
    """The name of a rule's place in a page of several, as GitHub makes it from the heading."""
    return f"{rule.code.lower()}-{rule.name}"


def page(rule: Rule) -> str:
    """The page of one rule, as ``shardlint explain`` prints it."""
    return f"# {rule.code} {rule.name}\n\n{rule.text()}\n"


def index(first_cell: Callable[[Rule], str]) -> str:
    """All rules, a table for each family; ``first_cell`` names a rule and leads to its page."""
    parts = [_INTRODUCTION]
    for title, rules in families():
        parts.append(f"\n## {title}\n\n| rule | what it does |\n|---|---|\n")
        for rule in rules:
            off = "" if rule.default else " Off by default."
            parts.append(f"| {first_cell(rule)} | {rule.summary()}{off} |\n")
    return "".join(parts)


def all_in_one() -> str:
    """The tables, then every page below them."""
    table = index(lambda rule: f"[{rule.code}](#{anchor(rule)}) {rule.name}")
    pages = (re.sub("^(##? )", r"#\1", page(rule), flags=re.M) for rule in all_rules())
    return table + "".join(f"\n{text}" for text in pages)
