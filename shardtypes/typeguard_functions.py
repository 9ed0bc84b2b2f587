"""What functions instrumented by typeguard call: its own functions, except that arrays are checked directly.

Everything else goes to typeguard as before. The names are those that its instrumentation writes.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar
from unittest.mock import Mock

from typeguard import TypeCheckError, TypeCheckMemo, _suppression
from typeguard import _functions as typeguards
from typeguard._utils import qualified_name

from shardtypes.dtypes import ArrayType
from shardtypes.scopes import HeldTable, Table, current_table
from shardtypes.switches import checks_on, left_out
from shardtypes.typeguard_door import made_site, tools

T = TypeVar("T")


def check_argument_types_internal(
    func_name: str, arguments: dict[str, tuple[Any, Any]], memo: TypeCheckMemo
) -> Literal[True]:
    """As typeguard's function of this name: ``arguments`` are pairs of value and annotation by name."""
    __tracebackhide__ = True
    if _suppression.type_checks_suppressed:
        return left_out()
    on = checks_on()
    table: Table | None = None
    for name, pair in arguments.items():
        value, annotation = pair
        if type(annotation) is not ArrayType:
            typeguards.check_argument_types_internal(func_name, {name: pair}, memo)
        elif on:
            if table is None:
                array_spec, current_view = tools()
                table, view, module = current_table() or Table(), current_view(), memo.globals.get("__name__", "")
            site = made_site(func_name, name, module)
            try:
                array_spec(annotation).check(value, table, view, site)
            except TypeCheckError as error:
                _fail(error, value, f'argument "{name}"', memo)
    return True


def check_return_type_internal(func_name: str, retval: T, annotation: Any, memo: TypeCheckMemo) -> T:
    """As typeguard's function of this name: gives the value back."""
    __tracebackhide__ = True
    if type(annotation) is not ArrayType:
        return typeguards.check_return_type_internal(func_name, retval, annotation, memo)
    if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
        return retval
    array_spec, current_view = tools()
    site = made_site(func_name, None, memo.globals.get("__name__", ""))
    try:
        array_spec(annotation).check(retval, current_table() or Table(), current_view(), site)
    except TypeCheckError as error:
        _fail(error, retval, "the return value", memo)
    return retval


def _fail(error: TypeCheckError, value: Any, what: str, memo: TypeCheckMemo) -> None:
    """What typeguard does with an error: mocks pass, and its callback decides, if there is one."""
    __tracebackhide__ = True
    if isinstance(value, Mock):
        return
    error.append_path_element(f"{what} ({qualified_name(value, add_class_prefix=True)})")
    if memo.config.typecheck_fail_callback is None:
        raise error
    memo.config.typecheck_fail_callback(error, memo)


__all__ = ["HeldTable", "TypeCheckMemo", "check_argument_types_internal", "check_return_type_internal"]
