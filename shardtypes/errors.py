"""The errors that a failed check raises.

All of them are ``typeguard.TypeCheckError``, so that one ``except`` catches what either door found.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from typeguard import TypeCheckError

from shardtypes.lang import ShapeSyntaxError

if TYPE_CHECKING:
    from shardtypes.scopes import Site

# How typeguard names the place that `site` names already, with the function.
_PLACES = ('argument "', "the return value", "value assigned to", "the yielded value", "the value sent")


class ShardTypeError(TypeCheckError):
    """A value does not have the type that its annotation declares. ``site`` is where it was met, if known."""

    def __init__(self, message: str, site: Site | None = None) -> None:
        super().__init__(message)
        self.site = site

    def __str__(self) -> str:
        path = [step for step in self._path if self.site is None or not step.startswith(_PLACES)]
        if self.site is not None and "field '" in self.site.role:
            path = [step for step in path if not step.startswith("field '")]  # the site names it with its path
        if self.site is not None and str(self.site):
            path.append(str(self.site))
        head = " of ".join(path)
        return f"{head}: {self.args[0]}" if head else str(self.args[0])


class ShapeError(ShardTypeError):
    """The dtype, the rank or a size differs from the annotation."""


class ShardingError(ShardTypeError):
    """The value lies on the devices in another way than the annotation declares."""


class DroppedConstraint(UserWarning):
    """A sharding constraint without effect: JAX drops such a one in silence."""


class ShapeStringError(ShardTypeError, ShapeSyntaxError):
    """The text of an annotation is no shape string (also a ``ValueError``).

    ``column`` is the offset in ``text`` of the first character that cannot be right, counted from 0.
    """

    def __init__(self, message: str, text: str = "", column: int = 0, hint: str | None = None) -> None:
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
