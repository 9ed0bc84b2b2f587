"""Comparing a declared type with an actual one: shape, then sharding."""

from __future__ import annotations

from dataclasses import dataclass

from mypy.errorcodes import ErrorCode
from mypy.maptype import map_instance_to_supertype
from mypy.types import (
    AnyType,
    Instance,
    ProperType,
    TupleType,
    Type,
    TypeAliasType,
    UnionType,
    UnpackType,
    get_proper_type,
)

from shardlint.mypy_plugin.codes import AXES, SHAPE
from shardlint.mypy_plugin.forms import ArrayForm, class_of_dtype, read_array, sizes_of
from shardlint.mypy_plugin.scopes import Known
from shardtypes.lang import Bindings, Mismatch, Size, unify
from shardtypes.lang.dtypes import fits
from shardtypes.lang.messages import (
    dtype_text,
    expected_got,
    fails_for,
    wrong_axes,
    wrong_dtype,
)


@dataclass(frozen=True)
class Problem:
    """A value that certainly does not fit its declared type.

    ``rule`` is the linter's code of it, '' for that of a wrong shape at the place.
    """

    rule: str
    code: ErrorCode
    want: str
    got: str
    detail: str

    def message(self, what: str) -> str:
        """``Argument "x" of "f": expected f32['B M'], got f32['B F']: dimension 1 is F, expected M (…)``."""
        return expected_got(what, self.want, self.got, self.detail)


def bindings_for(known: frozenset[str]) -> Bindings:
    """Names that stand for themselves."""
    return Bindings({name: Size.symbol(name) for name in known})


def match(
    expected: Type,
    actual: Type,
    bindings: Bindings,
    known: Known,
    promise: bool = False,
) -> Problem | None:
    """Match a value's type with a declared one; ``known`` has the names that mean a definite size in the actual type.

    Names of the declared type that are not bound yet are bound. With ``promise`` it was declared in the same function:
    a name that means nothing definite there says nothing of the sharding either.
    """
    if any(
        isinstance(typ, TypeAliasType) and typ.is_recursive
        for typ in (expected, actual)
    ):
        return None
    want, got = get_proper_type(expected), get_proper_type(actual)
    if isinstance(want, AnyType) or isinstance(got, AnyType):
        return None
    if isinstance(got, UnionType):
        problems = [match(want, item, bindings, known, promise) for item in got.items]
        return problems[0] if problems and all(problems) else None
    if isinstance(want, UnionType):
        return _match_union(want, got, bindings, known, promise)
    want_array, got_array = read_array(want), read_array(got)
    if want_array is not None and got_array is not None:
        return match_arrays(want_array, got_array, bindings, known, promise)
    for inner_want, inner_got in _paired(want, got):
        problem = match(inner_want, inner_got, bindings, known, promise)
        if problem is not None:
            return problem
    return None


def _match_union(
    want: UnionType, got: ProperType, bindings: Bindings, known: Known, promise: bool
) -> Problem | None:
    """One member that fits is enough; members of another kind are mypy's own business."""
    first: Problem | None = None
    for item in want.items:
        member = get_proper_type(item)
        if isinstance(member, AnyType):
            return None
        if (read_array(member) is None) != (read_array(got) is None):
            continue
        mark = bindings.mark()
        problem = match(member, got, bindings, known, promise)
        if problem is None:
            return None
        bindings.rollback(mark)
        first = first or problem
    return first


def _paired(want: ProperType, got: ProperType) -> list[tuple[Type, Type]]:
    """The parts of two types that belong together. A list is a sequence, and so is a tuple."""
    if isinstance(want, TupleType):
        items = got.items if isinstance(got, TupleType) else []
        same = len(want.items) == len(items)
        return list(zip(want.items, items, strict=True)) if same else []
    if not isinstance(want, Instance):
        return []
    if isinstance(got, TupleType):
        one = len(want.args) == 1
        is_one = one and got.partial_fallback.type.has_base(want.type.fullname)
        items = [item for item in got.items if not isinstance(item, UnpackType)]
        return [(want.args[0], item) for item in items] if is_one else []
    if isinstance(got, Instance) and got.type.has_base(want.type.fullname):
        as_wanted = map_instance_to_supertype(got, want.type)
        return list(zip(want.args, as_wanted.args, strict=False))
    return []


def match_arrays(
    want: ArrayForm,
    got: ArrayForm,
    bindings: Bindings,
    known: Known,
    promise: bool = False,
) -> Problem | None:
    """Shape, then dtype, then sharding."""
    sizes = _comparable(want, got, known.names)
    mismatch = (
        unify(want.shape, sizes, bindings, known.facts)
        if want.shape is not None
        else None
    )
    if mismatch is not None:
        return Problem("", SHAPE, written(want), written(got), _detail(mismatch))
    if excluded(want.dtype, got.dtype):
        detail = wrong_dtype(dtype_text(want.dtype), dtype_text(got.dtype))
        return Problem("ST212", SHAPE, written(want), written(got), detail)
    if want.shape is None or got.shape is None:
        return None
    axes = _axes_detail(want, got, known.names if promise else None)
    return (
        None if axes is None else Problem("", AXES, written(want), written(got), axes)
    )


def _comparable(
    want: ArrayForm, got: ArrayForm, known: frozenset[str]
) -> tuple[Size | None, ...] | None:
    """The sizes of the value. A declared number that is split is global; the value may be a device's own part."""
    sizes = sizes_of(got.shape, known)
    if sizes is None or want.shape is None or want.shape.rank != len(sizes):
        return sizes
    pairs = zip(want.shape.dims, sizes, strict=True)
    return tuple(
        None
        if dim.axes and dim.size is not None and dim.size.constant is not None
        else size
        for dim, size in pairs
    )


def excluded(want: str | None, got: str | None) -> bool:
    """Whether no dtype is both; either may be a family, or not known."""
    return (
        want is not None
        and got is not None
        and "any" not in (want, got)
        and not fits(want, got)
    )


def written(form: ArrayForm) -> str:
    """The type as its user writes it: ``f32['B/d M']``."""
    dtype = class_of_dtype(form.dtype) or form.dtype or "array"
    return f"{dtype}['{form.shape}']" if form.shape is not None else dtype


def _detail(mismatch: Mismatch) -> str:
    return mismatch.text.replace("?", "") + fails_for(mismatch.witness)


def _axes_detail(
    want: ArrayForm, got: ArrayForm, definite: frozenset[str] | None
) -> str | None:
    """How two declared shardings differ, dimension by dimension."""
    assert want.shape is not None and got.shape is not None
    if (
        not (want.declared and got.declared)
        or want.shape.rank is None
        or want.shape.rank != got.shape.rank
    ):
        return None
    for index, (expected, actual) in enumerate(
        zip(want.shape.dims, got.shape.dims, strict=True)
    ):
        if expected.kind == "anonymous" or actual.kind == "anonymous":
            continue
        named = expected.size.symbols if expected.size is not None else frozenset()
        if definite is not None and not expected.axes and named - definite:
            continue
        if expected.axes != actual.axes:
            return wrong_axes(index, expected.axes, actual.axes)
    return None
