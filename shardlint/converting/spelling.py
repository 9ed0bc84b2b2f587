"""An annotation in another form, as changes of the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from shardlint.converting.finding import Annotation

Span: TypeAlias = tuple[int, int, str]


class Spells(Protocol):
    """How a file writes what the forms are made of."""

    def dtype(self, found: Annotation) -> str: ...

    def array(self, found: Annotation) -> str: ...

    def annotated(self, found: Annotation) -> str: ...


@dataclass(frozen=True)
class Converter:
    """Writes annotations of a file, ``text``, in one ``form``."""

    text: str
    form: str
    names: Spells

    def spans(self, found: Annotation) -> list[Span]:
        """What to replace for one annotation."""
        spans = self._outside(found)
        start, end = found.spans.of(found.dtype)
        dtype = self.names.dtype(found)
        if self.form == "annotated" and found.form != "annotated":
            dtype = f"{self.names.annotated(found)}[{self._array(found)}, {dtype}"
            _, last = found.spans.of(found.node)
            spans.append((last, last, "]"))
        if dtype != self.text[start:end]:
            spans.append((start, end, dtype))
        spans += self._inside(found)
        return spans

    def _array(self, found: Annotation) -> str:
        if found.array is None:
            return self.names.array(found)
        start, end = found.spans.of(found.array)
        return self.text[start:end]

    def _inside(self, found: Annotation) -> Iterator[Span]:
        """The array in front of the shape."""
        shape, _ = found.spans.of(found.shape)
        if self.form == "array" and found.form != "array":
            yield shape, shape, f"{self._array(found)}, "
        elif self.form != "array" and found.form == "array":
            assert found.array is not None
            start, end = found.spans.of(found.array)
            yield self._without(
                start,
                end,
                shape,
            )
            yield from self._without_comma(
                found,
                found.shape,
                found.node,
            )

    def _outside(self, found: Annotation) -> list[Span]:
        """``Annotated`` around it."""
        if found.form != "annotated" or self.form == "annotated":
            return []
        assert found.array is not None
        start, end = found.spans.of(found.node)
        first, last = found.spans.of(found.inner)
        before = self.text[start:first]
        behind = self.text[last:end]
        if "#" not in before + behind:
            return [(start, first, ""), (last, end, "")]
        # a comment needs a bracket around it
        _, name = found.spans.of(found.node.value)
        bracket = self.text.index(
            "[",
            name,
        )
        array = found.spans.of(found.array)
        return [
            (start, bracket + 1, "("),
            self._without(*array, first),
            *self._without_comma(found, found.inner, found.node),
            (end - 1, end, ")"),
        ]

    def _without(
        self,
        start: int,
        end: int,
        next_one: int,
    ) -> Span:
        """An item of a list, up to the next one; comments stay."""
        if "#" not in self.text[end:next_one]:
            return start, next_one, ""
        comma = self.text.index(
            ",",
            end,
        )
        return start, comma + 1, ""

    def _without_comma(
        self, found: Annotation, item: ast.expr, around: ast.expr
    ) -> Iterator[Span]:
        """A comma behind the last item would make a tuple of it."""
        _, start = found.spans.of(item)
        _, end = found.spans.of(around)
        comma = start + comma_in(self.text[start:end])
        if comma >= start:
            yield comma, comma + 1, ""


def comma_in(text: str) -> int:
    """Where the first comma is that is in no comment; -1 if there is none."""
    position = 0
    for line in text.splitlines(keepends=True):
        code = line.partition("#")[0]
        if "," in code:
            return position + code.index(",")
        position += len(line)
    return -1
