"""The checks that typeguard asks us for: which function and argument it is at, and the sizes of its call.

typeguard makes one memo a call of an instrumented function, be it a coroutine or a generator, and hands it to every
check of that call: the table of sizes is kept there.
"""

from __future__ import annotations

import collections.abc
import functools
import sys
import types
import typing
from typing import Any

from typeguard import TypeCheckMemo, _functions

from shardtypes import _stats, plain_classes
from shardtypes.accepted_dtypes import DTypeClass
from shardtypes.annotation_checks import compile_part
from shardtypes.array_check import abandon
from shardtypes.array_types import holds_arrays, never_holds_arrays
from shardtypes.assignments import reassigned_parameters
from shardtypes.dtypes import ArrayType, array_spec
from shardtypes.errors import TypeCheckError
from shardtypes.meshes import current_view
from shardtypes.methods import check_of_object
from shardtypes.scopes import Table, scope_in_force
from shardtypes.sites import Site
from shardtypes.strings_in_types import Resolved, has_strings, resolved
from shardtypes.switches import checks_on
from shardtypes.typeguard_checks import CONFIG, AroundArrays, Checker
from shardtypes.typeguard_functions import InstrumentedFunction, instrumented

# typeguard's functions between an instrumented function and our check.
_ARGUMENT, _RESULT = (
    _functions.check_argument_types_internal.__code__,
    _functions.check_return_type_internal.__code__,
)
_YIELD, _SEND = (
    _functions.check_yield_type.__code__,
    _functions.check_send_type.__code__,
)
_VARIABLE, _BY_HAND = (
    _functions.check_variable_assignment.__code__,
    _functions.check_type.__code__,
)
_ROLES = {_RESULT: "the result", _YIELD: "the yielded value", _SEND: "the value sent"}
_ENTRIES = {_ARGUMENT, _RESULT, _YIELD, _SEND, _VARIABLE, _BY_HAND}


