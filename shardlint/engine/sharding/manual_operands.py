"""What functions of arrays take and give in manual code, where ranks or models are missing.

The letters of an equation tell the rank of an operand that nothing else tells. A function of a library that is known to
compute without collectives gives the same on all devices where its operands are, whatever it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardlint.engine.plain import operand
from shardlint.engine.sharding import outside
from shardlint.engine.sharding.manual_entry import ranked
from shardlint.engine.trees import children
from shardlint.ops.registry import MODELS, Call, OpContext
from shardlint.ops.sharding.base import Op, adopted, computed
from shardlint.ops.sharding.origins import Operands
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension, Literal, Unknown, Value

_PATTERNS = {"jax.numpy.einsum": 0, "einops.einsum": -1, "einops.rearrange": 1, "einops.reduce": 1, "einops.repeat": 1}
_LIBRARIES = ("jax.numpy.", "jax.nn.", "jax.scipy.", "optax.losses.", "flax.linen.dot_product_attention")
_LOSSES = frozenset(
    f"optax.{name}" for name in """l2_loss squared_error huber_loss log_cosh hinge_loss cosine_similarity
    cosine_distance softmax_cross_entropy softmax_cross_entropy_with_integer_labels sigmoid_binary_cross_entropy
    safe_softmax_cross_entropy kl_divergence convex_kl_divergence smooth_labels sigmoid_focal_loss""".split()
)  # fmt: skip


def with_ranks(qualname: str, args: Sequence[Value]) -> Sequence[Value]:
    """The arguments, those of unknown rank with the one that the equation or pattern among them gives."""
    place = _PATTERNS.get(qualname)
    if place is None or len(args) < 2 or not any(isinstance(arg, Unknown) and arg.leaf is not None for arg in args):
        return args
    text = args[place]
    if not isinstance(text, Literal) or not isinstance(text.value, str) or "..." in text.value:
        return args
    terms = [_dimensions(term, qualname) for term in text.value.partition("->")[0].split(",")]
    arrays = args[1:] if place == 0 else args[: len(terms)]
    if len(terms) != len(arrays):
        return args
    found = [
        ranked(one, tuple(Dimension(None) for _ in range(rank)))
        if isinstance(one, Unknown) and one.leaf is not None and rank is not None
        else one
        for one, rank in zip(arrays, terms, strict=True)
    ]
    return [text, *found] if place == 0 else [*found, *args[len(terms) :]]


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
    view: View, qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value], ctx: OpContext
) -> Value | None:
    """What a function without a model, that uses no collective, gives of arrays in manual code; None for any other."""
    if not (qualname in _LOSSES or qualname.startswith(_LIBRARIES)) or MODELS.get(qualname) is not None:
        return None
    named = {**{str(i): arg for i, arg in enumerate(args)}, **kwargs}
    given = {name: outside.operand(view, operand(arg)) for name, arg in named.items()}
    call = Call(qualname, given, ctx)
    operands = Operands(adopted, lambda value: value)
    operands.marked(call)
    if not operands.complete or not operands.found or any(children(value) for value in given.values()):
        return None
    op = Op(call, view, tuple(operands.found), tuple(operands.positions))
    return Unknown(f"no model for {qualname}", leaf=computed(op, ArrayValue(None), []))
