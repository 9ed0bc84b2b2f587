"""Hooks for mkdocs: what the site has beside the files of docs/, each from the place where it is written.

- addresses from ``pyproject.toml``;
- a page for each rule, with the text that ``shardlint explain`` prints, and their table in place of the long page;
- the JSON schemas, at the addresses that are their ``$id``;
- the changelog, the page for contributors, and the front page's part of the README;
- names above the files of examples, and links wherever a rule is named.
"""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as etree
from pathlib import Path
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from shardlint.addresses import DOCUMENTATION, schema_at
from shardlint.rules import all_rules
from shardlint.rules.base import Rule
from shardlint.rules.pages import anchor, families, index, page
from shardlint.schemas import NAMES, schema_text

ROOT = Path(__file__).resolve().parents[1]
#: Files of the repository that are pages of the site.
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "development.md"}

_EXAMPLE = re.compile(r"^<!-- file: (\S+) -->\n```(\w+)$", re.M)
_OUTSIDE = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)(#[^)]*)?\)")
_OLD_ANCHOR = re.compile(r"rules\.md#(st\d{3})-[\w-]+")
_ADDRESS = re.compile(r"^\[([\w-]+)\]: (\S+)$", re.M)
_REFERENCE = re.compile(r"\]\[([\w-]+)\]")
_PART_OF_README = "<!-- README -->"
_CODE_SPAN = re.compile(r"`[^`\n]*`")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Addresses, the rules in the navigation, links at their codes."""
    urls = _urls()
    config.site_url = urls["Documentation"]
    # as `repo_url` the theme would ask GitHub for its number of stars, from every reader's browser
    config.extra["social"] = [
        {
            "icon": "fontawesome/brands/git-alt",
            "link": urls["Repository"],
            "name": "The repository",
        }
    ]
    for entry in config.nav or []:
        if "Rules" in entry:
            entry["Rules"] = ["rules.md", *map(_of_family, families())]
    config.markdown_extensions.append(LinkedRules())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages, and the schemas, that are no files of docs/."""
    for rule in all_rules():
        name = f"rules/{rule.code}.md"
        files.append(File.generated(config, name, content=page(rule)))
    for name, target in PAGES.items():
        text = _of_repository((ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, target, content=text))
    for name in NAMES:
        path = schema_at(name).removeprefix(DOCUMENTATION)
        files.append(File.generated(config, path, content=schema_text(name)))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """A page as the site has it."""
    if page.file.src_uri == "rules.md":
        markdown = index(_place_of)
    if page.file.src_uri == "index.md":
        markdown = markdown.replace(_PART_OF_README, _start_of_readme())
    markdown = _OLD_ANCHOR.sub(lambda found: f"rules/{found[1].upper()}.md", markdown)
    markdown = _EXAMPLE.sub(r'```\2 title="\1"', markdown)
    return _without_escaped_bars(markdown)


class LinkedRules(Extension):
    """The code of a rule in a text leads to its page."""

    def extendMarkdown(self, md: Markdown) -> None:
        codes = "|".join(rule.code for rule in all_rules())
        md.inlinePatterns.register(_Code(rf"\b({codes})\b"), "rules", 75)


class _Code(InlineProcessor):
    ANCESTOR_EXCLUDES = ("a", "h1", "h2", "h3", "h4")

    def handleMatch(  # type: ignore[override]  # the base gives one more form of the answer
        self, found: re.Match[str], data: str
    ) -> tuple[etree.Element, int, int]:
        link = etree.Element("a", href=f"/rules/{found[1]}.md")
        link.text = found[1]
        return link, found.start(), found.end()


def _urls() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    urls: dict[str, str] = project["urls"]
    return urls


def _of_family(family: tuple[str, tuple[Rule, ...]]) -> dict[str, Any]:
    title, rules = family
    return {title: [f"rules/{rule.code}.md" for rule in rules]}


def _place_of(rule: Rule) -> str:
    """The old address of a rule, a place in the page of all of them, is a row of the table now."""
    link = f"[{rule.code}](rules/{rule.code}.md)"
    return f'<a id="{anchor(rule)}"></a>{link} {rule.name}'


def _start_of_readme() -> str:
    """What the README says before it comes to installing, without its title."""
    text = (ROOT / "README.md").read_text("utf-8")
    body = text.partition("\n## Add it to a project")[0].partition("\n")[2]
    addresses = dict(_ADDRESS.findall(text))
    return _REFERENCE.sub(lambda found: f"]({_here(addresses[found[1]])})", body)


def _here(address: str) -> str:
    """An address of the site as a link inside it: the README has whole ones, so that they hold wherever it is shown."""
    path, mark, place = address.partition("#")
    own = _urls()["Documentation"]
    if not path.startswith(own):
        return address
    page = path.removeprefix(own).rstrip("/")
    return f"{page}.md{mark}{place}"


def _of_repository(text: str) -> str:
    """A page of the repository's own folder with its links as they are from docs/."""

    def linked(found: re.Match[str]) -> str:
        path, place = found[1], found[2] or ""
        if path in PAGES:
            return f"]({PAGES[path]}{place})"
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{place})"
        repository = _urls()["Repository"]
        return f"]({repository}/blob/main/{path}{place})"

    return _OUTSIDE.sub(linked, text)


def _without_escaped_bars(markdown: str) -> str:
    r"""GitHub needs ``\|`` for a bar in the code of a table, Python's Markdown shows the backslash."""
    lines = []
    for line in markdown.split("\n"):
        if line.startswith("|"):
            line = _CODE_SPAN.sub(lambda found: found[0].replace(r"\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)
