"""``scan``, ``while_loop``, ``fori_loop``, ``map``, ``cond`` and ``switch``: what they give, and whether it agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint import dtypes, ir
from shardlint.engine.blame import result_place
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join_all
from shardlint.engine.mapping import stack
from shardlint.engine.trees import bare, children, is_leaf, leaf_pairs, map_leaves, rebuilt, traced
from shardlint.ops.registry import is_none
from shardlint.values import (
    ArrayValue,
    Dimension,
    InstanceValue,
    IntValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Different, Facts, Size, compare, format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NONE = Literal(None)
_SIGNATURES = {
    "jax.lax.scan": ("f", "init", "xs", "length", "reverse", "unroll"),
    "jax.lax.map": ("f", "xs"),
    "jax.lax.fori_loop": ("lower", "upper", "body_fun", "init_val"),
    "jax.lax.while_loop": ("cond_fun", "body_fun", "init_val"),
    "jax.lax.associative_scan": ("fn", "elems", "reverse", "axis"),
}


@dataclass(frozen=True, slots=True)
class _Site:
    """A call of a loop: where it is, and the places of its arguments by name."""

    it: Interpreter
    frame: Frame
    name: str
    at: int
    given: dict[str, Value]
    places: dict[str, int]

    def call(self, func: Value, args: list[Value]) -> Value:
        from shardlint.engine.calls import call

        return call(self.it, self.frame, func, args, {}, self.at)

    def report(self, text: str, witness: dict[str, int] | None = None, func: Value = _NONE, path: tuple[int, ...] = (),
               other: str = "") -> None:  # fmt: skip
        """At the part of the local function's result that is wrong, else at the call."""
        frame = self.frame
        place = result_place(func, frame, path)
        related: list[tuple[str, int, str]] = []
        if place is not None:
            related.append((frame.module, self.at, f"{self.name} is called here"))
        if other in self.places:
            related.append((frame.module, self.places[other], "the carry starts here"))
        where = self.at if place is None else place
        self.it.report(frame, "ST210", where, f"{self.name}: {text}", witness, tuple(related))


def call_loop(
    it: Interpreter, frame: Frame, qualname: str, args: list[Value], kwargs: dict[str, Value], at: int,
    operands: tuple[ir.Expr, ...],
) -> Value | None:  # fmt: skip
    """The result of a loop or a branch; None for any other function."""
    name = qualname.rpartition(".")[2]
    if qualname in ("jax.lax.cond", "jax.lax.switch"):
        return _branches(_Site(it, frame, name, at, {}, {}), qualname, args, kwargs)
    names = _SIGNATURES.get(qualname)
    if not names:
        return None
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    places = {n: o.at for n, o in zip([*names[: len(args)], *kwargs], operands, strict=False)}
    site = _Site(it, frame, name, at, given, places)
    match name:
        case "scan" if "f" in given and "init" in given:
            return _scan(site)
        case "map" if "f" in given and "xs" in given:
            dim, one = _example(site, given["xs"])
            return stack(site.call(given["f"], [one]), dim)
        case "fori_loop" if "body_fun" in given and "init_val" in given:
            index = ArrayValue((), "int32", weak=True)
            return _carried(site, "init_val", lambda carry: site.call(given["body_fun"], [index, carry]), "body_fun")
        case "while_loop" if "body_fun" in given and "init_val" in given:
            result = _carried(site, "init_val", lambda carry: site.call(given["body_fun"], [carry]), "body_fun")
            _test(site, given.get("cond_fun", _NONE), result)
            return result
        case "associative_scan" if "elems" in given:
            return bare(map_leaves(given["elems"], traced))
        case _:
            return Unknown(f"a call of {name} that is not understood")


