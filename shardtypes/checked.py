"""``typechecked``: the checks of one function, compiled once.

Arrays are checked by our own code; annotations without arrays are typeguard's. Annotations are read at the first call,
so that they may name what is defined later.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from typeguard import TypeCheckMemo, _suppression

from shardtypes import _stats, messages, switches
from shardtypes.annotation_checks import compile_annotation
from shardtypes.array_check import abandon
from shardtypes.array_types import class_of, holds_arrays, is_unpacked, with_self
from shardtypes.assignments import reassigned_parameters
from shardtypes.callable_forms import checked_form
from shardtypes.checker_parts import Checked
from shardtypes.checker_text import Unusual
from shardtypes.errors import ShardTypeError
from shardtypes.fields import is_pytree_dataclass, remember_names
from shardtypes.frames import (
    defining_frame,
    defining_table,
    keep_names,
    kept_names,
    mentioned_names,
)
from shardtypes.function_names import display_name
from shardtypes.generated_checks import MISSING, Call, Generated, Signature
from shardtypes.generators import Checks as GeneratorChecks
from shardtypes.generators import parts_of, run, run_async
from shardtypes.jaxtyping_types import translated
from shardtypes.meshes import GLOBAL_VIEW, View, current_view
from shardtypes.methods import check_of_object, names_no_sizes
from shardtypes.recompiled import with_assignments_checked
from shardtypes.scoped_calls import scope as open_scope
from shardtypes.scopes import (
    Table,
    enter_table,
    leave_table,
    scope_in_force,
    shared_table,
)
from shardtypes.sites import Site
from shardtypes.strings_in_types import resolved
from shardtypes.switches import checks_on, left_out, switched_off
from shardtypes.typeguard_checks import CONFIG, Checker
from shardtypes.typeguard_plugin import register_with_typeguard

F = TypeVar("F")
_MISSING = MISSING

register_with_typeguard()


@dataclass(frozen=True, slots=True)
class _Parameter:
    position: int
    name: str
    default: Any
    check: Checker
    site: Site
    annotation: Any
    # For the object of a method: whether those of its class name no sizes.
    sizeless: Callable[[Any], bool] | None

    def for_checker(self) -> Checked:
        """As what generates a checker needs it."""
        by_name = self.position == sys.maxsize
        position = None if by_name else self.position
        return Checked(
            self.annotation,
            self.check,
            self.site,
            self.name,
            position,
            self.sizeless,
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    function: Any
    code: types.CodeType | None
    parameters: tuple[_Parameter, ...]
    rest: tuple[int, Checker, Site] | None  # its check is that of all items in a tuple
    keywords: tuple[frozenset[str], Checker, Site] | None  # the same, in a dict
    result: tuple[Checker, Site] | None
    result_type: Any
    generator: GeneratorChecks
    left_out: tuple[str, ...]  # what of each call is not checked, and why
    arrays_only: bool


def _globals(function: Any) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    names: dict[str, Any] | None = getattr(inner, "__globals__", None)
    if names is not None:
        return names
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    return {} if module is None else vars(module)


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    cells = getattr(inspect.unwrap(function), "__closure__", None) or ()
    names: dict[str, Any] = {}
    for name, cell in zip(
        code.co_freevars if code is not None else (), cells, strict=True
    ):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


UNREADABLE = (NameError, TypeError, ValueError, AttributeError, SyntaxError)
"""What annotations raise that name nothing, or are none."""


def evaluated_hints(function: Any) -> dict[str, Any]:
    """The annotations of a function, evaluated. Raises one of ``UNREADABLE``."""
    names = _globals(function)
    local_names = {**kept_names(function), **_closure(function)}
    try:
        return typing.get_type_hints(function, names, local_names, include_extras=True)
    except NameError:
        return _hints_with_gaps(function, names, local_names)


def _hints_with_gaps(
    function: Any, names: dict[str, Any], local_names: dict[str, Any]
) -> dict[str, Any]:
    """The same where a type of another module, as ``optax.OptState``, names types that only that module has: ``Any``
    stands for these. Raises ``NameError`` for what the function itself names."""
    written = inspect.get_annotations(
        inspect.unwrap(function), globals=names, locals=local_names, eval_str=True
    )
    return {
        name: resolved(annotation, names, local_names).annotation
        for name, annotation in written.items()
    }


def _make_plan(function: Any, names: dict[str, Any]) -> _Plan:
    """Read a function's annotations. A name that does not resolve leaves that one parameter to be counted."""
    reader = _Reader(function, names)
    parameters: list[_Parameter] = []
    rest = keywords = None
    position = 0
    named: set[str] = set()
    for parameter in reader.signature.parameters.values():
        name = parameter.name
        site = reader.site(f"parameter {name!r}")
        if parameter.kind is parameter.VAR_POSITIONAL:
            check = reader.check(name, _check_of_rest)
            rest = (position, check, site) if check is not None else None
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            check = reader.check(name, _check_of_keywords)
            keywords = (frozenset(named), check, site) if check is not None else None
            continue
        named.add(name)
        at = position if parameter.kind is not parameter.KEYWORD_ONLY else sys.maxsize
        position += 1
        check, sizeless = reader.check(name), None
        annotation = reader.annotation(name)
        if check is None and at == 0:
            check, sizeless = reader.check_of_object()
            annotation = reader.class_of_object()
        if check is not None:
            default = (
                _MISSING if parameter.default is parameter.empty else parameter.default
            )
            parameters.append(
                _Parameter(at, name, default, check, site, annotation, sizeless)
            )
    returned = reader.check("return")
    result = (returned, reader.site("the result")) if returned is not None else None
    run = with_assignments_checked(function, reader.display)
    code = getattr(inspect.unwrap(run), "__code__", None)
    generator = reader.generator(function)
    left_out = (*reader.not_found, *reader.reassigned(code))
    return _Plan(
        run,
        code,
        tuple(parameters),
        rest,
        keywords,
        result,
        reader.annotation("return"),
        generator,
        left_out,
        switches.arrays_only,
    )


