"""Operations of JAX on arrays whose shape is known: operators, methods, attributes and functions with a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    CallExpr,
    ComparisonExpr,
    Context,
    Expression,
    IndexExpr,
    MemberExpr,
    OperatorAssignmentStmt,
    OpExpr,
    RefExpr,
    UnaryExpr,
)
from mypy.plugin import (
    AttributeContext,
    CheckerPluginInterface,
    FunctionContext,
    MethodContext,
)
from mypy.types import Instance, Type, get_proper_type

from shardlint import ops
from shardlint import values as av
from shardlint.mypy_plugin.annotations import stack, stacked_prefix
from shardlint.mypy_plugin.codes import AXES, SHAPE
from shardlint.mypy_plugin.errors import Reporter
from shardlint.mypy_plugin.fields import field_type
from shardlint.mypy_plugin.forms import (
    Forms,
    arrays_in,
    has_array,
    read_array,
    without_shapes,
)
from shardlint.mypy_plugin.names import JAX_ARRAY
from shardlint.mypy_plugin.reading import Reader
from shardlint.mypy_plugin.scopes import known_sizes
from shardlint.mypy_plugin.transformations import (
    MAPPING,
    partial_call,
    partial_made,
    transformed,
)
from shardlint.mypy_plugin.values import type_of
from shardlint.mypy_plugin.variables import Variables
from shardtypes.lang.messages import fails_for

_BINARY = {
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//", "__mod__": "%",
    "__pow__": "**", "__matmul__": "@", "__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<",
    "__rshift__": ">>",
}  # fmt: skip
_COMPARISONS = {
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}
_UNARY = {"__neg__": "-", "__pos__": "+", "__invert__": "~"}
_REFLECTED = {name.replace("__", "__r", 1): op for name, op in _BINARY.items()}
_ATTRIBUTES = frozenset({"T", "mT", "real", "imag"})
_SIZES = frozenset({"shape", "ndim", "size"})

# Where JAX's private modules are public: below the public one, or in modules of other names below it.
_PUBLIC = (
    ("jax._src.nn.functions.", "jax.nn."),
    ("jax._src.nn.", "jax.nn."),
    ("jax._src.scipy.stats._core.", "jax.scipy.stats."),
    ("jax._src.scipy.", "jax.scipy."),
    ("jax._src.third_party.scipy.", "jax.scipy."),
    ("jax._src.ops.scatter.", "jax.ops."),
    ("jax._src.ops.special.", "jax.nn."),
    ("jax._src.image.", "jax.image."),
    ("jax._src.random.", "jax.random."),
    ("jax._src.numpy.", "jax.numpy."),
    ("jax._src.lax.", "jax.lax."),
    ("einops.", "einops."),
)
#: Libraries whose own types say enough.
_PYTHON = ("numpy.", "builtins.", "math.")


@lru_cache(maxsize=4096)
def public_name(fullname: str) -> str | None:
    """The name under which a function has a model, None where it has none."""
    if ops.is_modelled(fullname):
        return None if fullname.startswith(_PYTHON) else fullname
    last = fullname.rpartition(".")[2]
    for private, public in _PUBLIC:
        if not fullname.startswith(private):
            continue
        for candidate in (public + fullname.removeprefix(private), public + last):
            if ops.is_modelled(candidate):
                return candidate
    return None


class Operations:
    """The hooks of JAX's functions, and of the methods, operators and attributes of arrays."""

    def __init__(self, forms: Forms, report: Reporter, variables: Variables) -> None:
        self.forms = forms
        self.report = report
        self.variables = variables

    def function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The hook of a function that has a model, or of one that transforms functions."""
        name = public_name(fullname)
        if name is not None:
            return partial(self._function, name=name)
        if fullname == "functools.partial":
            return partial_made
        if fullname.startswith("jax."):
            return partial(
                transformed, name=fullname.rpartition(".")[2], forms=self.forms
            )
        return (
            _mapped
            if MAPPING.search(fullname) and not fullname.startswith("shardtypes.")
            else None
        )

    def method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """The hook of a method of arrays, or of calling a wrapped function of JAX (``jax.nn.relu`` is an object)."""
        owner, _, name = fullname.rpartition(".")
        if owner == JAX_ARRAY:
            return partial(self._method, name=name)
        if fullname == "functools.partial.__call__":
            return partial_call
        return self._wrapped_function if name == "__call__" else None

    def attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        """The hook of ``x.T`` and the like."""
        owner, _, name = fullname.rpartition(".")
        if owner == JAX_ARRAY:
            if name in _SIZES:
                return self._noted
            return partial(self._attribute, name=name) if name in _ATTRIBUTES else None
        return None if owner.startswith("builtins.") else self._field

    def _run(
        self,
        model: Callable[[ops.OpContext], av.Value],
        default: Type,
        api: CheckerPluginInterface,
        at: Context,
    ) -> Type:
        """The type of what a model computes; a certain mismatch is reported."""
        try:
            context = ops.OpContext(
                facts=known_sizes(api).facts, mesh=self.report.settings.mesh
            )
            return type_of(model(context), default, self.forms)
        except ops.OpError as error:
            witness = "" if "fails for" in error.message else fails_for(error.witness)
            self.report(
                api,
                error.code,
                error.message.replace("?", "") + witness,
                at,
                AXES if error.code[:3] == "ST3" else SHAPE,
            )
            return default

    def _function(self, ctx: FunctionContext | MethodContext, name: str) -> Type:
        given = _arguments(ctx, Reader(ctx.api, self.variables))
        if given is None:
            return ctx.default_return_type
        args, kwargs = given
        return self._run(
            lambda o: ops.apply(name, args, kwargs, o),
            ctx.default_return_type,
            ctx.api,
            ctx.context,
        )

    def _wrapped_function(self, ctx: MethodContext) -> Type:
        callee = ctx.context.callee if isinstance(ctx.context, CallExpr) else None
        name = (
            public_name(callee.fullname)
            if isinstance(callee, RefExpr) and callee.fullname
            else None
        )
        if name is not None:
            return self._function(ctx, name)
        # ``custom_vjp[f32['B M']]``: a generic class of wrapped functions, whose result has the sizes of their bodies
        owner = get_proper_type(ctx.type)
        wrapper = isinstance(owner, Instance) and any(
            True for arg in owner.args for _ in arrays_in(arg)
        )
        return (
            without_shapes(ctx.default_return_type)
            if wrapper
            else ctx.default_return_type
        )

    def _method(self, ctx: MethodContext, name: str) -> Type:
        form = read_array(ctx.type)
        if form is None:
            return ctx.default_return_type
        reader = Reader(ctx.api, self.variables)
        node, argument = _operands(ctx, name)
        receiver = (
            reader.value(node, ctx.type) if node is not None else av.ArrayValue(None)
        )
        if len(ctx.args) == 1 and len(ctx.args[0]) == 1:
            other = reader.value(argument, ctx.arg_types[0][0])
            binary = _BINARY.get(name) or _COMPARISONS.get(name) or _REFLECTED.get(name)
            if binary is not None and not (_has_array(receiver) or _has_array(other)):
                return ctx.default_return_type
            if name in _BINARY:
                return self._operator(
                    ctx, lambda o: ops.binary(_BINARY[name], receiver, other, o)
                )
            if name in _REFLECTED:
                return self._operator(
                    ctx, lambda o: ops.binary(_REFLECTED[name], other, receiver, o)
                )
            if name in _COMPARISONS:
                return self._operator(
                    ctx, lambda o: ops.compare(_COMPARISONS[name], receiver, other, o)
                )
            if name == "__getitem__" and _has_array(receiver):
                return self._operator(ctx, lambda o: ops.index(receiver, other, o))
        if not _has_array(receiver):
            return ctx.default_return_type
        if name in _UNARY:
            return self._operator(ctx, lambda o: ops.unary(_UNARY[name], receiver, o))
        if name.startswith("__"):
            return ctx.default_return_type
        given = _arguments(ctx, reader)
        if given is None:
            return ctx.default_return_type
        args, kwargs = given
        return self._operator(
            ctx, lambda o: ops.method(receiver, name, args, kwargs, o)
        )

    def _operator(
        self, ctx: MethodContext, model: Callable[[ops.OpContext], av.Value]
    ) -> Type:
        return self._run(model, ctx.default_return_type, ctx.api, ctx.context)

    def _attribute(self, ctx: AttributeContext, name: str) -> Type:
        if (
            read_array(ctx.type) is None
            or ctx.is_lvalue
            or not isinstance(ctx.context, MemberExpr)
        ):
            return ctx.default_attr_type
        receiver = Reader(ctx.api, self.variables).value(ctx.context.expr, ctx.type)
        return self._run(
            lambda o: ops.attribute(receiver, name, o),
            ctx.default_attr_type,
            ctx.api,
            ctx.context,
        )

    def _noted(self, ctx: AttributeContext) -> Type:
        """``x.shape``, which names further down may stand for: of what ``x`` is here."""
        if isinstance(ctx.context, MemberExpr):
            value = ctx.context.expr
            self.variables.note(
                value, self.variables.value_type(ctx.api, value, ctx.type)
            )
        return ctx.default_attr_type

    def _field(self, ctx: AttributeContext) -> Type:
        """A field of ``Array['layers', Layer]`` has the dimensions of the stack in front."""
        prefix = stacked_prefix(ctx.type)
        if prefix is None and not has_array(ctx.default_attr_type):
            return ctx.default_attr_type
        typ = field_type(ctx, self.forms, self.variables.bindings)
        return (
            typ
            if prefix is None
            else stack(
                prefix, typ, ctx.api.named_generic_type("builtins.str", []), self.forms
            )
        )


def _operands(
    ctx: MethodContext, name: str
) -> tuple[Expression | None, Expression | None]:
    """The expression whose method is called, where mypy's context tells it, and the one argument."""
    node = ctx.context
    argument = ctx.args[0][0] if len(ctx.args) == 1 and len(ctx.args[0]) == 1 else None
    if isinstance(node, CallExpr):
        return (
            node.callee.expr if isinstance(node.callee, MemberExpr) else None
        ), argument
    if isinstance(node, IndexExpr):
        return node.base, argument
    if isinstance(node, UnaryExpr):
        return node.expr, argument
    if isinstance(node, OperatorAssignmentStmt):
        return (
            (node.rvalue, node.lvalue)
            if name in _REFLECTED
            else (node.lvalue, node.rvalue)
        )
    # mypy passes something else for the left operand of a reflected operator
    if isinstance(node, OpExpr):
        return (
            (node.right, node.left) if name in _REFLECTED else (node.left, node.right)
        )
    if isinstance(node, ComparisonExpr) and len(node.operands) == 2:
        left, right = node.operands
        return (left, right) if argument is right else (right, left)
    return None, argument


def _mapped(ctx: FunctionContext) -> Type:
    """The function of another library that maps one, or the decorator that will; ``typed_shard_map`` keeps it."""
    return without_shapes(ctx.default_return_type)


def _has_array(value: av.Value) -> bool:
    if isinstance(value, av.SequenceValue):
        return any(_has_array(item) for item in value.items)
    return isinstance(value, av.ArrayValue) and (
        value.dims is not None or value.dtype is not None
    )


def _arguments(
    ctx: FunctionContext | MethodContext, reader: Reader
) -> tuple[list[av.Value], dict[str, av.Value]] | None:
    """The arguments of a call, None where ``*args`` or ``**kwargs`` hide them."""
    args: list[av.Value] = []
    kwargs: dict[str, av.Value] = {}
    for types, kinds, names, expressions in zip(
        ctx.arg_types, ctx.arg_kinds, ctx.arg_names, ctx.args, strict=True
    ):
        for typ, kind, keyword, expression in zip(
            types, kinds, names, expressions, strict=True
        ):
            value = reader.value(expression, typ)
            if kind == ARG_POS:
                args.append(value)
            elif kind == ARG_NAMED and keyword is not None:
                kwargs[keyword] = value
            else:
                return None
    return args, kwargs
