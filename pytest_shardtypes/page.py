"""The HTML report: one file without scripts or outside resources, for a screen, a phone and paper."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from pytest_shardtypes import drawing, sources
from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.reasons import reasons

SLOWEST = 20
DRAWINGS = 24

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --yes: #00602b; --no: #b00020; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --yes: #6fd49a; --no: #ff8a9a; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h4 { margin: 1rem 0 .25rem; } small { font-weight: normal; }
ul.tiles { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); padding: 0; }
ul.tiles li { list-style: none; padding: .75rem; border: 1px solid var(--line); border-radius: .5rem; }
ul.tiles b { display: block; font-size: 1.6rem; }
.yes { color: var(--yes); } .no { color: var(--no); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); text-align: left; padding: .25rem .5rem; vertical-align: top; }
th { white-space: nowrap; } td { overflow-wrap: normal; } td code { overflow-wrap: anywhere; }
pre { overflow-x: auto; margin: 0; padding: .5rem; background: var(--soft); border-radius: .5rem;
  font: 14px/1.45 ui-monospace, monospace; overflow-wrap: normal; }
.number { opacity: .55; user-select: none; }
mark { background: none; font-weight: bold; text-decoration: underline; } mark.no { text-decoration-style: wavy; }
mark.yes { color: var(--yes); } mark.no { color: var(--no); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; } nav label { margin-left: auto; }
tfoot td { font-weight: bold; } td.of { white-space: nowrap; } th.of { white-space: normal; }
body:has(#missing:checked) .complete { display: none; }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); }
figure { margin: 0; min-width: 0; } svg { print-color-adjust: exact; }
@media print { nav { display: none; } }
@media print { body { max-width: none; font-size: 11pt; } pre { white-space: pre-wrap; } h2, h4 { break-after: avoid; }
  figure, tr, li { break-inside: avoid; } .scroll { overflow: visible; } }
"""


_FILTER = "<label><input type=checkbox id=missing> only what is missing</label>"


