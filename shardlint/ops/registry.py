"""The registry of op models: what a function does to shapes and dtypes, by qualified name.

A model is a small function from a ``Call`` (bound arguments) to an abstract value. It raises ``OpError`` where some
call that the annotations allow certainly fails, and answers with something unknown wherever it cannot tell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from shardlint.values import (
    DictValue,
    IntValue,
    Literal,
    MeshValue,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
    number_in,
)
from shardtypes.lang import Facts, Size
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.ops.sharding.view import View


class OpError(Exception):
    """A certain mismatch.

    ``code`` is the rule (``'ST204'``), ``witness`` an assignment of sizes for which the program fails (empty: it
    fails for every size), ``operand`` the index of the positional argument to point at, if one is to blame,
    ``related`` are (module, node, text) of places that it is about.
    """

    def __init__(
        self,
        code: str,
        message: str,
        witness: Mapping[str, int] | None = None,
        operand: int | None = None,
        related: Sequence[tuple[str, int, str]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.witness: dict[str, int] = dict(witness or {})
        self.operand = operand
        self.related = tuple(related)

    def __str__(self) -> str:
        return self.message


class UnknownArgument(Exception):
    """Raised inside a model for an argument whose value is not known: the result is an unknown array."""


CallBack: TypeAlias = Callable[[Value, Sequence[Value], Mapping[str, Value]], Value]


def _cannot_call(
    func: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    return Unknown("a function passed as an argument")


@dataclass(slots=True)
class OpContext:
    """What a model sees of the program around the call.

    ``facts`` hold on the path and may grow (``reshape`` adds divisibility); ``call`` evaluates a function value, for
    models that take functions; ``x64`` is JAX's setting of that name, off by default; ``mesh`` gives axis sizes.
    """

    facts: Facts = field(default_factory=Facts)
    call: CallBack = _cannot_call
    x64: bool = False
    mesh: Mapping[str, int | None] = field(default_factory=dict)
    view: View | None = None
    """In manual code, the mesh axes that are bound: sharding models then run besides."""
    place: tuple[str, int] = ("", -1)
    """Module and node of the call, for what findings relate to."""
    numpy: bool = False
    """Set while a NumPy function runs through the model of its ``jax.numpy`` twin."""
    explicit: MeshValue | None = None
    """In the global view, a mesh in force that has explicit axes: there JAX itself keeps track of how arrays lie."""


@frozen
class Parameter:
    """``kind`` is ``positional``, ``keyword``, ``*`` or ``**``; ``default`` is None for a required one."""

    name: str
    kind: str
    default: Value | None


@frozen
class Signature:
    """The parameters of a modelled function, as users may pass them."""

    parameters: tuple[Parameter, ...]

    @property
    def names(self) -> frozenset[str]:
        """Those of all parameters."""
        return frozenset(one.name for one in self.parameters)

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of those that may be given by position, any number of others aside."""
        return tuple(one.name for one in self.parameters if one.kind == "positional")

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of them that have no default."""
        required = {one.name for one in self.parameters if one.default is None}
        return tuple(name for name in self.positional if name in required)

    @property
    def takes_any_name(self) -> bool:
        """Whether there may be more by name."""
        return any(one.kind == "**" for one in self.parameters)

    @property
    def takes_any_number(self) -> bool:
        """Whether there may be more by position."""
        return any(one.kind == "*" for one in self.parameters)

    def bind(
        self, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> dict[str, Value] | None:
        """Arguments by parameter name, defaults filled in; None where the call does not fit."""
        bound: dict[str, Value] = {}
        rest = list(args)
        named = dict(kwargs)
        for parameter in self.parameters:
            if parameter.kind == "*":
                bound[parameter.name] = SequenceValue(tuple(rest))
                rest = []
            elif parameter.kind == "**":
                bound[parameter.name] = DictValue(tuple(named.items()))
                named = {}
            elif parameter.kind == "positional" and rest:
                if parameter.name in named:
                    return None
                bound[parameter.name] = rest.pop(0)
            elif parameter.name in named:
                bound[parameter.name] = named.pop(parameter.name)
            elif parameter.default is not None:
                bound[parameter.name] = parameter.default
            else:
                return None
        return None if rest or named else bound


def constant(value: object) -> Value:
    """The abstract value of a Python constant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return IntValue(Size.const(value))
    if isinstance(value, tuple):
        return SequenceValue(tuple(constant(item) for item in value))
    return Literal(value)


