"""JAX's dtypes and their promotion, weak types included, as plain tables: nothing here imports JAX.

Source: "Type promotion semantics" in JAX's documentation. A name that is no concrete dtype stands for a set: a *family*
(``'floating'``), or names joined by ``|`` (``'bfloat16|float32'``). An array of such a dtype has one of its members;
what is made of it has one of the dtypes that JAX makes of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

BOOL = "bool"
UNSIGNED = ("uint2", "uint4", "uint8", "uint16", "uint32", "uint64")
SIGNED = ("int2", "int4", "int8", "int16", "int32", "int64")
SMALL_FLOATS = (
    "float4_e2m1fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
FLOATS = (*SMALL_FLOATS, "bfloat16", "float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
CONCRETE = frozenset((BOOL, *UNSIGNED, *SIGNED, *FLOATS, *COMPLEX))
KEY = "key"
"""The dtype of keys for random numbers, which goes with no other."""

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": (BOOL,),
    "unsigned": UNSIGNED,
    "signed": SIGNED,
    "floating": FLOATS,
    "complex": COMPLEX,
}
KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
"""Concrete dtype → ``bool``, ``unsigned``, ``signed``, ``floating`` or ``complex``."""

FAMILIES: dict[str, frozenset[str]] = {
    "floating": frozenset(FLOATS),
    "complexfloating": frozenset(COMPLEX),
    "inexact": frozenset((*FLOATS, *COMPLEX)),
    "unsignedinteger": frozenset(UNSIGNED),
    "signedinteger": frozenset(SIGNED),
    "integer": frozenset((*UNSIGNED, *SIGNED)),
    "number": frozenset((*UNSIGNED, *SIGNED, *FLOATS, *COMPLEX)),
    "real": frozenset((*UNSIGNED, *SIGNED, *FLOATS)),
}


@cache
def members(name: str) -> frozenset[str]:
    """The dtypes that a name stands for; a name that is none of JAX's stands for itself."""
    if name in FAMILIES:
        return FAMILIES[name]
    return frozenset(name.split("|"))


def any_of(names: Iterable[str | None]) -> str | None:
    """One name for a set of dtypes; None if one of them is not known, or if there are none."""
    found = frozenset(names)
    if not found or None in found:
        return None
    known = frozenset[str]().union(
        *(members(name) for name in found if name is not None)
    )
    if len(known) == 1:
        return next(iter(known))
    family = _FAMILY_OF.get(known) or _FAMILY_OF_32.get(known)
    return family or "|".join(sorted(known))


def either(a: str | None, a_weak: bool, b: str | None, b_weak: bool) -> str | None:
    """The dtype of a value that is one of two; None where one is weak and its promotion would be lost."""
    if a == b:
        return a
    if not (a_weak or b_weak or BOOL in (a, b)):
        return any_of((a, b))
    return None


def both(a: str | None, b: str | None) -> str | None:
    """The dtype of a value that is of ``a``, and is declared as ``b``."""
    if a is None or b is None or a in CONCRETE:
        if a is None:
            return b
        return a
    return any_of(members(a) & members(b)) or b


def equal(a: str | None, b: str | None) -> bool | None:
    """Whether two dtypes are the same one; None where that is not known."""
    if a is None or b is None:
        return None
    if members(a).isdisjoint(members(b)):
        return False
    if len(members(a) | members(b)) == 1:
        return True
    return None


def each(name: str | None, function: Callable[[str], str | None]) -> str | None:
    """What a function of dtypes gives for a dtype of which only the set is known."""
    if name is None:
        return None
    if name in CONCRETE:
        return function(name)
    return any_of(function(member) for member in members(name))


def written(name: str | None) -> str:
    """The dtype as messages have it: ``bfloat16 or float32``."""
    return " or ".join(str(name).split("|"))


_INT, _FLOAT, _COMPLEX = "weak int", "weak float", "weak complex"
_WEAK = {"signed": _INT, "unsigned": _INT, "floating": _FLOAT, "complex": _COMPLEX}
_UNWEAK = {_INT: "int64", _FLOAT: "float64", _COMPLEX: "complex128"}

