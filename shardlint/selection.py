"""Which findings are shown: selected rules, per-file ignores, suppression comments, and what those did in vain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from shardlint import ir, messages, patterns
from shardlint.config import Config, ConfigError
from shardlint.discovery import shown
from shardlint.rules import all_rules
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place

#: Codes of findings that the command itself makes.
UNUSED, UNPARSABLE, UNKNOWN = "ST901", "ST902", "ST903"
_OWN = {UNUSED: "unused-suppression", UNPARSABLE: "unparsable-file", UNKNOWN: "unknown-code"}


def known_codes() -> dict[str, str]:
    """Every code with its name."""
    return _OWN | {rule.code: rule.name for rule in all_rules()}


def is_known(selector: str) -> bool:
    """Is this ALL, a code, or the beginning of a code?"""
    return selector == "ALL" or (selector != "" and any(code.startswith(selector) for code in known_codes()))


def require_known(selectors: Iterable[str], where: str) -> None:
    """Raises ``ConfigError`` at the first selector that means no rule."""
    for selector in selectors:
        if not is_known(selector):
            raise ConfigError("", messages.bad_code(selector, where))


@dataclass(frozen=True, slots=True)
class Selection:
    """The codes that are on, and the settings that switch some off for some files."""

    codes: frozenset[str]
    config: Config

    @classmethod
    def of(cls, config: Config) -> Selection:
        off = {rule.code for rule in all_rules() if not rule.default}
        on = {c for c in known_codes() if (_chosen(c, config.select) if config.select else c not in off)}
        # A beginning of codes does not switch on what is off by default; its own code does.
        on -= off - set(config.select)
        return cls(frozenset(c for c in on if not _chosen(c, config.ignore)), config)

    def on(self, code: str, path: Path) -> bool:
        """Is ``code`` reported in this file?"""
        return code in self.codes and not any(
            _chosen(code, codes) and patterns.matches(path, (pattern,), self.config.root)
            for pattern, codes in self.config.per_file_ignores
        )

    def keep(self, path: Path, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        return [d for d in found if self.on(d.code, path)]

    def keep_pairs(
        self, path: Path, found: Iterable[tuple[Diagnostic, tuple[int, ...]]]
    ) -> list[tuple[Diagnostic, tuple[int, ...]]]:
        return [(d, lines) for d, lines in found if self.on(d.code, path)]


def _chosen(code: str, selectors: Iterable[str]) -> bool:
    return any(s == "ALL" or code.startswith(s) for s in selectors)


def suppressed(
    found: Sequence[tuple[Diagnostic, tuple[int, ...]]],
    comments: Sequence[ir.Suppression],
    path: str,
    selection: Selection,
    complete: bool,
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The findings that no comment silences, and what is wrong with the comments.

    ``found`` has each finding with the lines on which a comment silences it. Where the analysis was not ``complete``
    no comment is called unused.
    """
    used: set[tuple[int, str]] = set()
    kept = []
    for diagnostic, lines in found:
        hits = [c for c in comments if c.covers in lines and diagnostic.code in c.codes]
        used.update((c.line, diagnostic.code) for c in hits)
        if not hits:
            kept.append(diagnostic)
    extra = []
    codes = known_codes()
    for comment in comments:
        place = Place(path, comment.line, comment.column, comment.line, comment.end_column)
        if not comment.codes:
            extra.append(Diagnostic(UNKNOWN, _OWN[UNKNOWN], messages.malformed_suppression(), place))
        for code in comment.codes:
            if code not in codes:
                close = [c for c in codes if code.startswith(c)] or get_close_matches(code, codes, n=1)
                text = messages.unknown_suppressed_code(code, close[0] if close else None)
                extra.append(Diagnostic(UNKNOWN, _OWN[UNKNOWN], text, place))
            elif complete and code in selection.codes and code not in _OWN and (comment.line, code) not in used:
                text = messages.unused_suppression(code)
                fix = _removal(place) if len(comment.codes) == 1 else None
                extra.append(Diagnostic(UNUSED, _OWN[UNUSED], text, place, fix=fix))
    return kept, extra


def _removal(place: Place) -> Fix:
    return Fix("remove the suppression", "safe", (Edit(place, ""),))


def config_findings(config: Config) -> list[Diagnostic]:
    """Codes in the settings file that mean no rule."""
    if config.source is None:
        return []
    lines = config.source.read_text(encoding="utf-8").splitlines()
    name = shown(config.source)
    found = []
    keys = [("select", config.select), ("ignore", config.ignore)]
    keys += [(f"per-file-ignores.{pattern}", codes) for pattern, codes in config.per_file_ignores]
    for key, codes in keys:
        for code in codes:
            if not is_known(code):
                text = messages.unknown_configured_code(code, key)
                found.append(Diagnostic(UNKNOWN, _OWN[UNKNOWN], text, _quoted(lines, code, name)))
    return found


def _quoted(lines: Sequence[str], word: str, path: str) -> Place:
    for number, line in enumerate(lines, 1):
        for quote in ('"', "'"):
            column = line.find(f"{quote}{word}{quote}")
            if column >= 0:
                return Place(path, number, column + 1, number, column + len(word) + 3)
    return Place(path, 1, 1, 1, 1)
