"""Calls that do not fit the signature of a function of JAX, which raises ``TypeError`` for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardlint import messages
from shardlint.ops.registry import Model, OpError, short_name
from shardlint.values import ArrayValue, IntValue, Value

#: How other libraries call what JAX calls otherwise.
_OTHER_NAMES = {
    "dim": "axis",
    "dims": "axis",
    "axes": "axis",
    "keepdim": "keepdims",
    "keep_dims": "keepdims",
}
#: Functions that take more arguments by position than is said here.
MORE = frozenset(
    """jax.Array.view jax.lax.conv_general_dilated jax.lax.full_like jax.lax.ragged_dot jax.numpy.array
    jax.numpy.array_repr jax.numpy.array_str jax.numpy.histogram jax.numpy.nanmean jax.numpy.nanstd jax.numpy.nanvar
    jax.scipy.special.log_ndtr jax.tree.flatten_with_path jax.tree.leaves_with_path
    jax.tree_util.tree_flatten_with_path jax.tree_util.tree_leaves_with_path""".split()
)
#: Functions that call a parameter otherwise than is said here.
OTHERWISE = frozenset(
    """jax.lax.dot_general jax.lax.nextafter jax.numpy.array_repr jax.numpy.array_str jax.numpy.empty_like
    jax.numpy.iinfo jax.numpy.iterable jax.scipy.special.ndtri jax.tree_util.keystr
    jax.tree_util.treedef_is_leaf jax.tree_util.treedef_tuple""".split()
)


def refuse(
    model: Model,
    qualname: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> None:
    """Raises OpError for arguments that a modelled function of JAX certainly does not take. NumPy's functions take
    others."""
    if not qualname.startswith("jax."):
        return
    is_method = qualname.startswith("jax.Array.")
    if is_method and not _is_of_jax(args):
        return
    name = short_name(qualname)
    takes = model.signature
    receivers = int(is_method)
    if takes.takes_any_name:
        return
    unknown = kwargs.keys() - takes.names
    for one in sorted(unknown):
        meant = _OTHER_NAMES.get(one)
        if meant in takes.names:
            raise OpError("ST220", messages.argument_of_other_name(name, one, meant))
    if unknown or takes.takes_any_number or qualname in MORE:
        return
    if len(args) > model.most:
        most = len(takes.positional)
        are_numbers = all(isinstance(one, IntValue) for one in args[-2:])
        text = messages.too_many_arguments(
            name, most - receivers, len(args) - receivers, are_numbers
        )
        raise OpError("ST220", text)
    if qualname in OTHERWISE:
        return
    missing = set(takes.needed) - {*takes.positional[: len(args)], *kwargs}
    if missing:
        first = min(missing, key=takes.needed.index)
        raise OpError("ST220", messages.argument_not_given(name, first))


def _is_of_jax(args: Sequence[Value]) -> bool:
    """Whether a method is one of an array of JAX: those of NumPy's may take others."""
    receiver = args[0] if args else None
    return isinstance(receiver, ArrayValue) and not receiver.numpy
