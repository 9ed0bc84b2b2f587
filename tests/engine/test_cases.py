"""The programs in ``fixtures/lint``: each finding matches one ``# expect: CODE`` comment, and each comment one finding.

``SHARDLINT_UPDATE_CASES=1`` rewrites the comments to what is found.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

from shardlint.engine import analyze
from shardlint.ir import Module
from shardlint.lower import lower
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.rules import all_rules

CASES = Path(__file__).parents[2] / "fixtures" / "lint"
COMMENT = re.compile(r"\s*# expect: ([A-Z0-9, ]+)$")


@cache
def _lowered(source: bytes, name: str, path: str, package: bool) -> Module:
    return lower(source, name, path, package).module


def project(root: Path) -> Project:
    """All files of a folder."""
    modules = {}
    for other in sorted(root.rglob("*.py")):
        name = ".".join(other.relative_to(root).with_suffix("").parts)
        package = name.endswith("__init__")
        name = name.removesuffix(".__init__")
        modules[name] = _lowered(other.read_bytes(), name, str(other), package)
    return Project(modules)


cases = cache(partial(project, CASES))


def found(files: Project, path: Path) -> Counter[tuple[int, str]]:
    """(line, code) of every finding of one file among others."""
    module = next(m for m in files.modules.values() if m.path == str(path))
    positions = Positions(path.read_bytes(), str(path))
    on = {rule.code for rule in all_rules() if rule.default}
    return Counter(
        (positions.place(e.at).line, e.code)
        for e in analyze(files, module)
        if e.code in on
    )


def expected(path: Path) -> Counter[tuple[int, str]]:
    wanted: Counter[tuple[int, str]] = Counter()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = COMMENT.search(line)
        for code in match.group(1).split(",") if match else ():
            wanted[(number, code.strip())] += 1
    return wanted


def update(path: Path, actual: Counter[tuple[int, str]]) -> None:
    lines = [COMMENT.sub("", line) for line in path.read_text().splitlines()]
    for (number, code), count in sorted(actual.items()):
        mark = "," if "# expect:" in lines[number - 1] else "  # expect:"
        lines[number - 1] += f"{mark} {', '.join([code] * count)}"
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.once
@pytest.mark.parametrize(
    "path", sorted(CASES.rglob("*.py")), ids=lambda p: str(p.relative_to(CASES))
)
def test_findings_match_the_comments(path: Path) -> None:
    actual = found(cases(), path)
    if os.environ.get("SHARDLINT_UPDATE_CASES"):
        update(path, actual)
    assert actual == expected(path)


def test_a_missing_comment_is_noticed(tmp_path: Path) -> None:
    case = tmp_path / "case.py"
    case.write_text(
        "import jax.numpy as jnp\nfrom shardtypes import f32\n\ndef f(x: f32['B M']):\n    return x.sum(2)\n"
    )
    assert found(project(tmp_path), case) != expected(case)
    update(case, found(project(tmp_path), case))
    assert (
        found(project(tmp_path), case) == expected(case) == Counter({(5, "ST208"): 1})
    )


def test_right_programs_carry_no_comment() -> None:
    assert not any(expected(path) for path in (CASES / "right").rglob("*.py"))