def checker(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
    """typeguard's check of a type that holds arrays; None for another type."""
    if type(origin) is DTypeClass:
        return check_array if args else None
    for extra in extras:
        if type(extra) is ArrayType:
            return functools.partial(_check_type, extra)
    if not (args and any(holds_arrays(part) for part in args)) and not holds_arrays(
        origin
    ):
        if isinstance(origin, type) and never_holds_arrays(origin):
            plain_classes.remember(origin)
        return None
    return functools.partial(_check_type, _annotation(origin, args))


def _annotation(origin: Any, args: tuple[Any, ...]) -> Any:
    """The type that typeguard took apart."""
    if not args:
        return origin
    if origin in (typing.Union, types.UnionType):
        return typing.Union[args]  # noqa: UP007 - a tuple of members
    if origin is collections.abc.Callable:
        return collections.abc.Callable[args[0], args[1]]
    return origin[args if len(args) != 1 else args[0]]  # some take no tuple: ``Final``


def check_array(
    value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo
) -> None:
    """Check a value against ``f32['…']``."""
    __tracebackhide__ = True
    entry = sys._getframe(2)
    code = entry.f_code
    names = memo.locals
    # What `_is_passed` does, for what is asked most.
    if type(names) is _Names and names.sizes is not None:
        if code is _ARGUMENT:
            return
        function = names.function
        if (
            code is _RESULT
            and args is function.result_args
            and function.result_passes(value, names.sizes)
        ):
            return
    annotation = origin[args[0]]
    if _is_passed(value, annotation, memo, entry):
        return
    if type(memo) is AroundArrays or not checks_on():
        return
    check = array_spec(annotation).check
    site = None
    if code is _ARGUMENT or code is _RESULT:
        call = _call_of(memo, entry)
        site = call.next_argument(value) if code is _ARGUMENT else call.result()
    if site is None:
        _run(check, value, memo)
        return
    try:
        check(value, call.table, call.view, site)
    except TypeCheckError as error:
        call.fail(error)
        raise
    if code is _RESULT and call.table.deferred:
        abandon(call.table)


def _check_type(
    annotation: Any, value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo
) -> None:
    """Check a value against another type that holds arrays."""
    __tracebackhide__ = True
    if _is_passed(value, annotation, memo, sys._getframe(2)):
        return
    if type(memo) is AroundArrays or not checks_on():
        return
    if has_strings(annotation):  # which may mean something in this function only
        known = resolved(annotation, memo.globals, memo.locals)
        _count_missing(known)
        check = compile_part(known.annotation, memo)
    else:
        check = _compiled(annotation)
    _run(check, value, memo)


def _is_passed(
    value: Any, annotation: Any, memo: TypeCheckMemo, entry: types.FrameType
) -> bool:
    """Whether an argument or a result passes, as the checker of its function found. At the first argument it is asked
    about all."""
    names = memo.locals
    code = entry.f_code
    if type(names) is _Names:
        sizes = names.sizes
        if sizes is None:
            return False
        if code is _ARGUMENT:
            return names.function.checks(annotation)
        return code is _RESULT and names.function.passes_result(
            value, annotation, sizes
        )
    frame = entry.f_back
    if code is not _ARGUMENT or frame is None or type(memo) is AroundArrays:
        return False
    function = instrumented(frame)
    sizes = function.sizes(entry, frame)
    if sizes is None:
        return False
    memo.locals = made = _Names({} if names is memo.globals else names)
    made.function, made.sizes, made.call = function, sizes, None
    if function.is_local:
        _count_names_around(frame)
    return type(annotation) is ArrayType or function.checks(annotation)


@functools.lru_cache(maxsize=1024)
def _compiled(annotation: Any) -> Checker:
    return compile_part(annotation, TypeCheckMemo({}, {}, config=CONFIG))


def _run(check: Checker, value: Any, memo: TypeCheckMemo) -> None:
    """Run a check for the argument, result or variable that typeguard is at."""
    __tracebackhide__ = True
    entry = _entry()
    if entry is None or entry.f_code is _BY_HAND:
        check(value, scope_in_force() or Table(), current_view(), Site("", ""))
        return
    code, local = entry.f_code, entry.f_locals
    call = _call_of(memo, entry)
    table = call.table
    if code is _VARIABLE:
        _run_statement(check, value, call, local["varname"], entry.f_back, memo)
        return
    site = _site(
        local["func_name"],
        local.get("argname"),
        _ROLES.get(code, ""),
        memo.globals.get("__name__", ""),
    )
    mark = table.mark() if code in (_YIELD, _SEND) else None
    try:
        check(value, table, current_view(), site)
    except TypeCheckError as error:
        call.fail(error)
        raise
    if mark is not None and not table.shared:
        # names that only one yielded value has may stand for other sizes in the next
        table.rollback(mark)
    if code is _RESULT and table.deferred:
        abandon(table)


def _run_statement(
    check: Checker,
    value: Any,
    call: _Call,
    name: str,
    frame: types.FrameType | None,
    memo: TypeCheckMemo,
) -> None:
    __tracebackhide__ = True
    # typeguard's functions are called by those that it instrumented
    assert frame is not None
    function = frame.f_code.co_qualname.rpartition("<locals>.")[2]
    # programs reshape and cast their arguments: as under our own decorator
    if name in call.parameters:
        _stats.count_not_possible(
            f"{function}: parameter {name!r}: what is assigned to it is not checked"
        )
        return
    site = Site(function, f"variable {name!r}", memo.globals.get("__name__", ""))
    with call.table.statement((frame.f_code, frame.f_lineno, name)):
        check(value, call.table, current_view(), site)


def _count_missing(known: Resolved) -> None:
    """Count what an annotation says that names nothing."""
    entry = _entry() if known.missing else None
    if entry is None:
        return
    local = entry.f_locals
    name = local.get("varname") or local.get("argname") or "return"
    function = local.get("func_name") or (
        entry.f_back.f_code.co_qualname if entry.f_back is not None else ""
    )
    for reason in known.reasons(f"{function.rpartition('<locals>.')[2]}({name})"):
        _stats.count_not_possible(reason)


def _entry() -> types.FrameType | None:
    """The frame of typeguard's function that was called by an instrumented one, or by hand."""
    frame: types.FrameType | None = sys._getframe(4)
    while frame is not None and frame.f_code not in _ENTRIES:
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=4096)
def _site(function: str, argument: str | None, role: str, module: str) -> Site:
    """The parameter, or another role, of a function by the name that typeguard gives it."""
    return Site(
        function.rpartition("<locals>.")[2], role or f"parameter {argument!r}", module
    )


