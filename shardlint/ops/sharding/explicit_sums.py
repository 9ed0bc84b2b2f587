"""Partial sums on explicit axes: values that were made with ``out_sharding=P(…, unreduced={…})``.

JAX keeps the axes over which such a value is still to be summed in its type, and refuses functions that are not linear.
What some release refuses though it is linear (scaling, a mean) is not judged: of its result nothing is known.
"""

from __future__ import annotations

from shardlint.ops.registry import OpError
from shardlint.ops.sharding.base import names
from shardlint.ops.sharding.elementwise import FUNCTIONS
from shardlint.ops.sharding.explicit import GlobalOp, placed
from shardlint.values import ArrayValue
from shardtypes.lang import format_shape

_JNP, _LAX, _NN = "jax.numpy", "jax.lax", "jax.nn"
_REFUSED = {
    *(name for name, kind in FUNCTIONS.items() if kind in ("zero", "nonlinear", "test", "choose")),
    *names(_JNP, "max min amax amin argmax argmin prod any all var std linalg.norm sort argsort cumprod"),
    *names(_JNP, "einsum matmul dot inner"),
    *names(_NN, "softmax log_softmax logsumexp"),
    f"{_LAX}.top_k",
} - {f"{_JNP}.clip", f"{_JNP}.nan_to_num"}
_KEPT = {
    *(name for name, kind in FUNCTIONS.items() if kind == "linear"),
    *names(_JNP, "astype sum reshape ravel transpose swapaxes moveaxis squeeze expand_dims broadcast_to concatenate"),
    *names(_JNP, "stack copy permute_dims matrix_transpose"),
    *names("jax.Array", "reshape ravel flatten transpose"),
    *names(_LAX, "convert_element_type transpose expand_dims squeeze reshape concatenate stop_gradient"),
    "index",
}


def sums(op: GlobalOp) -> frozenset[str]:
    """The axes over which some operand is still to be summed."""
    return frozenset[str]().union(*(o.pending or () for o in op.operands if o.mesh is not None))


def kept(op: GlobalOp) -> bool:
    """Whether the result is such a sum as well; else nothing is known of it. Raises OpError where JAX refuses."""
    parts = [n for n, operand in enumerate(op.operands) if operand.mesh is not None and operand.pending]
    others = [operand for n, operand in enumerate(op.operands) if n not in parts]
    name, kind = op.call.qualname, FUNCTIONS.get(op.call.qualname)
    if kind == "add":
        if not others and len(op.operands) == 2:
            return op.operands[0].pending == op.operands[1].pending
        if not others or all(placed(operand) and operand.pending == frozenset() for operand in others):
            raise _wrong(op, parts[0], ", and what is added to it would count once for every device")
        return False
    if kind == "multiply" and len(parts) == 2:
        raise _wrong(op, parts[0], ", and so does what it is multiplied by")
    if name in _REFUSED:
        raise _wrong(op, parts[0], "")
    return name in _KEPT and not others and len({operand.pending for operand in op.operands}) == 1


def _wrong(op: GlobalOp, number: int, why: str) -> OpError:
    operand = op.operands[number]
    axes = ", ".join(sorted(operand.pending or ()))
    text = f"{_text(operand)} still awaits its sum over {axes}{why}: reshard it first"
    return op.refused(text, number, "ST301")


def _text(value: ArrayValue) -> str:
    dims = value.dims or ()
    shape = format_shape([dim.size for dim in dims], [dim.axes or () for dim in dims])
    return repr(f"{shape} {{U:{','.join(sorted(value.pending or ()))}}}".strip())
