"""What functions of arrays take and give, above all in manual code, where ranks or models are missing.

The letters of an equation tell the rank of an operand that nothing else tells. A function of a library that is known to
compute without collectives gives the same on all devices where its operands are, whatever it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.plain import operand
from shardlint.engine.sharding import outside
from shardlint.engine.sharding.manual_entry import ranked
from shardlint.engine.trees import children
from shardlint.ops.registry import MODELS, Call, OpContext
from shardlint.ops.sharding.base import Op, adopted, computed
from shardlint.ops.sharding.origins import Operands
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension, Literal, Unknown, Value

PATTERNS = {
    "jax.numpy.einsum": 0,
    "einops.einsum": -1,
    "einops.rearrange": 1,
    "einops.reduce": 1,
    "einops.repeat": 1,
}
_LIBRARIES = (
    "jax.numpy.",
    "jax.nn.",
    "jax.scipy.",
    "optax.losses.",
    "flax.linen.dot_product_attention",
)


def with_ranks(qualname: str, args: Sequence[Value]) -> Sequence[Value]:
    """The arguments, those of unknown rank with the one that the equation or pattern among them gives."""
    if qualname not in PATTERNS:
        return args
    found = list(args)
    for place, rank in ranks(qualname, args).items():
        one = args[place]
        if isinstance(one, Unknown) and one.leaf is not None:
            dims = (Dimension(None),) * rank
            found[place] = ranked(one, dims)
    return found


def ranks(qualname: str, args: Sequence[Value]) -> dict[int, int]:
    """How many dimensions the equation or pattern among the arguments gives to which of them."""
    place = PATTERNS.get(qualname)
    if place is None or len(args) < 2:
        return {}
    text = args[place]
    if (
        not isinstance(text, Literal)
        or not isinstance(text.value, str)
        or "..." in text.value
    ):
        return {}
    operands, _, _ = text.value.partition("->")
    terms = [_dimensions(term, qualname) for term in operands.split(",")]
    first = int(place == 0)
    if len(terms) > len(args) - 1 or (first and len(terms) < len(args) - 1):
        return {}
    return {
        first + number: rank for number, rank in enumerate(terms) if rank is not None
    }


def learn(
    frame: Frame, qualname: str, args: Sequence[Value], operands: Sequence[ir.Expr]
) -> None:
    """After ``einsum('bij,bjk->bik', x, y)`` x and y have three dimensions: else the program failed there."""
    if frame.silent:  # it may not have run
        return
    for place, rank in ranks(qualname, args).items():
        expr = operands[place] if place < len(operands) else None
        if isinstance(expr, ir.Name) and expr.id in frame.variables:
            frame.variables[expr.id] = _with_rank(
                qualname, frame.variables[expr.id], rank
            )


def _with_rank(qualname: str, value: Value, rank: int) -> Value:
    dims = (Dimension(None),) * rank
    # the others also take lists of arrays
    if isinstance(value, Unknown) and qualname.endswith(".einsum"):
        return ranked(value, dims)
    if isinstance(value, ArrayValue) and value.dims is None:
        return ranked(Unknown(leaf=value), dims)
    return value


def _dimensions(term: str, qualname: str) -> int | None:
    """How many dimensions a term names."""
    if qualname == "jax.numpy.einsum":
        return len(term.replace(" ", ""))
    depth = count = 0
    for word in term.replace("(", " ( ").replace(")", " ) ").split():
        count += depth == 0 and word != ")"
        depth += (word == "(") - (word == ")")
    return count if depth == 0 else None


def computed_apart(
    view: View,
    qualname: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    ctx: OpContext,
) -> Value | None:
    """What a function without a model, that uses no collective, gives of arrays in manual code; None for any other."""
    if not qualname.startswith(_LIBRARIES) or MODELS.get(qualname) is not None:
        return None
    named = {**{str(i): arg for i, arg in enumerate(args)}, **kwargs}
    given = {name: outside.operand(view, operand(arg)) for name, arg in named.items()}
    call = Call(qualname, given, ctx)
    operands = Operands(adopted, lambda value: value)
    operands.marked(call)
    if (
        not operands.complete
        or not operands.found
        or any(children(value) for value in given.values())
    ):
        return None
    op = Op(call, view, tuple(operands.found), tuple(operands.positions))
    return Unknown(f"no model for {qualname}", leaf=computed(op, ArrayValue(None), []))
