"""``flax.nnx``: variables, modules and their state, in guarded code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guarded_code import is_closed
from shardlint.evaluation.guards import MARK, Resolver
from shardlint.evaluation.held import Held
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import NODE, Registered, parts

Path = tuple[Any, ...]
"""Attributes, keys and numbers of items from a module to a part of it."""

_NNX = "flax.nnx"


# --- variables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WithMetadata:
    """What an initializer gives that names the axes of its parameter."""

    value: Any
    metadata: Mapping[str, Any]


class Variable(Held):
    """``nnx.Variable``: an array that a module holds, and what is said of it, as names of its axes."""

    def __init__(self, value: Any, **metadata: Any) -> None:
        if isinstance(value, WithMetadata):
            metadata = {**value.metadata, **metadata}
            value = value.value
        self.value = value.value if isinstance(value, Held) else value
        self.metadata = metadata

    @property
    def raw_value(self) -> Any:
        return self.value

    @property
    def type(self) -> type:
        return type(self)

    def get_value(self) -> Any:
        return self.value

    def set_value(self, value: Any) -> None:
        self.value = value

    def get_metadata(self, name: str | None = None, default: Any = None) -> Any:
        return self.metadata if name is None else self.metadata.get(name, default)

    def set_metadata(self, *args: Any, **metadata: Any) -> None:
        self.metadata = {**self.metadata, **metadata}

    def has_metadata(self, name: str) -> bool:
        return name in self.metadata

    def replace(self, value: Any = None, **metadata: Any) -> Variable:
        """Another one of the same type."""
        made = type(self).__new__(type(self))
        Variable.__init__(
            made,
            self.value if value is None else value,
            **{**self.metadata, **metadata},
        )
        return made

    copy = to_state = replace

    def copy_from(self, other: Variable) -> None:
        self.value, self.metadata = other.value, other.metadata

    update_from_state = copy_from


def _split_variable(variable: Variable) -> tuple[Sequence[tuple[str, Any]], Any]:
    described = tuple(sorted(variable.metadata.items()))
    return [("value", variable.value)], (type(variable), described)


def _join_variable(rest: Any, children: Sequence[Any]) -> Variable:
    made: Variable = rest[0].__new__(rest[0])
    Variable.__init__(made, children[0], **dict(rest[1]))
    return made


setattr(Variable, MARK, True)
setattr(Variable, NODE, Registered(_split_variable, _join_variable))
provide(f"{_NNX}.Variable")(Variable)
provide(f"{_NNX}.VariableState")(Variable)


class Param(Variable):
    """``nnx.Param``."""


class RngState(Variable):
    """The state of a stream of random keys."""


class RngKey(RngState):
    """The key that a stream begins with."""


class RngCount(RngState):
    """How many keys a stream gave."""


class BatchStat(Variable):
    """``nnx.BatchStat``: what batch normalization keeps."""


class Cache(Variable):
    """``nnx.Cache``: keys and values of tokens before."""


class Intermediate(Variable):
    """``nnx.Intermediate``: what a module sows."""


class OptState(Variable):
    """``nnx.OptState``: the state of an optimizer."""


class LoRAParam(Param):
    """``nnx.LoRAParam``."""


for _cls in (
    Param,
    RngState,
    RngKey,
    RngCount,
    BatchStat,
    Cache,
    Intermediate,
    OptState,
    LoRAParam,
):
    provide(f"{_NNX}.{_cls.__name__}")(_cls)
provide(f"{_NNX}.optimizer.OptState")(OptState)


@provide(f"{_NNX}.with_partitioning")
@provide(f"{_NNX}.with_metadata")
def _with_partitioning(
    initializer: Callable[..., Any], sharding: Any = None, **metadata: Any
) -> Callable[..., Any]:
    """An initializer whose parameter knows how it is sharded."""
    described = {**metadata} if sharding is None else {"sharding": sharding, **metadata}

    def init(*args: Any, **kwargs: Any) -> WithMetadata:
        return WithMetadata(initializer(*args, **kwargs), described)

    return init


# --- modules ----------------------------------------------------------------------------------------------------------


class Module:
    """``nnx.Module``: an object whose attributes are variables, modules, containers of them, and anything else."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Options such as ``pytree=False`` change nothing that is computed."""

    def train(self, **attributes: Any) -> None:
        """As in training: dropout drops, batch statistics are taken."""
        self.set_attributes(
            deterministic=False, use_running_average=False, **attributes
        )

    def eval(self, **attributes: Any) -> None:
        """As in use."""
        self.set_attributes(deterministic=True, use_running_average=True, **attributes)

    def set_attributes(
        self, *filters: Any, raise_if_not_found: bool = True, **attributes: Any
    ) -> None:
        """Set attributes of this module and all below it that have them."""
        if filters:
            raise NotEvaluable("attributes of some modules")
        for _, module in modules_in(self):
            for name in vars(module).keys() & attributes.keys():
                setattr(module, name, attributes[name])

    def iter_modules(self) -> Iterator[tuple[Path, Module]]:
        return iter(modules_in(self))

    def iter_children(self) -> Iterator[tuple[str, Module]]:
        return (
            (name, value)
            for name, value in sorted(vars(self).items())
            if isinstance(value, Module)
        )

    def sow(
        self, variable_type: type[Variable], name: str, value: Any, **options: Any
    ) -> bool:
        """Keep a value for whoever asks; what is sown under one name is a tuple."""
        if options:
            raise NotEvaluable("what is sown is reduced")
        before = getattr(self, name, None)
        kept = before.value if isinstance(before, Variable) else ()
        setattr(self, name, variable_type((*kept, value)))
        return True


