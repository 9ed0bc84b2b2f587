"""The checks of what holds arrays: tuples, collections, mappings, dataclasses, named tuples and typed dicts.

Whatever else may hold arrays is counted: what an iterator yields can be read only once, and a callable, an awaitable, a
protocol or a class of its own kind says nothing of what is in it.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import jax
from typeguard import TypeCheckError, TypeCheckMemo

from shardtypes import _stats
from shardtypes.array_check import leave_own_names
from shardtypes.array_types import has_array_fields, has_array_methods, holds_arrays
from shardtypes.described import is_described
from shardtypes.dtypes import anydtype, array_spec, shape_of_type
from shardtypes.fields import (
    FieldTypes,
    class_annotations,
    declares_fields,
    default_of,
    generic_bases,
    is_named_tuple,
    is_pytree_dataclass,
    is_stacked,
    known_field_types,
    module_names,
    replacements,
    shares_sizes,
    stacked_as,
    substituted,
    unstacked,
)
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.stacks import is_stack
from shardtypes.typeguard_checks import (
    CONFIG,
    Checker,
    anything,
    around_arrays,
    is_instance,
)

# Makes the check of a part: compile_part in annotation_checks.
Compile = Callable[[Any, TypeCheckMemo], Checker]

_abc = collections.abc
_ITEMS = (list, set, frozenset, collections.deque)
_ITEM_ABCS = (
    _abc.Sequence,
    _abc.MutableSequence,
    _abc.Set,
    _abc.MutableSet,
    _abc.ValuesView,
    _abc.KeysView,
    _abc.Collection,
    _abc.Reversible,
    _abc.Iterable,
    _abc.Container,
)
_MAPPING_ABCS = (
    _abc.Mapping,
    _abc.MutableMapping,
    collections.ChainMap,
    types.MappingProxyType,
)
# What can be gone through again and again, and holds what it yields.
_REREADABLE = (
    _abc.Sequence,
    _abc.Set,
    _abc.Mapping,
    _abc.MappingView,
    collections.deque,
)


def compile_container(
    annotation: Any, memo: TypeCheckMemo, compile_part: Compile
) -> Checker:
    """The check of a type that holds arrays and is no array itself, nor a union."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    base = annotation if origin is None else origin
    if not isinstance(base, type):
        return _counted(around_arrays(annotation, memo), f"what is in {annotation!r}")
    if is_stacked(base) and not shares_sizes(base):
        return _unless_described(_compile_stack(base, compile_part), base)
    if declares_fields(base):
        return _unless_described(
            _compile_dataclass(
                annotation, base, args, memo, compile_part, shares_sizes(base)
            ),
            base,
        )
    if is_named_tuple(base):
        return _unless_described(_compile_named_tuple(base, args, compile_part), base)
    if typing.is_typeddict(base):
        return _compile_typed_dict(base, args, compile_part)
    if base is tuple:
        return _compile_tuple(args, memo, compile_part)
    if getattr(base, "_is_protocol", False) and has_array_fields(base):
        return _compile_protocol(annotation, base, args, memo, compile_part)
    if len(args) == 2 and (issubclass(base, dict) or base in _MAPPING_ABCS):
        return _compile_mapping(base, args, memo, compile_part)
    if len(args) == 1 and (issubclass(base, _ITEMS) or base in _ITEM_ABCS):
        return _compile_items(base, args[0], memo, compile_part)
    return _compile_class(annotation, base, args, memo, compile_part)


def compile_receiver(cls: type, memo: TypeCheckMemo, compile_part: Compile) -> Checker:
    """The check of the object of a method, a ``pytree_dataclass``: its sizes are those of the call, also where each
    value of the class names its own."""
    check = _compile_dataclass(cls, cls, (), memo, compile_part, shared=True)
    return _unless_described(check, cls)


