"""The error of a string that is no shape."""

from __future__ import annotations


class ShapeSyntaxError(ValueError):
    """A shape string that cannot be read.

    ``column`` is the 0-based offset in ``text`` of the first character that cannot be right; ``hint`` says what to
    write instead, where that is evident.
    """

    def __init__(
        self, message: str, text: str, column: int, hint: str | None = None
    ) -> None:
        self.message = message
        self.text = text
        self.column = column
        self.hint = hint
        if hint:
            tail = f" ({hint})"
        else:
            tail = ""
        super().__init__(f"{message} in shape {text!r} at column {column}{tail}")

    def __reduce__(
        self,
    ) -> tuple[type[ShapeSyntaxError], tuple[str, str, int, str | None]]:
        return type(self), (self.message, self.text, self.column, self.hint)