setattr(Module, MARK, True)
provide(f"{_NNX}.Module")(Module)
provide(f"{_NNX}.Pytree")(Module)
provide(f"{_NNX}.Object")(Module)
provide(f"{_NNX}.data")(lambda value: value)
provide(f"{_NNX}.static")(lambda value: value)


class List(list[Any]):
    """``nnx.List``."""


class Dict(dict[str, Any]):
    """``nnx.Dict``: its keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def _split_list(value: List) -> tuple[list[tuple[Any, Any]], Any]:
    return list(enumerate(value)), None


setattr(List, NODE, Registered(_split_list, lambda _rest, children: List(children)))
for _container in (List, Dict):
    setattr(_container, MARK, True)
    provide(f"{_NNX}.{_container.__name__}")(_container)


def has_data(value: Any) -> bool:
    """Whether a value is an array or a variable, or holds one."""
    if isinstance(value, (Variable, Array)):
        return True
    children = children_of(value)
    return children is not None and any(has_data(child) for _, child in children)


def children_of(value: Any) -> list[tuple[Any, Any]] | None:
    """What a module or a container holds, by name; None for anything else. Parts of other libraries' trees that hold
    variables, as states of optimizers do, are containers."""
    if isinstance(value, Variable) or value is None:
        return None
    if isinstance(value, Module):
        return sorted(vars(value).items())
    found = parts(value)
    return None if found is None else found[0]


def variables_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Variable]]:
    """All variables of a module, each once, in order of their paths."""
    return _variables(value, path, set())


def _variables(
    value: Any, path: Path, seen: set[int]
) -> Iterator[tuple[Path, Variable]]:
    if isinstance(value, Variable):
        if id(value) not in seen:
            seen.add(id(value))
            yield path, value
        return
    if isinstance(value, Module):
        if id(value) in seen:
            return
        seen.add(id(value))
    for name, child in children_of(value) or ():
        yield from _variables(child, (*path, name), seen)


def modules_in(value: Any) -> list[tuple[Path, Module]]:
    """A module and all modules below it, those below first."""
    found: list[tuple[Path, Module]] = []
    _gather_modules(value, (), found, set())
    return found


def _gather_modules(
    value: Any, path: Path, found: list[tuple[Path, Module]], seen: set[int]
) -> None:
    if id(value) in seen:
        return
    if isinstance(value, Module):
        seen.add(id(value))
    for name, child in children_of(value) or ():
        _gather_modules(child, (*path, name), found, seen)
    if isinstance(value, Module):
        found.append((path, value))


def _split_module(module: Module) -> tuple[Sequence[tuple[str, Any]], Any]:
    items = sorted(vars(module).items())
    data = [(name, value) for name, value in items if has_data(value)]
    static = tuple((name, value) for name, value in items if not has_data(value))
    return data, (type(module), tuple(name for name, _ in data), static)


def _join_module(rest: Any, children: Sequence[Any]) -> Module:
    cls, names, static = rest
    made: Module = object.__new__(cls)
    vars(made).update(dict(static))
    vars(made).update(zip(names, children, strict=True))
    return made


setattr(Module, NODE, Registered(_split_module, _join_module))


# --- attributes in guarded code ---------------------------------------------------------------------------------------


def register(resolver: Resolver) -> None:
    """A variable has attributes of its own, and those of its array."""

    def of_variable(variable: Variable, name: str) -> Any:
        if is_closed(name):
            raise NotEvaluable(f"the attribute {name}")
        if name in vars(variable) or hasattr(type(variable), name):
            return getattr(variable, name)
        if name in variable.metadata:
            return variable.metadata[name]
        return resolver.attribute(variable.value, name)

    resolver.of_type[Variable] = of_variable