# Each type and the types immediately above it.
_ABOVE: dict[str, tuple[str, ...]] = {
    BOOL: (_INT,),
    _INT: ("uint8", "uint2", "uint4", "int8", "int2", "int4"),
    "uint2": (),
    "uint4": (),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": (_FLOAT,),
    "int2": (),
    "int4": (),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": (_FLOAT,),
    _FLOAT: (*SMALL_FLOATS, "bfloat16", "float16", _COMPLEX),
    **dict.fromkeys(SMALL_FLOATS, ()),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    _COMPLEX: ("complex64",),
    "complex64": ("complex128",),
    "complex128": (),
}


def _upper_bounds() -> dict[str, frozenset[str]]:
    bounds: dict[str, frozenset[str]] = {}

    def visit(name: str) -> frozenset[str]:
        if name not in bounds:
            bounds[name] = frozenset({name}).union(
                *(visit(above) for above in _ABOVE[name])
            )
        return bounds[name]

    for name in _ABOVE:
        visit(name)
    return bounds


_BOUNDS = _upper_bounds()
_NARROW = {
    "int64": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "complex128": "complex64",
}


_FAMILY_OF = {names: family for family, names in FAMILIES.items()}
_FAMILY_OF_32 = {
    frozenset(_NARROW.get(name, name) for name in names): family
    for names, family in _FAMILY_OF.items()
}


class NoPromotion(TypeError):
    """Two dtypes that JAX refuses to promote implicitly, such as float8 and bfloat16."""


def canonical(name: str, x64: bool = False) -> str:
    """The dtype that JAX stores: 64-bit names become their 32-bit ones unless ``x64`` is on."""
    if x64:
        return name
    return _NARROW.get(name, name)


@cache
def promote(
    a: str, a_weak: bool, b: str, b_weak: bool, x64: bool = False
) -> tuple[str, bool] | None:
    """The dtype, and whether it is weak, of an operation on two dtypes. None: not known.

    Raises NoPromotion where JAX does.
    """
    if a == b == KEY:
        return KEY, False
    if a not in CONCRETE or b not in CONCRETE:
        return _promote_sets(a, a_weak, b, b_weak, x64)
    if not x64 and {a, b} == {"uint32", "int32"} and not (a_weak or b_weak):
        return "int32", False
    if a_weak:
        left = _WEAK.get(KIND_OF[a], a)
    else:
        left = a
    if b_weak:
        right = _WEAK.get(KIND_OF[b], b)
    else:
        right = b
    if left == right:
        if left in _UNWEAK:  # two weak values keep the wider of their own dtypes
            return canonical(max(a, b, key=bits), x64), True
        return canonical(left, x64), False
    common = _BOUNDS[left] & _BOUNDS[right]
    least = [name for name in common if common <= _BOUNDS[name]]
    if not least:
        raise NoPromotion(f"{a} and {b} have no implicit promotion")
    name = least[0]
    if name in _UNWEAK:
        return canonical(_UNWEAK[name], x64), True
    return canonical(name, x64), False


def _promote_sets(
    a: str, a_weak: bool, b: str, b_weak: bool, x64: bool
) -> tuple[str, bool] | None:
    """Every dtype that members promote to; members that do not go together are in no program that runs."""
    found: set[tuple[str, bool]] = set()
    refused = None
    for left, left_weak in _possible(a, a_weak, x64):
        for right, right_weak in _possible(b, b_weak, x64):
            if left not in CONCRETE or right not in CONCRETE:
                return None
            try:
                one = promote(left, left_weak, right, right_weak, x64)
            except NoPromotion as error:
                refused = error
                continue
            assert one is not None
            found.add(one)
    if not found:
        raise refused or NoPromotion(f"{a} and {b} have no implicit promotion")
    name = any_of(name for name, _ in found)
    weak = {weak for _, weak in found}
    if name is None or (name in CONCRETE and len(weak) == 2):
        return None
    return name, weak == {True}


