"""What type checkers that know nothing of shapes tell of each form of an annotation, in the same program.

    python -m venv others
    others/bin/pip install pyright basedpyright ty pyrefly
    python -m benchmarks.checkers --others others

prints two tables: the errors of each checker in ``fixtures/checkers/model.py``, and what it takes an array for; and its
errors in the example models of ``fixtures/models``, converted into each form, beyond those that it has where each
annotation is a plain ``jax.Array``. mypy is that of the environment which runs this, without the plugin.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardlint.converting.files import convert
from shardlint.converting.finding import Finder
from shardlint.converting.names import Names
from shardlint.converting.texts import Spans
from shardlint.edits import replaced

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "fixtures" / "models"
#: The packages of the example models. The last one is annotated with jaxtyping, which is converted into no form.
PACKAGES = ("transformer", "flax_logical", "pmap_classifier", "equinox_jaxtyping")
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
#: The same forms, as ``shardlint convert --to`` calls them.
_CONVERTED = ("array", "annotated", "short")

#: Where in a file an error is, which depends on the form.
_POSITION = re.compile(r":\d+(:\d+)?(-\d+(:\d+)?)?")
_JAXTYPING = re.compile(r"(?:Float|Bool|Int|Key|UInt32)\[(Array), \"[^\"]*\"\]")


def plain_arrays(text: str) -> str:
    """A program in which each annotation of an array is ``jax.Array``."""
    program = convert(text, "array").text
    tree = ast.parse(program)
    spans = Spans(program)
    finder = Finder(Names.of(tree), spans, "array")
    finder.visit(tree)
    changes = []
    for one in finder.found:
        assert one.array is not None
        start, end = one.spans.of(one.array)
        changes.append((*one.spans.of(one.node), program[start:end]))
    return _JAXTYPING.sub(r"\1", replaced(program, changes))


def converted(form: str) -> Callable[[str], str]:
    """What writes a program in a form."""

    def change(text: str) -> str:
        made = convert(text, form)
        if made.refusals:
            raise RuntimeError(f"cannot convert to {form}: {made.refusals}")
        return made.text

    return change


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
        told = self._run(file)
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

    def errors_in(self, package: Path) -> Counter[str]:
        """The errors in the files of a folder, without their places."""
        told = self._run(package)
        if told.returncode not in (0, 1):
            raise RuntimeError(f"{self.name} failed: {told.stdout}{told.stderr}")
        text = told.stdout.replace(f"{package.parent}{os.sep}", "")
        found = [line for line in text.splitlines() if self.error in line]
        return Counter(_POSITION.sub("", line.strip()) for line in found)

    def _run(self, path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, path.name],
            cwd=path.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


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


def table_of_models(found: list[Checker], shows_errors: bool = False) -> str:
    """Errors in the example models beyond those with plain arrays, by checker and form."""
    heads = [f"`{form}`" for form in FORMS]
    rows = [["checker", *heads], ["---"] * (len(heads) + 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = _packages(folder / "plain", plain_arrays)
        forms = [_packages(folder / form, converted(form)) for form in _CONVERTED]
        for checker in found:
            known = [checker.errors_in(one) for one in plain]
            cells = []
            for packages in forms:
                more: Counter[str] = Counter()
                for package, before in zip(packages, known, strict=True):
                    more += checker.errors_in(package) - before
                if shows_errors:
                    print(checker.name, packages[0].parent.name, *more, sep="\n  ")
                cells.append(str(more.total()))
            rows.append([checker.name, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _packages(folder: Path, change: Callable[[str], str]) -> list[Path]:
    """Copies of the models' packages, changed."""
    made = []
    for name in PACKAGES:
        package = folder / name
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(MODELS / name / name, package, ignore=ignore)
        for file in package.rglob("*.py"):
            file.write_text(change(file.read_text()))
        made.append(package)
    return made


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description="errors of type checkers by form of the annotations"
    )
    parser.add_argument(
        "--others",
        type=Path,
        required=True,
        help="an environment with the other checkers",
    )
    parser.add_argument(
        "--show", action="store_true", help="print the errors in the models"
    )
    options = parser.parse_args()
    found = checkers((options.others / "bin").resolve())
    missing = [checker.name for checker in found if not checker.is_installed]
    if missing:
        parser.error(
            f"{options.others} has no {', '.join(missing)}: install them there with pip"
        )
    print(table(found))
    print()
    print(table_of_models(found, options.show))


if __name__ == "__main__":
    main()
