"""One mistake, one finding: what is said in another way elsewhere is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from shardlint.found import Found, Way
from shardtypes.lang.diagnostics import Diagnostic, Place

_OF_SHARDING = "ST3"


def without_repeats(found: Mapping[str, Found]) -> dict[str, Found]:
    """What was found in each file, without what a call makes appear in another file where it is found anyway, without
    results that depend on the number of devices where a rule already says what is wrong on the way to them, and
    without what another program that comes by the same place has found there. What a rule says of the result of a call
    gives way to the place in the function that a run found."""
    every = [one for each in found.values() for one in each.raw]
    places = {(one.code, one.place) for one in every}
    ways = [way for each in found.values() for way in each.ways]
    results = {one for each in found.values() for one in each.results}
    located = _located(every, ways, results)
    ruled = _about_sharding([one for one in every if _key(one) not in located], ways)
    explained = {
        (way.code, way.place)
        for way in ways
        if any(repr(way.axis) in text for text in _on(way, ruled))
    }

    def is_kept(one: Diagnostic) -> bool:
        repeated = (
            _is_of_another_file(one) and (one.code, one.related[-1].place) in places
        )
        return not repeated and _key(one) not in explained | located

    kept = {name: _those(is_kept, one) for name, one in found.items()}
    tellers: dict[tuple[str, Place], str] = {}
    for name, one in kept.items():
        for finding in one.raw:
            tellers.setdefault((finding.code, finding.place), name)

    def told_by(name: str, one: Diagnostic) -> bool:
        return tellers[one.code, one.place] == name

    return {name: _those(partial(told_by, name), one) for name, one in kept.items()}


def _key(one: Diagnostic) -> tuple[str, Place]:
    return one.code, one.place


def _located(
    findings: Iterable[Diagnostic],
    ways: Iterable[Way],
    results: Collection[tuple[str, Place]],
) -> set[tuple[str, Place]]:
    """Findings of what a function gives, at its call, of which a run found the place in the function."""
    return {
        _key(one)
        for one in findings
        if _key(one) in results
        for way in ways
        if way.place.line != one.place.line
        and _line(one.place) in way.lines
        and repr(way.axis) in one.message
    }


def _those(is_kept: Callable[[Diagnostic], bool], found: Found) -> Found:
    kept = [
        (one, lines)
        for one, lines in zip(found.raw, found.anchors, strict=True)
        if is_kept(one)
    ]
    return replace(
        found,
        raw=tuple(one for one, _ in kept),
        anchors=tuple(lines for _, lines in kept),
    )


def _is_of_another_file(one: Diagnostic) -> bool:
    return bool(one.related) and one.related[-1].place.path != one.place.path


_Lines = dict[tuple[str, int], list[str]]


def _about_sharding(findings: Iterable[Diagnostic], ways: Iterable[Way]) -> _Lines:
    """What is said of each line, by rules that need no run."""
    ran = {(way.code, way.place) for way in ways}
    said: _Lines = {}
    for one in findings:
        if one.code.startswith(_OF_SHARDING) and (one.code, one.place) not in ran:
            for place in (one.place, *(note.place for note in one.related)):
                said.setdefault(_line(place), []).append(one.message)
    return said


def _line(place: Place) -> tuple[str, int]:
    return place.path, place.line


def _on(way: Way, said: _Lines) -> Iterable[str]:
    return (text for line in way.lines for text in said.get(line, ()))
