"""Which findings are shown: selected rules, per-file ignores, suppression comments, and what those did in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
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
#: Codes that running a program reports, of the files that it imports too.
REPORTED_BY_RUNS = frozenset(
    "ST104 ST204 ST210 ST301 ST303 ST305 ST306 ST308 ST316 ST317 ST318 ST319".split()
)
_OWN = {
    UNUSED: "unused-suppression",
    UNPARSABLE: "unparsable-file",
    UNKNOWN: "unknown-code",
}


def known_codes() -> dict[str, str]:
    """Every code with its name."""
    return _OWN | {rule.code: rule.name for rule in all_rules()}


def is_own(code: str) -> bool:
    """Is this the code of a finding that the command itself makes? No comment silences one."""
    return code in _OWN


def is_known(selector: str) -> bool:
    """Is this ALL, a code, or the beginning of a code?"""
    return selector == "ALL" or (
        selector != "" and any(code.startswith(selector) for code in known_codes())
    )


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
        on = {
            c
            for c in known_codes()
            if (_chosen(c, config.select) if config.select else c not in off)
        }
        # A beginning of codes does not switch on what is off by default; its own code does.
        on -= off - set(config.select)
        return cls(frozenset(c for c in on if not _chosen(c, config.ignore)), config)

    def on(self, code: str, path: Path) -> bool:
        """Is ``code`` reported in this file?"""
        return code in self.codes and not any(
            _chosen(code, codes)
            and patterns.matches(path, (pattern,), self.config.root)
            for pattern, codes in self.config.per_file_ignores
        )

    def keep(self, path: Path, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        return [d for d in found if self.on(d.code, path)]


def _chosen(code: str, selectors: Iterable[str]) -> bool:
    return any(s == "ALL" or code.startswith(s) for s in selectors)


def silenced(
    diagnostic: Diagnostic, lines: tuple[int, ...], comments: Iterable[ir.Suppression]
) -> set[tuple[int, str]]:
    """The comments that silence a finding: the line of each, and the code. ``lines`` are those that anchor it."""
    code = diagnostic.code
    return {
        (comment.line, code)
        for comment in comments
        if comment.covers in lines and code in comment.codes
    }


def wrong_comments(
    comments: Iterable[ir.Suppression],
    used: Set[tuple[int, str]],
    path: str,
    judged: Callable[[str], bool],
) -> list[Diagnostic]:
    """What is wrong with the comments of a file. One is unused where the run has ``judged`` that its code is not
    reported."""
    found = []
    codes = known_codes()
    for comment in comments:
        place = Place(
            path, comment.line, comment.column, comment.line, comment.end_column
        )
        if not comment.codes:
            found.append(
                Diagnostic(
                    UNKNOWN, _OWN[UNKNOWN], messages.malformed_suppression(), place
                )
            )
        for code in comment.codes:
            if code not in codes:
                close = [c for c in codes if code.startswith(c)] or get_close_matches(
                    code, codes, n=1
                )
                text = messages.unknown_suppressed_code(
                    code, close[0] if close else None
                )
                found.append(Diagnostic(UNKNOWN, _OWN[UNKNOWN], text, place))
            elif code not in _OWN and (comment.line, code) not in used and judged(code):
                text = messages.unused_suppression(code)
                fix = _removal(place) if len(comment.codes) == 1 else None
                found.append(Diagnostic(UNUSED, _OWN[UNUSED], text, place, fix=fix))
    return found


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
    keys += [
        (f"per-file-ignores.{pattern}", codes)
        for pattern, codes in config.per_file_ignores
    ]
    for key, codes in keys:
        for code in codes:
            if not is_known(code):
                text = messages.unknown_configured_code(code, key)
                found.append(
                    Diagnostic(UNKNOWN, _OWN[UNKNOWN], text, _quoted(lines, code, name))
                )
    return found


def _quoted(lines: Sequence[str], word: str, path: str) -> Place:
    for number, line in enumerate(lines, 1):
        for quote in ('"', "'"):
            column = line.find(f"{quote}{word}{quote}")
            if column >= 0:
                return Place(path, number, column + 1, number, column + len(word) + 3)
    return Place(path, 1, 1, 1, 1)