class _Reader:
    """Reads the annotations of one function."""

    def __init__(self, function: Any, names: dict[str, Any]) -> None:
        self.display = display_name(function)
        self.module = getattr(function, "__module__", None) or ""
        self.signature = inspect.signature(function)
        self._inner = inspect.unwrap(function)
        self._annotations = getattr(self._inner, "__annotations__", {})
        self._memo = TypeCheckMemo(
            _globals(function), {**names, **_closure(function)}, config=CONFIG
        )
        self._self_type = class_of(function)
        self.not_found: dict[str, None] = {}

    def site(self, role: str) -> Site:
        return Site(self.display, role, self.module)

    def annotation(self, name: str) -> Any:
        """A resolved annotation; ``Any`` for one that names nothing."""
        found = resolved(
            self._annotations.get(name, Any), self._memo.globals, self._memo.locals
        )
        self.not_found.update(dict.fromkeys(found.reasons(f"{self.display}({name})")))
        annotation = with_self(found.annotation, self._self_type)
        return translated(annotation) if switches.jaxtyping_too else annotation

    def check(
        self,
        name: str,
        compiled: Callable[[Any, TypeCheckMemo], Checker | None] | None = None,
    ) -> Checker | None:
        return (compiled or compile_annotation)(self.annotation(name), self._memo)

    def check_of_object(
        self,
    ) -> tuple[Checker | None, Callable[[Any], bool] | None]:
        """What binds the sizes of a method's object, which needs no annotation, and tells where it has none."""
        if next(iter(self.signature.parameters), None) in self._annotations:
            return None, None
        name = getattr(self._inner, "__qualname__", "")
        return check_of_object(name, self.module), names_no_sizes(name, self.module)

    def class_of_object(self) -> Any:
        """The class in which a method stands, if objects of it name sizes; ``Any`` for others."""
        cls, name = self._self_type, getattr(self._inner, "__name__", "")
        if not is_pytree_dataclass(cls) or isinstance(
            vars(cls).get(name), staticmethod
        ):
            return Any
        return cls

    def generator(self, function: Any) -> GeneratorChecks:
        parts = None
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        ):
            parts = parts_of(self.annotation("return"))
        checks = [
            compile_annotation(part, self._memo) for part in parts or (Any, Any, Any)
        ]
        return GeneratorChecks(
            checks[0], checks[1], checks[2], self.display, self.module
        )

    def reassigned(self, code: types.CodeType | None) -> list[str]:
        """The parameters that the function assigns to: what they are then is not checked."""
        names = reassigned_parameters(code) if code is not None else ()
        held = [name for name in names if holds_arrays(self.annotation(name))]
        return [
            f"{self.site(f'parameter {name!r}')}: what is assigned to it is not checked"
            for name in held
        ]