def _scan(site: _Site) -> Value:
    given = site.given
    xs, length = given.get("xs", _NONE), given.get("length", _NONE)
    dim, one = _example(site, xs)
    if isinstance(length, IntValue) and length.size is not None:
        if dim.size is None:
            dim = Dimension(length.size)
        else:
            verdict = compare(length.size, dim.size, site.frame.facts)
            if isinstance(verdict, Different):
                site.report(f"length is {length.size}, the scanned arrays have {dim.size}", verdict.witness)
    outputs: Value = Unknown("outputs of a scan")

    def step(carry: Value) -> Value:
        nonlocal outputs
        result = site.call(given["f"], [carry, one])
        if isinstance(result, SequenceValue) and len(result.items) == 2:
            outputs = result.items[1]
            return result.items[0]
        if isinstance(result, ArrayValue) or (isinstance(result, SequenceValue) and result.kind == "tuple"):
            what = "one array" if isinstance(result, ArrayValue) else f"{len(result.items)} values"
            site.report(f"the body must return a pair (carry, output), it returns {what}", func=given["f"])
        return Unknown("carry of a scan")

    carry = _carried(site, "init", step, "f", (0,))
    return SequenceValue((carry, stack(outputs, dim)))


def _example(site: _Site, xs: Value) -> tuple[Dimension, Value]:
    """The scanned dimension, and what one step sees."""
    sizes: list[tuple[str, Size]] = []

    def one(value: Value, path: str) -> Value:
        parts = children(value)
        if parts is not None:
            made = rebuilt(value, [(key, one(item, f"{path}[{key!r}]")) for key, item in parts])
            return replace(made, prefix=made.prefix[1:]) if isinstance(made, InstanceValue) else made
        if isinstance(value, ArrayValue) and value.dims:
            if value.dims[0].size is not None:
                sizes.append((path, value.dims[0].size))
            return replace(value, dims=value.dims[1:], numpy=False, dtype=None if value.numpy else value.dtype)
        if isinstance(value, ArrayValue) and value.dims is None:
            return ArrayValue(None, value.dtype)
        if is_leaf(value):
            site.report(f"{path} is a single number, it cannot be scanned over")
        return Unknown("a slice of the scanned values")

    found = one(xs, "xs")
    for path, size in sizes[1:]:
        verdict = compare(sizes[0][1], size, site.frame.facts)
        if isinstance(verdict, Different):
            text = f"the scanned arrays have different leading dimensions: {sizes[0][0]} {sizes[0][1]}, {path} {size}"
            site.report(text, verdict.witness)
            break
    return Dimension(sizes[0][1] if sizes else None), found


def _carried(site: _Site, start: str, step: Callable[[Value], Value], body: str, path: tuple[int, ...] = ()) -> Value:
    """The carry after a loop. A first step may show what the start did not; then the body is seen once more."""
    before = traced(site.given[start])
    after = step(before)
    settled = _settled(before, after)
    if settled != before:
        before = settled
        after = step(before)
        settled = _settled(before, after)
    _agree(site, before, after, ("its carry starts as", "and comes back as"), site.given[body], path, start)
    return settled


def _settled(before: Value, after: Value) -> Value:
    """What is known of a carry, which has one shape and dtype throughout: either side may know it."""
    if isinstance(before, Unknown):
        return traced(after)
    if isinstance(after, Unknown):
        return before
    parts, others = children(before), children(after)
    if parts and others and type(before) is type(after):
        known, missing = dict(others), Unknown("part of a carry")
        return rebuilt(before, [(key, _settled(item, known.get(key, missing))) for key, item in parts])
    after = traced(after)
    if not (isinstance(before, ArrayValue) and isinstance(after, ArrayValue)):
        return before
    dims = before.dims if before.dims is not None else after.dims
    if before.dims is not None and after.dims is not None and len(before.dims) == len(after.dims):
        dims = tuple(
            Dimension(a.size if a.size is not None else b.size, a.axes if a.axes == b.axes else None)
            for a, b in zip(before.dims, after.dims, strict=True)
        )
    weak = before.weak and after.weak
    dtype = after.dtype if before.weak and not after.weak else before.dtype or after.dtype
    joined = join_all([before, after])
    return replace(joined, dims=dims, dtype=dtype, weak=weak) if isinstance(joined, ArrayValue) else before


