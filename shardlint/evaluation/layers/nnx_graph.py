"""``flax.nnx``: modules taken apart and made again, in guarded code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.layers.nnx_objects import (
    Module,
    Param,
    Path,
    Variable,
    children_of,
    has_data,
    modules_in,
    variables_in,
)
from shardlint.evaluation.layers.nnx_state import (
    State,
    divided,
    filter_of,
    leaves_of,
    selected,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import NODE, Registered, parts

_NNX = "flax.nnx"


@dataclass(frozen=True)
class _Link:
    """Stands for a variable, or a module that was met before."""

    number: int


@dataclass(frozen=True)
class _Node:
    """How a module or a container is made."""

    number: int
    of: Any
    items: tuple[tuple[Any, Any], ...]


class GraphDef:
    """``nnx.GraphDef``: a module without its arrays. Two are equal where they would make equal modules."""

    def __init__(self, root: Any, paths: Sequence[tuple[Path, int]]) -> None:
        self.root = root
        self.paths = tuple(paths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphDef) and (self.root, self.paths) == (
            other.root,
            other.paths,
        )

    __hash__ = object.__hash__

    def apply(self, state: State, *states: State) -> Callable[..., Any]:
        """The module with a state, as a function that also gives the state afterwards."""
        module = merge(self, state, *states)

        def run(*args: Any, **kwargs: Any) -> Any:
            return module(*args, **kwargs), split(module)

        return run


setattr(GraphDef, MARK, True)
setattr(
    GraphDef,
    NODE,
    Registered(lambda graph: ([], graph), lambda graph, children: graph),
)
provide(f"{_NNX}.GraphDef")(GraphDef)


class _Taken:
    """The parts of a module that were met while it is taken apart."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.rows: list[tuple[Path, Variable]] = []
        self.paths: list[tuple[Path, int]] = []

    def of(self, value: Any, path: Path) -> Any:
        is_variable = isinstance(value, Variable)
        if not is_variable and not has_data(value) and not isinstance(value, Module):
            return value
        known = self.numbers.get(id(value))
        if known is not None:
            return _Link(known)
        number = len(self.numbers)
        self.numbers[id(value)] = number
        if is_variable:
            self.rows.append((path, value.replace()))
            self.paths.append((path, number))
            return _Link(number)
        if isinstance(value, Array):
            raise NotEvaluable("an array of a module that is no variable")
        children = children_of(value) or []
        items = tuple((name, self.of(child, (*path, name))) for name, child in children)
        rest = None if isinstance(value, Module) else _rest_of(value)
        return _Node(number, (type(value), rest), items)


def _rest_of(value: Any) -> Any:
    found = parts(value)
    return None if found is None else found[1]


@provide(f"{_NNX}.split")
def split(node: Any, *filters: Any, graph: Any = None) -> Any:
    """A module without its arrays, and its state, or one for each filter."""
    taken = _Taken()
    made = GraphDef(taken.of(node, ()), taken.paths)
    return made, *divided(taken.rows, filters or (...,))


@provide(f"{_NNX}.merge")
def merge(
    graph: GraphDef,
    state: Any,
    /,
    *states: Any,
    copy: bool = False,
    recreate_variables: bool = True,
) -> Any:
    """The module of a graph with the arrays of states, in variables of its own."""
    rows = dict(row for one in (state, *states) for row in leaves_of(one))
    made: dict[int, Any] = {}
    for path, number in graph.paths:
        if path not in rows:
            raise ValueError(f"the states have no variable at {path}")
        held = rows[path]
        made[number] = held.replace() if isinstance(held, Variable) else Param(held)
    return _made_of(graph.root, made)


def _made_of(part: Any, made: dict[int, Any]) -> Any:
    if isinstance(part, _Link):
        return made[part.number]
    if not isinstance(part, _Node):
        return part
    cls, rest = part.of
    if issubclass(cls, Module):
        module = object.__new__(cls)
        made[part.number] = module
        for name, item in part.items:
            vars(module)[name] = _made_of(item, made)
        return module
    children = [_made_of(item, made) for _, item in part.items]
    made[part.number] = found = _container_of(cls, rest, part.items, children)
    return found


def _container_of(
    cls: Any, rest: Any, items: Sequence[tuple[Any, Any]], children: Sequence[Any]
) -> Any:
    registered = getattr(cls, NODE, None)
    if registered is not None:
        return registered.unflatten(rest, children)
    if issubclass(cls, dict):
        return cls(zip((key for key, _ in items), children, strict=True))
    return cls(*children) if hasattr(cls, "_fields") else cls(children)


@provide(f"{_NNX}.state")
def state(node: Any, *filters: Any, graph: Any = None) -> Any:
    """The variables of a module; of filters, those that each takes first."""
    rows = [(path, variable.replace()) for path, variable in variables_in(node)]
    return selected(rows, filters or (...,))


@provide(f"{_NNX}.graphdef")
def graphdef(node: Any, *, graph: Any = None) -> GraphDef:
    made: GraphDef = split(node)[0]
    return made


@provide(f"{_NNX}.update")
def update(node: Any, state: Any, /, *states: Any) -> None:
    """Give a module the arrays of states, in place."""
    held = dict(variables_in(node))
    for path, value in (row for one in (state, *states) for row in leaves_of(one)):
        if path not in held:
            raise NotEvaluable(f"a state with a variable at {path} that is new")
        held[path].value = value.value if isinstance(value, Variable) else value


@provide(f"{_NNX}.clone")
def clone(
    node: Any, variables: bool = True, *, arrays: bool = False, graph: Any = None
) -> Any:
    return merge(*split(node))


@provide(f"{_NNX}.pop")
def pop(node: Any, *filters: Any) -> Any:
    """Take variables, such as those that were sown, out of a module."""
    made = [filter_of(one) for one in filters]
    rows = [
        (path, variable)
        for path, variable in variables_in(node)
        if any(one(path, variable) for one in made)
    ]
    for path, _ in rows:
        _remove(node, path)
    return selected(rows, filters)


def _remove(node: Any, path: Path) -> None:
    for name in path[:-1]:
        node = vars(node)[name] if isinstance(node, Module) else node[name]
    if not isinstance(node, Module):
        raise NotEvaluable("a variable is taken out of a container")
    del vars(node)[path[-1]]


@provide(f"{_NNX}.iter_graph")
def _iter_graph(node: Any, *, graph: Any = None) -> Iterator[tuple[Path, Any]]:
    yield from modules_in(node)
    yield from variables_in(node)


@provide(f"{_NNX}.iter_modules")
def _iter_modules(node: Any, *, graph: Any = None) -> Iterator[tuple[Path, Any]]:
    yield from modules_in(node)


@provide(f"{_NNX}.variables")
def _variables(node: Any, *filters: Any, graph: Any = None) -> Any:
    return state(node, *filters)


@provide(f"{_NNX}.as_pure")
@provide(f"{_NNX}.pure")
def pure(tree: Any) -> Any:
    """The same with arrays for variables."""
    if isinstance(tree, Variable):
        return tree.value
    found = children_of(tree)
    if found is None or isinstance(tree, Module):
        return tree
    children = [pure(child) for _, child in found]
    return _container_of(type(tree), _rest_of(tree), found, children)
