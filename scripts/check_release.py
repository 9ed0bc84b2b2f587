"""Holds the distributions, and with a tag all that names the release, to each other.

    check_release.py FOLDER [TAG]

Prints what does not agree, one a line, and ends with status 1 if there is anything.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_HEADING = re.compile(r"^## (\S+) – (\S+)$", re.M)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: What users copy: the hook, and the action.
_PINS = re.compile(r"(?:rev: |shardtypes/shardtypes@)v(\d[\w.]*)")
_PAGES = ("README.md", "docs/adopting.md", "docs/tutorials/ci.md")


def main(arguments: Sequence[str]) -> int:
    """Check; gives the exit status."""
    folder, *tags = arguments
    found = list(of_distributions(Path(folder)))
    for tag in tags:
        version = tag.removeprefix("v")
        found += of_release(version, ROOT)
        if version not in versions(Path(folder)):
            found.append(f"the distributions are of another version than {tag}")
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


def versions(folder: Path) -> set[str]:
    """Those of the wheels and source distributions in a folder, as their names have them."""
    names = [path.name for path in folder.iterdir()]
    return {name.removesuffix(".tar.gz").split("-")[1] for name in names}


def of_distributions(folder: Path) -> Iterator[str]:
    """What is wrong with the files in a folder: there are one wheel and one source distribution of one version."""
    names = sorted(path.name for path in folder.iterdir())
    kinds = sorted(name.rpartition(".")[2] for name in names)
    if kinds != ["gz", "whl"]:
        yield f"expected a wheel and a source distribution, got {', '.join(names)}"
    elif len(versions(folder)) != 1:
        yield f"of two versions: {', '.join(names)}"


def newest_release(root: Path) -> tuple[str, str]:
    """The release on top of the changelog, and its date, or that it has none yet.

    Raises:
        ValueError: the changelog begins with no release.
    """
    found = _HEADING.search((root / "CHANGELOG.md").read_text("utf-8"))
    if found is None:
        raise ValueError("CHANGELOG.md has no heading such as: ## 0.1.0 – 2025-01-31")
    return found[1], found[2]


def of_release(version: str, root: Path) -> Iterator[str]:
    """What names another release than this one, or none."""
    newest, date = newest_release(root)
    if newest != version:
        yield f"CHANGELOG.md begins with {newest}"
    elif not _DATE.fullmatch(date):
        yield f"CHANGELOG.md has no date for {version}, but {date!r}"
    for page in _PAGES:
        for pin in set(_PINS.findall((root / page).read_text("utf-8"))):
            if pin != version:
                yield f"{page} names v{pin}"
    manifest = json.loads((root / "editors/vscode/package.json").read_text("utf-8"))
    if manifest["version"] != version:
        yield f"editors/vscode/package.json has version {manifest['version']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
