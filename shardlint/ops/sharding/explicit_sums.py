"""Partial sums on explicit axes: values that were made with ``out_sharding=P(…, unreduced={…})``.

JAX keeps the axes over which such a value is still to be summed in its type, and refuses functions that are not linear.
What some release refuses though it is linear (scaling, a mean) is not judged: of its result nothing is known.
"""

from __future__ import annotations

from shardlint.ops.arrays import ONE, SCALARS
from shardlint.ops.registry import OpError
from shardlint.ops.sharding.base import names
from shardlint.ops.sharding.contraction import letters_of
from shardlint.ops.sharding.explicit import GlobalOp, placed
from shardlint.ops.sharding.kinds import Kind, kind_of
from shardlint.values import ArrayValue, Dimension, ShardingValue, SpecValue
from shardtypes.lang import format_shape
from shardtypes.lang.messages import partial_sum, sharded_over

_JNP, _LAX, _NN = "jax.numpy", "jax.lax", "jax.nn"
_REFUSED = {
    *names(
        _JNP,
        "max min amax amin argmax argmin prod any all var std linalg.norm sort argsort cumprod",
    ),
    *names(_JNP, "einsum matmul dot inner"),
    *names(_NN, "softmax log_softmax logsumexp"),
    f"{_LAX}.top_k",
}
_BENT: frozenset[Kind | None] = frozenset({"zero", "nonlinear", "test", "choose"})
#: Of these JAX does not refuse all.
_NOT_REFUSED = frozenset(names(_JNP, "clip nan_to_num"))
_CONTRACTIONS = frozenset(names(_JNP, "einsum matmul dot"))
_KEPT = {
    *names(
        _JNP,
        "astype sum reshape ravel transpose swapaxes moveaxis squeeze expand_dims broadcast_to concatenate",
    ),
    *names(_JNP, "stack copy permute_dims matrix_transpose array asarray"),
    *names(_JNP, " ".join(SCALARS)),
    *names("jax.Array", "reshape ravel flatten transpose"),
    *names(
        _LAX,
        "convert_element_type transpose expand_dims squeeze reshape concatenate",
    ),
    "index",
}


def sums(op: GlobalOp) -> frozenset[str]:
    """The axes over which some operand is still to be summed."""
    return frozenset[str]().union(
        *(o.pending or () for o in op.operands if o.mesh is not None)
    )


def kept(op: GlobalOp) -> bool:
    """Whether the result is such a sum as well; else nothing is known of it. Raises OpError where JAX refuses."""
    parts = [
        n
        for n, operand in enumerate(op.operands)
        if operand.mesh is not None and operand.pending
    ]
    others = [operand for n, operand in enumerate(op.operands) if n not in parts]
    name = op.call.qualname
    kind = kind_of(op.call)
    if kind == "add":
        if not others and len(op.operands) == 2:
            return op.operands[0].pending == op.operands[1].pending
        if not others or all(
            placed(operand) and operand.pending == frozenset() for operand in others
        ):
            raise _wrong(
                op, parts[0], ", and the other operand would count once per device"
            )
        return False
    if kind == "multiply" and len(parts) == 2:
        raise _wrong(op, parts[0], ", and so is the other operand")
    if op.ignores_out_sharding:  # sums and transposes, unless it takes a diagonal
        letters = letters_of(op.call, op.operands)
        return letters is not None and len(set(letters[0][0])) == len(letters[0][0])
    if name in _REFUSED or (kind in _BENT and name not in _NOT_REFUSED):
        raise _wrong(op, parts[0], "")
    return (
        (name in _KEPT or kind == "linear")
        and not others
        and len({operand.pending for operand in op.operands}) == 1
    )


def check_asked(op: GlobalOp) -> None:
    """``out_sharding=P(…, unreduced={…})`` of a contraction: over those axes the contracted dimensions of both
    operands are split, and over no others. Raises OpError where JAX refuses."""
    spec = op.call.get("out_sharding")
    if isinstance(spec, ShardingValue):
        spec = spec.spec
    if not isinstance(spec, SpecValue) or not spec.unreduced:
        return
    contracted = _contracted(op)
    if contracted is None:
        return
    left, right = contracted
    dims = [*left.values(), *right.values()]
    if any(dim.axes is None or dim.size == ONE for dim in dims):
        return
    over = sorted({axis for dim in dims for axis in dim.axes or ()})
    alike = all(dim.axes == right[letter].axes for letter, dim in left.items())
    if alike and set(over) == spec.unreduced:
        return
    texts = " and ".join(_text(operand) for operand in op.operands)
    how = sharded_over(over) if alike else "sharded differently"
    raise op.refused(
        f"out_sharding asks for {partial_sum(sorted(spec.unreduced))}, "
        f"but the contracted dimensions of {texts} are {how}"
    )


def _contracted(
    op: GlobalOp,
) -> tuple[dict[str, Dimension], dict[str, Dimension]] | None:
    """The contracted dimensions of both operands by letter; None where the two have not the same letters, or these are
    not known."""
    if op.call.qualname not in _CONTRACTIONS or len(op.operands) != 2:
        return None
    letters = letters_of(op.call, op.operands)
    if letters is None or any(operand.dims is None for operand in op.operands):
        return None
    left, right = (
        {
            letter: dim
            for letter, dim in zip(one, operand.dims or (), strict=True)
            if letter not in letters[1]
        }
        for one, operand in zip(letters[0], op.operands, strict=True)
    )
    if left.keys() == right.keys():
        return left, right
    return None


def _wrong(op: GlobalOp, number: int, why: str) -> OpError:
    operand = op.operands[number]
    text = f"{_text(operand)} is {partial_sum(sorted(operand.pending or ()))}{why}: reshard it first"
    return op.refused(text, number, "ST301")


def _text(value: ArrayValue) -> str:
    dims = value.dims or ()
    shape = format_shape([dim.size for dim in dims], [dim.axes or () for dim in dims])
    pending = ",".join(sorted(value.pending or ()))
    return repr(f"{shape} {{U:{pending}}}".strip() if pending else shape)
