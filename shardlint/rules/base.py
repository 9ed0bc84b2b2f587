"""What every rule has. A rule is one module of this package, named after its code: ``st204.py``."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import ClassVar

from shardlint.events import Event
from shardtypes.lang.messages import fails_for

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class RuleDocs:
    """A rule's documentation: its sections by title, and the program of each of its two examples."""

    sections: tuple[tuple[str, str], ...]

    def section(self, title: str) -> str:
        return dict(self.sections).get(title, "")

    def program(self, title: str) -> str:
        """The Python code of a section ('' if it has none)."""
        found = _CODE_BLOCK.search(self.section(title))
        return found.group(1) if found else ""


class Rule:
    """One kind of finding. The docstring of a subclass is its page: the sections that ``SECTIONS`` lists."""

    SECTIONS: ClassVar[tuple[str, ...]] = (
        "What it does",
        "Why is this bad",
        "Example",
        "Use instead",
        "How to fix",
        "When to silence",
        "Related rules",
    )

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[str] = "error"
    #: Opt-in rules are off unless selected by their own code.
    default: ClassVar[bool] = True

    def message(self, event: Event) -> str:
        """The finding as one sentence, its witness included."""
        return event.message + fails_for(event.witness)

    @classmethod
    def text(cls) -> str:
        """The documentation as Markdown, without a title."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def docs(cls) -> RuleDocs:
        parts = _SECTION.split(cls.text())
        titles, bodies = parts[1::2], parts[2::2]
        return RuleDocs(
            tuple(
                (t.strip(), textwrap.dedent(b).strip("\n") + "\n")
                for t, b in zip(titles, bodies, strict=False)
            )
        )

    @classmethod
    def summary(cls) -> str:
        """The first sentence of *What it does*."""
        text = " ".join(cls.docs().section("What it does").split())
        return text.split(". ")[0].rstrip(".") + "."
