"""``optax``'s transformations one after the other, of all parameters in one vector, and of fast and slow ones."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from typing import Any

from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    provided,
    state,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.joining import concatenate
from shardtypes.semantics.lowerings.shapes import entries_of, reshape
from shardtypes.semantics.trees import flatten, map_leaves, unflatten


@provide("optax.chain")
def chain(*args: Any) -> Any:
    parts = [base.with_extra_args(part) for part in args]

    def init(params: Any) -> Any:
        return tuple(part.init(params) for part in parts)

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        if len(parts) != len(state):
            raise ValueError(
                "The number of updates and states has to be the same in chain! Make sure you have called init first!"
            )
        states = []
        for part, held in zip(parts, state, strict=True):
            updates, after = part.update(updates, held, params, **rest)
            states.append(after)
        return updates, tuple(states)

    return GradientTransformationExtraArgs(init, update)


@provide("optax.named_chain")
def named_chain(*args: Any) -> Any:
    parts = {name: base.with_extra_args(part) for name, part in args}
    if len(parts) != len(args):
        raise ValueError("Named transformations must have unique names")

    def init(params: Any) -> Any:
        return OrderedDict((name, part.init(params)) for name, part in parts.items())

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        states = OrderedDict()
        for name, part in parts.items():
            updates, states[name] = part.update(updates, state[name], params, **rest)
        return updates, states

    return GradientTransformationExtraArgs(init, update)


@provide("optax.flatten")
def flattened(inner: Any) -> Any:
    """A transformation of all parameters in one vector."""
    inner = base.with_extra_args(inner)

    def joined(tree: Any) -> Any:
        return concatenate([reshape(leaf, (-1,)) for leaf in flatten(tree)[0]])

    def parted(tree: Any, vector: Any) -> Any:
        leaves, structure = flatten(tree)
        ends = list(itertools.accumulate(entries_of(leaf) for leaf in leaves))
        bounds = zip([0, *ends], ends, strict=False)
        pieces = [vector[start:end] for start, end in bounds]
        made = [
            reshape(piece, leaf.dims)
            for piece, leaf in zip(pieces, leaves, strict=True)
        ]
        return unflatten(structure, made)

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        given = None if params is None else joined(params)
        out, after = inner.update(joined(updates), state, given, **rest)
        return parted(updates, out), after

    return GradientTransformationExtraArgs(
        lambda params: inner.init(joined(params)), update
    )


class LookaheadParams(namedtuple("LookaheadParams", "fast slow")):
    """The parameters that are trained, and those that follow them now and then."""

    @classmethod
    def init_synced(cls, params: Any) -> Any:
        return cls(params, params)


LookaheadState = state("LookaheadState", "fast_state steps_since_sync")
provided(LookaheadParams)


@provide("optax.lookahead")
def lookahead(
    fast_optimizer: Any,
    sync_period: Any,
    slow_step_size: Any,
    reset_state: bool = False,
) -> Any:
    if sync_period < 1:
        raise ValueError("Synchronization period must be >= 1.")

    def init(params: Any) -> Any:
        fast = params.fast if isinstance(params, LookaheadParams) else params
        return LookaheadState(fast_optimizer.init(fast), base.zero())

    def update(updates: Any, state: Any, params: Any) -> Any:
        fast, inner = fast_optimizer.update(updates, state.fast_state, params.fast)
        is_due = state.steps_since_sync == sync_period - 1
        ahead = map_leaves(lambda f, u, s: f + u - s, params.fast, fast, params.slow)
        slow = map_leaves(lambda x: slow_step_size * is_due * x, ahead)
        fast = map_leaves(
            lambda u, x: u - is_due * (1 - slow_step_size) * x, fast, ahead
        )
        if reset_state:
            inner = map_leaves(
                lambda now, first: (
                    (1 - asarray(is_due, "int32")) * now + is_due * first
                ),
                inner,
                fast_optimizer.init(params.fast),
            )
        steps = (state.steps_since_sync + 1) % sync_period
        return LookaheadParams(fast, slow), LookaheadState(inner, steps)

    return GradientTransformation(init, update)