# --- the table of a call --------------------------------------------------------------------------------------------


class _Names(dict[str, Any]):
    """The local names in a memo, and the call that it is of."""

    __slots__ = ("call", "function", "sizes")
    # None where all arguments passed, and nothing else was asked yet.
    call: _Call | None
    # Then there are its sizes, and the function that is called.
    sizes: tuple[Any, ...] | None
    function: InstrumentedFunction


class _Call:
    """The sizes of one call of a function that typeguard instrumented, and the argument that it is at."""

    __slots__ = (
        "_arguments",
        "_function",
        "_mark",
        "_module",
        "parameters",
        "table",
        "view",
    )

    def __init__(self, entry: types.FrameType, module: str, table: Table) -> None:
        self.table = table
        self._mark = self.table.mark()
        self.view = current_view()
        local, frame = entry.f_locals, entry.f_back
        self._function: str = local.get("func_name", "")
        if not self._function and frame is not None:  # at a variable
            self._function = frame.f_code.co_qualname
        self._module = module
        arguments: dict[str, Any] = local.get("arguments", {})
        self.parameters = frozenset(arguments)  # those with annotations
        self._arguments = iter(arguments.items())

    def next_argument(self, value: Any) -> Site | None:
        """The parameter of which a value is the argument, if it is the next array."""
        for name, (argument, _) in self._arguments:
            if argument is value:
                return _site(self._function, name, "", self._module)
        return None

    def result(self) -> Site:
        return _site(self._function, None, "the result", self._module)

    def fail(self, error: TypeCheckError) -> None:
        """Forget what the call bound in a ``Scope``: one of its checks failed."""
        if self.table.shared:
            self.table.fail(self._mark, error)

    def __del__(self) -> None:
        if self.table.deferred and not self.table.shared:
            abandon(self.table)


def _call_of(memo: TypeCheckMemo, entry: types.FrameType) -> _Call:
    """The call that a memo is of, kept with the memo's names for as long as typeguard keeps the memo."""
    names, module = memo.locals, memo.globals.get("__name__", "")
    if type(names) is _Names:
        if names.call is None:
            assert names.sizes is not None  # else there is a call
            table = names.function.table(names.sizes)
            names.sizes = None  # from now on there may be more in the table
            names.call = call = _Call(entry, module, table)
            call.parameters = names.function.parameters
        return names.call
    memo.locals = made = _Names({} if names is memo.globals else names)
    scope = scope_in_force()
    made.call = call = _Call(entry, module, Table() if scope is None else scope)
    made.sizes = None
    _count_names_around(entry.f_back)
    if entry.f_back is not None:
        _bind_object(entry.f_back, call)
    return call


def _bind_object(frame: types.FrameType, call: _Call) -> None:
    """Bind the sizes of a method's object, for whose parameter typeguard does not ask us without an annotation."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    check = check_of_object(code.co_qualname, module) if code.co_argcount else None
    first = code.co_varnames[0] if check is not None else ""
    if (
        check is None
        or first not in frame.f_locals
        or first in reassigned_parameters(code)
    ):
        return
    check(
        frame.f_locals[first],
        call.table,
        call.view,
        _site(code.co_qualname, first, "", module),
    )


def _count_names_around(frame: types.FrameType | None) -> None:
    """Count the names of the function around one that is called: it is not known in which call it was defined."""
    if (
        frame is None
        or "<locals>" not in frame.f_code.co_qualname
        or not _is_checked_around(frame)
    ):
        return
    name = frame.f_code.co_qualname.rpartition("<locals>.")[2]
    _stats.count_not_possible(
        f"{name}: names of the function around it, for typeguard's decorator and hook do not say in which call of that "
        "it was defined"
    )


def _is_checked_around(frame: types.FrameType) -> bool:
    """Whether the function in which that of a frame is defined may be checked too: unless it runs unchecked."""
    name = frame.f_code.co_qualname.rpartition(".<locals>.")[0]
    around = frame.f_back
    while around is not None and around.f_code.co_qualname != name:
        around = around.f_back
    return around is None or "memo" in around.f_code.co_varnames
