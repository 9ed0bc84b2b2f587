"""The checked form of whatever users decorate: functions, methods and properties of every kind, classes, wrappers.

The check goes to the function that has the annotations, beneath what stands above it: ``vmap`` and ``grad`` call it
with other values than they are given. What cannot be reached is left as it is, and counted.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from shardtypes import _stats
from shardtypes.construction import check_where_made
from shardtypes.fields import is_generated

# Makes the checked form of a plain function.
Wrap = Callable[[Any], Any]

# A line in which something may be assigned to.
_ASSIGNS = re.compile("(?<![=!<>])=(?!=)")
_OF_ATTRIBUTES = frozenset(
    "__getattr__ __getattribute__ __setattr__ __delattr__ __del__ __repr__ __hash__ __eq__".split()
)

# Objects that call the function in them with what they are given, and give back its result.
_KEEPS_SIGNATURE = {
    "PjitFunction": "jaxlib",
    "custom_vjp": "jax",
    "custom_jvp": "jax",
    "_JitWrapper": "equinox",
    "JitWrapped": "flax",
    "JitFn": "flax",
}


def checked_form(target: Any, wrap: Wrap) -> Any:
    """``target`` with checks in it, of the same kind."""
    if type(target) is types.FunctionType:
        return _function(target, wrap)
    if isinstance(target, type):
        return _class(target, wrap)
    if isinstance(target, (classmethod, staticmethod)):
        return type(target)(checked_form(target.__func__, wrap))
    if isinstance(target, property):
        return _property(target, wrap)
    if isinstance(target, functools.cached_property):
        return _cached_property(target, wrap)
    if isinstance(target, functools.partialmethod):
        return functools.partialmethod(
            checked_form(target.func, wrap), *target.args, **target.keywords
        )
    if isinstance(target, functools.singledispatchmethod):
        _dispatcher(target.dispatcher, wrap)
        return target
    if isinstance(target, functools.partial):
        made = type(target)(
            checked_form(target.func, wrap), *target.args, **target.keywords
        )
        made.__dict__.update(target.__dict__)
        return made
    if isinstance(target, types.MethodType):
        return types.MethodType(checked_form(target.__func__, wrap), target.__self__)
    if isinstance(target, functools._lru_cache_wrapper):
        return functools.lru_cache(**target.cache_parameters())(
            checked_form(target.__wrapped__, wrap)
        )
    if callable(target):
        return _object(target, wrap)
    raise TypeError(
        f"typechecked needs a function or a class, got {type(target).__name__}"
    )


def _function(target: types.FunctionType, wrap: Wrap) -> Any:
    if hasattr(target, "registry") and hasattr(target, "dispatch"):
        return _dispatcher(target, wrap)
    inner = getattr(target, "__wrapped__", None)
    if inner is None:
        return wrap(target)
    paths = list(_paths(target, _innermost(inner), 0, set()))
    if len(paths) == 1:
        return _rebuilt(target, paths[0], wrap)
    return _not_reached(target)


def _innermost(function: Any) -> Any:
    return inspect.unwrap(function)


def _object(target: Any, wrap: Wrap) -> Any:
    """A callable object: what it wraps, if it keeps the signature of that, else its ``__call__``."""
    inner = getattr(target, "__wrapped__", None)
    if inner is not None:
        keeps = _keeps_signature(target) and _is_plain(inner)
        return _with_methods(wrap(target), target) if keeps else _not_reached(target)
    method = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(method, types.FunctionType):
        return _with_methods(wrap(types.MethodType(method, target)), target)
    return target  # written in C: it has no annotations


def _keeps_signature(target: Any) -> bool:
    kind = type(target)
    return _KEEPS_SIGNATURE.get(kind.__name__) == kind.__module__.partition(".")[0]


def _is_plain(function: Any) -> bool:
    """Whether nothing changes what a function is called with."""
    while not isinstance(function, types.FunctionType):
        if not _keeps_signature(function):
            return False
        function = function.__wrapped__
    return not hasattr(function, "__wrapped__") or hasattr(
        function, "__shardtypes_checked__"
    )


def _with_methods(made: Any, target: Any) -> Any:
    """A function with the methods of the object that it stands for, such as ``lower`` of a compiled one."""
    for name in dir(type(target)):
        if not name.startswith("_") and not hasattr(made, name):
            setattr(made, name, getattr(target, name))
    return made


# --- wrappers -------------------------------------------------------------------------------------------------------

# How a wrapper refers to what it calls: the number of a variable of its closure, or the name or number of a default.
Step = tuple[str, Any]
# The last step where it is inside of an object that cannot be made anew.
_OBJECT: Step = ("object", None)
_EMPTY = object()


def _paths(
    holder: Any, wanted: Any, depth: int, seen: set[int]
) -> Iterator[tuple[Step, ...]]:
    """All ways in which a function refers to another one: through closures and defaults of functions."""
    if id(holder) in seen or depth > 6:
        return
    seen = seen | {id(holder)}
    for step, value in _references(holder):
        if _stands_for(value, wanted):
            yield (step,)
        elif isinstance(value, types.FunctionType):
            for rest in _paths(value, wanted, depth + 1, seen):
                yield (step, *rest)
        elif _refers(value, wanted):
            yield step, _OBJECT


def _references(holder: types.FunctionType) -> Iterator[tuple[Step, Any]]:
    for index, cell in enumerate(holder.__closure__ or ()):
        yield ("closure", index), _contents(cell)
    for index, value in enumerate(holder.__defaults__ or ()):
        yield ("default", index), value
    for name, value in (holder.__kwdefaults__ or {}).items():
        yield ("keyword", name), value


def _stands_for(value: Any, wanted: Any) -> bool:
    """Whether this is the wanted function, or that with nothing above it that changes what it is called with."""
    return value is wanted or (
        _keeps_signature(value) and _is_plain(value) and _innermost(value) is wanted
    )


def _refers(value: Any, wanted: Any) -> bool:
    """Whether an object that is no function has the wanted one in it, as far as it says."""
    inner = (
        value.func
        if isinstance(value, functools.partial)
        else getattr(value, "__wrapped__", None)
    )
    return (
        inner is not None
        and not isinstance(value, type)
        and _innermost(inner) is wanted
    )


def _rebuilt(target: types.FunctionType, path: tuple[Step, ...], wrap: Wrap) -> Any:
    """The wrapper, calling the checked form of what it calls."""
    step, rest = path[0], path[1:]
    if _OBJECT in path:
        return _not_reached(target)
    held = dict(_references(target))[step]
    if rest:
        return _replaced(target, step, _rebuilt(held, rest, wrap))
    if isinstance(held, types.FunctionType):
        return _replaced(target, step, wrap(held))
    return _replaced(target, step, _with_methods(wrap(held), held))


def _replaced(target: types.FunctionType, step: Step, value: Any) -> types.FunctionType:
    """A copy of a function that refers to another value."""
    kind, key = step
    cells = list(target.__closure__ or ())
    defaults = list(target.__defaults__ or ())
    keywords = dict(target.__kwdefaults__ or {})
    if kind == "closure":
        cells[key] = types.CellType(value)
    elif kind == "default":
        defaults[key] = value
    else:
        keywords[key] = value
    # a wrapper may count its calls in an attribute of itself
    for index, cell in enumerate(cells):
        if _contents(cell) is target:
            cells[index] = types.CellType()
    made = types.FunctionType(
        target.__code__,
        target.__globals__,
        target.__name__,
        tuple(defaults),
        tuple(cells),
    )
    made.__kwdefaults__ = keywords
    functools.update_wrapper(made, target)
    made.__dict__.pop("__wrapped__")
    made.__dict__.update(target.__dict__)
    if hasattr(value, "__shardtypes_checked__"):
        made.__dict__["__shardtypes_checked__"] = value.__shardtypes_checked__
    for cell in cells:
        if _contents(cell) is _EMPTY:
            cell.cell_contents = made
    return made


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _EMPTY


def _not_reached(target: Any) -> Any:
    name = getattr(target, "__qualname__", None) or type(target).__name__
    _stats.count_not_possible(
        f"{name.rpartition('<locals>.')[2]}: what stands between typechecked and the function hides it; put "
        "@typechecked directly above the function"
    )
    return target


def _dispatcher(target: Any, wrap: Wrap) -> Any:
    """A function of ``functools.singledispatch``: each implementation, registered now or later, has its own checks."""
    register = target.register
    for cls, implementation in list(target.registry.items()):
        if isinstance(implementation, types.FunctionType):
            register(cls, checked_form(implementation, wrap))

    @functools.wraps(register)
    def register_checked(cls: Any, func: Any = None) -> Any:
        if isinstance(func, types.FunctionType):
            return register(cls, checked_form(func, wrap))
        if func is not None:
            return register(cls, func)
        if isinstance(cls, types.FunctionType):
            return register(checked_form(cls, wrap))
        return lambda func: register_checked(cls, func)

    target.register = register_checked
    return target


# --- members of classes ---------------------------------------------------------------------------------------------


def _property(target: property, wrap: Wrap) -> property:
    made = target
    if target.fget is not None:
        made = made.getter(checked_form(target.fget, wrap))
    if target.fset is not None:
        made = made.setter(checked_form(target.fset, wrap))
    if target.fdel is not None:
        made = made.deleter(checked_form(target.fdel, wrap))
    return made


def _cached_property(
    target: functools.cached_property[Any], wrap: Wrap
) -> functools.cached_property[Any]:
    made = type(target)(checked_form(target.func, wrap))
    made.__dict__.update(
        {name: value for name, value in vars(target).items() if name != "func"}
    )
    return made


def _class(target: type, wrap: Wrap) -> type:
    for name, member in list(vars(target).items()):
        if isinstance(member, type):
            if (
                member.__module__ == target.__module__
                and member.__qualname__ == f"{target.__qualname__}.{name}"
            ):
                _class(member, wrap)
        elif _annotated_functions(member, target):
            setattr(target, name, checked_form(member, wrap))
        elif _hidden_functions(member, target):
            _not_reached(_hidden_functions(member, target)[0])
    return check_where_made(target, every=True, is_complete=False)


def _annotated_functions(member: Any, owner: type) -> list[types.FunctionType]:
    """The functions in a member of a class that were written there and have annotations, or assign to what may have."""
    if isinstance(member, property):
        parts = [member.fget, member.fset, member.fdel]
    elif isinstance(member, (classmethod, staticmethod)):
        return _annotated_functions(member.__func__, owner)
    elif isinstance(member, (functools.cached_property, functools.partialmethod)):
        parts = [member.func]
    elif isinstance(member, functools.singledispatchmethod):
        parts = [*member.dispatcher.registry.values()]
    elif callable(member):
        parts = [member, *getattr(member, "registry", {}).values()]
    else:
        return []
    functions = [_innermost(part) for part in parts if part is not None]
    return [
        function
        for function in functions
        if isinstance(function, types.FunctionType)
        and function.__module__ == owner.__module__
        and function.__qualname__.startswith(f"{owner.__qualname__}.")
        and not is_generated(function)
        and (function.__annotations__ or _may_assign(function))
    ]


def _may_assign(function: types.FunctionType) -> bool:
    """Whether a function without annotations may assign to an annotated variable or attribute: by its text, for Python
    keeps no annotations of variables. Methods that are in the way of every attribute are left as they are."""
    if function.__name__ in _OF_ATTRIBUTES:
        return False
    code = function.__code__
    lines = [line for *_, line in code.co_lines() if line is not None]
    text = linecache.getlines(code.co_filename, function.__globals__)
    return any(_ASSIGNS.search(line) for line in text[min(lines) - 1 : max(lines)])


def _hidden_functions(member: Any, owner: type) -> list[types.FunctionType]:
    """Those in a descriptor of a kind that is not known."""
    if callable(member) or not hasattr(type(member), "__get__"):
        return []
    parts = [
        getattr(member, name, None)
        for name in ("__wrapped__", "fget", "func", "method")
    ]
    return [
        function for part in parts for function in _annotated_functions(part, owner)
    ]
