"""The documentation as a site: it builds without a warning, links lead to what is there, nothing public is left out."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import shardlint
import shardtypes.laws
from pytest_shardtypes import fixtures
from scripts.check_site import Links, broken
from shardlint.addresses import DOCUMENTATION, rule_page, schema_at
from shardlint.rules import all_rules
from shardlint.rules.pages import FAMILIES, anchor
from shardlint.schemas import NAMES, schema_text
from shardtypes import _DTYPES
from tests.support import ROOT, run

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this tree, where a warning ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NO_MKDOCS_2_WARNING": "1",  # an advertisement, in what is shown of a failure
    }
    done = run([*command, "--site-dir", folder], ROOT, environment, together=True)
    assert done.returncode == 0, done.stdout
    return folder


def text_of(page: Path) -> str:
    """The text of a page, its spaces made one."""
    words = re.sub(r"<[^>]+>", "", page.read_text("utf-8"))
    return " ".join(html.unescape(words).split())


def page_at(site: Path, address: str) -> Path:
    """The file that an address leads to, where the site is served from."""
    assert address.startswith(DOCUMENTATION)
    return site / address.removeprefix(DOCUMENTATION) / "index.html"


def test_links_lead_to_what_is_there(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(all_rules()) + 30
    assert list(broken(site, DOCUMENTATION)) == []


def test_links_of_the_readme_lead_to_its_pages(site: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    addresses = re.findall(rf"^\[[\w-]+\]: ({DOCUMENTATION}\S*)$", text, re.M)
    assert len(addresses) > 20
    for address in addresses:
        page, _, place = address.partition("#")
        path = page_at(site, page)
        assert path.is_file(), address
        if place:
            assert place in Links(path.read_text("utf-8")).places, address


def test_every_rule_has_its_page(site: Path) -> None:
    for rule in all_rules():
        text = text_of(page_at(site, rule_page(rule.code)))
        assert f"{rule.code} {rule.name}" in text
        docs = rule.docs()
        for title, _ in docs.sections:
            assert title in text, rule.code
        for title in ("Example", "Use instead"):
            assert " ".join(docs.program(title).split()) in text, rule.code


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_at_its_address(site: Path, name: str) -> None:
    """What its ``$id`` says, where editors and validators look for it."""
    text = schema_text(name)
    address = json.loads(text)["$id"]
    assert address == schema_at(name)
    assert address.startswith(DOCUMENTATION)
    published = site / address.removeprefix(DOCUMENTATION)
    assert published.read_text("utf-8") == text


def test_the_index_has_the_rules_by_family_and_their_old_places(site: Path) -> None:
    index = site / "rules" / "index.html"
    links = Links(index.read_text("utf-8"))
    text = text_of(index)
    for title in FAMILIES.values():
        assert title in text
    for rule in all_rules():
        assert anchor(rule) in links.places
        assert f"{rule.code}/" in links.targets


def test_a_code_in_a_text_leads_to_its_page(site: Path) -> None:
    links = Links((site / "tutorials" / "explicit-axes" / "index.html").read_text())
    assert "../../rules/ST310/" in links.targets


def test_the_reference_has_all_that_is_public(site: Path) -> None:
    names = {
        "shardtypes": set(shardtypes.__all__) - set(_DTYPES) - {"laws", "lang"},
        "laws": set(shardtypes.laws.__all__),
        "shardlint": set(shardlint.__all__),
    }
    modules = {"laws": "shardtypes.laws"}
    for page, expected in names.items():
        places = Links((site / "reference" / page / "index.html").read_text()).places
        module = modules.get(page, page)
        assert {f"{module}.{name}" for name in expected} <= places


def test_the_reference_has_all_fixtures(site: Path) -> None:
    source = Path(fixtures.__file__).read_text("utf-8")
    names = re.findall(r"^@pytest\.fixture\ndef (\w+)", source, re.M)
    assert "mesh" in names and "assert_collectives" in names
    places = Links((site / "reference" / "fixtures" / "index.html").read_text()).places
    assert {f"pytest_shardtypes.fixtures.{name}" for name in names} <= places


def test_the_pages_of_the_repository_are_in_it(site: Path) -> None:
    assert "Shape and sharding of JAX arrays in one annotation" in text_of(
        site / "index.html"
    )
    assert "0.1.0 – unreleased" in text_of(site / "changelog" / "index.html")
    assert "Where things are" in text_of(site / "development" / "index.html")


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No fonts, no scripts, no pictures: a reader's browser asks the site alone."""
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link rel=\"stylesheet\")[^>]*(?:src|href)=\"([^\"]+)\"",
            page.read_text("utf-8"),
        )
        assert [one for one in loaded if urlsplit(one).netloc] == [], page
        # for which the theme's script would ask GitHub
        assert 'data-md-component="source"' not in page.read_text("utf-8"), page


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("b/", None),
        ("b/#here", None),
        ("/docs/b/", None),
        ("https://elsewhere.org/nothing", None),
        ("c/", "a.html: c/: no such page"),
        ("/docs/c/", "a.html: /docs/c/: no such page"),
        ("https://x.org/docs/c", "a.html: https://x.org/docs/c: no such page"),
        ("b/#there", "a.html: b/#there: no such place in the page"),
        ("#there", "a.html: #there: no such place in the page"),
    ],
)
def test_a_link_that_leads_nowhere_is_told(
    tmp_path: Path, link: str, said: str | None
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.html").write_text(f'<a href="{link}">A</a>')
    assert list(broken(tmp_path, "https://x.org/docs/")) == ([said] if said else [])