def _compile_class(
    annotation: Any,
    base: type,
    args: tuple[Any, ...],
    memo: TypeCheckMemo,
    compile_part: Compile,
) -> Checker:
    """A class of another kind: its bases are checked where they say what is in it."""
    check = around_arrays(annotation, memo)
    if base is type:
        return check
    bases = [part for part in _generic_bases(base, args) if holds_arrays(part)]
    if has_array_fields(base) or not bases:
        check = _counted(check, _unchecked_part(base))
    checks = [check, *(compile_part(part, memo) for part in bases)]
    if len(checks) == 1:
        return check

    def check_class(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        for each in checks:
            each(value, table, view, site)

    return check_class


def _generic_bases(base: type, args: tuple[Any, ...]) -> list[Any]:
    """The bases of a class with what they say of its items: ``dict[str, f32['M']]``."""
    replaced = replacements(getattr(base, "__parameters__", ()), args) if args else {}
    return [substituted(part, replaced) for part in generic_bases(base)]


def _unchecked_part(base: type) -> str:
    """What of such a value nothing checks, in words."""
    if base.__name__ == "Callable":
        return "what a callable is given and returns"
    if issubclass(base, (_abc.Iterator, _abc.AsyncIterable)):
        return f"what {_article(base.__name__)} yields, which can be read only once"
    if issubclass(base, _abc.Awaitable):
        return f"what {_article(base.__name__)} returns"
    if has_array_methods(base):
        return f"what methods of {_article(base.__name__)} are given and return"
    if has_array_fields(base):
        return f"the attributes of {base.__name__}, which is not a dataclass"
    return f"what is in {_article(base.__name__)}"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def _counted(check: Checker, what: str) -> Checker:
    """A check that leaves something out."""

    def checked(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        check(value, table, view, site)
        _stats.count_not_possible(f"{site}: {what}")

    return checked


def _unless_described(check: Checker, base: type) -> Checker:
    """The check of a class of arrays, for objects that do hold arrays."""

    def checked(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        try:
            check(value, table, view, site)
        except TypeCheckError:
            if not isinstance(value, base) or not is_described(value):
                raise
            _stats.count_not_possible(
                f"{site}: a {base.__name__} of specs, shardings, masks or labels, not of arrays"
            )

    return checked


def _inside(
    check: Checker, value: Any, step: str, table: Table, view: View, site: Site
) -> None:
    """Check a part of a value; ``step`` says which one."""
    __tracebackhide__ = True
    try:
        check(value, table, view, site)
    except TypeCheckError as error:
        error.append_path_element(step)
        raise


def _compile_items(
    base: type, item: Any, memo: TypeCheckMemo, compile_part: Compile
) -> Checker:
    check = compile_part(item, memo)

    def check_items(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not is_instance(value, base, memo):
            return
        if not isinstance(value, _REREADABLE):
            what = f"what {_article(type(value).__name__)} yields, which may be read only once"
            _stats.count_not_possible(f"{site}: {what}")
            return
        for index, part in enumerate(typing.cast(_abc.Iterable[Any], value)):
            _inside(check, part, f"item {index}", table, view, site)

    return check_items


def _compile_mapping(
    base: type, args: tuple[Any, ...], memo: TypeCheckMemo, compile_part: Compile
) -> Checker:
    check_key, check_value = (compile_part(part, memo) for part in args)

    def check_mapping(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not is_instance(value, base, memo):
            return
        for key, part in value.items():
            if check_key is not anything:
                _inside(check_key, key, f"key {key!r}", table, view, site)
            _inside(check_value, part, f"value of key {key!r}", table, view, site)

    return check_mapping


def _compile_tuple(
    args: tuple[Any, ...], memo: TypeCheckMemo, compile_part: Compile
) -> Checker:
    before, several, after = split_tuple(args)
    checks = [compile_part(part, memo) for part in before]
    checks_after = [compile_part(part, memo) for part in after]
    check_more = None if several is None else compile_part(several, memo)
    least = len(checks) + len(checks_after)

    def check_tuple(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not is_instance(value, tuple, memo):
            return
        more = len(value) - least
        if more < 0 or (more > 0 and check_more is None):
            wanted = least if check_more is None else f"at least {least}"
            raise TypeCheckError(
                f"has wrong number of elements (expected {wanted}, got {len(value)} instead)"
            )
        every = [
            *checks,
            *([check_more] * more if check_more is not None else []),
            *checks_after,
        ]
        for index, (check, part) in enumerate(zip(every, value, strict=True)):
            _inside(check, part, f"item {index}", table, view, site)

    return check_tuple


def split_tuple(args: tuple[Any, ...]) -> tuple[list[Any], Any, list[Any]]:
    """The items of a tuple type before one of which there may be several, that one, and those after it.

    ``tuple[int, *tuple[str, ...], float]`` gives ``[int], str, [float]``; without such a one it is None.
    """
    items: list[Any] = []
    several: Any = None
    at = 0
    for part in args:
        inner = _unpacked(part)
        if part is Ellipsis:
            several, at = items.pop(), len(items)
        elif inner is None:
            items.append(part)
        else:
            first, more, last = split_tuple(inner)
            if more is not None:
                several, at = more, len(items) + len(first)
            items += [*first, *last]
    return (items, None, []) if several is None else (items[:at], several, items[at:])


def _unpacked(part: Any) -> tuple[Any, ...] | None:
    """The items of ``*tuple[…]`` (``Unpack[tuple[…]]``) and of ``*Ts``; None for an item."""
    if getattr(part, "__unpacked__", False):
        return typing.get_args(part)
    if typing.get_origin(part) is typing.Unpack:
        (inner,) = typing.get_args(part)
        return (
            (Any, Ellipsis)
            if isinstance(inner, typing.TypeVarTuple)
            else typing.get_args(inner)
        )
    return None


def _compile_dataclass(
    annotation: Any,
    base: type,
    args: tuple[Any, ...],
    memo: TypeCheckMemo,
    compile_part: Compile,
    shared: bool,
) -> Checker:
    """A dataclass of any kind, or a class of attrs; what its bases are said to hold is checked too.

    ``shared``: its fields speak of the sizes of the call. Else there may be several of it in one call: each value names
    what it holds by itself.
    """
    # named where the class is
    of_arguments = _fields_of_arguments(base) if args else set()
    checks = _field_checks(base, args, compile_part)
    checks_of_subclass = _checks_of_subclasses(base, args, compile_part)
    bases = [
        compile_part(part, memo)
        for part in _generic_bases(base, args)
        if holds_arrays(part)
    ]
    name_of_class = f"{base.__module__}.{base.__qualname__}"
    # ``vmap`` makes a stack of a function's results, and leaves their class as it is.
    kind = unstacked(base)

    def check_parts(
        value: Any, names: Table, table: Table, view: View, site: Site
    ) -> None:
        __tracebackhide__ = True
        for check in bases:
            check(value, names, view, site)
        with _under_way_with(value):
            for name, check in checks(site).items():
                _check_field(
                    check,
                    value,
                    name,
                    base,
                    table if name in of_arguments else names,
                    view,
                    site,
                )
            for name, check in checks_of_subclass(type(value)).items():
                _check_field(check, value, name, type(value), names, view, site)

    def check_fields(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not isinstance(value, kind):
            raise TypeCheckError(f"is not an instance of {name_of_class}")
        if any(value is other for other in _values_under_way()):  # it holds itself
            return
        if shared:
            check_parts(value, table, table, view, site)
            return
        check_by_itself(value, table, view, site)

    check_by_itself = _naming_its_own(check_parts, base)
    return check_fields


def _checks_of_subclasses(
    base: type, args: tuple[Any, ...], compile_part: Compile
) -> Callable[[type], Mapping[str, Checker]]:
    """The checks of the fields that a subclass adds, or of which it says more than the class that is declared."""
    made: WeakKeyDictionary[type, dict[str, Checker]] = WeakKeyDictionary()
    # Their sizes are the call's where the base is declared, and the value's own in the subclass.
    of_arguments = _fields_of_arguments(base) if args else set()

    def checks(cls: type) -> Mapping[str, Checker]:
        # What a stack holds has the fields of its class; ``tree.map`` makes stacks of the class that it is given.
        if unstacked(cls) is unstacked(base):
            return {}
        found = made.get(cls)
        if found is not None:
            return found
        declared = known_field_types(base, args or _default_arguments(base)).types
        own = known_field_types(stacked_as(base, cls), _default_arguments(cls))
        memo = TypeCheckMemo(module_names(cls), {}, config=CONFIG)
        found = {
            name: compile_part(hint, memo)
            for name, hint in own.types.items()
            if hint != declared.get(name) or name in of_arguments
            if holds_arrays(hint)
        }
        if not own.missing:  # else a name may be defined later
            made[cls] = found
        return found

    return checks


# Checks the parts of a value: their sizes have names in the first table, those of type arguments in the second.
_CheckParts = Callable[[Any, Table, Table, View, Site], None]


def _naming_its_own(
    check_parts: _CheckParts, base: type, of_call: frozenset[str] = frozenset()
) -> Checker:
    """A check whose values name their sizes each by itself; one that is a stack of such values is counted. Those
    ``of_call`` are compared by the caller."""

    def check_by_itself(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        names = type(table)(table.code)
        try:
            check_parts(value, names, table, view, site)
        except TypeCheckError:
            if not is_stack(
                value, lambda one: check_parts(one, Table(), Table(), view, site)
            ):
                raise
            _stats.count_not_possible(
                f"{site}: a stack of {base.__name__}, annotated as one of them"
            )
            return
        for name in of_call:
            names.sizes.pop(name, None)
        leave_own_names(names, table, site, base.__name__)

    return check_by_itself


def _fields_of_arguments(base: type) -> set[str]:
    """The fields whose types have type variables in them."""
    hints = class_annotations(base).items()
    return {
        name
        for name, hint in hints
        if isinstance(hint, typing.TypeVar) or bool(getattr(hint, "__parameters__", ()))
    }


def _check_field(
    check: Checker,
    value: Any,
    name: str,
    base: type,
    table: Table,
    view: View,
    site: Site,
) -> None:
    __tracebackhide__ = True
    part = getattr(value, name, _MISSING)
    site = site_of_field(site, name)
    if part is _MISSING:
        _stats.count_not_possible(f"{site}, which is not there")
        return
    _inside(check, part, f"field {name!r} ({base.__name__})", table, view, site)


_MISSING = object()
_under_way = threading.local()


def _values_under_way() -> list[Any]:
    """The values whose fields are being checked on this thread."""
    found: list[Any] = _under_way.__dict__.setdefault("values", [])
    return found


@contextmanager
def _under_way_with(value: Any) -> Iterator[None]:
    values = _values_under_way()
    values.append(value)
    try:
        yield
    finally:
        values.pop()


def _compile_named_tuple(
    base: Any, args: tuple[Any, ...], compile_part: Compile
) -> Checker:
    of_arguments = _fields_of_arguments(base) if args else set()
    checks = _field_checks(base, args, compile_part)

    def check_parts(
        value: Any, names: Table, table: Table, view: View, site: Site
    ) -> None:
        __tracebackhide__ = True
        for name, check in checks(site).items():
            named_in = table if name in of_arguments else names
            _inside(
                check, getattr(value, name), f"attribute {name!r}", named_in, view, site
            )

    check_by_itself = _naming_its_own(check_parts, base)

    def check_named_tuple(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not isinstance(value, base):
            raise TypeCheckError(
                f"is not a named tuple of type {base.__module__}.{base.__qualname__}"
            )
        check_by_itself(value, table, view, site)

    return check_named_tuple


def _compile_stack(base: Any, compile_part: Compile) -> Checker:
    """``Array['n', C]`` of a class whose values name their sizes each by itself: the names in front are the call's."""
    dims, _ = vars(base)["__shardtypes_stack__"]
    in_front_type = anydtype.__class_getitem__(f"{dims} ...")
    in_front = array_spec(in_front_type)
    kind = unstacked(base)
    checks = _field_checks(base, (), compile_part)
    of_arrays = [n for n, hint in class_annotations(base).items() if holds_arrays(hint)]

    def check_parts(
        value: Any, names: Table, table: Table, view: View, site: Site
    ) -> None:
        __tracebackhide__ = True
        for name, check in checks(site).items():
            _check_field(check, value, name, base, names, view, site)

    in_call = frozenset(shape_of_type(in_front_type).names)
    check_by_itself = _naming_its_own(check_parts, base, in_call)

    def check_stack(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not isinstance(value, kind):
            raise TypeCheckError(
                f"is not an instance of {kind.__module__}.{kind.__qualname__}"
            )
        check_by_itself(value, table, view, site)
        for name in of_arrays:
            for array in jax.tree_util.tree_leaves(getattr(value, name)):
                _inside(in_front.check, array, f"field {name!r}", table, view, site)

    return check_stack


def _compile_protocol(
    annotation: Any,
    base: type,
    args: tuple[Any, ...],
    memo: TypeCheckMemo,
    compile_part: Compile,
) -> Checker:
    check = around_arrays(annotation, memo)
    checks = _field_checks(base, args, compile_part)
    if has_array_methods(base):
        check = _counted(check, _unchecked_part(base))

    def check_protocol(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        check(value, table, view, site)
        for name, check_field in checks(site).items():
            _inside(
                check_field,
                getattr(value, name),
                f"attribute {name!r}",
                table,
                view,
                site,
            )

    return check_protocol


def _compile_typed_dict(
    base: Any, args: tuple[Any, ...], compile_part: Compile
) -> Checker:
    of_arguments = _fields_of_arguments(base) if args else set()
    checks = _field_checks(base, args, compile_part)

    def check_parts(
        value: Any, names: Table, table: Table, view: View, site: Site
    ) -> None:
        __tracebackhide__ = True
        for name, check in checks(site).items():
            if name in value:
                named_in = table if name in of_arguments else names
                _inside(
                    check, value[name], f"value of key {name!r}", named_in, view, site
                )

    check_by_itself = _naming_its_own(check_parts, base)

    def check_typed_dict(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not isinstance(value, dict):
            raise TypeCheckError("is not a dict")
        for title, keys in (
            ("has unexpected extra key(s)", value.keys() - base.__annotations__.keys()),
            ("is missing required key(s)", _required_keys(base) - value.keys()),
        ):
            if keys:
                raise TypeCheckError(
                    f"{title}: "
                    + ", ".join(f'"{key}"' for key in sorted(keys, key=repr))
                )
        check_by_itself(value, table, view, site)

    return check_typed_dict


def _default_arguments(base: Any) -> tuple[Any, ...]:
    """What the type variables of a class stand for where it is written without arguments."""
    parameters = getattr(base, "__parameters__", ())
    return tuple(default_of(parameter) for parameter in parameters)


def _required_keys(base: Any) -> set[str]:
    """The keys that a typed dict must have; Python itself does not see qualifiers in strings."""
    origins = {
        key: typing.get_origin(hint) for key, hint in class_annotations(base).items()
    }
    declared = {
        key
        for key, origin in origins.items()
        if getattr(origin, "_name", None) == "Required"
    }
    left_open = {
        key
        for key, origin in origins.items()
        if getattr(origin, "_name", None) == "NotRequired"
    }
    return (set(base.__required_keys__) | declared) - left_open


def _field_checks(
    base: type, args: tuple[Any, ...], compile_part: Compile
) -> Callable[[Site], Mapping[str, Checker]]:
    """The checks of a class's fields, made when they are needed first: a type may hold itself.

    Of a ``pytree_dataclass``, a named tuple and a typed dict those of all fields; of other classes those with arrays.
    """
    made: tuple[FieldTypes, dict[str, Checker]] | None = None
    every = not declares_fields(base) or is_pytree_dataclass(base)

    def checks(site: Site) -> Mapping[str, Checker]:
        nonlocal made
        if made is None or not made[0].are_current():
            memo = TypeCheckMemo(module_names(base), {}, config=CONFIG)
            known = known_field_types(base, args or _default_arguments(base))
            wanted = {
                name: hint
                for name, hint in known.types.items()
                if every or holds_arrays(hint)
            }
            made = (
                known,
                {name: compile_part(hint, memo) for name, hint in wanted.items()},
            )
        return made[1]

    return checks


@functools.lru_cache(maxsize=4096)
def site_of_field(site: Site, name: str) -> Site:
    """``parameter 'w'`` → ``parameter 'w', field 'mlp'`` → ``parameter 'w', field 'mlp.up'``."""
    role = (
        f"{site.role[:-1]}.{name}'"
        if ", field '" in site.role
        else f"{site.role}, field {name!r}"
    )
    return Site(site.function, role.removeprefix(", "), site.module)