def _possible(name: str, weak: bool, x64: bool) -> Iterator[tuple[str, bool]]:
    """The members of a set, those that Python's numbers have as weak ones too: a set does not tell."""
    names = frozenset(canonical(member, x64) for member in members(name))
    for member in names:
        yield member, weak
        if len(names) > 1 and not weak and member in OF_PYTHON:
            yield member, True


OF_PYTHON = frozenset(
    {"int32", "int64", "float32", "float64", "complex64", "complex128"}
)
"""Those that Python's numbers have, with x64 and without."""


def bits(name: str) -> int:
    """The width of a dtype, 0 for bool: ``'bfloat16'`` → 16."""
    digits = "".join(
        c
        for c in name.removeprefix("bfloat").removeprefix("float").split("_")[0]
        if c.isdigit()
    )
    return int(digits or 0)


def is_kind(name: str | None, *kinds: str) -> bool | None:
    """Whether a dtype is of one of the kinds (``bool unsigned signed floating complex``); None: not known."""
    if name is None:
        return None
    if name in CONCRETE:
        return KIND_OF[name] in kinds
    names = members(name)
    if not names <= CONCRETE:
        return None
    answers = {KIND_OF[member] in kinds for member in names}
    if len(answers) == 1:
        return answers.pop()
    return None


def inexact(name: str | None, x64: bool = False) -> str | None:
    """The dtype in which JAX computes ``exp``, ``mean`` and the like: floats stay, ints become float32."""
    if name is None:
        return None
    if name not in CONCRETE:
        return each(
            name,
            lambda member: inexact(member, x64=x64) if member in CONCRETE else None,
        )
    if KIND_OF[name] in ("floating", "complex"):
        return name
    if x64 and bits(name) == 64:
        return "float64"
    return "float32"


_PARTS = {"complex64": "float32", "complex128": "float64"}
_OF_PARTS = {part: whole for whole, part in _PARTS.items()}


def real(name: str) -> str:
    """The dtype of the real part of numbers: ``'complex64'`` → ``'float32'``."""
    return _PARTS.get(name, name)


def of_parts(name: str) -> str | None:
    """The dtype of complex numbers whose parts are of a dtype, if there is one."""
    return _OF_PARTS.get(name)


def complex_(name: str) -> str:
    """The dtype of complex numbers that hold those of a dtype."""
    if is_kind(name, "complex"):
        return name
    return _OF_PARTS.get(name, "complex64")


ALIASES = {
    "float": "float32",
    "int": "int32",
    "complex": "complex64",
    "bool_": "bool",
    "half": "float16",
}
"""Other spellings: Python's types mean JAX's 32-bit defaults."""

_ALIASES_64 = {"float": "float64", "int": "int64", "complex": "complex128"}


def fits(declared: str, actual: str) -> bool:
    """Whether some array of the actual dtype, or dtype family, is allowed where ``declared`` stands."""
    if KEY in (declared, actual):
        return True
    wanted = members(declared)
    offered = members(actual)
    # without x64 JAX stores 64-bit dtypes in 32 bits
    wanted = wanted | {canonical(name) for name in wanted}
    offered = offered | {canonical(name) for name in offered}
    return not wanted.isdisjoint(offered)


def dtype_from_name(name: str, x64: bool = False) -> str | None:
    """``'float32'``, ``'jax.numpy.bfloat16'``, ``'builtins.float'``, ``'f4'`` → JAX's name, or None."""
    base = name.rpartition(".")[2]
    if x64 and base in _ALIASES_64:
        return _ALIASES_64[base]
    base = ALIASES.get(base, _CODES.get(base, base))
    if base in CONCRETE:
        return canonical(base, x64)
    return None


_CODES = {
    **{f"{letter}{bits // 8}": f"{kind}{bits}" for letter, kind, sizes in (
        ("f", "float", (16, 32, 64)), ("i", "int", (8, 16, 32, 64)), ("u", "uint", (8, 16, 32, 64)),
        ("c", "complex", (64, 128)),
    ) for bits in sizes},
    "b1": "bool", "?": "bool", "single": "float32", "double": "float64", "csingle": "complex64",
    "cdouble": "complex128", "float_": "float64", "int_": "int64", "uint": "uint32", "complex_": "complex128",
}  # fmt: skip
