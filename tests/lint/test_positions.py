"""Places of nodes, and of parts of string literals."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ir
from shardlint.lower import lower
from shardlint.positions import Positions


def literal(source: str) -> tuple[Positions, int]:
    """Positions of a program ``x = LITERAL`` and the literal's number."""
    data = source.encode()
    (statement,) = lower(data, "m", "m.py").module.body
    assert isinstance(statement, ir.Assign)
    return Positions(data, "m.py"), statement.value.at


@pytest.mark.parametrize(
    ("source", "start", "end", "want"),
    [
        ("x = 'B/d L'", 4, 5, (1, 10, 1, 11)),
        ("x = b'B/d L'", 4, 5, (1, 11, 1, 12)),
        ("x = rb'B/d L'", 0, 3, (1, 8, 1, 11)),
        ('x = """B/d L"""', 4, 5, (1, 12, 1, 13)),
        ('x = """\n  B\n  L"""', 7, 8, (3, 3, 3, 4)),
        ("x = 'B\\x2fd L'", 4, 5, (1, 13, 1, 14)),
        ("x = 'B\\x2fd L'", 1, 2, (1, 7, 1, 11)),
        ("x = 'B \\\n L'", 3, 4, (2, 2, 2, 3)),
        ("x = r'\\B L'", 3, 4, (1, 10, 1, 11)),
        ("x = 'B\\N{SOLIDUS}d L'", 4, 5, (1, 20, 1, 21)),
        ("x = ('B/d'\n  ' L')", 4, 5, (2, 5, 2, 6)),
        ("x = 'B' 'L'", 0, 2, (1, 6, 1, 11)),
        ("x = 'ä L'", 2, 3, (1, 8, 1, 9)),
        ("x = 'B L'", 3, 3, (1, 9, 1, 10)),
        ("x = ''", 0, 0, (1, 6, 1, 7)),
    ],
)
def test_inside_a_literal(
    source: str, start: int, end: int, want: tuple[int, int, int, int]
) -> None:
    positions, at = literal(source)
    place = positions.within(at, start, end)
    assert (place.line, place.column, place.end_line, place.end_column) == want


_PIECES = [
    "B",
    "/d",
    " ",
    "\\n",
    "\\x41",
    "\\u00e9",
    "\\101",
    "\\q",
    "\\\\",
    "ä",
    "\\N{BULLET}",
    "\\\n",
    "\n",
]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "r", "b", "rb", "u"]),
            st.sampled_from(["'''", '"""']),
            st.lists(st.sampled_from(_PIECES), max_size=6),
        ),
        min_size=1, max_size=3,
    )
)  # fmt: skip
def test_every_character_of_a_value_has_its_place(
    parts: list[tuple[str, str, list[str]]],
) -> None:
    """The units of the literal, evaluated one by one, give its value back."""
    is_bytes = "b" in parts[0][0]
    texts = []
    for prefix, quote, pieces in parts:
        kind = (
            "rb"
            if is_bytes and "r" in prefix
            else "b"
            if is_bytes
            else prefix.replace("b", "")
        )
        body = "".join(p for p in pieces if not (is_bytes and ("ä" in p)))
        if not (len(body) - len(body.rstrip("\\"))) % 2:
            texts.append(f"{kind}{quote}{body}{quote}")
    source = f"x = ({' '.join(texts)})\n" if texts else "x = ''\n"
    with warnings.catch_warnings():
        # Unknown escapes are part of the test.
        warnings.simplefilter("ignore")
        value = ast.literal_eval(source[4:].strip())
    positions, at = literal(source)
    lines = source.split("\n")
    for index, character in enumerate(value):
        place = positions.within(at, index, index + 1)
        if place.line == place.end_line:
            unit = lines[place.line - 1][place.column - 1 : place.end_column - 1]
            wanted = chr(character) if isinstance(character, int) else character
            assert unit == wanted or (
                unit.startswith("\\") and ast.literal_eval(f"'{unit}'") == wanted
            )
    assert len(value) == len(list(positions._characters(positions._nodes[at])))  # type: ignore[arg-type]  # a literal


def test_a_definition_is_placed_at_its_name() -> None:
    data = b"@deco\ndef name(x):\n    return x\n"
    (function,) = lower(data, "m", "m.py").module.body
    place = Positions(data, "m.py").place(function.at)
    assert (place.line, place.column, place.end_column) == (2, 5, 9)


def test_a_made_up_node_is_placed_at_the_start() -> None:
    assert Positions(b"x = 1\n", "m.py").place(-1).line == 1
