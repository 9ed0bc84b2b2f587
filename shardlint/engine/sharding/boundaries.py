"""``jit`` with shardings and ``shard_map``: their specs against the function's parameters and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.plain import innermost
from shardlint.engine.sharding import (
    checks,
    placements,
    prefixes,
    replicated_states,
)
from shardlint.engine.sharding.collectives import axis_names
from shardlint.engine.sharding.manual_exit import shown_path
from shardlint.engine.sharding.placed import Placement
from shardlint.engine.sharding.rules_in_force import may_name_axes
from shardlint.engine.sharding.signatures import Signature, signature
from shardlint.engine.sharding.site import NONE, Site
from shardlint.engine.sharding.specs import axes_named, shown, spec_of
from shardlint.engine.types import ArrayType, SequenceType
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    FunctionValue,
    Literal,
    MeshValue,
    PartialValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Unknown,
    Value,
    WrappedValue,
    number_in,
)
from shardlint.walking import walk
from shardtypes.lang import format_shape
from shardtypes.lang.messages import axes_text, expected_got

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

JIT = "jax.jit"
SHARD_MAP = "jax.shard_map"
_NAMES = {JIT: ("in_shardings", "out_shardings"), SHARD_MAP: ("in_specs", "out_specs")}


@knows(_NAMES, first=True)
def transform(site: Site) -> WrappedValue | None:
    """Check ``jit(f, in_shardings=…)`` and ``shard_map(f, …)``. ``jit`` with shardings gives a value that checks its
    calls too; anything else is None."""
    if site.qualname not in _NAMES or not site.args:
        return None
    given = _arguments(site)
    found = signature(site.it, site.args[0])
    ins, outs = (given.get(name, NONE) for name in _NAMES[site.qualname])
    check = _Check(site, given)
    for specs, name, position in zip(
        (ins, outs), _NAMES[site.qualname], (2, 3), strict=True
    ):
        check.specs(specs, site.operand(position, name))
    if found is not None:
        check.signature(found, ins, outs)
    if site.qualname == JIT and (ins != NONE or outs != NONE):
        return WrappedValue(JIT, site.args[0], tuple(given.items()))
    return None


def check_arguments(site: Site, wrapped: WrappedValue) -> None:
    """A call of a function that ``jit`` gave shardings: ``site`` has the arguments."""
    options = dict(wrapped.options)
    ins = options.get("in_shardings", NONE)
    if _static(options) == frozenset():
        _check_placed(site, ins)
    found = signature(site.it, wrapped.func)
    if found is not None and any(
        isinstance(p.value, ArrayValue) for p in found.parameters
    ):
        return  # judged where it was transformed
    if _static(options) is None or _static(options):
        return
    items = ins.items if isinstance(ins, SequenceValue) else (ins,) * len(site.args)
    if len(items) != len(site.args):
        return
    check = _Check(site, options)
    for index, (value, one) in enumerate(zip(site.args, items, strict=True)):
        check.values(value, one, f"argument {index}", site.operand(index, ""))


def _check_placed(site: Site, ins: Value) -> None:
    """Arrays that the program has placed itself, given by code that nothing traces: ``jit`` refuses those that are
    committed to another sharding."""
    if not placements.runs_now(site.it, site.frame):
        return
    items = ins.items if isinstance(ins, SequenceValue) else (ins,) * len(site.args)
    for index, (value, one) in enumerate(zip(site.args, items, strict=False)):
        for array, sharding, what in checks.pairs(value, one, f"argument {index}"):
            placement, spec = site.it.placements.get(id(array)), spec_of(sharding)
            if (
                placement is None
                or spec is None
                or not _is_placed_otherwise(site, placement, sharding, spec)
            ):
                continue
            operand = site.operand(index, "")
            shape = format_shape([dim.size for dim in array.dims or ()])
            text = (
                f"{what}, {shape!r}, is committed to {shown(placement.spec)}, but in_shardings has {shown(spec)}: "
                "jax.device_put it again, or correct in_shardings"
            )
            site.report("ST308", operand.at if operand is not None else site.at, text)
            return


def _is_placed_otherwise(
    site: Site, placement: Placement, sharding: Value, spec: SpecValue
) -> bool:
    """Whether a placed array certainly has another sharding on the same mesh."""
    axes = checks.mesh_axes(site, sharding)
    if (
        placement.value.dims is None
        or axes is None
        or axes != placement.axes
        or None in axes.values()
    ):
        return False
    rank = len(placement.value.dims)
    have, want = (
        [*(s.entries or ()), *[()] * rank][:rank] for s in (placement.spec, spec)
    )
    pairs = zip(have, want, strict=True)
    return any(
        None not in (a, b) and not checks.same_axes(a or (), b or (), axes)
        for a, b in pairs
    )


def result(site: Site, wrapped: WrappedValue, value: Value) -> Value:
    """What a call gives: placed as the shardings of the results say."""
    options = dict(wrapped.options)
    outs = options.get("out_shardings", NONE)
    if outs == NONE:
        return value
    found = signature(site.it, wrapped.func)
    # else judged where it was transformed
    if found is None or isinstance(found.result, Unknown):
        before = len(site.it.events)
        _Check(site, options).results(value, outs, "the result", None)
        if len(site.it.events) > before:
            func = innermost(wrapped.func)
            site.it.judged.update(
                [id(func.node)] if isinstance(func, FunctionValue) else ()
            )
    return placements.note(site, checks.placed(value, outs, site.frame.mesh), outs)


def leave(it: Interpreter, frame: Frame, value: Value, at: int) -> None:
    """A result of a function that is checked by itself, where its decorator is ``jit``. Annotated results are judged
    where the decorator is applied."""
    node = frame.function.node if frame.function is not None else None
    if (
        frame.in_place
        or frame.parent is None
        or not isinstance(node, ir.Function)
        or not node.decorators
    ):
        return
    expr = node.decorators[0]
    frame.parent.silent += 1
    wrapper = it.evaluate(frame.parent, expr)
    frame.parent.silent -= 1
    options = dict(wrapper.kwargs) if isinstance(wrapper, PartialValue) else {}
    function = wrapper.func if isinstance(wrapper, PartialValue) else wrapper
    if (
        not isinstance(function, ExternalValue)
        or function.qualname not in placements.COMPILING
    ):
        return
    outs = options.get("out_shardings", NONE)
    if outs == NONE:
        if not _is_used_by_traced(it, frame.module, node):
            placements.report_dropped(it, frame, value, at)
    elif frame.promise is None and id(node) not in it.judged:
        named = expr.args if isinstance(expr, ir.Call) else ()
        operand = next(
            (arg.value for arg in named if arg.keyword == "out_shardings"), None
        )
        site = Site(it, frame.parent, JIT, [], options, expr.at)
        _Check(site, options).results(
            value, outs, f"the result of {node.name}", operand
        )


def _is_used_by_traced(it: Interpreter, module: str, node: ir.Function) -> bool:
    """Whether another function with a decorator speaks of this one: inside of compiled code its results are none."""
    source = it.project.module(module)
    others = walk(source.body if source is not None else (), frozenset({ir.Function}))
    return any(
        isinstance(other, ir.Function)
        and other is not node
        and other.decorators
        and node.name in it.names_in(other)
        for other in others
    )


def _arguments(site: Site) -> dict[str, Value]:
    names = (
        ("f", "mesh", "in_specs", "out_specs")
        if site.qualname == SHARD_MAP
        else ("fun",)
    )
    return site.given(*names)


def _static(options: dict[str, Value]) -> frozenset[int | str] | None:
    """Positions and names of the arguments that are static; None where not known."""
    found: set[int | str] = set()
    for key in ("static_argnums", "static_argnames"):
        value = options.get(key, NONE)
        for item in (
            value.items
            if isinstance(value, SequenceValue)
            else ()
            if value == NONE
            else (value,)
        ):
            number = number_in(item)
            if number is not None:
                found.add(number)
            elif isinstance(item, Literal) and isinstance(item.value, str):
                found.add(item.value)
            else:
                return None
    return frozenset(found)


class _Check:
    """One transformation under judgement."""

    def __init__(self, site: Site, given: dict[str, Value]) -> None:
        self.site = site
        self.given = given
        self.manual = site.qualname == SHARD_MAP
        mesh = given.get("mesh")
        self.mesh = (
            mesh
            if isinstance(mesh, MeshValue)
            else MeshValue(None)
            if mesh not in (None, NONE)
            else None
        )
        self.named = axis_names(given.get("axis_names")) if self.manual else None
        self.indivisible: checks.Indivisible = "ignored" if self.manual else "refused"

    def specs(self, tree: Value, operand: ir.Expr | None) -> None:
        """The specs of a tree against the mesh, whatever they are for. What is written out in a decorator was judged
        nowhere else."""
        for sharding in checks.shardings_in(tree):
            spec = spec_of(sharding)
            if spec is None or (
                spec is not sharding
                and self.site.place(spec, operand) != (spec.place or (0, 0))[1]
            ):
                continue  # was judged where it was made
            self._axes(sharding, spec, operand)

    def signature(self, found: Signature, ins: Value, outs: Value) -> None:
        in_name, out_name = _NAMES[self.site.qualname]
        in_operand, out_operand = (
            self.site.operand(2, in_name),
            self.site.operand(3, out_name),
        )
        self.inputs(found, ins, in_name, in_operand)
        self.outputs(found, outs, out_name, out_operand)

    def inputs(
        self, found: Signature, ins: Value, name: str, operand: ir.Expr | None
    ) -> None:
        static = _static(self.given) if not self.manual else frozenset[int | str]()
        if static is None:
            return
        count = len(found.parameters)
        parameters = [
            p
            for i, p in enumerate(found.parameters)
            if not {i, i - count, p.name} & static
        ]
        if not isinstance(ins, SequenceValue):
            for parameter in parameters:
                if not parameter.required:
                    continue  # may be left out
                self.values(
                    parameter.value,
                    ins,
                    f"parameter {parameter.name}",
                    operand,
                    found.splits,
                )
            return
        required = sum(p.required for p in parameters)
        if len(ins.items) < required or (
            len(ins.items) > len(parameters) and not found.variadic
        ):
            many = (
                f"{required}"
                if required == len(parameters)
                else f"{required} to {len(parameters)}"
            )
            beside = " beside its static arguments" if len(parameters) < count else ""
            text = f"{name} has {_entries(len(ins.items))}, but {found.name} takes {many}{beside}"
            self.site.report("ST307", self._at(operand), text)
            return
        values = [p.value for p in parameters[: len(ins.items)]]
        swapped = self._swapped(values, ins.items)
        if swapped is not None:
            i, j = swapped
            text = f"{name}: exchange the entries for {parameters[i].name} and {parameters[j].name}"
            self.site.report("ST307", self._at(operand), text)
            return
        for parameter, one in zip(parameters, ins.items, strict=False):
            self.values(
                parameter.value,
                one,
                f"parameter {parameter.name}",
                operand,
                found.splits,
            )

    def outputs(
        self, found: Signature, outs: Value, name: str, operand: ir.Expr | None
    ) -> None:
        what = f"the result of {found.name}"
        if isinstance(outs, SequenceValue) and isinstance(found.returns, ArrayType):
            text = f"{name} has {_entries(len(outs.items))}, but {what} is one array"
            self.site.report("ST307", self._at(operand), text)
            return
        if isinstance(outs, SequenceValue) and isinstance(found.returns, SequenceType):
            many = len(found.returns.items)
            if len(outs.items) != many:
                text = f"{name} has {_entries(len(outs.items))}, but {what} has {many}"
                self.site.report("ST307", self._at(operand), text)
                return
            if isinstance(found.result, SequenceValue):
                swapped = self._swapped(list(found.result.items), outs.items)
                if swapped is not None:
                    text = f"{name}: exchange entries {swapped[0]} and {swapped[1]}"
                    self.site.report("ST307", self._at(operand), text)
                    return
        self.results(found.result, outs, what, operand, found.splits)

    def results(
        self,
        value: Value,
        shardings: Value,
        what: str,
        operand: ir.Expr | None,
        splits: bool = False,
    ) -> None:
        """What a function gives against its specs."""
        self.values(value, shardings, what, operand, splits)
        replicated = (
            None
            if self.manual
            else replicated_states.found(value, shardings, self.site.it.placements)
        )
        if replicated is not None:
            text, spec = replicated
            at = self.site.place(spec, operand)
            self.site.report("ST317", at, text, self.site.origin(spec, at))

    def values(
        self,
        value: Value,
        shardings: Value,
        what: str,
        operand: ir.Expr | None,
        splits: bool = False,
    ) -> None:
        """The arrays of one parameter or result against their specs, whose axes have been judged."""
        differs = prefixes.mismatch(value, shardings)
        if differs is not None:
            self.site.report(
                "ST307",
                self._at(operand),
                f"{what}{shown_path(differs[0])} {differs[1]}",
            )
            return
        for array, one, name in checks.pairs(value, shardings, what):
            spec = spec_of(one)
            axes = self._mesh_axes(one)
            if spec is None or checks.wrong_axis(spec, axes) is not None:
                continue
            if not checks.check_array(
                self.site, array, spec, axes, operand, name, self.indivisible
            ):
                return
            if splits and not self._agrees(array, spec, axes):
                at = self.site.place(spec, operand)
                shape = format_shape(
                    [d.size for d in array.dims or ()],
                    [d.axes or () for d in array.dims or ()],
                )
                entries = [*(spec.entries or ()), *[()] * len(array.dims or ())][
                    : len(array.dims or ())
                ]
                other = format_shape(
                    [d.size for d in array.dims or ()],
                    [entry or () for entry in entries],
                )
                text = expected_got(name, repr(shape), f"{other!r} by {shown(spec)}")
                self.site.report("ST308", at, text, self.site.origin(spec, at))
                return

    def _mesh_axes(self, sharding: Value) -> dict[str, int | None] | None:
        """The axes of the mesh that a sharding is about. Without a mesh of its own a function takes the one that is in
        force when it is called, which may be any that the program makes."""
        axes = checks.mesh_axes(self.site, sharding, self.mesh)
        stays = (
            self.mesh is not None
            or self.site.frame.mesh is None
            or isinstance(sharding, ShardingValue)
        )
        if axes is None or stays:
            return axes
        made = self.site.it.made_axes
        for axis in made.names - set(axes):
            axes[axis] = None
        for axis, size in axes.items():
            if not made.sizes((axis,)) <= {size}:
                axes[axis] = None
        return axes

    def _axes(self, sharding: Value, spec: SpecValue, operand: ir.Expr | None) -> None:
        if not checks.check_axes(self.site, spec, self._mesh_axes(sharding), operand):
            return
        named = self.named
        other = next((a for a in axes_named(spec) if named and a not in named), "")
        if other:
            at = self.site.place(spec, operand)
            text = f"{shown(spec)} names {other!r}, which is not a Manual axis (axis_names: {axes_text(named or ())})"
            self.site.report("ST305", at, text, self.site.origin(spec, at))

    def _agrees(
        self, array: ArrayValue, spec: SpecValue, axes: dict[str, int | None] | None
    ) -> bool:
        """Whether the declared axes may be those of the spec."""
        for index, dim in enumerate(array.dims or ()):
            entry = (
                () if index >= len(spec.entries or ()) else (spec.entries or ())[index]
            )
            if dim.axes is None or entry is None or spec.entries is None:
                continue
            if not dim.axes and may_name_axes(self.site.it):
                continue
            if not checks.same_axes(dim.axes, entry, axes):
                return False
        return True

    def _fits(self, value: Value, sharding: Value) -> bool | None:
        """Whether an array and a spec go together; None where that is open."""
        spec = spec_of(sharding)
        if (
            not isinstance(value, ArrayValue)
            or value.dims is None
            or spec is None
            or spec.entries is None
        ):
            return None
        return len(spec.entries) <= len(value.dims)

    def _swapped(
        self, values: list[Value], shardings: tuple[Value, ...]
    ) -> tuple[int, int] | None:
        """Two entries whose exchange would make both fit, one of which does not as it is."""
        for i, (value, one) in enumerate(zip(values, shardings, strict=False)):
            if self._fits(value, one) is not False:
                continue
            for j, (second, other) in enumerate(zip(values, shardings, strict=False)):
                if self._fits(value, other) and self._fits(second, one):
                    return min(i, j), max(i, j)
        return None

    def _at(self, operand: ir.Expr | None) -> int:
        return operand.at if operand is not None else self.site.at


def _entries(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"
