"""Writes the checks of values: of arrays, of what typeguard checks, and of what holds arrays."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typeguard
from typeguard import TypeCheckMemo

from shardtypes.array_check import ArraySpec
from shardtypes.array_types import (
    array_annotation,
    holds_arrays,
    meaning,
    never_holds_arrays,
)
from shardtypes.checker_text import Names, Text, Unusual
from shardtypes.container_checks import site_of_field, split_tuple
from shardtypes.declared_array import ANYTHING, BROADCAST, CONSTANT, NAME
from shardtypes.dtypes import array_spec
from shardtypes.fields import (
    declares_fields,
    is_named_tuple,
    is_pytree_dataclass,
    is_stacked,
    known_field_types,
    module_names,
    shares_sizes,
)
from shardtypes.known_shardings import Last
from shardtypes.sites import Site
from shardtypes.typeguard_checks import CONFIG, Checker, by_typeguard

_abc = collections.abc
_LISTS = (
    _abc.Sequence,
    _abc.Collection,
    _abc.Reversible,
    _abc.Iterable,
    _abc.Container,
)
_DICTS = (dict, _abc.Mapping, _abc.MutableMapping)
# In the place of a field that an object does not have.
ABSENT = object()


@dataclass(frozen=True, slots=True)
class Checked:
    """A parameter or the result: its resolved annotation, and the general check of it.

    The object of a method has no annotation: its class stands there, if objects of it name sizes, and ``sizeless`` says
    whether a value names none. A parameter that is given by its name alone has no position.
    """

    annotation: Any
    check: Checker
    site: Site
    name: str = "result"
    position: int | None = None
    sizeless: Any = None


class Writer:
    """Writes the checks of one function's values, one after the other."""

    def __init__(self, arrays_only: bool) -> None:
        self.text = Text()
        self._arrays_only = arrays_only
        # What to do where a value is not certainly right.
        self.fail = ""
        self.lasts: list[Last] = []
        # How many arrays are checked: in each call, and whether there may be more of them.
        self.arrays = 0
        self.counts_arrays = False
        self.counts_unplaced = False
        # The names of the call, and of the values around what is checked that name their sizes each by itself.
        self._scopes: list[Names] = []
        self._classes: list[type] = []
        # The class of a method's object while that is checked, whose sizes are those of the call.
        self._receiver: Any = None
        self.has_own_names = False

    @property
    def names(self) -> Names:
        """The names of the call."""
        return self._scopes[0]

    @property
    def has_begun(self) -> bool:
        """Whether the checks of a call were begun."""
        return bool(self._scopes)

    def begin(self) -> None:
        """Begin the checks of a call."""
        self._scopes.append(Names(self.text, ""))

    def value(self, checked: Checked, variable: str) -> None:
        """Write the check of a parameter or a result that is in a variable."""
        annotation = checked.annotation
        if checked.sizeless is not None and annotation is not Any:
            self._receiver = annotation
            self._part(annotation, variable, checked.site)
            self._receiver = None
        elif checked.sizeless is not None:
            test = self.text.constant("names_no_sizes", checked.sizeless)
            self._fail_if(f"not {test}({variable})")
        elif array_annotation(annotation) is not None or holds_arrays(annotation):
            self._part(annotation, variable, checked.site)
        elif not self._plain(annotation, variable):
            check = self.text.constant(f"check_{checked.name}", checked.check)
            self._fail_if(f"not passes({check}, {variable})")

    # --- values of any kind ---------------------------------------------------------------------------------------

    def _fail_if(self, *conditions: str) -> None:
        """Leave what is not certainly right to the general checks."""
        if len(conditions) == 1:
            head = f"if {conditions[0]}:"
        else:
            self.text.line("if (")
            first, *others = conditions
            self.text.line(f"    {first}")
            for condition in others:
                self.text.line(f"    or {condition}")
            head = "):"
        with self.text.block(head):
            self.text.line(self.fail)

    def _part(self, annotation: Any, value: str, site: Site) -> None:
        """A value of a type that holds arrays, or a part of one."""
        annotation = meaning(annotation)
        array = array_annotation(annotation)
        if array is not None:
            self._array(array_spec(array), value, site)
        elif annotation in (inspect.Parameter.empty, Any, object):
            return
        elif not holds_arrays(annotation):
            if not self._arrays_only and not self._plain(annotation, value):
                self._by_typeguard(annotation, value)
        elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
            self._optional(annotation, value, site)
        else:
            self._container(annotation, value, site)

    def _plain(self, annotation: Any, value: str) -> bool:
        """A value of a class that has no check of its own; whether the annotation is one."""
        if annotation in (None, type(None)):
            self._fail_if(f"{value} is not None")
            return True
        if annotation is float:
            self._fail_if(f"type({value}) is not float and type({value}) is not int")
            return True
        if annotation in (int, str, bool):
            self._fail_if(f"type({value}) is not {annotation.__name__}")
            return True
        if not isinstance(annotation, type) or isinstance(
            annotation, types.GenericAlias
        ):
            return False
        if any(lookup(annotation, (), ()) for lookup in _lookups()):
            return False
        if not never_holds_arrays(annotation):
            return False
        name = self.text.constant(annotation.__name__, annotation)
        self._fail_if(f"not isinstance({value}, {name})")
        return True

    def _by_typeguard(self, annotation: Any, value: str) -> None:
        if not self._classes:
            raise Unusual(f"{annotation} in a container")
        memo = TypeCheckMemo(module_names(self._classes[-1]), {}, config=CONFIG)
        check = self.text.constant("check", by_typeguard(annotation, memo))
        self._fail_if(f"not passes({check}, {value})")

    def _optional(self, annotation: Any, value: str, site: Site) -> None:
        members = typing.get_args(annotation)
        others = [member for member in members if member is not type(None)]
        if len(others) != 1:
            raise Unusual("a union of several types")
        with self.text.block(f"if {value} is not None:"):
            self._part(others[0], value, site)

    # --- arrays ---------------------------------------------------------------------------------------------------

    def _array(self, spec: ArraySpec, value: str, site: Site) -> None:
        if spec.wanted_dtype is None and not spec.dtype.family:
            raise Unusual("keys")
        self._count_array()
        text = self.text
        text.comment(f"{site.role}: {spec.text}")
        if spec.sharded:
            self._fail_if(f"type({value}) is not Array")
            text.line(f"known, placed = {value}.aval, {value}._sharding")
            self._dtype_and_sizes(spec, site)
            self._sharded(spec, value, site)
            return
        with text.block(f"if type({value}) is Array:"):
            text.line(f"known, placed = {value}.aval, {value}._sharding")
        with text.block(f"elif type({value}) is Traced:"):
            text.line(f"known, placed = {value}.aval, None")
            self._ask_for_mesh()
            unusual = [
                "mesh is not WITHOUT_MESH",
                "known.sharding.mesh is not NO_MESH_IN_TYPE",
            ]
            if spec.variadic is not None:
                unusual.append("not INT.issuperset(map(type, known.shape))")
            self._fail_if(*unusual)
        with text.block("else:"):
            text.line(self.fail)
        self._dtype_and_sizes(spec, site, may_be_symbolic=spec.variadic is None)
        with text.block("if type(placed) is not OneDevice and placed is not None:"):
            self._ask_for_mesh()
            self._compared(spec, value, site)

    def _count_array(self) -> None:
        if self.text.around == self.names.start:
            self.arrays += 1
        else:
            self.counts_arrays = True
            self.text.line("arrays += 1")

    def _sharded(self, spec: ArraySpec, value: str, site: Site) -> None:
        self.counts_unplaced = True
        text = self.text
        self._ask_for_mesh()
        with text.block("if mesh is WITHOUT_MESH and type(placed) is OneDevice:"):
            where = text.constant("unplaced_at", (site,))
            text.line(f"unplaced += {where}")
        with text.block("else:"):
            self._compared(spec, value, site)

    def _ask_for_mesh(self) -> None:
        with self.text.block("if mesh is None:"):
            self.text.line("mesh = mesh_here()")

    def _compared(self, spec: ArraySpec, value: str, site: Site) -> None:
        last = Last(spec, site)
        self.lasts.append(last)
        name = self.text.constant(f"last_{len(self.lasts)}", last)
        text = self.text
        text.line(f"sharding, on, sizes = {name}.entry")
        known = "placed is sharding and mesh is on and shape == sizes"
        with text.block(f"if not ({known}):"):
            self._fail_if(f"not {name}.agrees({value}, mesh)")
        text.line("compared += 1")

    def _dtype_and_sizes(
        self, spec: ArraySpec, site: Site, may_be_symbolic: bool = False
    ) -> None:
        """The dtype, the rank and the sizes; of a traced value these are integers, or symbols."""
        self.text.line("shape = known.shape")
        if spec.dtype.family:
            family = self.text.constant(spec.dtype.__name__, spec.dtype)
            wrong = [f"not accepts({family}, known.dtype)"]
        else:
            dtype = self.text.constant(str(spec.wanted_dtype), spec.wanted_dtype)
            wrong = [f"known.dtype is not {dtype}"]
        at = spec.variadic
        if at is None:
            wrong.append(f"len(shape) != {spec.rank}")
        elif spec.rank > 1:
            wrong.append(f"len(shape) < {spec.rank - 1}")
        if wrong:
            self._fail_if(*wrong)
        symbols = [f"type(shape[{index}]) is not int" for index in range(spec.rank)]
        if may_be_symbolic and symbols:
            with self.text.block("if placed is None:"):
                self._fail_if(*symbols)
        for index, (kind, want, dim) in enumerate(spec.plan):
            if index == at:
                if dim.name is not None:
                    self._meet(f"*{dim.name}", _middle(spec), site, str(index))
                continue
            place = got = str(index)
            if at is not None and index > at:
                got = str(index - spec.rank)
                place = f"len(shape) - {spec.rank - index}"
            self._size(kind, want, f"shape[{got}]", site, place)

    def _size(self, kind: int, want: Any, got: str, site: Site, dim: str) -> None:
        if kind == NAME:
            self._meet(want, got, site, dim)
        elif kind == CONSTANT:
            self._fail_if(f"{got} != {want}")
        elif kind == BROADCAST:
            raise Unusual("sizes that may be 1")
        elif kind != ANYTHING:
            self._fail_if(f"{got} != {self._scopes[-1].value(want)}")

    def _meet(self, name: str, got: str, site: Site, dim: str) -> None:
        self._scopes[-1].meet(name, got, site, dim, self.fail)

    # --- what holds arrays ----------------------------------------------------------------------------------------

    def _container(self, annotation: Any, value: str, site: Site) -> None:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        base = annotation if origin is None else origin
        if not isinstance(base, type):
            raise Unusual(f"{annotation}")
        if declares_fields(base) or is_named_tuple(base):
            self._fields(base, args, value, site)
        elif base is tuple:
            self._tuple(args, value, site)
        elif base in _DICTS and len(args) == 2:
            self._fail_if(f"type({value}) is not dict")
            self._dict(args, value, site)
        elif (base is list or base in _LISTS) and len(args) == 1:
            of_list = f"type({value}) is not list"
            self._fail_if(
                of_list if base is list else f"{of_list} and type({value}) is not tuple"
            )
            self._items(args[0], value, site)
        else:
            raise Unusual(f"{annotation}")

    def _items(self, item: Any, values: str, site: Site) -> None:
        each = self.text.fresh("item")
        with self.text.block(f"for {each} in {values}:"):
            self._part(item, each, site)

    def _dict(self, args: tuple[Any, ...], value: str, site: Site) -> None:
        if holds_arrays(args[0]):
            raise Unusual("arrays as keys")
        key, each = self.text.fresh("key"), self.text.fresh("item")
        with self.text.block(f"for {key}, {each} in {value}.items():"):
            self._part(args[0], key, site)
            self._part(args[1], each, site)

    def _tuple(self, args: tuple[Any, ...], value: str, site: Site) -> None:
        before, several, after = split_tuple(args)
        if several is not None and (before or after):
            raise Unusual("a tuple with any number of items among others")
        self._fail_if(f"type({value}) is not tuple")
        if several is not None:
            self._items(several, value, site)
            return
        self._fail_if(f"len({value}) != {len(before)}")
        for index, part in enumerate(before):
            each = self.text.fresh("item")
            self.text.line(f"{each} = {value}[{index}]")
            self._part(part, each, site)

    def _fields(
        self, base: type, args: tuple[Any, ...], value: str, site: Site
    ) -> None:
        """The fields of a dataclass of any kind or of a named tuple."""
        bases = getattr(base, "__orig_bases__", ())
        is_generic = bool(args or getattr(base, "__parameters__", ()))
        if (
            is_generic
            or base in self._classes
            or any(holds_arrays(part) for part in bases)
        ):
            raise Unusual("a generic class, or one that may hold itself")
        if is_stacked(base) and not shares_sizes(base):
            raise Unusual("a stack of values that name their sizes each")
        known = known_field_types(base)
        if known.missing:
            raise Unusual("a field whose annotation names nothing")
        every = not declares_fields(base) or is_pytree_dataclass(base)
        fields = {
            name: hint
            for name, hint in known.types.items()
            if every or holds_arrays(hint)
        }
        self._fail_if(f"type({value}) is not {self.text.constant(base.__name__, base)}")
        self._classes.append(base)
        if shares_sizes(base) or base is self._receiver:
            self._each_field(fields, value, site)
        else:
            with self._own_names(base):
                self._each_field(fields, value, site, of_tuple=is_named_tuple(base))
        self._classes.pop()

    def _each_field(
        self,
        fields: Mapping[str, Any],
        value: str,
        site: Site,
        of_tuple: bool = False,
    ) -> None:
        for name, hint in fields.items():
            each = self.text.fresh(name)
            absent = self.text.constant("ABSENT", ABSENT)
            self.text.line(f"{each} = getattr({value}, {name!r}, {absent})")
            self._part(hint, each, site if of_tuple else site_of_field(site, name))

    @contextmanager
    def _own_names(self, base: type) -> Iterator[None]:
        """What a value is checked in that names its sizes by itself: they must be those of the names around it."""
        self.has_own_names = True
        own = Names(self.text, "own_")
        self._scopes.append(own)
        yield
        own.compare_own(self.fail)
        own.end()
        self._scopes.pop()
        for name, variable in own.variables.items():
            if name.startswith("*"):
                continue
            for names in self._scopes:
                names.meet_own(name, variable, own.is_bound(name), self.fail)


def _middle(spec: ArraySpec) -> str:
    """The sizes of the dimensions that ``*name`` stands for."""
    before = spec.variadic or 0
    after = spec.rank - 1 - before
    end = f"len(shape) - {after}" if after else ""
    return f"shape[{before or ''}:{end}]"


def _lookups() -> Sequence[Any]:
    found: Sequence[Any] = typeguard.checker_lookup_functions
    return found
