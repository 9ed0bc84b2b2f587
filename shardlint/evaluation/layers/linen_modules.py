"""``flax.linen``: modules, their variables and how they are applied, in guarded code."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from shardlint.evaluation.control import transparent
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.held import Held
from shardlint.evaluation.layers.boxes import unboxed
from shardlint.evaluation.layers.functions import call
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array

_LINEN = "flax.linen"
Path = tuple[str, ...]
_PARAMS = "params"
_OWN = ("parent", "name")
"""Fields that every module has."""


# --- variables --------------------------------------------------------------------------------------------------------


@dataclass
class Store:
    """The variables of one call of ``init`` or ``apply``, by collection and path, and its random keys."""

    collections: dict[str, dict[str, Any]]
    mutable: Callable[[str], bool]
    keys: Mapping[str, Any] = field(default_factory=dict)
    is_initializing: bool = False
    drawn: Counter[tuple[Path, str]] = field(default_factory=Counter)

    def at(self, collection: str, path: Path, is_made: bool = False) -> dict[str, Any]:
        """The variables of a module; an empty dict where it has none."""
        top = self.collections
        if collection not in top and not is_made:
            return {}
        found: dict[str, Any] = top.setdefault(collection, {})
        for name in path:
            if name not in found and not is_made:
                return {}
            found = found.setdefault(name, {})
        return found

    def key(self, name: str, path: Path) -> Array:
        """The next random key of a module, of a stream or else of that of the parameters."""
        stream = name if name in self.keys else _PARAMS
        if stream not in self.keys:
            raise ValueError(f"no random key for {name!r}")
        self.drawn[path, stream] += 1
        number = _hashed((*path, self.drawn[path, stream]))
        return call("random.fold_in", self.keys[stream], number)


def _hashed(parts: Sequence[str | int]) -> int:
    """The number that flax makes of a path and a count."""
    made = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        if isinstance(part, int):
            made.update(part.to_bytes((part.bit_length() + 7) // 8, "big"))
        else:
            made.update(part.encode())
    return int.from_bytes(made.digest()[:4], "big")


class Variable(Held):
    """``nn.Variable``: a place in a collection."""

    def __init__(self, held: dict[str, Any], name: str, is_mutable: bool) -> None:
        self._held, self._name, self._is_mutable = held, name, is_mutable

    @property
    def value(self) -> Any:
        return unboxed(self._held[self._name])

    @value.setter
    def value(self, new: Any) -> None:
        if not self._is_mutable:
            raise ValueError(f"the collection of {self._name} is not mutable")
        self._held[self._name] = new


setattr(Variable, MARK, True)
provide(f"{_LINEN}.Variable")(Variable)


# --- modules ----------------------------------------------------------------------------------------------------------

_STATE = "__shardlint_state__"
"""The attribute under which a module has its state."""
_running: list[Module] = []
"""The modules whose methods run, the innermost last."""


@dataclass
class _State:
    """What a module is besides its fields."""

    store: Store | None = None
    path: Path = ()
    made: Counter[str] = field(default_factory=Counter)
    """How many submodules of each class it made in a compact method."""
    is_in_setup: bool = False
    is_set_up: bool = False


@dataclass_transform(kw_only_default=False, field_specifiers=(dataclasses.field,))
class Module:
    """``nn.Module``: a dataclass whose methods see the variables of the call that they are part of."""

    parent: Any = field(default=None, kw_only=True)
    name: Any = field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        declared = vars(cls).get("__annotations__", {})
        for name, value in list(vars(cls).items()):
            is_function = isinstance(value, types.FunctionType)
            if is_function and name not in declared and _is_method(name):
                setattr(cls, name, _method(value))
        _as_dataclass(cls)

    def __post_init__(self) -> None:
        vars(self)[_STATE] = _State()
        parent = self.parent
        if parent is _UNSAID:
            parent = _running[-1] if _running else None
            vars(self)["parent"] = parent
        if not isinstance(parent, Module) or parent._state.store is None:
            return
        if parent._state.is_in_setup and self.name is None:
            return
        if self.name is None:
            kind = type(self).__name__
            vars(self)["name"] = f"{kind}_{parent._state.made[kind]}"
            parent._state.made[kind] += 1
        _bind(self, parent._state.store, (*parent._state.path, self.name))

    def __setattr__(self, name: str, value: Any) -> None:
        state = vars(self).get(_STATE)
        if state is not None and state.is_in_setup and state.store is not None:
            value = _named(value, name, self)
        vars(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        """What ``setup`` makes, where it did not run yet."""
        state: _State = vars(self).get(_STATE, _UNBOUND)
        if name.startswith("_") or state.store is None or state.is_set_up:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        _set_up(self)
        return getattr(self, name)

    def setup(self) -> None:
        """Nothing, unless a class says more."""

    # -- variables

    @property
    def _state(self) -> _State:
        state: _State = vars(self)[_STATE]
        return state

    @property
    def _store(self) -> Store:
        store = self._state.store
        if store is None:
            raise ValueError(f"{type(self).__name__} is used outside of init and apply")
        return store

    @property
    def variables(self) -> dict[str, Any]:
        """All of the module, by collection."""
        store, path = self._store, self._state.path
        return {name: store.at(name, path) for name in store.collections}

    @property
    def scope(self) -> Any:
        raise NotEvaluable("the scope of a linen module")

    @property
    def path(self) -> Path:
        return self._state.path

    def param(
        self, name: str, init_fn: Any, *args: Any, unbox: bool = True, **kwargs: Any
    ) -> Any:
        """A parameter, made where the module is initialized."""
        store, path = self._store, self._state.path
        if name not in store.at(_PARAMS, path):
            if not store.mutable(_PARAMS):
                raise KeyError(f"no parameter {name!r} at {'/'.join(path)}")
            made = init_fn(store.key(_PARAMS, path), *args, **kwargs)
            store.at(_PARAMS, path, is_made=True)[name] = made
        value = store.at(_PARAMS, path)[name]
        return unboxed(value) if unbox else value

    def variable(
        self, col: str, name: str, init_fn: Any = None, *args: Any, **kwargs: Any
    ) -> Variable:
        """A variable of a collection, made where there is none."""
        options = {key: value for key, value in kwargs.items() if key != "unbox"}
        store, path = self._store, self._state.path
        if name not in store.at(col, path):
            if init_fn is None:
                raise KeyError(f"no variable {name!r} in {col}")
            value = init_fn(*args, **options)
            store.at(col, path, is_made=True)[name] = value
        return Variable(store.at(col, path), name, store.mutable(col))

    def has_variable(self, col: str, name: str) -> bool:
        return name in self._store.at(col, self._state.path)

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        return unboxed(self._store.at(col, self._state.path).get(name, default))

    def put_variable(self, col: str, name: str, value: Any) -> None:
        self._store.at(col, self._state.path, is_made=True)[name] = value

    def make_rng(self, name: str = _PARAMS) -> Array:
        return self._store.key(name, self._state.path)

    def has_rng(self, name: str) -> bool:
        return name in self._store.keys

    def is_initializing(self) -> bool:
        return self._store.is_initializing

    def is_mutable_collection(self, col: str) -> bool:
        return self._store.mutable(col)

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Any = None,
        init_fn: Any = None,
    ) -> bool:
        """Keep a value for whoever makes the collection mutable."""
        store = self._store
        if not store.mutable(col):
            return False
        held = store.at(col, self._state.path, is_made=True)
        if reduce_fn is None:
            held[name] = (*held.get(name, ()), value)
        else:
            held[name] = reduce_fn(held.get(name, init_fn()), value)
        return True

    # -- calls

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> Any:
        """The variables of the module for such arguments."""
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def init_with_output(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: Any = None,
        **kwargs: Any,
    ) -> Any:
        is_mutable = _filter(mutable if mutable is not None else _Deny("intermediates"))
        store = Store({}, is_mutable, _keys(rngs), is_initializing=True)
        found = applied(self, store, method, args, kwargs)
        return found, store.collections

    def apply(
        self,
        variables: Any,
        *args: Any,
        rngs: Any = None,
        method: Any = None,
        mutable: Any = False,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> Any:
        """What the module computes with variables; with mutable collections, these as well as they are then."""
        if capture_intermediates:
            raise NotEvaluable("nn.Module.apply that captures intermediates")
        is_mutable = _filter(mutable)
        store = Store(_copied(variables), is_mutable, _keys(rngs))
        found = applied(self, store, method, args, kwargs)
        if mutable is False:
            return found
        changed = {
            name: held for name, held in store.collections.items() if is_mutable(name)
        }
        return found, changed

    def bind(self, variables: Any, *, rngs: Any = None, mutable: Any = False) -> Any:
        """The module with variables."""
        store = Store(_copied(variables), _filter(mutable), _keys(rngs))
        return _bind(_fresh(self), store, ())

    def unbind(self) -> Any:
        return _fresh(self), self.variables

    def clone(self, *, parent: Any = None, name: Any = None, **updates: Any) -> Any:
        return _fresh(self, parent=parent, name=name or self.name, **updates)

    def copy(self, *, parent: Any = None, name: Any = None, **updates: Any) -> Any:
        return self.clone(parent=parent, name=name, **updates)


_UNSAID = object()
_UNBOUND = _State()
setattr(Module, MARK, True)
provide(f"{_LINEN}.Module")(Module)
provide("flax.linen.module.Module")(Module)


def _is_method(name: str) -> bool:
    return name == "__call__" or not name.startswith("__")


def _as_dataclass(cls: type[Module]) -> None:
    """The fields of a class, and a parent and a name after them."""
    annotations = dict(vars(cls).get("__annotations__", {}))
    for name in _OWN:
        annotations.pop(name, None)
    cls.__annotations__ = {**annotations, "parent": Any, "name": Any}
    cls.parent = dataclasses.field(default=_UNSAID, kw_only=True)
    cls.name = dataclasses.field(default=None, kw_only=True)
    own = vars(cls).get("__init__")
    dataclasses.dataclass(eq=False, repr=False, init=own is None)(cls)


def _method(function: Any) -> Any:
    """A method in which submodules are made as parts of its module."""
    is_setup = function.__name__ == "setup"

    @functools.wraps(function)
    def run(self: Module, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, Module):
            return function(self, *args, **kwargs)
        state = self._state
        if state.store is not None and not is_setup and not state.is_in_setup:
            _set_up(self)
        is_compact = getattr(function, COMPACT, False)
        if is_compact:
            state.made.clear()
        _running.append(self)
        try:
            return function(self, *args, **kwargs)
        finally:
            _running.pop()

    return run


F = TypeVar("F", bound=Callable[..., Any])
COMPACT = "__shardlint_compact__"


def compact(function: F) -> F:
    """Submodules are made where the method uses them."""
    setattr(function, COMPACT, True)
    return function


provide(f"{_LINEN}.compact")(compact)


for _name in ("nowrap", "named_call", "compact_name_scope"):
    provide(f"{_LINEN}.{_name}")(transparent)


def _set_up(module: Module) -> None:
    """Run ``setup`` the first time."""
    state = module._state
    if state.is_set_up:
        return
    state.is_set_up = state.is_in_setup = True
    try:
        module.setup()
    finally:
        state.is_in_setup = False


def _bind(module: Module, store: Store, path: Path) -> Module:
    """Give a module its variables; modules among its fields become parts of it."""
    state = module._state
    state.store, state.path = store, path
    for one in dataclasses.fields(module):  # type: ignore[arg-type]  # each subclass is a dataclass
        if one.name not in _OWN:
            vars(module)[one.name] = _named(getattr(module, one.name), one.name, module)
    return module


def _named(value: Any, name: str, parent: Module) -> Any:
    """A value with the modules in it as parts of another, by the name of its attribute."""
    if isinstance(value, Module):
        if value._state.store is not None:
            return value
        made = value if value.parent is parent else _fresh(value)
        own = value.name if value.name is not None else name
        vars(made).update(parent=parent, name=own)
        assert parent._state.store is not None
        return _bind(made, parent._state.store, (*parent._state.path, own))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        items = [_named(one, f"{name}_{k}", parent) for k, one in enumerate(value)]
        return type(value)(items)
    if isinstance(value, dict):
        return {key: _named(one, f"{name}_{key}", parent) for key, one in value.items()}
    return value


def _fresh(module: Module, **changes: Any) -> Any:
    """The same module without variables."""
    given = {
        one.name: getattr(module, one.name)
        for one in dataclasses.fields(module)  # type: ignore[arg-type]  # each subclass is a dataclass
        if one.init and one.name not in _OWN
    }
    return type(module)(**{**given, "parent": None, "name": module.name, **changes})


def applied(
    module: Module,
    store: Store,
    method: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What a method of a module gives with variables."""
    bound = _bind(_fresh(module), store, ())
    outer = list(_running)
    _running.clear()
    try:
        return _method_of(bound, method)(*args, **kwargs)
    finally:
        _running[:] = outer


def _method_of(module: Module, method: Any) -> Any:
    if method is None:
        return module
    if isinstance(method, str):
        return getattr(module, method)
    function = getattr(method, "__func__", method)
    return functools.partial(_method(function), module)


def _copied(variables: Any) -> Any:
    """Dicts of their own, so that what changes in a call does not change outside."""
    if not isinstance(variables, dict):
        return variables
    return {key: _copied(value) for key, value in variables.items()}


def _keys(rngs: Any) -> dict[str, Any]:
    if rngs is None:
        return {}
    return dict(rngs) if isinstance(rngs, dict) else {_PARAMS: rngs}


# --- collections ------------------------------------------------------------------------------------------------------


class _Deny:
    """``DenyList``: all collections but some."""

    def __init__(self, deny: Any) -> None:
        self.deny = deny


provide("flax.core.DenyList")(_Deny)
provide("flax.core.scope.DenyList")(_Deny)


def _filter(given: Any) -> Callable[[str], bool]:
    """Which collections are mutable."""
    if isinstance(given, _Deny):
        denied = _filter(given.deny)
        return lambda name: not denied(name)
    if isinstance(given, bool):
        return lambda name: given
    names = {given} if isinstance(given, str) else set(given)
    return lambda name: name in names
