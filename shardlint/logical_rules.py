"""Lists of logical axis rules: what they mean, and how they are read from the files that the settings name.

A rule lays the dimensions of one logical name on mesh axes. The first rule for a name whose axes are still free in an
array wins; a name without one is not split. These are flax's rules.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Entry = tuple[str, ...] | None
"""One dimension: a name or axes as strings, () for None, None for what is not known."""


@dataclass(frozen=True, slots=True)
class RuleList:
    """Rules in order: a logical name, and the mesh axes that it is laid on (None: not known).

    ``source`` is the file that the settings name, '' for a list in the program; ``place`` is (module, node) there, and
    ``axes_at`` the nodes of the mesh axes that are written in it.
    """

    rules: tuple[tuple[str, Entry], ...]
    source: str = ""
    place: tuple[str, int] | None = field(default=None, compare=False)
    axes_at: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    @property
    def names(self) -> frozenset[str]:
        """All logical names that some rule mentions."""
        return frozenset(name for name, _ in self.rules)

    def resolve(self, names: Sequence[Entry]) -> tuple[Entry, ...] | None:
        """The mesh axes of every dimension of an array with these names; None where that is not known."""
        if any(entry is None or len(entry) > 1 for entry in names):
            return None
        wanted = [entry[0] if entry else None for entry in names]
        result: list[Entry] = [()] * len(names)
        decided = [name is None for name in wanted]
        taken: set[str] = set()
        for name, axes in self.rules:
            if name not in wanted:
                continue
            position = wanted.index(name)
            if axes is None:
                return None
            if not decided[position] and taken.isdisjoint(axes):
                result[position], decided[position] = axes, True
                taken.update(axes)
        return tuple(result)


def rules_from(data: object) -> tuple[tuple[str, Entry], ...]:
    """Rules from plain data: pairs of a name and axes, or a mapping from name to axes.

    Axes are null, a string or a list of strings. Raises ``ValueError``.
    """
    pairs: Iterable[Any]
    if isinstance(data, Mapping):
        pairs = data.items()
    elif isinstance(data, (list, tuple)):
        pairs = data
    else:
        raise ValueError(f"{type(data).__name__} is not a list of [name, axes] pairs")
    rules = []
    for pair in pairs:
        if (
            not isinstance(pair, (list, tuple))
            or len(pair) != 2
            or not isinstance(pair[0], str)
        ):
            raise ValueError(f"{pair!r} is not a [name, axes] pair")
        rules.append((pair[0], _axes(pair[1])))
    return tuple(rules)


def _axes(data: object) -> tuple[str, ...]:
    if data is None:
        return ()
    if isinstance(data, str):
        return (data,)
    if isinstance(data, (list, tuple)) and all(isinstance(axis, str) for axis in data):
        return tuple(data)
    raise ValueError(f"{data!r} is not a mesh axis, a list of them, or null")


def read(text: str, root: Path) -> RuleList:
    """The list that ``path:key`` names. Raises ``ValueError``.

    The path is relative to ``root``; the key may be dotted (``sharding.rules``), in a ``.py`` file it is a variable.
    """
    name, colon, key = text.rpartition(":")
    if not colon or not name or not key:
        raise ValueError(
            f"{text!r} does not name a list of rules; write 'configs/base.yml:logical_axis_rules'"
        )
    path = root / name
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from None
    try:
        data = (
            _python(content, key)
            if path.suffix == ".py"
            else _value(_document(path, content), key)
        )
        return RuleList(rules_from(data), name)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def _document(path: Path, content: str) -> object:
    if path.suffix == ".toml":
        return tomllib.loads(content)
    if path.suffix == ".json":
        return json.loads(content)
    if path.suffix in (".yml", ".yaml"):
        return _yaml(content)
    raise ValueError("rules are read from .py, .toml, .json, .yml and .yaml files")


def _yaml(content: str) -> object:
    try:
        import yaml
    except ImportError:
        raise ValueError(
            "reading YAML needs PyYAML; install it beside shardlint"
        ) from None
    try:
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None


def _value(document: object, key: str) -> object:
    for part in key.split("."):
        if not isinstance(document, Mapping) or part not in document:
            raise ValueError(f"has no {key!r}")
        document = document[part]
    return document


def _python(content: str, key: str) -> object:
    """A variable of a module, which must be written out."""
    try:
        body = ast.parse(content).body
    except SyntaxError as error:
        raise ValueError(f"not Python: {error}") from None
    for statement in reversed(body):
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [getattr(statement, "target", None)]
        )
        value = getattr(statement, "value", None)
        if value is not None and any(
            isinstance(target, ast.Name) and target.id == key for target in targets
        ):
            try:
                return ast.literal_eval(value)
            except ValueError:
                raise ValueError(
                    f"{key} is not written out as a list of pairs"
                ) from None
    raise ValueError(f"has no variable {key!r}")