def _agree(
    site: _Site, before: Value, after: Value, sides: tuple[str, str], func: Value, path: tuple[int, ...] = (),
    start: str = "",
) -> None:  # fmt: skip
    """Both have one structure, and each leaf one shape and dtype; the first that differs is reported."""
    pairs = leaf_pairs(before, after)
    if pairs is None:
        text = f"{sides[0]} {_structure(before)} {sides[1]} {_structure(after)}"
        site.report(text, None, func, path, start)
        return
    for where, a, b in pairs:
        if not (is_leaf(a) and is_leaf(b)):
            continue
        found = _difference(traced(a), traced(b), site.frame.facts)
        if found is not None:
            shown, witness = found
            text = f"{sides[0]} {shown[0]} {sides[1]} {shown[1]}" + (f" (item {where})" if where else "")
            site.report(text, witness, func, (*path, *_indices(where)), start)
            return


def _indices(where: str) -> tuple[int, ...]:
    """``[1][0]`` as numbers, up to the first key that is none."""
    found: list[int] = []
    for part in where.replace(".", "[").split("[")[1:]:
        text = part.rstrip("]")
        if not text.isdigit():
            break
        found.append(int(text))
    return tuple(found)


def _difference(a: Value, b: Value, facts: Facts) -> tuple[tuple[str, str], dict[str, int]] | None:
    if not (isinstance(a, ArrayValue) and isinstance(b, ArrayValue)):
        return None
    if a.dims is not None and b.dims is not None:
        shapes = (repr(format_shape([d.size for d in a.dims])), repr(format_shape([d.size for d in b.dims])))
        if len(a.dims) != len(b.dims):
            return shapes, {}
        for old, new in zip(a.dims, b.dims, strict=True):
            verdict = None if old.size is None or new.size is None else compare(old.size, new.size, facts)
            if isinstance(verdict, Different):
                return shapes, verdict.witness
    if a.dtype in dtypes.CONCRETE and b.dtype in dtypes.CONCRETE and not (a.weak or b.weak):
        if dtypes.canonical(a.dtype) != dtypes.canonical(b.dtype):
            return (a.dtype, b.dtype), {}
    return None


def _structure(value: Value) -> str:
    parts = children(value)
    if parts is None:
        if isinstance(value, ArrayValue) and value.dims is not None:
            return repr(format_shape([d.size for d in value.dims]))
        return "one value"
    if is_none(value):
        return "None"
    if isinstance(value, SequenceValue):
        return f"a {value.kind} of {len(parts)}"
    return "a dict with " + ", ".join(repr(key) for key, _ in parts)


def _test(site: _Site, func: Value, carry: Value) -> None:
    """The condition of a ``while_loop`` gives one bool."""
    result = site.call(func, [carry])
    if isinstance(result, ArrayValue) and result.dims:
        shape = format_shape([d.size for d in result.dims])
        site.report(f"the condition must give one bool, it gives an array {shape!r}", func=func)


def _branches(site: _Site, qualname: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if qualname == "jax.lax.cond":
        given = {**dict(zip(("pred", "true_fun", "false_fun"), args, strict=False)), **kwargs}
        if "operand" in given or not {"pred", "true_fun", "false_fun"} <= given.keys():
            return Unknown("a call of cond that is not understood")
        functions, rest, pred = [given["true_fun"], given["false_fun"]], args[3:], given["pred"]
        if len(args) == 5 and not _is_function(args[2]) and _is_function(args[4]):
            return Unknown("a cond with an operand for each branch")
        if isinstance(pred, ArrayValue) and pred.dims:
            shape = format_shape([d.size for d in pred.dims])
            site.report(f"the condition must be one bool, it is an array {shape!r}")
    else:
        given = {**dict(zip(("index", "branches"), args, strict=False)), **kwargs}
        branches = given.get("branches")
        if not isinstance(branches, SequenceValue) or not branches.items:
            return Unknown("the branches of a switch are not known")
        functions, rest = list(branches.items), args[2:]
    rest = [traced(value) for value in rest]
    results = [site.call(func, rest) for func in functions]
    for func, result in zip(functions[1:], results[1:], strict=True):
        _agree(site, results[0], result, ("its branches give", "and"), func)
    return join_all([traced(result) for result in results])


def _is_function(value: Value) -> bool:
    return not (is_leaf(value) or isinstance(value, (SequenceValue, Unknown))) and not is_none(value)