def _check_of_rest(annotation: Any, memo: TypeCheckMemo) -> Checker | None:
    """The check of all items of ``*args: T``, or of ``*args: *tuple[T, S]``."""
    if is_unpacked(annotation):
        whole = tuple[annotation]
        return compile_annotation(whole, memo) if holds_arrays(whole) else None
    check = compile_annotation(annotation, memo)
    if check is None:
        return None

    def check_items(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        for item in value:
            check(item, table, view, site)

    return check_items


def _check_of_keywords(annotation: Any, memo: TypeCheckMemo) -> Checker | None:
    """The check of all items of ``**kwargs: T``, or of ``**kwargs: Unpack[Options]`` with a typed dict."""
    if is_unpacked(annotation):
        return compile_annotation(typing.get_args(annotation)[0], memo)
    check = _check_of_rest(annotation, memo)
    if check is None:
        return None
    return lambda value, table, view, site: check(
        tuple(value.values()), table, view, site
    )


def _check_arguments(
    plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any], table: Table, view: View
) -> None:
    __tracebackhide__ = True
    count = len(args)
    for parameter in plan.parameters:
        if parameter.position < count:
            value = args[parameter.position]
        else:
            value = kwargs.get(parameter.name, parameter.default)
            if value is _MISSING:
                continue  # the call itself says that it is missing
        parameter.check(value, table, view, parameter.site)
    if plan.rest is not None:
        first, check, site = plan.rest
        check(args[first:], table, view, site)
    if plan.keywords is not None:
        named, check, site = plan.keywords
        check(
            {name: value for name, value in kwargs.items() if name not in named},
            table,
            view,
            site,
        )


class _Checks:
    """The checks of one function, made at its first call."""

    __slots__ = (
        "_plan",
        "call",
        "display",
        "fresh",
        "function",
        "generated",
        "names",
        "outer",
        "slowly",
    )

    def __init__(
        self, function: Any, fresh: bool, names: dict[str, Any], outer: Table | None
    ) -> None:
        self.function = function
        self.display = display_name(function)
        # Whether each call opens a ``Scope``.
        self.fresh = fresh
        # What names in the annotations stand for where the function is defined.
        self.names = names
        # The table of the call in which it is defined.
        self.outer = outer
        self._plan: _Plan | None = None
        # What runs a call, and what is generated for it once there is a second one.
        self.call: Call
        # What runs a call in the general way; None for coroutines and generators.
        self.slowly: Call | None = None
        self.generated: Generated | None = None

    @property
    def plan(self) -> _Plan:
        plan = self._plan
        if plan is None:
            plan = self._plan = _make_plan(self.function, self.names)
        return plan

    def has_arrays(self) -> bool:
        """Whether a parameter or the result holds annotated arrays."""
        found = _types_in(self.function, self.names)
        if switches.jaxtyping_too:
            found = map(translated, found)
        return any(map(holds_arrays, found))

    def begin(
        self,
        plan: _Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        table: Table,
        view: View,
    ) -> None:
        """Check the arguments, and add to what they bind the names of the call in which the function is defined."""
        __tracebackhide__ = True
        _check_arguments(plan, args, kwargs, table, view)
        for reason in plan.left_out:
            _stats.count_not_possible(reason)
        if self.outer is not None and not table.shared:
            if table.deferred:
                abandon(table, self.outer.sizes)
            table.inherit(self.outer)


def _types_in(function: Any, names: Mapping[str, Any]) -> Iterator[Any]:
    """The annotations of a function, evaluated; ``names`` are those of functions around."""
    module = _globals(function)
    around = {**names, **_closure(function)}
    for annotation in inspect.unwrap(function).__annotations__.values():
        yield resolved(annotation, module, around).annotation