def page(coverage: Coverage, root: Path) -> str:
    """The whole page. ``root`` shortens the names of files."""
    sections = [
        ("Files", _files(coverage, root)),
        ("Never verified", _unverified(coverage)),
        ("Checks that failed", _failures(coverage)),
        ("Sources", _sources(coverage, root)),
        ("Layouts that were verified", _layouts(coverage)),
        ("Collectives by test", _collectives(coverage, root)),
        ("Arrays on the devices", _intermediates(coverage)),
        ("Functions traced", _verdicts("function", coverage.traced)),
        ("Mapped functions compared", _verdicts("call", coverage.proved)),
        ("Laws of dimensions", _verdicts("law", coverage.laws)),
        ("Slowest checks", _slowest_checks(coverage)),
        ("Slowest tests and traces", _slowest(("test", "seconds"), coverage.seconds)),
        ("Checks that were not possible", _not_possible(coverage)),
    ]
    there = [(title, content) for title, content in sections if content]
    body = "\n".join(
        f"<section id={_anchor(title)}><h2>{title}</h2>\n{content}</section>"
        for title, content in there
    )
    links = "".join(f"<a href=#{_anchor(title)}>{title}</a>" for title, _ in there)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>Sharding coverage of {escape(root.name)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>Sharding coverage of {escape(root.name)}</h1>\n{_tiles(coverage)}\n"
        f"<nav>{links}{_FILTER}</nav>\n{body}\n</body></html>\n"
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _tiles(coverage: Coverage) -> str:
    dimensions, declared = len(coverage.dimensions), len(coverage.declared)
    holding = sum(verdict == "passed" for verdict in coverage.traced.values())
    tiles = [
        (
            "sharded dimensions verified on a mesh axis larger than 1",
            dimensions - len(coverage.unverified),
            dimensions,
        ),
        (
            "annotated functions that tests called",
            declared - len(coverage.unreached),
            declared,
        ),
        (
            "annotated functions that hold when traced for all sizes",
            holding,
            len(coverage.traced),
        ),
    ]
    items = [
        f"<li><b class={'yes' if count == total else 'no'}>{count} of {total}</b>{text}</li>"
        for text, count, total in tiles
        if total
    ]
    items += [
        f"<li><b>{count}</b>{escape(kind)} checks</li>"
        for kind, count in sorted(coverage.checks.items())
    ]
    return f"<ul class=tiles>{''.join(items)}</ul>"


def _unverified(coverage: Coverage) -> str:
    rows = []
    for name, role, dim, axis in coverage.unverified:
        found = reasons(coverage, (name, role, dim, axis))
        where = f"{escape(role)}, dimension {dim} over <code>{escape(axis)}</code>"
        row = (
            f"<code>{escape(name)}</code>",
            where,
            "<br>".join(map(escape, found)),
        )
        rows.append(row)
    if not rows:
        return ""
    why = "No test compared these on a mesh where the axis is larger than 1: nothing says that they are sharded so."
    header = ("function", "where", "why")
    return f"<p>{why}</p>{_table(header, rows)}"


def _failures(coverage: Coverage) -> str:
    rows = [
        (
            f"<code>{escape(name)}</code>",
            escape(role),
            escape(message),
            str(count),
        )
        for (name, role, message), count in sorted(coverage.failures.items())
    ]
    if not rows:
        return ""
    return _table(("function", "where", "what was wrong", "times"), rows)


def _files(coverage: Coverage, root: Path) -> str:
    """The totals of each file, with a link to its functions."""
    totals = [
        (path, sources.totals_of(functions.values(), coverage))
        for path, functions in sources.files(coverage).items()
    ]
    if not totals:
        return ""
    rows = "\n".join(
        f"<tr{_complete(total)}><td><a href=#{_file_anchor(number)}>{escape(sources.shown(path, root))}</a></td>"
        f"{_cells(total)}</tr>"
        for number, (path, total) in enumerate(totals)
    )
    everything = sources.totals_of(coverage.declared, coverage)
    names = ("file", "functions called", "sharded dimensions verified")
    head = "".join(f"<th class=of>{name}</th>" for name in names)
    return (
        f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody>"
        f"<tfoot><tr><td>all</td>{_cells(everything)}</tr></tfoot></table></div>"
    )


def _cells(total: sources.Totals) -> str:
    pairs = [(total.called, total.declared), (total.verified, total.dimensions)]
    return "".join(
        f"<td class='of {'yes' if part == whole else 'no'}'>{_share(part, whole)}</td>"
        for part, whole in pairs
    )


def _share(part: int, whole: int) -> str:
    if not whole:
        return "none there"
    # rounded down: one of many that is missing is seen
    return f"{part} of {whole} ({100 * part // whole}%)"


def _complete(total: sources.Totals) -> str:
    return " class=complete" if total.is_complete else ""


def _file_anchor(number: int) -> str:
    return f"file-{number}"


def _sources(coverage: Coverage, root: Path) -> str:
    parts = []
    for number, (path, functions) in enumerate(sources.files(coverage).items()):
        total = sources.totals_of(functions.values(), coverage)
        parts.append(
            f"<div id={_file_anchor(number)}{_complete(total)}><h3>{escape(sources.shown(path, root))}</h3>\n"
            f"{sources.source(Path(path), functions, coverage)}</div>"
        )
    return "".join(parts)


def _layouts(coverage: Coverage) -> str:
    users: dict[tuple[str, str], list[str]] = {}
    for name, role, annotation, mesh in coverage.layouts:
        if drawing.is_split(annotation, mesh):
            users.setdefault((annotation, mesh), []).append(f"{name}, {role}")
    figures = [
        drawing.draw(annotation, mesh).replace(
            "</figure>",
            f"<p><small>{'; '.join(map(escape, sorted(names)))}</small></p></figure>",
        )
        for (annotation, mesh), names in sorted(users.items())[:DRAWINGS]
    ]
    if not figures:
        return ""
    more = len(users) - len(figures)
    rest = f"<p>And {more} more.</p>" if more else ""
    return f"<p>Each part with the devices that hold it.</p><div class=figures>{''.join(figures)}</div>{rest}"


def _collectives(coverage: Coverage, root: Path) -> str:
    folder = f"{root}{os.sep}"
    rows = [
        (
            f"<code>{escape(test)}</code>",
            "<br>".join(escape(line.replace(folder, "")) for line in lines) or "none",
        )
        for test, lines in sorted(coverage.collectives.items())
    ]
    return (
        _table(("test", "collectives that the compiler inserted"), rows) if rows else ""
    )


def _intermediates(coverage: Coverage) -> str:
    parts = []
    for name, rows in sorted(coverage.intermediates.items()):
        verdict = coverage.proved.get(name, "").partition(":")[0]
        mark = {"proved": "yes", "refuted": "no"}.get(verdict, "")
        cells = [
            (
                escape(place),
                f"<code>{escape(array)}</code>",
                f"<code>{escape(line)}</code>"
                + (f"<br><small>{escape(remark)}</small>" if remark else ""),
            )
            for place, array, line, remark in rows
        ]
        table = _table(("line", "array", "computed by"), cells)
        parts.append(
            f"<h4><code>{escape(name)}</code> <small class='{mark}'>{escape(verdict)}</small></h4>{table}"
        )
    if not parts:
        return ""
    why = "What each line of a mapped function computes on the devices, as related to what one device computes."
    return f"<p>{why}</p>{''.join(parts)}"


#: The words of verdicts, with the class of their mark.
_WORDS = {
    "passed": ("holds", "yes"),
    "failed": ("fails", "no"),
    "proved": ("proved", "yes"),
    "refuted": ("refuted", "no"),
}


def _verdicts(what: str, verdicts: Mapping[str, str]) -> str:
    """A verdict a row, with its reason: the numbers, and the lines that lead there."""
    rows = []
    for name, text in sorted(verdicts.items()):
        verdict, _, reason = text.partition(": ")
        word, mark = _WORDS.get(verdict, (verdict, ""))
        shown = f"<pre>{escape(reason)}</pre>" if "\n" in reason else escape(reason)
        cells = (f"<code>{escape(name)}</code>", f"<span class='{mark}'>{word}</span>")
        rows.append((*cells, shown))
    return _table((what, "verdict", "why"), rows) if rows else ""


def _slowest(header: tuple[str, str], spent: Mapping[str, float]) -> str:
    ordered = sorted(spent.items(), key=lambda entry: -entry[1])[:SLOWEST]
    rows = [
        (f"<code>{escape(name)}</code>", f"{seconds:.2f}") for name, seconds in ordered
    ]
    return _table(header, rows) if rows else ""


def _slowest_checks(coverage: Coverage) -> str:
    slowest = sorted(coverage.checking.items(), key=lambda entry: -entry[1])[:SLOWEST]
    rows = [
        (
            f"<code>{escape(name)}</code>",
            f"{seconds * 1e3:.2f}",
            str(coverage.functions.get(name, 0) or "–"),
        )
        for name, seconds in slowest
    ]
    if not rows:
        return ""
    why = (
        "What the checks of a function took, but for calls that its own checker passes, in a microsecond or two. Under "
        "jit on Auto mesh axes they compile it once more."
    )
    return f"<p>{why}</p>{_table(('function', 'milliseconds', 'calls'), rows)}"


def _not_possible(coverage: Coverage) -> str:
    rows = [
        (escape(reason), str(count))
        for reason, count in sorted(coverage.not_possible.items())
    ]
    return _table(("reason", "times"), rows) if rows else ""


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
