"""The errors that a failed check raises.

All of them are ``typeguard.TypeCheckError`` where typeguard is installed, so that one ``except`` catches what either
found. Annotations need no typeguard: without it a class with the same interface stands in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from shardtypes import _stats
from shardtypes.lang import ShapeSyntaxError
from shardtypes.lang.messages import stands_for
from shardtypes.messages import (
    ENCLOSING_HINT,
    SCOPE_HINT,
    other_size,
    other_size_of_variable,
)
from shardtypes.sites import Bound, Site

if TYPE_CHECKING:
    from typeguard import TypeCheckError as TypeCheckError
else:
    try:
        from typeguard import TypeCheckError
    except ModuleNotFoundError:

        class TypeCheckError(Exception):
            """typeguard's error, as far as ours use it."""

            def __init__(self, message: str) -> None:
                super().__init__(message)
                self._path: deque[str] = deque()

            def append_path_element(self, element: str) -> None:
                """Say of what the value is a part."""
                self._path.append(element)


# How typeguard names the place that `site` names already, with the function.
_PLACES = (
    'argument "',
    "the return value",
    "value assigned to",
    "the yielded value",
    "the value sent",
)


class ShardTypeError(TypeCheckError):
    """A value does not have the type that its annotation declares.

    ``site`` is where it was met, if known; ``bindings`` are the names in its annotation with their sizes, and where
    they got them; ``clash`` those of them that it contradicts; ``advice`` is what to do; ``expected`` is the size that
    the annotation gives by an expression, where that is what differs.
    """

    bindings: tuple[Bound, ...] = ()
    clash: frozenset[str] = frozenset()
    advice: str = ""
    expected: object = None
    _shared: bool | None = None

    def __init__(
        self,
        message: str,
        site: Site | None = None,
        advice: str = "",
        clash: Collection[str] = frozenset(),
    ) -> None:
        super().__init__(message)
        self.site = site
        self.advice = advice
        self.clash = frozenset(clash)

    def left_call(self, older: Collection[str]) -> None:
        """Note that the call in which this was found ends; ``older`` are the names that were bound before it."""
        if self._shared is None:
            _stats.count_failure(self.site, str(self.args[0]).partition("\n")[0])
            self._shared = not self.clash.isdisjoint(older)

    def __str__(self) -> str:
        path = [
            step
            for step in self._path
            if self.site is None or not step.startswith(_PLACES)
        ]
        if self.site is not None and "field '" in self.site.role:
            # the site names it with its path
            path = [step for step in path if not step.startswith("field '")]
        if self.site is not None and str(self.site):
            path.append(str(self.site))
        head = " of ".join(path)
        text = f"{head}: {self.args[0]}" if head else str(self.args[0])
        # A name that is contradicted by the place that bound it was bound in another call, or another dimension.
        own = [
            b
            for b in self.bindings
            if b.place.site == self.site and b.name not in self.clash
        ]
        elsewhere = [b for b in self.bindings if b not in own]
        lines = [text, *(f"  {bound}" for bound in elsewhere)]
        if own:
            lines.append(
                f"  {', '.join(stands_for(b.name, b.size) for b in own)}, bound here"
            )
        advice = self._advice_on_names() if self.clash else self.advice
        if advice:
            lines.append(f"  {advice}")
        return "\n".join(lines)

    def _advice_on_names(self) -> str:
        if self._shared:
            return SCOPE_HINT
        bound_by = {
            bound.place.site.function
            for bound in self.bindings
            if bound.name in self.clash
        }
        if (
            self.site is not None
            and self.site.function
            and bound_by - {self.site.function}
        ):
            return ENCLOSING_HINT
        if self.site is not None and self.site.is_variable:
            return other_size_of_variable(self.clash)
        return other_size(self.clash)


class ShapeError(ShardTypeError):
    """The dtype, the rank or a size differs from the annotation."""


class ShardingError(ShardTypeError):
    """The value is sharded differently from what the annotation declares."""


class DroppedConstraint(UserWarning):
    """A sharding constraint without effect: JAX silently drops it."""


class ShapeStringError(ShardTypeError, ShapeSyntaxError):
    """The text of an annotation is not a shape string (also a ``ValueError``).

    ``column`` is the offset in ``text`` of the first character that cannot be right, counted from 0.
    """

    def __init__(
        self, message: str, text: str = "", column: int = 0, hint: str | None = None
    ) -> None:
        # Both bases call on along the order of resolution, with other arguments: their state is set here instead.
        Exception.__init__(self, message)
        self._path: deque[str] = deque()
        self.site = None
        self.message = message
        self.text = text
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        lines = [ShardTypeError.__str__(self)]
        if self.text:
            lines += [f"  {self.text}", "  " + " " * self.column + "^"]
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)
