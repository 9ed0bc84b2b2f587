"""The report file: the same facts as the terminal section, whole, as JSON or as one HTML page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from pathlib import Path

from pytest_shardtypes.coverage import Coverage

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } td, th { border-bottom: 1px solid #bbb; text-align: left;
padding: .25rem .5rem; overflow-wrap: anywhere; } .no { color: #b00020; } .yes { color: #00602b; }
"""


def write(coverage: Coverage, path: Path) -> str:
    """Write the report, making its folder, and say where it is (or why it could not be written)."""
    text = _json(coverage) if path.suffix == ".json" else _html(coverage)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        return f"report not written: {path}: {error.strerror}"
    return f"report: {path}"


def _json(coverage: Coverage) -> str:
    plain = coverage.to_json()
    plain["unreached"] = list(coverage.unreached)
    plain["unverified"] = [list(key) for key in coverage.unverified]
    return json.dumps(plain, indent=2, sort_keys=True) + "\n"


def _html(coverage: Coverage) -> str:
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>shardtypes</title><style>{_STYLE}</style><h1>shardtypes</h1>",
        "<h2>Checks</h2>",
        _table(("kind", "run"), ((kind, str(count)) for kind, count in sorted(coverage.checks.items()))),
        "<h2>Annotated functions</h2>",
        _table(
            ("function", "defined", "calls"),
            ((name, place, str(coverage.functions.get(name, 0))) for name, place in sorted(coverage.declared.items())),
        ),
        "<h2>Sharded dimensions</h2>",
        _table(
            ("function", "parameter", "dimension", "verified on more than one device"),
            (
                (name, role, str(dim), "yes" if verified else "no")
                for (name, role, dim), verified in sorted(coverage.dimensions.items())
            ),
        ),
    ]
    if coverage.not_possible:
        rows = ((reason, str(count)) for reason, count in sorted(coverage.not_possible.items()))
        parts += ["<h2>Checks that were not possible</h2>", _table(("reason", "times"), rows)]
    return "\n".join([*parts, "</html>\n"])


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td{_mark(cell)}>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _mark(cell: str) -> str:
    return f" class={cell}" if cell in ("yes", "no") else ""
