"""Where the documentation is."""

from __future__ import annotations

DOCUMENTATION = "https://shardtypes.github.io/shardtypes/"
"""The address of the front page: the one that the project's metadata has, too. A linter that is not installed, or not
as its own distribution, links there as well."""


def schema_at(name: str) -> str:
    """The address of a JSON schema, which is its ``$id``; the site has it there."""
    return f"{DOCUMENTATION}schemas/{name}.json"


def rule_page(code: str) -> str:
    """The address of a rule's page: every output that leads there has it from here."""
    return f"{DOCUMENTATION}rules/{code}/"