def _uses_jaxtyping(types_in_it: Iterable[Any]) -> bool:
    return any(translated(one) is not one for one in types_in_it)


def wrap_function(function: Any, fresh: bool, frame: types.FrameType | None) -> Any:
    """The checked form of one function, decorated where ``frame`` runs. With ``fresh`` each call opens a ``Scope``."""
    defined = defining_frame(function, frame)
    annotations = getattr(inspect.unwrap(function), "__annotations__", {})
    names = mentioned_names(annotations, defined if defined is not None else frame)
    keep_names(function, names)
    outer = defining_table(defined)
    if outer is not None and switches.jaxtyping_too:
        # names of jaxtyping mean something within one call alone
        if _uses_jaxtyping(_types_in(function, names)):
            outer = None
    checks = _Checks(function, fresh, names, outer)
    if annotations:
        name = f"{getattr(function, '__module__', '')}.{checks.display}"
        # what no name leads to cannot be looked at once more
        if defined is None or _stats.is_declared(name) or checks.has_arrays():
            _stats.declare_function(name, place_of(function))
    if inspect.iscoroutinefunction(function):
        made = _wrap_coroutine(checks)
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        made = _wrap_generator(checks)
    else:
        made = _wrap_call(checks)
    # so that a second decorator does not check twice
    made.__shardtypes_checked__ = checks
    return made


