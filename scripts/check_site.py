"""Holds the built site against itself: every link inside it leads to a page, and to a place that the page has.

    check_site.py FOLDER

Prints what leads nowhere, one a line, and ends with status 1 if there is anything.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]


class Links(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


def broken(site: Path, address: str) -> Iterator[str]:
    """What leads nowhere in a site that is to be served at an address."""
    start = urlsplit(address)

    @cache
    def places(page: Path) -> set[str]:
        return Links(page.read_text("utf-8")).places

    for page in sorted(site.rglob("*.html")):
        for target in Links(page.read_text("utf-8")).targets:
            link = urlsplit(target)
            if link.netloc not in ("", start.netloc) or link.scheme in _NO_PAGES:
                continue
            path = unquote(link.path)
            if path.startswith(start.path):
                found = site / path.removeprefix(start.path)
            else:
                found = page.parent / path if path else page
            if found.is_dir():
                found = found / "index.html"
            name = page.relative_to(site)
            if not found.is_file():
                yield f"{name}: {target}: no such page"
            elif link.fragment and found.suffix == ".html":
                if unquote(link.fragment) not in places(found.resolve()):
                    yield f"{name}: {target}: no such place in the page"


_NO_PAGES = ("mailto", "data", "javascript")


def main() -> int:
    (folder,) = map(Path, sys.argv[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = list(broken(folder, project["urls"]["Documentation"]))
    sys.stdout.write("".join(f"{one}\n" for one in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
