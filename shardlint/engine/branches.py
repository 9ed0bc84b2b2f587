"""``cond`` and ``switch``: what they give, and whether their branches agree."""

from __future__ import annotations

from shardlint.engine.agreement import Site, agree, lie_alike
from shardlint.engine.joining import join_all
from shardlint.engine.sharding import divergence
from shardlint.engine.trees import is_leaf, traced
from shardlint.ops.registry import is_none
from shardlint.values import ArrayValue, DictValue, SequenceValue, Unknown, Value
from shardtypes.lang import format_shape


def call_branches(
    site: Site, qualname: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """The result of ``cond`` or ``switch``."""
    if qualname == "jax.lax.cond":
        given = {
            **dict(zip(("pred", "true_fun", "false_fun"), args, strict=False)),
            **kwargs,
        }
        if "operand" in given or not {"pred", "true_fun", "false_fun"} <= given.keys():
            return Unknown("a call of cond that is not understood")
        functions, pred = [given["true_fun"], given["false_fun"]], given["pred"]
        operands = [args[3:], args[3:]]
        if (
            len(args) == 5
            and not _is_function(args[1])
            and _is_function(args[2])
            and _is_function(args[4])
        ):
            functions, operands = [args[2], args[4]], [[args[1]], [args[3]]]
        if isinstance(pred, ArrayValue) and pred.dims:
            shape = format_shape([d.size for d in pred.dims])
            site.report(
                f"the predicate must be a scalar bool, it is an array {shape!r}"
            )
    else:
        given = {**dict(zip(("index", "branches"), args, strict=False)), **kwargs}
        branches = given.get("branches")
        if not isinstance(branches, SequenceValue) or not branches.items:
            return Unknown("the branches of a switch are not known")
        functions = list(branches.items)
        operands = [args[2:]] * len(functions)
    with divergence.taken(
        site.it,
        given.get("pred", given.get("index", Unknown(""))),
        (site.frame.module, site.at),
    ):
        results = [
            site.call(func, [traced(value) for value in rest])
            for func, rest in zip(functions, operands, strict=True)
        ]
    for func, result in zip(functions[1:], results[1:], strict=True):
        agree(site, results[0], result, ("the branches return", "and"), func)
        lie_alike(site, results[0], result, ("the branches return", "and"), func)
    return join_all([traced(result) for result in results])


def _is_function(value: Value) -> bool:
    return not (
        is_leaf(value) or isinstance(value, (SequenceValue, DictValue, Unknown))
    ) and not is_none(value)
