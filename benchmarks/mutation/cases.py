"""Programs and their mutants, laid out in one folder, so that a tool is started once for all of them.

Case 17 of ``attention.py`` is ``attention_0017.py``; of a package, the package is renamed and so are its imports.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.findings import Finding, Said
from benchmarks.mutation.mutants import Mutant, Program
from benchmarks.translate import Transform, Translated


@dataclass(frozen=True)
class Case:
    """A program with one mutant applied, or none."""

    number: int
    program: Program
    mutant: Mutant | None

    @property
    def sources(self) -> dict[str, bytes]:
        """The text of every module."""
        found = self.program.sources
        if self.mutant is not None:
            found[self.mutant.module] = self.mutant.apply(found[self.mutant.module])
        return found


@dataclass(frozen=True)
class Layout:
    """Which case, module and lines each file is."""

    folder: Path
    files: Mapping[Path, tuple[Case, str, Translated | None]]

    def findings(self, said: Iterable[Said]) -> dict[int, set[Finding]]:
        """What was said, by the number of the case."""
        found: dict[int, set[Finding]] = defaultdict(set)
        for path, line, message, related in said:
            entry = self.files.get(path.resolve())
            if entry is not None:
                case, module, translated = entry
                where = translated.original(line) if translated else line
                found[case.number].add(
                    Finding(module, where, re.sub(r"_\d{5}\b", "", message), related)
                )
        return found


def lay_out(cases: Iterable[Case], folder: Path, transform: Transform | None) -> Layout:
    """Write every case below ``folder``."""
    files: dict[Path, tuple[Case, str, Translated | None]] = {}
    for case in cases:
        name = case.program.name
        new = f"{name}_{case.number:05}"
        for module, source in case.sources.items():
            package = case.program.files[module].name == "__init__.py"
            parts = [new, *module.split(".")[1:], *(["__init__"] if package else [])]
            path = folder.joinpath(*parts).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            renamed = re.sub(
                rf"^(\s*(?:from|import) ){name}\b".encode(),
                rf"\g<1>{new}".encode(),
                source,
                flags=re.M,
            )
            translated = transform(renamed) if transform else None
            path.write_bytes(translated.text.encode() if translated else renamed)
            files[path.resolve()] = (case, module, translated)
    return Layout(folder, files)
