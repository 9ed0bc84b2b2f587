"""The programs, and the changes that make each of them wrong or slow."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Edit:
    """Whole lines: ``old`` becomes ``new``."""

    old: str
    new: str


@dataclass(frozen=True)
class Change:
    """A mistake: what kind it is, what it does in one sentence, and the edits that make it."""

    name: str
    kind: str
    what: str
    edits: tuple[Edit, ...]

    def apply(self, source: str) -> str:
        """The program with the mistake in it.

        Raises:
            ValueError: the old lines of an edit are not there, or more than once.
        """
        for edit in self.edits:
            count = source.count(edit.old)
            if count != 1:
                raise ValueError(
                    f"{self.name}: these lines occur {count} times, not once:\n{edit.old}"
                )
            source = source.replace(edit.old, edit.new)
        return source


@dataclass(frozen=True)
class Program:
    """One module with ``main()``, which runs on eight devices, and ``reference()``, the same numbers on one device."""

    name: str
    source: str
    changes: tuple[Change, ...]


_ENTRY = re.compile(r"^if __name__ == ['\"]__main__['\"]:\n", re.MULTILINE)


def without_check(source: str) -> str:
    """A program that runs ``main()`` and compares nothing: most programs that people write hold no reference.

    Raises:
        ValueError: it is not run as a script, or something follows.
    """
    entry = _ENTRY.search(source)
    if entry is None or re.search(r"^\S", source[entry.end() :], re.MULTILINE):
        raise ValueError("a program ends with what it does as a script")
    return f"{source[: entry.end()]}    main()\n"


def programs(names: Collection[str] = ()) -> list[Program]:
    """The programs of these names, or all.

    Raises:
        ValueError: there is no program of that name.
    """
    known = sorted(path.stem for path in (_HERE / "programs").glob("*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(
            f"no program is named {', '.join(unknown)}; there are {', '.join(known)}"
        )
    return [_program(name) for name in known if name in names or not names]


def _program(name: str) -> Program:
    source = (_HERE / "programs" / f"{name}.py").read_text()
    changes = tomllib.loads((_HERE / "changes" / f"{name}.toml").read_text())
    return Program(
        name, source, tuple(_change(change, said) for change, said in changes.items())
    )


def _change(name: str, said: dict[str, Any]) -> Change:
    edits = tuple(Edit(edit["old"], edit["new"]) for edit in said["edits"])
    return Change(name, said["kind"], said["what"], edits)


def digest(source: str) -> str:
    """Tells texts apart, so that an outcome is known to be that of the text as it is now."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]
