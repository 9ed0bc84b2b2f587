"""``grad`` and its relatives: results shaped like arguments, or like results times arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.blame import result_place
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding import manual_trees, sends
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import bare, leaf_pairs, map_leaves, traced
from shardlint.ops.registry import static_bool, static_int
from shardlint.values import (
    ArrayValue,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Different, Size, compare, dtypes, format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

GRADIENTS = frozenset(
    {
        "jax.grad",
        "jax.value_and_grad",
        "equinox.filter_grad",
        "equinox.filter_value_and_grad",
        "flax.nnx.grad",
        "flax.nnx.value_and_grad",
    }
)
JACOBIANS = frozenset({"jax.jacfwd", "jax.jacrev", "jax.jacobian", "jax.hessian"})
#: What ``vjp`` and ``linearize`` give beside the result.
PULLBACK, PUSHFORWARD = "jax.vjp.pullback", "jax.linearize.pushforward"
DERIVATIVES = {
    **dict.fromkeys(GRADIENTS | JACOBIANS, ("argnums", "has_aux")),
    "equinox.filter_grad": ("has_aux",),
    "equinox.filter_value_and_grad": ("has_aux",),
    "flax.nnx.grad": (),
    "flax.nnx.value_and_grad": (),
    PULLBACK: (),
    PUSHFORWARD: (),
}
_FIRST = IntValue(Size.const(0))


def _sent(it: Interpreter) -> int:
    """How many collectives were seen."""
    return 0 if it.sends is None else len(it.sends.sent)


def _leave_unless_alone(
    it: Interpreter, frame: Frame, at: int, short: str, sent: int
) -> None:
    """Keep that it is not known what a derivative sends, if that may be something. Of collectives, ``sent`` were seen
    before its function was called."""
    # where JAX keeps track of what varies, gradients of what does not are reduced
    may_reduce = it.view is not None and it.view.transposes is not False
    if may_reduce or _sent(it) > sent:
        sends.leave_gradient(it, frame, at, short)


def call_derivative(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The result of calling a gradient, a Jacobian, or one of the functions that ``vjp`` and ``linearize`` give."""

    options = dict(func.options)
    if func.kind in (PULLBACK, PUSHFORWARD):
        return _linear(it, frame, func, args, at, places)
    short = func.kind.rpartition(".")[2]
    chosen = _chosen(options.get("argnums", _FIRST), args)
    aux = _flag(options.get("has_aux"))
    inner = list(args)
    for index in chosen or ():
        inner[index] = traced(args[index])
        _inexact(it, frame, func, inner[index], index, places, at, options)
    by_hand = it.by_hand
    sent = _sent(it)
    result = it.call(frame, func.func, inner, kwargs, at, places)
    _leave_unless_alone(it, frame, at, short, sent)
    if aux is None:
        return Unknown("has_aux is not known")
    value, extra = _with_aux(result) if aux else (result, Unknown("aux"))
    if func.kind in GRADIENTS and _not_scalar(it, frame, func, value, short, at, aux):
        value = Unknown("not a scalar")
    place = (frame.module, at)
    wanted = None
    if chosen is not None:
        given = [_variables(func.kind, inner[index]) for index in chosen]
        own = it.by_hand == by_hand
        wanted = [
            manual_trees.gradient(it.view, one, value, place, own)
            or bare(one, weak=True)
            for one in given
        ]
    if wanted is None:
        gradient: Value = Unknown("argnums is not known")
    else:
        single = not isinstance(options.get("argnums"), SequenceValue)
        gradient = wanted[0] if single else SequenceValue(tuple(wanted))
        if func.kind in JACOBIANS:
            gradient = _outer(value, gradient)
        if func.kind == "jax.hessian":
            gradient = _outer(
                gradient, wanted[0] if single else SequenceValue(tuple(wanted))
            )
    if short.endswith("value_and_grad"):
        return SequenceValue(
            (SequenceValue((value, extra)) if aux else value, gradient)
        )
    return SequenceValue((gradient, extra)) if aux else gradient


def _variables(kind: str, value: Value) -> Value:
    """What a gradient is taken by. That by a module of ``nnx`` is a state, which is not followed."""
    if kind.startswith("flax.nnx.") and not isinstance(value, ArrayValue):
        return Unknown("the gradient of a module")
    return _differentiable(value)


def _differentiable(value: Value, strong: bool = False) -> Value:
    """The parts of a tree that have derivatives like themselves; ints have ``float0``, or None in equinox. With
    ``strong``, weak ones may have others."""

    def change(leaf: Value) -> Value:
        if not isinstance(leaf, ArrayValue):
            return leaf
        if dtypes.is_kind(leaf.dtype, "floating", "complex") is False:
            return Unknown("ints have no derivative")
        return replace(leaf, dtype=None, weak=False) if strong and leaf.weak else leaf

    return map_leaves(value, change)


def _with_aux(result: Value) -> tuple[Value, Value]:
    if isinstance(result, SequenceValue) and len(result.items) == 2:
        return result.items[0], result.items[1]
    return Unknown("a value with aux"), Unknown("aux")


def _chosen(argnums: Value, args: list[Value]) -> list[int] | None:
    """The positions of the arguments to differentiate by; None where they are not known."""
    items = argnums.items if isinstance(argnums, SequenceValue) else (argnums,)
    numbers = [static_int(item) for item in items]
    known = [n for n in numbers if n is not None and -len(args) <= n < len(args)]
    if not known or len(known) != len(numbers):
        return None
    return [n % len(args) for n in known]


def _flag(value: Value | None) -> bool | None:
    return False if value is None else static_bool(value)