@cache
def parse_signature(text: str) -> Signature:
    """``'a, axis=None, *, keepdims=False'`` → Signature. Positional parameters may be passed by name, too."""
    function = ast.parse(f"def _({text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    parameters = []
    for i, arg in enumerate(positional):
        default = (
            constant(ast.literal_eval(arguments.defaults[i - missing]))
            if i >= missing
            else None
        )
        parameters.append(Parameter(arg.arg, "positional", default))
    if arguments.vararg is not None:
        parameters.append(Parameter(arguments.vararg.arg, "*", None))
    for arg, default_node in zip(
        arguments.kwonlyargs, arguments.kw_defaults, strict=True
    ):
        default = (
            None if default_node is None else constant(ast.literal_eval(default_node))
        )
        parameters.append(Parameter(arg.arg, "keyword", default))
    if arguments.kwarg is not None:
        parameters.append(Parameter(arguments.kwarg.arg, "**", None))
    return Signature(tuple(parameters))


@frozen
class Call:
    """One call of a modelled function, its arguments bound to parameter names."""

    qualname: str
    args: Mapping[str, Value]
    ctx: OpContext

    def __getitem__(self, name: str) -> Value:
        return self.args[name]

    def get(self, name: str) -> Value:
        """The argument, or the value None where the function has no such parameter."""
        return self.args.get(name, NONE)

    @property
    def name(self) -> str:
        """The function as users write it: ``jnp.sum``."""
        return short_name(self.qualname)

    @property
    def last(self) -> str:
        """The last part of the qualified name: ``sum``."""
        return self.qualname.rpartition(".")[2]


NONE = Literal(None)
ModelFunction: TypeAlias = Callable[[Call], Value]
_F = TypeVar("_F", bound=ModelFunction)


@frozen
class Model:
    """One modelled function."""

    qualname: str
    function: ModelFunction
    text: str
    #: The parameters whose arrays have one dtype, as the function does not promote.
    alike: tuple[str, ...] = ()
    #: In manual code the result says how it is sharded, where no sharding model of the function does.
    places: bool = False

    @property
    def signature(self) -> Signature:
        """Parsed when it is first asked for: a program calls few of all functions."""
        return parse_signature(self.text)

    @property
    def most(self) -> int:
        """How many arguments the function takes by position, at most."""
        return len(self.signature.positional)

    def bind(
        self, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> dict[str, Value] | None:
        """Arguments by parameter name; None where the call does not fit."""
        return self.signature.bind(args, kwargs)


_models: dict[str, Model] = {}
MODELS: Mapping[str, Model] = MappingProxyType(_models)


def model(signature: str, *qualnames: str, alike: str = "") -> Callable[[_F], _F]:
    """Register the decorated function as the model of every name given; names may differ in behaviour by
    ``call.last``. ``alike`` names the parameters whose arrays have one dtype: those of ``jax.lax`` do not promote."""

    def register(function: _F) -> _F:
        for qualname in qualnames:
            if qualname in _models:
                raise ValueError(f"two models for {qualname}")
            _models[qualname] = Model(
                qualname, function, signature, tuple(alike.split())
            )
        return function

    return register


def names(prefix: str, text: str) -> list[str]:
    """``names('jax.numpy', 'exp log')`` → qualified names."""
    return [f"{prefix}.{name}" for name in text.split()]


_SHORT = (
    ("jax.numpy.", "jnp."),
    ("jax.Array.at.", ".at[…]."),
    ("jax.Array.", "."),
    ("jax.lax.", "lax."),
    ("numpy.", "np."),
    ("builtins.", ""),
)


def short_name(qualname: str) -> str:
    """``jax.numpy.sum`` → ``jnp.sum``: how messages name a function."""
    for prefix, short in _SHORT:
        if qualname.startswith(prefix):
            return short + qualname.removeprefix(prefix)
    return qualname


def find_table(qualname: str) -> Model | None:
    """The model of a function; a NumPy function falls back on its ``jax.numpy`` twin."""
    found = _models.get(qualname)
    if found is None and qualname.startswith("numpy."):
        found = _models.get("jax." + qualname)
    return found


def is_none(value: Value) -> bool:
    return isinstance(value, Literal) and value.value is None


def static_int(value: Value) -> int | None:
    """The value of a Python int or bool that is known, else None."""
    if isinstance(value, Literal) and isinstance(value.value, bool):
        return int(value.value)
    return number_in(value)


def static_bool(value: Value) -> bool | None:
    """The truth of a known bool or int, else None."""
    known = static_int(value)
    return None if known is None else bool(known)


def static_str(value: Value) -> str | None:
    return (
        value.value
        if isinstance(value, Literal) and isinstance(value.value, str)
        else None
    )


def is_number(value: Value) -> bool:
    """Whether the value is certainly a Python number or bool."""
    if isinstance(value, Literal):
        return isinstance(value.value, (bool, float, complex))
    return isinstance(value, (IntValue, ScalarValue))
