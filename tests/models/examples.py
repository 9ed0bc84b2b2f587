"""The example models of ``fixtures/models`` and the bugs that are documented for them."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).resolve().parents[2] / "fixtures" / "models"
NAMES = ("transformer", "flax_logical", "pmap_classifier", "equinox_jaxtyping")

# How a test run shows a bug: an annotation is violated, JAX refuses, a test of the model fails, or nothing happens.
OUTCOMES = ("check", "jax", "test", "silent")


@dataclass(frozen=True)
class Bug:
    """One edit of a correct model, and who is expected to see it.

    ``at`` is text found on exactly one line of the edited file: the line on which static tools report. Where they
    report in other places instead, ``elsewhere`` names them: a file, a colon, and text on one of its lines. What the
    linter reports ``besides`` is a code, a space, and such a place.
    """

    model: str
    name: str
    what: str
    file: str
    find: str
    replace: str
    family: str
    at: str
    shardlint: tuple[str, ...]
    pytest: str
    elsewhere: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.model}/{self.name}"

    def apply(self, project: Path) -> int:
        """Edit the copy in ``project``; the 1-based line on which the bug is to be reported."""
        path = project / self.file
        before = path.read_text()
        if before.count(self.find) != 1:
            raise ValueError(
                f"{self.id}: find occurs {before.count(self.find)} times in {self.file}, not once"
            )
        after = before.replace(self.find, self.replace)
        lines = [
            number
            for number, line in enumerate(after.splitlines(), 1)
            if self.at in line
        ]
        if len(lines) != 1:
            raise ValueError(
                f"{self.id}: expect.at is on lines {lines} of the edited {self.file}, not on one"
            )
        path.write_text(after)
        return lines[0]

    def findings(self, project: Path, line: int) -> set[tuple[str, str, int]]:
        """(code, file, line) of what the linter is to report in the edited copy; ``line`` is what ``apply`` gave."""
        places = {self._place(project, place) for place in self.elsewhere} or {
            (self.file, line)
        }
        found = {(code, *place) for code in self.shardlint for place in places}
        for one in self.besides:
            code, _, place = one.partition(" ")
            found.add((code, *self._place(project, place)))
        return found

    def _place(self, project: Path, place: str) -> tuple[str, int]:
        """The file and the line of a place as ``elsewhere`` names it."""
        file, _, text = place.partition(":")
        lines = [
            n
            for n, one in enumerate((project / file).read_text().splitlines(), 1)
            if text in one
        ]
        if len(lines) != 1:
            raise ValueError(
                f"{self.id}: {text!r} is on lines {lines} of {file}, not on one"
            )
        return file, lines[0]


def load(path: Path) -> Bug:
    """Read one bug file; a missing or unknown key is an error."""
    data = tomllib.loads(path.read_text())
    expect = data.pop("expect")
    bug = Bug(
        model=path.parents[1].name,
        name=path.stem,
        shardlint=tuple(expect.pop("shardlint")),
        elsewhere=tuple(expect.pop("elsewhere", ())),
        besides=tuple(expect.pop("besides", ())),
        **data,
        **expect,
    )
    if bug.family not in ("shape", "sharding"):
        raise ValueError(f"{path}: unknown family")
    if bug.pytest not in OUTCOMES:
        raise ValueError(f"{path}: expect.pytest is one of {', '.join(OUTCOMES)}")
    return bug


def bugs(model: str | None = None) -> list[Bug]:
    """All documented bugs, or those of one model, in the order of their names."""
    return [
        load(path)
        for name in NAMES
        if model in (None, name)
        for path in sorted(MODELS.glob(f"{name}/bugs/*.toml"))
    ]


def copy(model: str, to: Path) -> Path:
    """A copy of a model's project that may be edited."""
    ignore = shutil.ignore_patterns("__pycache__", ".*cache*")
    return Path(shutil.copytree(MODELS / model, to / model, ignore=ignore))