def _wrap_call(checks: _Checks) -> Any:
    function, fresh = checks.function, checks.fresh

    def slowly(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return function(*args, **kwargs)
        if _stats.recording:
            name = f"{function.__module__}.{checks.display}"
            _stats.count_function(name)
            _stats.see_call(name, function, args, kwargs)
        plan = checks._plan or checks.plan
        view = current_view()
        table = None if fresh else scope_in_force()
        if table is not None:
            return _call_in_scope(checks, plan, args, kwargs, table, view)
        table = shared_table(plan.code) if fresh else Table(plan.code)
        enter_table(table)
        try:
            checks.begin(plan, args, kwargs, table, view)
            result = plan.function(*args, **kwargs)
            if plan.result is not None:
                check, site = plan.result
                check(result, table, view, site)
            if table.deferred:
                abandon(table)
        except ShardTypeError as error:
            error.left_call(())
            raise
        finally:
            leave_table(table)
        return result

    calls = _stats.Count()

    def first_calls(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        if next(calls) < switches.calls_before_generated:
            return slowly(args, kwargs)
        try:
            checks.call = _generated(checks).call
        except Unusual:
            checks.call = slowly
        return checks.call(args, kwargs)

    checks.slowly = slowly
    checks.call = first_calls

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return checks.call(args, kwargs)

    return checked


def _generated(checks: _Checks) -> Generated:
    """The checker that is generated for a function. Raises ``Unusual``."""
    if checks.generated is not None:
        return checks.generated
    if checks.fresh:
        raise Unusual("each call opens a Scope")
    if checks.outer is not None:
        raise Unusual("it sees the sizes of the call in which it is defined")
    plan, slowly = checks.plan, checks.slowly
    if slowly is None:
        raise Unusual("it is a coroutine or a generator")
    if plan.rest is not None or plan.keywords is not None:
        raise Unusual("it takes any number of arguments")
    if plan.left_out:
        raise Unusual(f"not checked, and counted at each call: {plan.left_out[0]}")
    result = None
    if plan.result is not None:
        check, site = plan.result
        result = Checked(plan.result_type, check, site)
    checks.generated = Generated(
        Signature(
            plan.function,
            checks.function,
            plan.code,
            f"{checks.function.__module__}.{checks.display}",
            tuple(each.for_checker() for each in plan.parameters),
            tuple(each.default for each in plan.parameters),
            result,
            plan.arrays_only,
            slowly,
            lambda args, kwargs, table: _check_arguments(
                plan, args, kwargs, table, GLOBAL_VIEW
            ),
        )
    )
    return checks.generated


def source(function: Any) -> str:
    """The checker of a function under ``typechecked`` or the import hook, as Python: it runs from the eleventh call on.

    Raises ``ValueError`` where there is something about the function that only the general checks know, and says what;
    ``TypeError`` for a function that is not checked.
    """
    checks = getattr(function, "__shardtypes_checked__", None)
    if checks is None:
        raise TypeError(messages.not_checked(display_name(function)))
    try:
        return _generated(checks).text
    except Unusual as error:
        raise ValueError(messages.no_checker(checks.display, str(error))) from None


def _call_in_scope(
    checks: _Checks,
    plan: _Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    table: Table,
    view: View,
) -> Any:
    """A call inside of an open ``Scope``, which it shares: an error takes back what the call bound."""
    __tracebackhide__ = True
    mark = table.mark()
    try:
        checks.begin(plan, args, kwargs, table, view)
        result = plan.function(*args, **kwargs)
        if plan.result is not None:
            check, site = plan.result
            check(result, table, view, site)
    except BaseException as error:
        table.fail(mark, error)
        raise
    return result


def _wrap_coroutine(checks: _Checks) -> Any:
    function = checks.function

    @functools.wraps(function)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return await function(*args, **kwargs)
        if _stats.recording:
            _stats.count_function(f"{function.__module__}.{checks.display}")
        plan, view = checks.plan, current_view()
        scope = None if checks.fresh else scope_in_force()
        table = scope
        if table is None:
            table = enter_table(
                shared_table(plan.code) if checks.fresh else Table(plan.code)
            )
        mark = table.mark()
        try:
            checks.begin(plan, args, kwargs, table, view)
            result = await plan.function(*args, **kwargs)
            if plan.result is not None:
                check, site = plan.result
                check(result, table, view, site)
            return result
        except BaseException as error:
            table.fail(mark, error)
            raise
        finally:
            if scope is None:
                leave_table(table)

    return checked


def _wrap_generator(checks: _Checks) -> Any:
    """Arguments are checked at the call; from then on the generator has a table of its own."""
    function = checks.function
    start: Any = run_async if inspect.isasyncgenfunction(function) else run

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return function(*args, **kwargs)
        if _stats.recording:
            _stats.count_function(f"{function.__module__}.{checks.display}")
        plan = checks.plan
        scope = None if checks.fresh else scope_in_force()
        table = Table() if scope is None else scope.copy()
        table.code, table.shared = plan.code, checks.fresh or scope is not None
        checks.begin(plan, args, kwargs, table, current_view())
        return start(plan.function(*args, **kwargs), plan.generator, table)

    return checked


def place_of(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


@overload
def typechecked(target: F) -> F: ...
@overload
def typechecked(*, scope: bool = False) -> Callable[[F], F]: ...


def typechecked(target: Any = None, *, scope: bool = False) -> Any:
    """Decorator: check a function's arguments and result at every call, and what it assigns to annotated variables.

    On a class it checks those of its methods, and its fields where one of it is made. Array annotations check dtype,
    shape and sharding; all others are checked as typeguard does. Each call is by itself: a name stands for one size in
    it, and in another call for another. With ``SHARDTYPES=0`` in the environment the function is returned as it is.

    Args:
        target: A function or a class.
        scope: Each call opens a ``Scope``, which the calls inside share.

    Raises:
        ShapeError: when called, an array has another dtype, rank or size than declared.
        ShardingError: when called, an array is sharded otherwise than declared.
        typeguard.TypeCheckError: when called, another value is not what its annotation says.
    """
    if target is None:
        return functools.partial(typechecked, scope=scope)
    if switched_off():
        return target
    frame = sys._getframe(1)
    if isinstance(target, type):
        remember_names(target, frame)
    if getattr(target, "__shardtypes_scope__", False):
        target, scope = target.__wrapped__, True
    earlier = getattr(target, "__shardtypes_checked__", None)
    if earlier is None:
        return checked_form(
            target, lambda function: wrap_function(function, scope, frame)
        )
    if not scope or earlier.fresh:
        return target
    if target.__wrapped__ is earlier.function:
        return wrap_function(earlier.function, True, frame)
    return open_scope(target)
