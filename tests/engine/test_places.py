"""Each kind of mistake is found in each place where programs hide one: ``fixtures/lint/wrong/places``."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.rules import all_rules
from tests.engine.test_cases import CASES, expected

PLACES = CASES / "wrong" / "places"
CODES = {one.code for one in all_rules() if one.code.startswith("ST2")}
#: A slip in a signature is where the signature is, and says nothing of what is called or carried.
SIGNATURES = {"method": {"ST105"}, "nested": {"ST105", "ST106"}, "constant": {"ST105"}}
#: What is no expression of its own: arrays are updated, for nothing, by a statement. And what is wrong for any array is
#: reported where it is written, whoever calls it.
STATEMENTS = {"lambdas": {"ST216"}, "across": {"ST220"}}


@pytest.mark.once
@pytest.mark.parametrize(
    "path", sorted(PLACES.glob("[!_]*.py")), ids=lambda path: path.stem
)
def test_every_kind_of_mistake_is_found_there(path: Path) -> None:
    place = path.stem
    codes = {code for _, code in expected(path)}
    if place == "helpers":  # what is wrong with the calls is reported where they are
        assert codes == set()
        return
    assert codes == (CODES | SIGNATURES.get(place, set())) - STATEMENTS.get(
        place, set()
    )


@pytest.mark.once
def test_no_place_is_missing() -> None:
    wanted = {
        "helper",
        "field",
        "carry",
        "constant",
        "method",
        "nested",
        "lambdas",
        "across",
    }
    assert {path.stem for path in PLACES.glob("[!_]*.py")} == wanted | {"helpers"}
