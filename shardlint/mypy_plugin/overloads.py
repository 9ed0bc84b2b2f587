"""``@overload``: signatures that differ in shape or dtype, which are one to mypy itself."""

from __future__ import annotations

from mypy.types import (
    CallableType,
    Instance,
    LiteralType,
    Type,
    UninhabitedType,
    UnionType,
    get_proper_type,
)

from shardlint.mypy_plugin.codes import path_of
from shardlint.mypy_plugin.findings import Findings
from shardlint.mypy_plugin.forms import Forms, has_array, is_array
from shardlint.mypy_plugin.guard import SignatureContext
from shardlint.mypy_plugin.names import CLASS_OF_DTYPE
from shardtypes.lang import Dim, ShapeSyntaxError, parse

_DTYPES = frozenset(CLASS_OF_DTYPE.values())


class Overloads:
    """The hook that leaves out the signatures of a call that do not take what the linter knows of its arguments."""

    def __init__(self, findings: Findings, forms: Forms) -> None:
        self._findings = findings
        self._forms = forms

    def signature(self, ctx: SignatureContext) -> CallableType:
        """One of the signatures; where it does not take an argument, with a parameter that takes nothing, so that mypy
        goes on to the next."""
        signature = ctx.default_signature
        if not isinstance(signature, CallableType):
            return signature
        parameters = list(signature.arg_types)
        for number, (parameter, arguments) in enumerate(
            zip(signature.arg_types, ctx.args, strict=False)
        ):
            if not has_array(parameter):
                continue
            for argument in arguments:
                arrays = self._findings.arrays_at(path_of(ctx.api), argument)
                if isinstance(arrays, str) and not _takes(
                    parameter, self._forms.known(arrays)
                ):
                    parameters[number] = UninhabitedType()
        return signature.copy_modified(arg_types=parameters)


def _takes(parameter: Type, given: Type) -> bool:
    """Whether a parameter may take an array: its dtype and the number of its dimensions do not tell otherwise."""
    proper = get_proper_type(parameter)
    array = get_proper_type(given)
    if isinstance(proper, UnionType):
        return any(_takes(item, array) for item in proper.items)
    if not isinstance(proper, Instance) or not isinstance(array, Instance):
        return True
    if not is_array(proper) or not is_array(array):
        return True
    wanted = _dtype(proper)
    found = _dtype(array)
    if wanted in _DTYPES and found in _DTYPES and wanted != found:
        return False
    return _may_be(_dims(proper), _dims(array))


def _dtype(array: Instance) -> str:
    dtype = get_proper_type(array.args[0])
    return dtype.type.name if isinstance(dtype, Instance) else ""


def _dims(array: Instance) -> tuple[Dim, ...] | None:
    """The dimensions of an array; None where their number is not known."""
    shape = get_proper_type(array.args[1])
    if not isinstance(shape, Instance):
        return None
    text = get_proper_type(shape.args[0])
    if not isinstance(text, LiteralType):
        return None
    try:
        dims = parse(str(text.value)).dims
    except ShapeSyntaxError:
        return None
    if any(dim.kind == "variadic" for dim in dims):
        return None
    return dims


def _may_be(wanted: tuple[Dim, ...] | None, found: tuple[Dim, ...] | None) -> bool:
    if wanted is None or found is None:
        return True
    if len(wanted) != len(found):
        return False
    for one, other in zip(wanted, found, strict=True):
        if one.size is None or other.size is None:
            continue
        if (one.size - other.size).constant not in (None, 0):
            return False
    return True
