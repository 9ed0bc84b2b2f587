"""optax in manual code: updates are of the shapes of the gradients, and differ between devices where those do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine import training
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.plain import operand
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import children, rebuilt
from shardlint.ops import OpError
from shardlint.ops.sharding.base import adopted
from shardlint.ops.sharding.state import axes_met, sharded, split_marks, state
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    InstanceValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_OPTIMIZER, _STATELESS = (
    ExternalValue(training.OPTIMIZER),
    ExternalValue(training.STATELESS),
)
_MOMENTS = ExternalValue(training.MOMENTS)
_MAKERS = frozenset(
    f"optax.{name}"
    for name in "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion "
    "nadam nadamw noisy_sgd novograd optimistic_adam radam rmsprop rprop sgd sign_sgd sm3 yogi clip "
    "clip_by_global_norm add_decayed_weights scale scale_by_adam scale_by_schedule scale_by_learning_rate trace "
    "scale_by_rms".split()
)
#: Those whose state holds nothing, unless they are given one of these or a schedule.
_WITHOUT_STATE = frozenset(
    f"optax.{name}"
    for name in "sgd sign_sgd clip clip_by_global_norm add_decayed_weights scale scale_by_learning_rate".split()
)
_WITH_STATE = frozenset({"momentum"})
#: Those whose state holds arrays of the parameters' shapes.
_WITH_MOMENTS = frozenset(
    f"optax.{name}"
    for name in "adabelief adadelta adagrad adam adamax adamaxw adamw adan amsgrad lamb lars lion nadam nadamw "
    "optimistic_adam radam rmsprop rprop yogi scale_by_adam trace scale_by_rms".split()
)


@knows(
    {
        *_MAKERS,
        *training.UPDATES,
        training.APPLY_GRADIENTS,
        "optax.chain",
        "optax.apply_updates",
    },
    first=True,
)
def call(site: Site) -> Value | None:
    """The result of making an optimizer, and in manual code of what it does."""
    it, frame, at = site.it, site.frame, site.at
    qualname, args, kwargs = site.qualname, site.args, site.kwargs
    if qualname in _MAKERS:
        return _made(qualname, kwargs)
    if qualname == "optax.chain" and all(
        arg in (_OPTIMIZER, _MOMENTS, _STATELESS) for arg in args
    ):
        return next(
            (kind for kind in (_MOMENTS, _OPTIMIZER) if kind in args), _STATELESS
        )
    if it.view is None:
        return None
    if qualname in training.UPDATES:
        given = args[0] if args else kwargs.get("updates", Unknown("gradients"))
        return SequenceValue(
            (_updates(given), training.optimizer_state(qualname, given))
        )
    if (
        qualname == training.APPLY_GRADIENTS
        and args
        and isinstance(args[0], InstanceValue)
    ):
        stepped = training.call(site)
        held = dict(args[0].fields).get("params", Unknown("parameters"))
        if not isinstance(stepped, InstanceValue):
            return None
        params = _applied(
            it, frame, held, _updates(kwargs.get("grads", Unknown("gradients"))), at
        )
        fields = (
            (name, params if name == "params" else value)
            for name, value in stepped.fields
        )
        return replace(stepped, fields=tuple(fields))
    if qualname == "optax.apply_updates":
        trees = {**dict(zip(("params", "updates"), args, strict=False)), **kwargs}
        return _applied(
            it,
            frame,
            trees.get("params", Unknown()),
            trees.get("updates", Unknown()),
            at,
        )
    return None


def _made(qualname: str, kwargs: Mapping[str, Value]) -> ExternalValue:
    """An optimizer, by what its state holds."""
    if qualname in _WITH_MOMENTS or kwargs.get("momentum", Literal(None)) != Literal(
        None
    ):
        return _MOMENTS
    return (
        _STATELESS
        if qualname in _WITHOUT_STATE and not kwargs.keys() & _WITH_STATE
        else _OPTIMIZER
    )


def _updates(gradient: Value) -> Value:
    """The updates made of gradients. Over an axis along which a gradient differs between devices, so does its update;
    along which it does not, nothing is known: there are other gradients, and a state."""
    parts = children(gradient)
    if parts is not None:
        return rebuilt(gradient, [(key, _updates(item)) for key, item in parts])
    if isinstance(gradient, Unknown) and gradient.leaf is not None:
        leaf = _updates(gradient.leaf)
        return Unknown("updates", leaf=leaf if isinstance(leaf, ArrayValue) else None)
    if not isinstance(gradient, ArrayValue):
        return Unknown("updates")
    value = adopted(gradient)
    own = {
        axis
        for axis in axes_met([value])
        if state(value, axis) in ("pending", "varying")
    } - sharded(value)
    return replace(
        value,
        dtype=None,
        weak=False,
        pending=frozenset(),
        varying=frozenset(own),
        unclear=type(value.unclear)(frozenset(own), True),
        constant=False,
        marks=split_marks(sharded(value))
        | {mark for mark in value.marks if mark[0] in own and mark[1] == "derived"},
    )


def _applied(
    it: Interpreter, frame: Frame, params: Value, updates: Value, at: int
) -> Value:
    """``params + updates``, leaf by leaf, of the dtypes of the parameters."""
    parts, others = children(params), children(updates)
    if (
        parts is not None
        and others is not None
        and [key for key, _ in parts] == [key for key, _ in others]
    ):
        pairs = zip(parts, others, strict=True)
        return rebuilt(
            params,
            [
                (key, _applied(it, frame, item, other, at))
                for (key, item), (_, other) in pairs
            ],
        )
    before, change = operand(params), operand(updates)
    if not (isinstance(before, ArrayValue) and isinstance(change, ArrayValue)):
        return Unknown("updated parameters")
    try:
        result = it.apply(frame, "jax.numpy.add", [before, change], {}, at)
    except OpError as error:
        return it.op_error(frame, error, at)
    # a tree of such arrays
    if not (isinstance(params, ArrayValue) and isinstance(updates, ArrayValue)):
        leaf = replace(result, dims=None) if isinstance(result, ArrayValue) else None
        return Unknown("updated parameters", leaf=leaf)
    return (
        replace(result, dtype=params.dtype, weak=False)
        if isinstance(result, ArrayValue)
        else result
    )
