"""The rules, one module each; adding a rule adds a file here and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import lru_cache

from shardlint.rules.base import Rule, RuleDocs

__all__ = ["Rule", "RuleDocs", "RuleError", "all_rules", "rule"]

_MODULE = re.compile(r"st\d{3}")


class RuleError(Exception):
    """A rule module that cannot be used; the command line ends with status 2."""


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by code.

    Raises:
        RuleError: a rule module does not load, has no rule, or its code is not its file's name.
    """
    rules = []
    for found in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        if _MODULE.fullmatch(found):
            rules.append(_load(found))
    return tuple(rules)


def rule(code: str) -> Rule | None:
    """The rule of a code such as ``'ST204'``, or None."""
    return next((r for r in all_rules() if r.code == code), None)


def _load(name: str) -> Rule:
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except Exception as error:
        raise RuleError(
            f"rule module {name} does not load: {type(error).__name__}: {error}"
        ) from error
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Rule)
        and value.__module__ == module.__name__
    ]
    if len(classes) != 1 or classes[0].code != name.upper():
        raise RuleError(
            f"rule module {name} must define exactly one Rule, with code {name.upper()!r}"
        )
    return classes[0]()
