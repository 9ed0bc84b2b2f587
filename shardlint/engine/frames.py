"""The environment of one function evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlint.engine.regions import Region
from shardlint.engine.types import Type
from shardlint.logical_rules import RuleList
from shardlint.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    MeshValue,
    ModuleValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Bindings, Facts

if TYPE_CHECKING:
    from shardlint.ops.sharding import View


_CALLED = (
    ClassValue,
    ExternalValue,
    FunctionValue,
    ModuleValue,
    PartialValue,
    WrappedValue,
)
# the arguments that a function could change, under a name that no program has
HELD = "(held)"


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
    # at each ``return``: what is known of the arguments by then
    left: list[Value] = field(default_factory=list)
    silent: int = 0
    # contexts around, in which statements are there for what they do beside what they give
    watched: int = 0
    # a body evaluated for one call: a branch that cannot be decided may not be taken
    in_place: bool = False
    checking: bool = False
    named: frozenset[str] = frozenset()
    # by name: annotations of locals that hold for what these are assigned later
    local_types: dict[str, Type] = field(default_factory=dict)
    # of a generator: what each value that it yields is annotated as
    promised_items: Type | None = None
    jumps: list[dict[str, Value]] = field(default_factory=list)
    breaks: list[dict[str, Value]] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    # by id: after a loop, and after its first step
    once: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    # logical axis rules in force here; None where not known
    rules: RuleList | None = None
    view: View | None = None  # the manual view in which the function itself is checked
    region: Region | None = None  # what runs it on every device, if that is known
    # of manual code: what its names hold may differ between devices
    inside: bool = False
    # in force here, by ``jax.set_mesh`` or ``with mesh:``; None where nothing says
    mesh: MeshValue | None = None

    # names of which nothing is known for a while, see at_any_time_after
    uncertain: frozenset[str] = frozenset()
    # names that functions inside call ``nonlocal``
    assigned_inside: set[str] = field(default_factory=set)
    # names that were bound to something else, in order
    _changed: list[str] = field(default_factory=list)
    # by definition: how many names had changed by then
    _defined: dict[int, int] = field(default_factory=dict)

    def bind(self, name: str, value: Value) -> None:
        """Assign to a name. A function that is replaced by itself under a transformation counts as the same."""
        if name in self.assigned_inside:
            value = Unknown("assigned by a function inside")
        before = self.variables.get(name)
        self.variables[name] = value
        if before is None or before == value:
            return
        if not (isinstance(before, _CALLED) and isinstance(value, _CALLED)):
            self._changed.append(name)

    def is_bound_again(self, name: str) -> bool:
        """Whether a name was bound to something else than it first held."""
        return name in self._changed

    def open_to(self, names: Iterable[str]) -> None:
        """A function that is defined here calls these names ``nonlocal``: whenever it runs, they may become others."""
        for name in names:
            frame = self
            while (
                name not in frame.variables
                and frame.parent is not None
                and frame.parent.parent is not None
            ):
                frame = frame.parent
            frame.assigned_inside.add(name)
            if name in frame.variables:
                frame.bind(name, frame.variables[name])

    def note_definition(self, at: int) -> None:
        """A function or class is defined here: what it finds when it runs is what its names hold from now on."""
        self._defined.setdefault(at, len(self._changed))

    @contextmanager
    def at_any_time_after(self, definition: int) -> Iterator[None]:
        """What runs in the block may run whenever something was defined: of names that were bound to something else
        since then nothing is known."""
        outer = self.uncertain
        changed = self._changed[self._defined.get(definition, 0) :]
        self.uncertain = frozenset(name for name in changed if name in self.variables)
        before = {name: self.variables[name] for name in self.uncertain}
        self.variables.update(
            {
                name: Unknown(f"{name} is assigned again after the definition")
                for name in self.uncertain
            }
        )
        try:
            yield
        finally:
            self.variables.update(before)
            self.uncertain = outer

    @property
    def state(self) -> object:
        """What is equal only where all names hold the same as before, those that were not bound yet aside."""
        return len(self._changed), self.uncertain

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
