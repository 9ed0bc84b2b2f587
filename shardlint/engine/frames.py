"""The environment of one function evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.types import Type
from shardlint.logical_rules import RuleList
from shardlint.values import FunctionValue, MeshValue, SequenceValue, Value
from shardtypes.lang import Bindings, Facts

if TYPE_CHECKING:
    from shardlint.engine.sharding.manual import Region
    from shardlint.ops.sharding import View


HELD = "(held)"  # the arguments that a function could change, under a name that no program has


@dataclass(slots=True)
class Frame:
    """Names, what their dimensions are bound to, and what is known on the path so far."""

    module: str
    variables: dict[str, Value] = field(default_factory=dict)
    bindings: Bindings = field(default_factory=Bindings)
    facts: Facts = field(default_factory=Facts)
    parent: Frame | None = None
    function: FunctionValue | None = None
    promise: Type | None = None
    returned: list[Value] = field(default_factory=list)
    left: list[Value] = field(default_factory=list)  # at each ``return``: what is known of the arguments by then
    silent: int = 0
    in_place: bool = False  # a body evaluated for one call: a branch that cannot be decided may not be taken
    checking: bool = False
    named: frozenset[str] = frozenset()
    declared: dict[str, ir.Expr] = field(default_factory=dict)
    jumps: list[dict[str, Value]] = field(default_factory=list)
    breaks: list[dict[str, Value]] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    once: dict[int, tuple[Value, Value]] = field(default_factory=dict)  # by id: after a loop, and after its first step
    rules: RuleList | None = None  # logical axis rules in force here; None where not known
    view: View | None = None  # the manual view in which the function itself is checked
    region: Region | None = None  # what runs it on every device, if that is known
    inside: bool = False  # of manual code: what its names hold may differ between devices
    mesh: MeshValue | None = None  # in force here, by ``jax.set_mesh`` or ``with mesh:``; None where nothing says

    def leave(self, value: Value) -> None:
        """Control leaves the function here, with a result: what it leaves of its arguments."""
        held = self.variables.get(HELD)
        if isinstance(held, SequenceValue):
            self.left.append(SequenceValue((value, *held.items)))

    def holds(self, name: str) -> bool:
        """Whether the name is one of manual code, rather than of what is around it."""
        frame: Frame | None = self
        while frame is not None and name not in frame.variables:
            frame = frame.parent
        return frame is None or frame.inside

    def find(self, name: str) -> Value | None:
        frame: Frame | None = self
        while frame is not None:
            value = frame.variables.get(name)
            if value is not None:
                return value
            frame = frame.parent
        return None
