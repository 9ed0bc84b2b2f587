"""Why an evaluation ends without a result."""

from __future__ import annotations


class NotEvaluable(BaseException):
    """The program does something that is not evaluated here. No ``except`` of the program catches it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfBudget(NotEvaluable):
    """The evaluation took more steps than it is given."""
