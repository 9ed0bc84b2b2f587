"""Values that a program has placed itself, against the annotations of what they become.

How the compiler lays out any other value in the global view is its own affair, and no ground for a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import checks, meshes
from shardlint.engine.sharding.placed import Dropped, Placement
from shardlint.engine.sharding.rules_in_force import may_name_axes
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import shown, spec_of
from shardlint.engine.types import ArrayType
from shardlint.ops.sharding.explicit import explicit_axes, placed
from shardlint.values import ArrayValue, FunctionValue, ShardingValue, Value
from shardlint.walking import below, walk
from shardtypes.lang import format_shape
from shardtypes.lang.messages import array_text, expected_got, wrong_axes

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


Entries: TypeAlias = "tuple[tuple[str, ...] | None, ...]"

#: What compiles a function, so that constraints on its results may be dropped.
COMPILING = frozenset(
    {"jax.jit", "equinox.filter_jit", "flax.nnx.jit", "flax.linen.jit"}
)


def note(
    site: Site,
    result: Value,
    shardings: Value,
    operand: ir.Expr | None = None,
    constraint: bool = False,
) -> Value:
    """Remember how each array of a placed tree lies."""
    for array, one, _ in checks.pairs(result, shardings, ""):
        spec = spec_of(one)
        if spec is None or spec.entries is None or array.manual:
            continue
        axes = checks.mesh_axes(site, one)
        uneven = next(checks.uneven(array, spec, axes), None) if constraint else None
        dropped = None
        if uneven is not None:
            dropped = Dropped(
                checks.dropped_result(uneven),
                site.frame.module,
                site.place(spec, operand),
            )
        site.it.placements[id(array)] = Placement(array, spec, axes, dropped)
    return result


def note_dropped(
    site: Site,
    array: ArrayValue,
    sharding: ShardingValue | None,
    operand: ir.Expr | None,
) -> None:
    """Remember a constraint that would be dropped from a result of ``jit``, and nothing of others: how a library
    constrains values depends on where it runs."""
    if sharding is None or array.manual:
        return
    axes = meshes.sizes(sharding.mesh)
    if next(checks.uneven(array, sharding.spec, axes), None) is not None:
        note(site, array, sharding, operand, constraint=True)


def leave_compiled(
    it: Interpreter, frame: Frame, func: FunctionValue, result: Value, at: int
) -> None:
    """What a compiled function gives to code that nothing traces, ``at`` a call of it: report the constraints that are
    dropped from it. Inside of other compiled code they stay."""
    if func.tracing in COMPILING and runs_now(it, frame):
        report_dropped(it, frame, result, at)


def runs_now(it: Interpreter, frame: Frame) -> bool:
    """Whether a call of the library is made by code that nothing traces."""
    outermost = it.callers[0] if it.callers else frame
    if it.tracing != 1:  # that call is the one
        return False
    return outermost.function is None or _is_start(it, outermost)


def _is_start(it: Interpreter, frame: Frame) -> bool:
    """Whether a program starts with this function, as with ``main``: it takes nothing, and nothing in the project can
    hand it to a transformation."""
    node = None if frame.function is None else frame.function.node
    source = it.project.module(frame.module)
    if not isinstance(node, ir.Function) or source is None or node not in source.body:
        return False
    if node.params or node.decorators or node.is_async:
        return False
    return _is_only_called(source.body, node) and not _is_imported(it, source)


def _is_only_called(body: tuple[ir.Stmt, ...], function: ir.Function) -> bool:
    """Whether a module speaks of a function nowhere but in calls at its top."""
    waiting: list[ir.Node] = [one for one in body if one is not function]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ir.Function, ir.Lambda, ir.Class)):
            inner = walk(node, frozenset({ir.Name}))
            if any(isinstance(n, ir.Name) and n.id == function.name for n in inner):
                return False
            continue
        if isinstance(node, ir.Name) and node.id == function.name:
            return False
        if isinstance(node, ir.Call) and isinstance(node.func, ir.Name):
            waiting += [part for part in below(node) if part is not node.func]
        else:
            waiting += below(node)
    return True


def _is_imported(it: Interpreter, module: ir.Module) -> bool:
    last = module.name.rpartition(".")[2]
    return any(
        name.rpartition(".")[2] == last
        for outline in it.project.own_outlines()
        for name in outline.imports
    )


def report_dropped(it: Interpreter, frame: Frame, result: Value, at: int) -> None:
    """Report a constraint that ``jit`` drops from these, its results."""
    held = (it.placements.get(id(array)) for array, _ in checks.arrays(result, ""))
    dropped = next(
        (one.dropped for one in held if one is not None and one.dropped is not None),
        None,
    )
    if dropped is None:
        return
    if dropped.module == frame.module:
        it.report(frame, "ST312", dropped.at, dropped.why)
    else:
        it.report(
            frame,
            "ST312",
            at,
            dropped.why,
            None,
            ((dropped.module, dropped.at, "the constraint is here"),),
        )


def conflict(
    it: Interpreter, type_: ArrayType, value: ArrayValue, what: str
) -> str | None:
    """A message where an annotation that says how its array is split says otherwise."""
    shape = type_.shape
    if (
        shape is None
        or shape.dialect != "shardtypes"
        or shape.rank is None
        or not any(dim.axes for dim in shape.dims)
    ):
        return None
    layout = _layout(it, shape.rank, value)
    if layout is None:
        return None
    entries, axes, why = layout
    typed = explicit_axes(value.mesh)  # the compiler may split over others besides
    for index, dim in enumerate(shape.dims):
        entry = entries[index] if index < len(entries) else ()
        if entry is None or (not dim.axes and may_name_axes(it)):
            continue
        declared, found = (
            one if typed is None else tuple(a for a in one if a in typed)
            for one in (dim.axes, entry)
        )
        if not checks.same_axes(declared, found, axes):
            return expected_got(
                what, type_.written, why, wrong_axes(index, declared, found)
            )
    return None


def _layout(
    it: Interpreter, rank: int, value: ArrayValue
) -> tuple[Entries, dict[str, int | None] | None, str] | None:
    """How an array lies: the axes of each dimension, the sizes of the mesh, and what says so; None where nothing
    does."""
    placement = it.placements.get(id(value))
    if placement is not None:
        why = f"placed with {shown(placement.spec)}"
        return placement.spec.entries or (), placement.axes, why
    if placed(value) and value.dims is not None and len(value.dims) == rank:
        entries = tuple(dim.axes for dim in value.dims)
        found_shape = format_shape(
            [dim.size for dim in value.dims], [entry or () for entry in entries]
        )
        why = array_text(value.dtype, found_shape)
        return entries, meshes.sizes(value.mesh), why
    if id(value) in it.declared_layouts:
        declared = it.declared_layouts[id(value)][1]
        dims = () if declared.shape is None else declared.shape.dims
        return tuple(tuple(dim.axes) for dim in dims), None, declared.written
    return None


def replaced(node: ir.Function | ir.Lambda) -> bool:
    """Whether a decorator places the results of a function anew."""
    decorators = node.decorators if isinstance(node, ir.Function) else ()
    return any(
        isinstance(decorator, ir.Call)
        and any(arg.keyword == "out_shardings" for arg in decorator.args)
        for decorator in decorators
    )
