"""Suppression comments: what they cover, and what is said about those that do nothing."""

from __future__ import annotations

import pytest

from shardlint.selection import silenced, wrong_comments
from shardlint.suppress import suppressions
from shardtypes.lang.diagnostics import Diagnostic, Place

MARK = "# shardlint: ignore[ST201] because"


@pytest.mark.parametrize(
    ("text", "line", "covers"),
    [
        (f"x = 1  {MARK}\n", 1, 1),
        (f"{MARK}\nx = 1\n", 1, 2),
        (f"{MARK}\n\n# more\nx = 1\n", 1, 4),
        (f"def f():\n    {MARK}\n    return 1\n", 2, 3),
        (f"x = 1\n{MARK}\n", 2, 2),
        (f"x = 1  # type: ignore[arg-type]  {MARK}\n", 1, 1),
        (f"# why  {MARK}\nx = 1\n", 1, 2),
    ],
)
def test_what_a_comment_covers(text: str, line: int, covers: int) -> None:
    (found,) = suppressions(text)
    assert (found.line, found.covers, found.codes, found.reason) == (
        line,
        covers,
        ("ST201",),
        "because",
    )


def test_text_in_strings_is_no_comment() -> None:
    assert suppressions(f"x = '{MARK}'\ny = '''\n{MARK}\n'''\n") == ()


def test_text_in_comments_is_no_comment() -> None:
    assert suppressions(f"x = 1  # write `{MARK}` to silence it\n") == ()


def test_a_comment_behind_another_begins_where_it_does() -> None:
    text = f"x = 1  # noqa: E501  {MARK}\n"
    (found,) = suppressions(text)
    assert text[found.column - 1 :].startswith("# shardlint")


def test_several_codes() -> None:
    (found,) = suppressions("x = 1 # shardlint: ignore[ST201, ST203]\n")
    assert (found.codes, found.reason) == (("ST201", "ST203"), "")


def test_text_that_does_not_tokenize() -> None:
    (found,) = suppressions(f"x = (\n{MARK}\n")
    assert found.line == 2


def finding(code: str, line: int) -> tuple[Diagnostic, tuple[int, ...]]:
    return Diagnostic(code, "n", "m", Place("f.py", line, 1, line, 2)), (line,)


def outcome(
    text: str, *found: tuple[Diagnostic, tuple[int, ...]], complete: bool = True
) -> tuple[list[str], list[str]]:
    comments = suppressions(text)
    used = [silenced(diagnostic, lines, comments) for diagnostic, lines in found]
    kept = [
        diagnostic.code
        for (diagnostic, _), by in zip(found, used, strict=True)
        if not by
    ]
    extra = wrong_comments(comments, set().union(*used), "f.py", lambda code: complete)
    return kept, [diagnostic.message for diagnostic in extra]


def test_a_used_comment_is_silent() -> None:
    assert outcome(f"x = 1  {MARK}\n", finding("ST201", 1)) == ([], [])


def test_another_line_is_not_covered() -> None:
    kept, extra = outcome(f"x = 1  {MARK}\ny = 2\n", finding("ST201", 2))
    assert kept == ["ST201"]
    assert extra == ["nothing to suppress: ST201 is not reported here; remove it"]


def test_an_incomplete_analysis_calls_nothing_unused() -> None:
    assert outcome(f"x = 1  {MARK}\n", complete=False) == ([], [])


def test_unknown_code() -> None:
    assert outcome("x = 1  # shardlint: ignore[ST2011]\n")[1] == [
        "unknown code 'ST2011' in a suppression; did you mean ST201?"
    ]


@pytest.mark.parametrize("comment", ["ignore", "ignore[]", "disable=ST201", "off"])
def test_anything_else_is_pointed_out(comment: str) -> None:
    assert outcome(f"x = 1  # shardlint: {comment}\n")[1] == [
        "this comment suppresses nothing; write `# shardlint: ignore[ST301] reason`"
    ]
