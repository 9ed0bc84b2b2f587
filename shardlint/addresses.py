"""Where the documentation is. The address stands once: in the project's metadata."""

from __future__ import annotations

from functools import cache
from importlib.metadata import metadata


@cache
def documentation() -> str:
    """The address of the front page, with a slash at its end.

    Raises:
        LookupError: the installed metadata has no such address.
    """
    for entry in metadata("shardtypes").get_all("Project-URL", []):
        label, _, address = entry.partition(", ")
        if label == "Documentation":
            return str(address)
    raise LookupError("the metadata of shardtypes has no address of the documentation")


def rule_page(code: str) -> str:
    """The address of a rule's page: every output that leads there has it from here."""
    return f"{documentation()}rules/{code}/"
