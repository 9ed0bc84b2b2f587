"""``flax.nnx``: states of modules, and filters of variables, in guarded code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.layers.nnx_objects import Path, Variable
from shardlint.evaluation.outside import Outside, provide

_NNX = "flax.nnx"


# --- states -----------------------------------------------------------------------------------------------------------


class State(dict[Any, Any]):
    """``nnx.State``: variables by path, nested; keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def flat_state(self) -> dict[Path, Variable]:
        return dict(leaves_of(self))

    def to_pure_dict(self) -> dict[Any, Any]:
        """The same with arrays for variables."""
        return {
            key: value.to_pure_dict() if isinstance(value, State) else value.value
            for key, value in self.items()
        }

    def replace_by_pure_dict(self, pure: Mapping[Any, Any]) -> None:
        """Take the arrays of nested dicts."""
        for key, value in pure.items():
            held = self[key]
            if isinstance(held, State):
                held.replace_by_pure_dict(value)
            else:
                self[key] = held.replace(value)

    def filter(self, first: Any, /, *filters: Any) -> Any:
        return selected(leaves_of(self), (first, *filters))

    def split(self, first: Any, /, *filters: Any) -> Any:
        found = divided(leaves_of(self), (first, *filters))
        return found[0] if len(found) == 1 else tuple(found)

    @classmethod
    def merge(cls, state: State, /, *states: State) -> State:
        rows = [row for one in (state, *states) for row in leaves_of(one)]
        return nested(rows)


setattr(State, MARK, True)
provide(f"{_NNX}.State")(State)
provide(f"{_NNX}.merge_state")(State.merge)
provide(f"{_NNX}.GraphState")(State)


def leaves_of(state: Any, path: Path = ()) -> list[tuple[Path, Variable]]:
    """The variables of a state, or arrays of nested dicts, by path."""
    if not isinstance(state, dict):
        return [(path, state)]
    return [
        row for key in _ordered(state) for row in leaves_of(state[key], (*path, key))
    ]


def _ordered(state: Mapping[Any, Any]) -> list[Any]:
    return sorted(state, key=lambda key: (isinstance(key, str), key))


def nested(rows: Sequence[tuple[Path, Any]]) -> State:
    """The state with these variables."""
    made = State()
    for path, value in rows:
        at = made
        for key in path[:-1]:
            at = at.setdefault(key, State())
        at[path[-1]] = value
    return made


provide(f"{_NNX}.to_flat_state")(leaves_of)
provide(f"{_NNX}.from_flat_state")(
    lambda flat: nested(list(flat.items()) if isinstance(flat, dict) else list(flat))
)
provide(f"{_NNX}.to_pure_dict")(lambda state: state.to_pure_dict())
provide(f"{_NNX}.replace_by_pure_dict")(
    lambda state, pure: state.replace_by_pure_dict(pure)
)


# --- filters ----------------------------------------------------------------------------------------------------------

Filter = Callable[[Path, Any], bool]


def filter_of(given: Any) -> Filter:
    """Whether a variable is of a type, or what else a filter says. Raises NotEvaluable."""
    if given is ... or given is True:
        return lambda path, value: True
    if given is None or given is False:
        return lambda path, value: False
    if isinstance(given, type):
        return lambda path, value: isinstance(value, given)
    if isinstance(given, (tuple, list)):
        either: Filter = _any_of(*given)
        return either
    if isinstance(given, str):
        return lambda path, value: bool(value.metadata.get("tag") == given)
    if isinstance(given, Outside) or not callable(given):
        raise NotEvaluable(f"the filter {given!r}")
    function: Filter = given
    return function


@provide(f"{_NNX}.Any")
def _any_of(*filters: Any) -> Filter:
    made = [filter_of(one) for one in filters]
    return lambda path, value: any(one(path, value) for one in made)


@provide(f"{_NNX}.All")
def _all_of(*filters: Any) -> Filter:
    made = [filter_of(one) for one in filters]
    return lambda path, value: all(one(path, value) for one in made)


@provide(f"{_NNX}.Not")
def _not_of(given: Any) -> Filter:
    made = filter_of(given)
    return lambda path, value: not made(path, value)


@provide(f"{_NNX}.PathContains")
def _path_contains(key: Any) -> Filter:
    return lambda path, value: key in path


provide(f"{_NNX}.OfType")(filter_of)
provide(f"{_NNX}.Everything")(lambda: filter_of(...))
provide(f"{_NNX}.Nothing")(lambda: filter_of(None))


def divided(rows: Sequence[tuple[Path, Any]], filters: Sequence[Any]) -> list[State]:
    """A state for each filter; each variable belongs to the first that takes it. Raises ValueError for one that none
    takes."""
    made = [filter_of(one) for one in filters]
    groups: list[list[tuple[Path, Any]]] = [[] for _ in made]
    for path, value in rows:
        for group, one in zip(groups, made, strict=True):
            if one(path, value):
                group.append((path, value))
                break
        else:
            raise ValueError(f"no filter takes the variable at {path}")
    return [nested(group) for group in groups]


def selected(rows: Sequence[tuple[Path, Any]], filters: Sequence[Any]) -> Any:
    """As ``divided``, leaving out what no filter takes; the state itself of one filter."""
    found = divided(rows, (*filters, ...))[: len(filters)]
    return found[0] if len(found) == 1 else tuple(found)
