"""How a program says that arrays outside of mapped code are sharded, by ``device_put``, constraints, and the shardings
of ``jit``; and which state is replicated on all devices beside parameters that are sharded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardlint.evaluation.recording import Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.simulated import Simulated

# arrays of one run of which it is remembered
_MOST = 20_000


@dataclass(frozen=True)
class Layout:
    """The mesh ``axes`` of each dimension, those with several devices, and the axes of the mesh with their sizes. The
    ``spec`` is made at one expression, and what places the array by it at another, ``by``. What ``is_constrained``
    inside of ``jit`` is not certain to leave it like that."""

    axes: tuple[tuple[str, ...], ...]
    mesh: tuple[tuple[str, int], ...]
    spec: Where | None
    by: Where | None = None
    is_constrained: bool = False

    @property
    def is_replicated(self) -> bool:
        return not any(self.axes)

    def differs_from(self, other: Layout) -> bool:
        """Whether it is another one on the same mesh."""
        return self.mesh == other.mesh and self.axes != other.axes

    def __str__(self) -> str:
        entries = [_entry(names) for names in self.axes]
        while entries and entries[-1] == "None":
            entries.pop()
        return f"P({', '.join(entries)})"


def _entry(names: tuple[str, ...]) -> str:
    if not names:
        return "None"
    return repr(names[0] if len(names) == 1 else names)


@dataclass(frozen=True)
class ReplicatedState:
    """An array at ``path`` of the arguments of a step, which the step gave itself and which is whole on every device,
    though the parameter of its name and shape, at ``beside``, is sharded; or though itself was in the first step."""

    path: str
    beside: str
    state: Layout
    parameter: Layout

    @property
    def where(self) -> Where | None:
        """What to change: the call that places it, or else its spec."""
        return self.state.by or self.state.spec


@dataclass
class Layouts:
    """What is known of the arrays of one run. ``differentiated`` are those whose gradients were asked for since the
    outermost function under ``jit`` was called, in which ``depth`` others are."""

    depth: int = 0
    differentiated: set[int] = field(default_factory=set)
    states: dict[tuple[Where | None, str], ReplicatedState] = field(
        default_factory=dict
    )
    _of: dict[int, tuple[Simulated, Layout]] = field(default_factory=dict)
    _outside: dict[int, tuple[Simulated, int]] = field(default_factory=dict)
    """What mapped functions are given, by what these see of it."""
    _on: dict[int, tuple[Simulated, int]] = field(default_factory=dict)
    """The devices that arrays were put on."""

    def on_device(self, array: Array, device: int) -> Array:
        """An array that is on one device."""
        if array.value is None or len(self._on) >= _MOST:
            return array
        value = Simulated(array.value.axes, array.value.parts)
        self._on[id(value)] = (value, device)
        return replace(array, value=value)

    def device_of(self, array: Array) -> int | None:
        """The number of the device that an array was put on; None where that is not known."""
        found = self._on.get(id(array.value))
        return None if found is None else found[1]

    def of(self, leaf: Any) -> Layout | None:
        """How an array lies; None where that is not known."""
        if not isinstance(leaf, Array) or leaf.value is None:
            return None
        found = self._of.get(id(leaf.value))
        return None if found is None else found[1]

    def placed(self, array: Array, layout: Layout) -> Array:
        """An array, as it lies from now on."""
        if array.value is None or len(self._of) >= _MOST:
            return array
        value = Simulated(array.value.axes, array.value.parts)
        self._of[id(value)] = (value, layout)
        return replace(array, value=value)

    def forget(self, values: Iterable[Simulated]) -> None:
        """What these are is not asked any more."""
        for value in values:
            self._of.pop(id(value), None)

    def note_differentiated(self, leaves: Iterable[Any]) -> None:
        """Remember that gradients of these are computed."""
        for leaf in leaves:
            if isinstance(leaf, Array) and leaf.value is not None:
                inside = id(leaf.value)
                known = self._outside.get(inside)
                self.differentiated.add(inside if known is None else known[1])

    def note_inside(self, inside: Array, given: Any) -> None:
        """Remember which array devices see the parts of."""
        if not self.depth or inside.value is None:
            return
        if isinstance(given, Array) and given.value is not None:
            self._outside[id(inside.value)] = (inside.value, id(given.value))

    def begin_step(self) -> None:
        """Forget the gradients of the step before."""
        self.differentiated.clear()
        self._outside.clear()


@dataclass(frozen=True)
class Given:
    """One array that a step is given: where it is, how it lies, and lay in the first call, and whether the step gave it
    itself, or takes its gradient."""

    path: str
    shape: tuple[Any, ...]
    layout: Layout
    first: Layout
    is_state: bool
    is_differentiated: bool


def replicated_states(given: Sequence[Given]) -> Iterable[ReplicatedState]:
    """Those that are whole on every device though the parameters that they belong to are not."""
    parameters = [one for one in given if one.is_differentiated]
    for one in given:
        if not one.is_state or not one.layout.is_replicated or not one.shape:
            continue
        sharded = one.first
        beside = one.path
        if not one.is_differentiated and sharded.is_replicated:
            parameter = _parameter_of(one, parameters)
            if parameter is not None:
                sharded = parameter.layout
                beside = parameter.path
        if not sharded.is_replicated and sharded.mesh == one.layout.mesh:
            yield ReplicatedState(one.path, beside, one.layout, sharded)


def _parameter_of(state: Given, parameters: Sequence[Given]) -> Given | None:
    """The parameter of the same shape whose path ends like that of a state; None if several do."""
    alike = [one for one in parameters if one.shape == state.shape]
    ends = [_common_end(one.path, state.path) for one in alike]
    longest = max(ends, default=0)
    if not longest or ends.count(longest) > 1:
        return None
    return alike[ends.index(longest)]


def _common_end(first: str, second: str) -> int:
    """How many keys two paths have in common, from the last one on."""
    count = 0
    for one, other in zip(
        reversed(first.split(".")), reversed(second.split(".")), strict=False
    ):
        if one != other:
            break
        count += 1
    return count
