"""Returned and assigned values against what was promised."""

from __future__ import annotations

from mypy import errorcodes
from mypy.errorcodes import ErrorCode
from mypy.nodes import CallExpr, Context, Expression, OpExpr, RefExpr, StrExpr, TypeInfo
from mypy.plugin import CheckerPluginInterface, FunctionContext
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    Type,
    TypeOfAny,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from shardlint.mypy_plugin.codes import INTERNAL
from shardlint.mypy_plugin.errors import Reporter
from shardlint.mypy_plugin.forms import has_array, read_array, without_shapes
from shardlint.mypy_plugin.matching import bindings_for, match
from shardlint.mypy_plugin.scopes import known_sizes
from shardlint.mypy_plugin.variables import Variables, recorded_type

_REMEMBERED = 256


class PromiseChecks:
    """The hooks of the two functions that returned and assigned values pass through."""

    def __init__(self, report: Reporter, variables: Variables) -> None:
        self._variables = variables
        self._report = report
        self._expected: dict[Context, Type] = {}

    def returned(self, ctx: FunctionContext) -> Type:
        """The value of a ``return`` in a function that promises an array."""
        return self._check(
            ctx, "ST201", "Incompatible return value", errorcodes.RETURN_VALUE
        )

    def yielded(self, ctx: FunctionContext) -> Type:
        """The value of a ``yield`` in a generator of arrays."""
        return self._check(
            ctx, "ST201", "Incompatible yielded value", errorcodes.RETURN_VALUE
        )

    def assigned(self, ctx: FunctionContext) -> Type:
        """The value assigned to a variable annotated as an array."""
        return self._check(
            ctx, "ST203", "Incompatible assignment", errorcodes.ASSIGNMENT
        )

    def called(self, ctx: FunctionContext) -> Type:
        """A function that has no name: its result would be in the sizes of its own signature."""
        function = ctx.arg_types[0][0]
        proper = get_proper_type(function)
        if not isinstance(proper, CallableType) or proper.is_type_obj():
            return function
        return proper.copy_modified(ret_type=without_shapes(proper.ret_type))

    def revealed(self, ctx: FunctionContext) -> Type:
        """The argument of ``reveal_type``."""
        return self._variables.value_type(ctx.api, ctx.args[0][0], ctx.arg_types[0][0])

    def failed(self, ctx: FunctionContext) -> Type:
        """Stands at the top of a file that could not be rewritten: its argument is why."""
        message = ctx.args[0][0]
        ctx.api.fail(
            message.value if isinstance(message, StrExpr) else "",
            ctx.context,
            code=INTERNAL,
        )
        return ctx.default_return_type

    def _check(
        self, ctx: FunctionContext, rule: str, what: str, code: ErrorCode
    ) -> Type:
        actual = (
            ctx.arg_types[0][0]
            if ctx.arg_types and ctx.arg_types[0]
            else AnyType(TypeOfAny.special_form)
        )
        expected = self._promise(ctx)
        value = ctx.args[0][0] if ctx.args and ctx.args[0] else None
        actual = self._variables.value_type(ctx.api, value, actual)
        if expected is None:
            return actual
        made = constructed(ctx.api, value) or self._filled(ctx.api, expected, value)
        known = known_sizes(ctx.api)
        problem = match(
            expected, made or actual, bindings_for(known.names), known, promise=True
        )
        if problem is not None:
            self._report(
                ctx.api, problem.rule or rule, problem.message(what), ctx.context, code
            )
            return expected  # what was promised goes on: one mistake is told once
        # to mypy itself every shape and dtype fits every other; what already was an error is no second one
        proper = get_proper_type(actual)
        failed = (
            isinstance(proper, AnyType) and proper.type_of_any == TypeOfAny.from_error
        )
        return expected if failed else actual

    def _filled(
        self, api: CheckerPluginInterface, expected: Type, value: Expression | None
    ) -> Type | None:
        """The type of ``list(…)`` or ``[x] * 2`` by what is in it: mypy leaves that open where anything is expected."""
        if not isinstance(value, (CallExpr, OpExpr)) or not holds_arrays(expected):
            return None
        # TypeChecker has it, the plugin interface does not say so
        messages = getattr(api, "msg", None)
        if messages is None:
            return None
        with messages.filter_errors():  # what is wrong there has been reported
            return api.get_expression_type(value)

    def _promise(self, ctx: FunctionContext) -> Type | None:
        """The declared type. mypy drops the errors of a first attempt and tries again without an expected type."""
        expected = ctx.api.type_context[-1] if ctx.api.type_context else None
        if expected is None:
            return self._expected.get(ctx.context)
        if len(self._expected) >= _REMEMBERED:
            self._expected.clear()
        self._expected[ctx.context] = expected
        return expected


def holds_arrays(typ: Type) -> bool:
    """Whether a type is one of containers of arrays, not of arrays alone."""
    proper = get_proper_type(typ)
    if isinstance(proper, UnionType):
        return any(holds_arrays(item) for item in proper.items)
    return read_array(proper) is None and has_array(proper)


def constructed(
    api: CheckerPluginInterface, node: Expression | None
) -> Instance | None:
    """The type of ``Box(x)`` as its arguments tell it: mypy takes the type variables from what is expected there."""
    cls = (
        node.callee.node
        if isinstance(node, CallExpr) and isinstance(node.callee, RefExpr)
        else None
    )
    if (
        not isinstance(node, CallExpr)
        or not isinstance(cls, TypeInfo)
        or not cls.type_vars
    ):
        return None
    initialiser = cls.get_method("__init__")
    signature = None if initialiser is None else get_proper_type(initialiser.type)
    if not isinstance(signature, CallableType) or any(node.arg_names):
        return None
    found: dict[str, Type] = {}
    for formal, arg in zip(signature.arg_types[1:], node.args, strict=False):
        variable, given = get_proper_type(formal), recorded_type(api, arg)
        if isinstance(variable, TypeVarType) and given is not None and has_array(given):
            found[variable.name] = given
    if not found:
        return None
    return Instance(
        cls,
        [found.get(name, AnyType(TypeOfAny.special_form)) for name in cls.type_vars],
    )
