"""Calls of modelled functions in the manual view.

Shapes come first, from the model that the function has anyway, on local sizes. A sharding model then says how the
result is sharded. A function without one gives the same on all devices where all its operands are the same.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.registry import Call, ModelFunction, OpError
from shardlint.ops.sharding import elementwise
from shardlint.ops.sharding.base import (
    EXPLAIN,
    SHARDING,
    Op,
    Rule,
    adopted,
    computed,
    unknown,
)
from shardlint.ops.sharding.indexing import may_pick_a_copy
from shardlint.ops.sharding.kinds import kind_of
from shardlint.ops.sharding.origins import Operands, Origins, each, keeps_each_array
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Value


def is_modelled(call: Call) -> bool:
    """Whether more is known of the function in manual code than its lowering says."""
    return _rule(call) is not None


def _rule(call: Call) -> Rule | None:
    found = SHARDING.get(call.qualname)
    if found is not None:
        return found
    kind = kind_of(call)
    if kind is not None:
        return elementwise.elementwise(kind)
    return None


def apply(call: Call, view: View, model: ModelFunction) -> Value:
    """The result of a modelled function on values of the manual view.

    Raises OpError where the shapes are certainly wrong, or the sharding is.
    """
    ctx = call.ctx
    if keeps_each_array(call):
        return model(call)
    operands = Operands(
        adopted,
        lambda value: ArrayValue(
            value.dims, value.dtype, value.weak, numpy=value.numpy
        ),
    )
    marked = operands.marked(call)
    op = Op(call, view, tuple(operands.found), tuple(operands.positions))
    inner = replace(ctx, view=None)
    try:
        result = model(Call(call.qualname, marked, inner))
    except OpError as error:
        raise _explained(op, error) or error from None
    ctx.facts = inner.facts
    if not operands.complete:
        return each(result, lambda value, _: unknown(value))
    found = _rule(call) or computed
    if any(operand.dims is None for operand in op.operands):
        found = _unranked(found)
    return each(result, lambda value, origins: found(op, value, origins))


def _explained(op: Op, error: OpError) -> OpError | None:
    """What is behind local sizes that do not fit."""
    call = op.call
    if call.qualname in EXPLAIN:
        return EXPLAIN[call.qualname](op, error)
    if call.qualname not in SHARDING and kind_of(call) is not None:
        return elementwise.explain(op, error)
    return None


def _unranked(found: Rule) -> Rule:
    """The rule, where it knows nothing of arrays of unknown rank, with what holds of any function."""

    def either(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
        result = found(op, out, origins)
        other = computed(op, out, origins)
        if may_pick_a_copy(op):
            return result
        more = result.unclear | other.unclear == result.unclear != other.unclear
        if more and not result.pending:
            return other
        return result

    return either
