"""Findings of an earlier run, where nothing that they depend on has changed since.

An analysis notes what it asks of the project: the content of other files, whether a module exists, what some class is
written by, which logical rules are in force. Its findings are kept with the answers, under the content of its own file;
they hold for as long as the same questions have the same answers.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.axis_switches import switched
from shardlint.cache import Cache, digest
from shardlint.changed_modules import changed_modules
from shardlint.config import Config
from shardlint.found import Found
from shardlint.import_graph import mapped_from_nowhere, mapping_importers
from shardlint.project import (
    AXES,
    CHANGES,
    CLASSES,
    FROM_NOWHERE,
    MAPPING,
    RULES,
    SWITCHED,
    Fact,
    Project,
)
from shardlint.sources import Source


class Earlier:
    """Earlier findings about the files of one project. ``settings`` is whatever else decides about findings."""

    def __init__(
        self, cache: Cache, project: Project, config: Config, settings: tuple[str, ...]
    ) -> None:
        self._cache = cache
        self._project = project
        self._config = config
        self._settings = settings
        self._known: dict[Fact, str] = {}

    def found(self, source: Source) -> Found | None:
        """What was found in a file, if it still holds."""
        kept = self._cache.get(self._key(source))
        if kept is None:
            return None
        answers, *found = kept
        if not all(self._answer(fact) == answer for fact, answer in answers):
            return None
        return replace(Found(*found), read=tuple(fact for fact, _ in answers))

    def keep(self, source: Source, found: Found) -> None:
        """Remember what was found in a file just now."""
        if not self._cache.keeps:
            return
        answers = tuple((fact, self._answer(fact)) for fact in found.read)
        self._cache.put(self._key(source), (answers, *found.kept))

    def _key(self, source: Source) -> str:
        return digest("file", *self._settings, source.key)

    def _answer(self, fact: Fact) -> str:
        answer = self._known.get(fact)
        if answer is None:
            answer = self._known[fact] = (
                self._note(fact[1]) if fact[0] == "note" else self._project.fact(*fact)
            )
        return answer

    def _note(self, name: str) -> str:
        if name == CLASSES:
            outlines = self._project.own_outlines()
            return digest(
                *sorted(
                    repr((o.classes, o.written, o.any_written, o.registered))
                    for o in outlines
                )
            )
        if name == RULES:
            if self._project.fact("some outline", "gives_rules") == "False":
                return "()"
            # the engine takes its time to import: not in a run that needs nothing of it
            from shardlint.engine.evaluator import Evaluator
            from shardlint.engine.sharding.rules_in_force import noted

            mesh, rules = self._config.mesh, self._config.logical_rules
            return repr(noted(self._project, mesh, rules, Evaluator))
        if name == FROM_NOWHERE:
            return repr(sorted(mapped_from_nowhere(self._project)))
        if name.startswith(MAPPING):
            module = name.removeprefix(MAPPING).strip()
            return repr(mapping_importers(self._project, module))
        if name == SWITCHED:
            if self._project.fact("some outline", "switches_axes") == "False":
                return "()"
            return repr(sorted(switched(self._project)))
        if name == CHANGES:
            return repr(
                sorted(
                    (where, sorted(names.items()))
                    for where, names in changed_modules(self._project).items()
                )
            )
        if name == AXES:
            return self._project.made_axes().key
        raise LookupError(f"{name!r} is no note of a project")