def _inexact(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    value: Value,
    index: int,
    places: tuple[int, ...],
    at: int,
    options: dict[str, Value],
) -> None:
    """JAX differentiates by floating-point values only."""
    if not func.kind.startswith("jax.") or "allow_int" in options:
        return
    place = places[index] if index < len(places) else at

    def look(leaf: Value) -> Value:
        if not isinstance(leaf, ArrayValue) or leaf.weak:
            return leaf
        if dtypes.is_kind(leaf.dtype, "signed", "unsigned", "bool"):
            known = dtypes.written(leaf.dtype)
            short = func.kind.rpartition(".")[2]
            text = f"{short}: argument {index} is {known}, which has no derivative: cast it to a floating dtype"
            it.report(frame, "ST212", place, text)
        return leaf

    map_leaves(value, look)


def _not_scalar(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    value: Value,
    short: str,
    at: int,
    aux: bool,
) -> bool:
    """Report a function whose gradient is taken though its result is no single number."""
    what = ""
    if isinstance(value, ArrayValue) and value.dims:
        what = f"an array {format_shape([d.size for d in value.dims])!r}"
    elif (
        isinstance(value, SequenceValue)
        and value.kind == "tuple"
        and not aux
        and len(value.items) == 2
    ):
        what = "a tuple; did you mean has_aux=True?"
    if not what:
        return False
    path = (0,) if aux else ()
    place = result_place(func.func, frame, path)
    related = (
        () if place is None else ((frame.module, at, "its gradient is taken here"),)
    )
    text = f"{short} needs a function with a scalar result, this one returns {what}"
    it.report(frame, "ST217", at if place is None else place, text, related=related)
    return True


def _outer(result: Value, argument: Value) -> Value:
    """The derivative of every leaf of a result by every leaf of an argument."""

    def by_argument(out: Value) -> Value:
        def one(leaf: Value) -> Value:
            a, b = traced(out), traced(leaf)
            if not (isinstance(a, ArrayValue) and isinstance(b, ArrayValue)):
                return Unknown("a Jacobian")
            if a.dims is None or b.dims is None:
                return ArrayValue(None, None)
            alike = a.dtype == b.dtype and a.weak == b.weak
            return ArrayValue(
                (*a.dims, *b.dims), b.dtype if alike else None, alike and b.weak
            )

        return map_leaves(argument, one)

    return bare(map_leaves(result, by_argument), weak=True)


@knows(("jax.vjp", "jax.jvp", "jax.linearize"))
def make_linear(site: Site) -> Value | None:
    """``vjp``, ``jvp`` and ``linearize``."""
    it, frame, at = site.it, site.frame, site.at
    qualname, args, kwargs = site.qualname, site.args, site.kwargs
    places = tuple(operand.at for operand in site.operands)
    if not args:
        return None
    aux = _flag(kwargs.get("has_aux"))
    if qualname == "jax.jvp":
        primals, tangents = (*args[1:3], kwargs.get("primals"), kwargs.get("tangents"))[
            :2
        ]
        if not isinstance(primals, SequenceValue) or aux is None:
            return Unknown("primals are not known")
        if isinstance(tangents, SequenceValue):
            _like(
                it,
                frame,
                primals,
                tangents,
                "jvp: the tangent",
                "its primal",
                places[2] if len(places) > 2 else at,
            )
        given = [traced(item) for item in primals.items]
    else:
        given = [traced(item) for item in args[1:]]
    sent = _sent(it)
    result = it.call(
        frame, args[0], given, {}, at, places[1:] if qualname != "jax.jvp" else ()
    )
    _leave_unless_alone(it, frame, at, qualname.removeprefix("jax."), sent)
    if aux is None:
        return Unknown("has_aux is not known")
    value, extra = _with_aux(result) if aux else (result, Unknown("aux"))
    if qualname == "jax.jvp":
        second: Value = bare(_differentiable(value), weak=True)
    else:
        kind = PULLBACK if qualname == "jax.vjp" else PUSHFORWARD
        second = WrappedValue(
            kind,
            Unknown("linear"),
            (("result", value), ("primals", SequenceValue(tuple(given)))),
        )
    return SequenceValue((value, second, extra) if aux else (value, second))


def _linear(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    options = dict(func.options)
    primals, result = options["primals"], options["result"]
    place = places[0] if places else at
    if func.kind == PULLBACK:
        if len(args) == 1:
            _like(
                it,
                frame,
                result,
                args[0],
                "the cotangent",
                "the function's result",
                place,
            )
        return bare(_differentiable(primals, strong=True))
    _like(
        it,
        frame,
        primals,
        SequenceValue(tuple(args)),
        "the tangent",
        "its primal",
        place,
    )
    return bare(_differentiable(result), weak=True)


def _like(
    it: Interpreter,
    frame: Frame,
    wanted: Value,
    given: Value,
    what: str,
    other: str,
    at: int,
) -> None:
    """The two trees have the same shapes, leaf by leaf."""
    for path, a, b in leaf_pairs(wanted, traced(given)) or ():
        a = traced(a)
        if (
            not (isinstance(a, ArrayValue) and isinstance(b, ArrayValue))
            or a.dims is None
            or b.dims is None
        ):
            continue
        shapes = [format_shape([d.size for d in v.dims or ()]) for v in (a, b)]
        text = f"{what}{' ' + path if path else ''} is {shapes[1]!r}, but {other} is {shapes[0]!r}"
        if len(a.dims) != len(b.dims):
            it.report(frame, "ST202", at, text)
            return
        for x, y in zip(a.dims, b.dims, strict=True):
            verdict = (
                None
                if x.size is None or y.size is None
                else compare(x.size, y.size, frame.facts)
            )
            if isinstance(verdict, Different):
                it.report(frame, "ST202", at, text, verdict.witness)
                return
