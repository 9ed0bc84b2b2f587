"""``scan``, ``while_loop``, ``fori_loop``, ``map`` and ``associative_scan``: what they give, and whether it agrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.agreement import Site, agree, lie_alike
from shardlint.engine.branches import call_branches
from shardlint.engine.joining import join_all
from shardlint.engine.libraries import knows
from shardlint.engine.mapping import stack
from shardlint.engine.sharding import divergence, sends
from shardlint.engine.sharding.site import Site as Called
from shardlint.engine.trees import bare, children, is_leaf, map_leaves, rebuilt, traced
from shardlint.ops.arrays import as_array
from shardlint.ops.registry import static_int
from shardlint.ops.sharding import state as states
from shardlint.ops.sharding.base import constant, is_zero
from shardlint.ops.sharding.base import unknown as lost
from shardlint.ops.sharding.explicit import explicit_axes, placed
from shardlint.ops.sharding.state import axes_met, marks, state
from shardlint.ops.sharding.view import replicated
from shardlint.values import (
    ArrayValue,
    Dimension,
    InstanceValue,
    IntValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
    size_in,
)
from shardtypes.lang import Different, Size, compare, format_shape
from shardtypes.lang.messages import sharded_over

if TYPE_CHECKING:
    pass

_NONE = Literal(None)
_SIGNATURES = {
    "jax.lax.scan": ("f", "init", "xs", "length", "reverse", "unroll"),
    "jax.lax.map": ("f", "xs"),
    "jax.lax.fori_loop": ("lower", "upper", "body_fun", "init_val"),
    "jax.lax.while_loop": ("cond_fun", "body_fun", "init_val"),
    "jax.lax.associative_scan": ("fn", "elems", "reverse", "axis"),
}


@knows(("jax.lax.cond", "jax.lax.switch"))
def call_branch(called: Called) -> Value | None:
    """The result of a branch."""
    site = Site(called.it, called.frame, called.name, called.at)
    return call_branches(site, called.qualname, [*called.args], {**called.kwargs})


@knows(_SIGNATURES)
def call_loop(called: Called) -> Value | None:
    """The result of a loop."""
    it, frame, at, name = called.it, called.frame, called.at, called.name
    args, kwargs, operands = called.args, called.kwargs, called.operands
    names = _SIGNATURES[called.qualname]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    places = {
        n: o.at for n, o in zip([*names[: len(args)], *kwargs], operands, strict=False)
    }
    site = Site(it, frame, name, at, given, places)
    match name:
        case "scan" if "f" in given and "init" in given:
            return _scan(site)
        case "map" if "f" in given and "xs" in given:
            dim, one = _example(site, given["xs"])
            with sends.repeated(it, at, dim.size):
                return stack(site.call(given["f"], [one]), dim)
        case "fori_loop" if "body_fun" in given and "init_val" in given:
            index = ArrayValue((), "int32", weak=True)
            if site.it.view is not None and isinstance(
                given.get("lower"), (IntValue, Literal)
            ):
                index = replicated(index)
            with sends.repeated(it, at, _rounds(given)):
                return _carried(
                    site,
                    "init_val",
                    lambda carry: site.call(given["body_fun"], [index, carry]),
                    "body_fun",
                )
        case "while_loop" if "body_fun" in given and "init_val" in given:
            with sends.repeated(it, at, None):
                result = _carried(
                    site,
                    "init_val",
                    lambda carry: site.call(given["body_fun"], [carry]),
                    "body_fun",
                )
            _test(site, given.get("cond_fun", _NONE), result)
            _run_apart(site)
            return result
        case "associative_scan" if "fn" in given and "elems" in given:
            with sends.repeated(it, at, None):
                return _associative(site)
        case _:
            return Unknown(f"a call of {name} that is not understood")


def _rounds(given: Mapping[str, Value]) -> Size | None:
    """How often the body of a ``fori_loop`` runs."""
    lower, upper = size_in(given.get("lower")), size_in(given.get("upper"))
    if lower is None or upper is None:
        return None
    return upper - lower


def _scan(site: Site) -> Value:
    given = site.given
    xs, length = given.get("xs", _NONE), given.get("length", _NONE)
    dim, one = _example(site, xs)
    if isinstance(length, IntValue) and length.size is not None:
        if dim.size is None:
            dim = replace(dim, size=length.size)
        else:
            verdict = compare(length.size, dim.size, site.frame.facts)
            if isinstance(verdict, Different):
                site.report(
                    f"length is {length.size}, but the leading dimension of xs is {dim.size}",
                    verdict.witness,
                )
    outputs: Value = Unknown("outputs of a scan")

    def step(carry: Value) -> Value:
        nonlocal outputs
        result = site.call(given["f"], [carry, one])
        if isinstance(result, SequenceValue) and len(result.items) == 2:
            outputs = result.items[1]
            return result.items[0]
        if isinstance(result, ArrayValue) or (
            isinstance(result, SequenceValue) and result.kind == "tuple"
        ):
            what = (
                "one array"
                if isinstance(result, ArrayValue)
                else f"{len(result.items)} values"
            )
            site.report(
                f"the body must return a pair (carry, output), it returns {what}",
                func=given["f"],
            )
        return Unknown("carry of a scan")

    with sends.repeated(site.it, site.at, dim.size):
        carry = _carried(site, "init", step, "f", (0,))
    return SequenceValue((carry, stack(outputs, dim)))


def _example(site: Site, xs: Value) -> tuple[Dimension, Value]:
    """The scanned dimension, and what one step sees."""
    sizes: list[tuple[str, Size]] = []

    def one(value: Value, path: str) -> Value:
        parts = children(value)
        if parts is not None:
            made = rebuilt(
                value, [(key, one(item, f"{path}[{key!r}]")) for key, item in parts]
            )
            return (
                replace(made, prefix=made.prefix[1:])
                if isinstance(made, InstanceValue)
                else made
            )
        if isinstance(value, ArrayValue) and value.dims:
            if value.dims[0].size is not None:
                sizes.append((path, value.dims[0].size))
            axes = value.dims[0].axes
            if axes and placed(value):
                shape = format_shape(
                    [dim.size for dim in value.dims],
                    [dim.axes or () for dim in value.dims],
                )
                text = (
                    f"{site.name}: {path} is {shape!r}, and the dimension it scans over is {sharded_over(axes)}, which "
                    f"JAX refuses on Explicit axes: reshard {path} first"
                )
                site.it.report(
                    site.frame, "ST313", site.places.get("xs", site.at), text
                )
            return replace(
                value,
                dims=value.dims[1:],
                numpy=False,
                dtype=None if value.numpy else value.dtype,
            )
        if isinstance(value, ArrayValue) and value.dims is None:
            return value if value.manual else ArrayValue(None, value.dtype)
        if is_leaf(value):
            site.report(f"{path} is a scalar, it has no dimension to scan over")
        return Unknown(
            "a slice of the scanned values",
            leaf=value.leaf if isinstance(value, Unknown) else None,
        )

    found = one(xs, "xs")
    for path, size in sizes[1:]:
        verdict = compare(sizes[0][1], size, site.frame.facts)
        if isinstance(verdict, Different):
            text = f"leading dimensions differ: {sizes[0][0]} has {sizes[0][1]}, {path} has {size}"
            site.report(text, verdict.witness)
            break
    whole = site.it.view is None and explicit_axes(site.frame.mesh) is not None
    return Dimension(sizes[0][1] if sizes else None, () if whole else None), found


def _carried(
    site: Site,
    start: str,
    step: Callable[[Value], Value],
    body: str,
    path: tuple[int, ...] = (),
) -> Value:
    """The carry after a loop. A first step may show what the start did not; then the body is seen once more."""
    before = _start(site, site.given[start])
    after = step(before)
    lie_alike(
        site,
        before,
        after,
        ("the carry starts as", "but the body returns"),
        site.given[body],
        path,
        start,
    )
    parted = _is_parted(before, after)
    settled = after if parted else _settled(before, after)
    if parted:
        found = len(site.it.events)
        step(after)
        # a further step uses it: that is where it goes wrong
        if len(site.it.events) > found:
            settled = map_leaves(
                after, lambda leaf: lost(leaf) if isinstance(leaf, ArrayValue) else leaf
            )
    elif settled != before:
        before = settled
        after = step(before)
        settled = _settled(before, after)
    agree(
        site,
        before,
        after,
        ("the carry starts as", "but the body returns"),
        site.given[body],
        path,
        start,
    )
    return settled


def _start(site: Site, value: Value) -> Value:
    """What a loop starts with, as arrays; in manual code its numbers are constants."""

    def leaf(one: Value) -> Value:
        number = (
            as_array(one)
            if site.it.view is not None and not isinstance(one, ArrayValue)
            else None
        )
        if number is None:
            return traced(one)
        return replace(
            constant(number), marks=frozenset({states.ZERO} if is_zero(one) else ())
        )

    return map_leaves(value, leaf)


def _is_parted(before: Value, after: Value) -> bool:
    """Whether an array that was the same on all devices comes back as parts of a sum: no later step makes it whole
    again, for it would make too much of the start."""
    if (
        not (isinstance(before, ArrayValue) and isinstance(after, ArrayValue))
        or before.constant
    ):
        return False
    alike = (
        before.dims is not None
        and after.dims is not None
        and len(before.dims) == len(after.dims)
    )
    return alike and any(
        state(before, axis) == "replicated" for axis in after.pending or ()
    )


def _settled(before: Value, after: Value) -> Value:
    """What is known of a carry, which has one shape and dtype throughout: either side may know it."""
    if (
        isinstance(before, Unknown)
        and isinstance(after, Unknown)
        and before.leaf is not None
    ):
        leaf = None if after.leaf is None else states.joined(before.leaf, after.leaf)
        return replace(before, leaf=leaf)
    if isinstance(before, Unknown):
        return traced(after)
    if isinstance(after, Unknown):
        return map_leaves(
            before,
            lambda leaf: (
                lost(leaf) if isinstance(leaf, ArrayValue) and leaf.manual else leaf
            ),
        )
    parts, others = children(before), children(after)
    if parts and others and type(before) is type(after):
        known, missing = dict(others), Unknown("part of a carry")
        return rebuilt(
            before,
            [(key, _settled(item, known.get(key, missing))) for key, item in parts],
        )
    after = traced(after)
    if not (isinstance(before, ArrayValue) and isinstance(after, ArrayValue)):
        return before
    before = _split(before, after)
    dims = before.dims if before.dims is not None else after.dims
    if (
        before.dims is not None
        and after.dims is not None
        and len(before.dims) == len(after.dims)
    ):
        dims = tuple(
            Dimension(
                a.size if a.size is not None else b.size,
                a.axes if a.axes == b.axes else None,
            )
            for a, b in zip(before.dims, after.dims, strict=True)
        )
    weak = before.weak and after.weak
    dtype = (
        after.dtype if before.weak and not after.weak else before.dtype or after.dtype
    )
    joined = join_all([_begun(before, after), after])
    return (
        replace(joined, dims=dims, dtype=dtype, weak=weak)
        if isinstance(joined, ArrayValue)
        else before
    )


def _split(before: ArrayValue, after: ArrayValue) -> ArrayValue:
    """A start that is one constant everywhere counts as split like the array that comes back, and no longer as alike
    along such a dimension."""
    if before.constant and not after.constant:
        alike = {
            mark
            for mark in before.marks
            if mark[1] == "alike" and mark not in after.marks
        }
        before = replace(before, marks=before.marks - alike)
    if states.UNIFORM not in before.marks or before.dims is None or after.dims is None:
        return before
    if len(before.dims) != len(after.dims):
        return before
    dims = tuple(
        replace(a, axes=b.axes) if a.axes == () and b.axes and a.size == b.size else a
        for a, b in zip(before.dims, after.dims, strict=True)
    )
    new = {axis for dim in dims for axis in dim.axes or ()} - states.sharded(before)
    return replace(before, dims=dims, marks=before.marks | states.split_marks(new))


def _begun(before: ArrayValue, after: ArrayValue) -> ArrayValue:
    """The start of a carry as a first step leaves it, over axes along which it was the same on all devices: constants
    become the sum of parts that is added to them, or what differs between the devices, each device's own gradients keep
    them apart, and what was counted wrong once stays so."""
    if not (before.manual and after.manual):
        return before
    same = {axis for axis in axes_met([after]) if state(before, axis) == "replicated"}
    sums = {
        axis for axis in same if before.constant and state(after, axis) == "pending"
    }
    own = {axis for axis in same if "derived" in marks(after, axis)}
    own |= {
        axis for axis in same if before.constant and state(after, axis) == "varying"
    }
    wrong = {
        axis
        for axis in same
        if state(after, axis) == "replicated" and "miscounted" in marks(after, axis)
    }
    taken = frozenset(mark for mark in after.marks if mark[0] in sums | own | wrong)
    return replace(
        before,
        pending=(before.pending or frozenset()) | sums,
        varying=before.varying | own,
        marks=before.marks | taken,
        constant=before.constant and after.constant,
    )


def _run_apart(site: Site) -> None:
    """See once more what only some devices run, where some leave a ``while_loop`` at its start and others do not."""
    if site.it.view is None or "cond_fun" not in site.given:
        return
    start = _start(site, site.given["init_val"])
    condition = site.call(site.given["cond_fun"], [start])
    with divergence.taken(site.it, condition, (site.frame.module, site.at)) as apart:
        if apart:
            for name in ("cond_fun", "body_fun"):
                site.call(site.given[name], [start])


def _test(site: Site, func: Value, carry: Value) -> None:
    """The condition of a ``while_loop`` gives one bool."""
    result = site.call(func, [carry])
    if isinstance(result, ArrayValue) and result.dims:
        shape = format_shape([d.size for d in result.dims])
        site.report(
            f"the condition must return a scalar bool, it returns an array {shape!r}",
            func=func,
        )


def _associative(site: Site) -> Value:
    """The function is given pairs of slices, half as many as there are elements; it gives as many."""
    elems = map_leaves(site.given["elems"], traced)
    axis = static_int(site.given.get("axis", IntValue(Size.const(0))))

    def half(leaf: Value) -> Value:
        rank = (
            len(leaf.dims)
            if isinstance(leaf, ArrayValue) and leaf.dims is not None
            else 0
        )
        if (
            not isinstance(leaf, ArrayValue)
            or leaf.dims is None
            or axis is None
            or not -rank <= axis < rank
        ):
            return Unknown("a slice of the scanned values")
        size = leaf.dims[axis % rank].size
        if size is not None and (size.constant or 2) < 2:
            return Unknown("nothing to combine")
        dims = list(leaf.dims)
        dims[axis % rank] = Dimension(None if size is None else size // 2)
        return replace(leaf, dims=tuple(dims))

    slices = map_leaves(elems, half)
    agree(
        site,
        slices,
        site.call(site.given["fn"], [slices, slices]),
        ("it combines", "into"),
        site.given["fn"],
    )
    return bare(elems)
