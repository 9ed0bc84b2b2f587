"""What a whole project does with its classes: who inherits from whom, and which attributes are written where."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.engine.trees import is_tree
from shardlint.outline import CONSTRUCTORS as CONSTRUCTORS
from shardlint.outline import ClassOutline, Outline
from shardlint.values import ClassValue


class _EveryName(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME = _EveryName()


class ClassIndex:
    """Made from the outlines of all modules; classes are told apart by name, so two of one name count as one."""

    def __init__(self, outlines: Iterable[Outline]) -> None:
        self._below: dict[str, list[ClassOutline]] = {}
        self._written: set[str] = set()
        self._own: dict[str, set[str]] = {}
        # somewhere attributes are written whose names are not known
        self._any_written = False
        self.registered: set[str] = set()
        self._names: dict[str, frozenset[str]] = {}
        self._volatile: dict[tuple[str, ...], frozenset[str]] = {}
        for one in outlines:
            for cls in one.classes:
                self._own.setdefault(cls.name, set()).update(cls.written)
                for base in cls.bases:
                    self._below.setdefault(base, []).append(cls)
            self._written.update(one.written)
            self._any_written |= one.any_written
            self.registered.update(one.registered)

    def _subclasses(self, name: str) -> list[ClassOutline]:
        """All classes below one of that name."""
        found: dict[int, ClassOutline] = {}  # by identity, which is quicker
        pending = [name]
        while pending:
            for cls in self._below.get(pending.pop(), []):
                if id(cls) not in found:
                    found[id(cls)] = cls
                    pending.append(cls.name)
        return list(found.values())

    def volatile(self, cls: ClassValue) -> frozenset[str]:
        """Attributes of instances that something other than a constructor writes."""
        if self._any_written and (cls.data is not None or not is_tree(cls)):
            return EVERY_NAME
        line = tuple(one.node.name for one in cls.line())
        known = self._volatile.get(line)
        if known is None:
            found = set(self._written)
            for name in (*line, *(below.name for below in self._subclasses(cls.name))):
                found |= self._own.get(name, set())
            known = self._volatile[line] = frozenset(found)
        return known

    def overridden(self, cls: ClassValue) -> frozenset[str]:
        """Names that some class below this one defines again."""
        found = self._names.get(cls.name)
        if found is None:
            names = {
                name for below in self._subclasses(cls.name) for name in below.defined
            }
            found = self._names[cls.name] = frozenset(names)
        return found

    def has_subclasses(self, cls: ClassValue) -> bool:
        """Whether some class of the project inherits from this one."""
        return bool(self._subclasses(cls.name))

    def is_plain(self, cls: ClassValue) -> bool:
        """Whether JAX certainly knows nothing of the class: it is not registered as a tree, nor is anything below."""
        if is_tree(cls) or self._subclasses(cls.name) or cls.name in self.registered:
            return False
        if any(
            not isinstance(base, ClassValue) or not self.is_plain_base(base)
            for base in cls.bases
        ):
            return False
        return all(name == "dataclasses.dataclass" for name in cls.decorated)

    def is_plain_base(self, cls: ClassValue) -> bool:
        return (
            not is_tree(cls)
            and cls.name not in self.registered
            and not cls.bases
            and not cls.node.decorators
        )
