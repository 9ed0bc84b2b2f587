"""What type checkers that know nothing of shapes tell of each form of an annotation, in the same program.

    python -m venv others
    others/bin/pip install pyright basedpyright ty pyrefly
    python -m benchmarks.checkers --others others

prints a table: the errors of each checker in ``fixtures/checkers/model.py``, and what it takes an array for. mypy is
that of the environment which runs this, without the plugin.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "fixtures" / "checkers" / "model.py"

_LONG = re.compile(r"(\w+)\[(?:jax\.)?Array, ((?P<quote>['\"]).*?(?P=quote))\]")
_REVEALED = re.compile(
    r"(?:Type of \"x\" is|[Rr]evealed type(?: is)?:?) [\"`]?([\w.]+)"
)
#: Without a value, ``reveal_type`` shows the type of a parameter.
_SHOWN = "\n\ndef shown(x: {}) -> None:\n    reveal_type(x)\n"
_IMPORT = "from shardtypes.annotated import"


def long_form(program: str) -> str:
    """``f32[Array, 'B/d M']``, as the program is written."""
    return program + _SHOWN.format('f32[Array, "B M"]')


def short_form(program: str) -> str:
    """``f32['B/d M']``."""
    plain = long_form(program).replace(_IMPORT, "from shardtypes import")
    return _LONG.sub(r"\1[\2]", plain)


def annotated_form(program: str) -> str:
    """``Annotated[Array, f32['B/d M']]``."""
    plain = long_form(program).replace(
        _IMPORT, "from typing import Annotated\n\nfrom shardtypes import"
    )
    return _LONG.sub(r"Annotated[Array, \1[\2]]", plain)


FORMS: dict[str, Callable[[str], str]] = {
    "f32[Array, 'B/d M']": long_form,
    "Annotated[Array, f32['B/d M']]": annotated_form,
    "f32['B/d M']": short_form,
}


@dataclass(frozen=True)
class Checker:
    """A type checker: its name, its command but for the file, and what marks a line that tells of an error."""

    name: str
    command: tuple[str, ...]
    error: str

    @property
    def is_installed(self) -> bool:
        return Path(self.command[0]).exists()

    def check(self, file: Path) -> tuple[list[str], str]:
        """The errors in a file, and what the checker reveals there."""
        told = subprocess.run(
            [*self.command, file.name],
            cwd=file.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = told.stdout.splitlines()
        shown = [
            found[1] for found in map(_REVEALED.search, lines) if found is not None
        ]
        if not shown:
            raise RuntimeError(
                f"{self.name} revealed no type in {file}: {told.stdout}{told.stderr}; "
                f"run {' '.join(self.command)} by hand"
            )
        errors = [line for line in lines if self.error in line and file.name in line]
        return errors, shown[-1]


def checkers(others: Path) -> list[Checker]:
    """The checkers in the folder of programs ``others``, and mypy of this environment; not all may be installed."""
    python = sys.executable
    mypy = ("-m", "mypy", "--config-file=", "--cache-dir=.mypy_plain")
    ty = (
        "check",
        "--output-format=concise",
        f"--python={sys.prefix}",
        f"--extra-search-path={ROOT}",
    )
    pyrefly = (
        "check",
        "--output-format=min-text",
        f"--python-interpreter-path={python}",
        f"--search-path={ROOT}",
    )
    return [
        Checker("mypy without the plugin", (python, *mypy), ": error:"),
        Checker(
            "pyright", (f"{others}/pyright", f"--pythonpath={python}"), " - error:"
        ),
        Checker(
            "basedpyright",
            (f"{others}/basedpyright", f"--pythonpath={python}"),
            " - error:",
        ),
        Checker("ty", (f"{others}/ty", *ty), ": error["),
        Checker("pyrefly", (f"{others}/pyrefly", *pyrefly), "ERROR "),
    ]


def table(found: list[Checker]) -> str:
    """Errors, and what an array is, by checker and form."""
    heads = [f"`{form}`" for form in FORMS]
    rows = [["checker", *heads], ["---"] * (len(heads) + 1)]
    program = PROGRAM.read_text()
    with tempfile.TemporaryDirectory() as name:
        for checker in found:
            cells = []
            for number, form in enumerate(FORMS.values()):
                file = Path(name) / f"model_{number}.py"
                file.write_text(form(program))
                errors, shown = checker.check(file)
                cells.append(f"{len(errors)}, `{shown.rpartition('.')[2]}`")
            rows.append([checker.name, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="errors of type checkers by form of the annotations"
    )
    parser.add_argument(
        "--others",
        type=Path,
        required=True,
        help="an environment with the other checkers",
    )
    options = parser.parse_args()
    found = checkers((options.others / "bin").resolve())
    missing = [checker.name for checker in found if not checker.is_installed]
    if missing:
        parser.error(
            f"{options.others} has no {', '.join(missing)}: install them there with pip"
        )
    print(table(found))


if __name__ == "__main__":
    main()
