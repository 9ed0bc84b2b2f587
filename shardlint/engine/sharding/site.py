"""One call that is about sharding: its arguments by name, and where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.values import Literal, SpecValue, Value
from shardlint.walking import walk
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

NONE = Literal(None)


@frozen
class Site:
    """A call under evaluation. ``operands`` are the expressions of all arguments, those by keyword last; they may be
    fewer than the arguments, where some were bound before (``partial``)."""

    it: Interpreter
    frame: Frame
    qualname: str
    args: list[Value]
    kwargs: dict[str, Value]
    at: int
    operands: tuple[ir.Expr, ...] = ()

    @property
    def name(self) -> str:
        """The function's own name, for messages."""
        return self.qualname.rpartition(".")[2]

    def given(self, *names: str) -> dict[str, Value]:
        """The arguments by parameter name."""
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    def operand(self, position: int, name: str) -> ir.Expr | None:
        """The expression of one argument; None where it is not part of this call."""
        if len(self.operands) != len(self.args) + len(self.kwargs):
            return None
        if position < len(self.args):
            return self.operands[position]
        keys = list(self.kwargs)
        return (
            self.operands[len(self.args) + keys.index(name)] if name in keys else None
        )

    def place(self, spec: SpecValue | None, operand: ir.Expr | None) -> int:
        """Where a finding about a spec goes: to the ``P(…)`` inside the argument, else to the argument."""
        if operand is None:
            return self.at
        if (
            spec is not None
            and spec.place is not None
            and spec.place[0] == self.frame.module
        ):
            if any(node.at == spec.place[1] for node in walk(operand)):
                return spec.place[1]
        return operand.at

    def origin(self, spec: SpecValue, place: int) -> tuple[tuple[str, int, str], ...]:
        """The related place of a spec that was made elsewhere."""
        if spec.place is None or spec.place == (self.frame.module, place):
            return ()
        return ((*spec.place, "the spec is made here"),)

    def report(
        self,
        code: str,
        at: int,
        message: str,
        related: tuple[tuple[str, int, str], ...] = (),
        witness: Mapping[str, int] | None = None,
    ) -> None:
        if self.frame.in_place and self.it.stack and self.it.stack[-1][1] >= 0:
            related = (*related, (*self.it.stack[-1][:2], "called here"))
        self.it.report(self.frame, code, at, message, witness, related)
