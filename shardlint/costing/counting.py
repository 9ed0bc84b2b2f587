"""From what the engine knows of a function to what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from shardlint import ir, messages
from shardlint.config import ConfigError
from shardlint.costing.formula import Formula, of_size
from shardlint.costing.report import Cost, Held, Moved
from shardlint.engine import run
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import parameter_value
from shardlint.engine.frames import Frame
from shardlint.engine.interpreter import Interpreter
from shardlint.engine.matching import as_symbol, instantiate
from shardlint.engine.trees import children
from shardlint.engine.types import says_something
from shardlint.placing import Places
from shardlint.run import Opened
from shardlint.sent import Recorder, Sent
from shardlint.values import ArrayValue, Value
from shardtypes.lang import dtypes, format_shape
from shardtypes.semantics.cost import COLLECTIVES, sends


def cost_of(
    opened: Opened, name: str, mesh: Mapping[str, int], sizes: Mapping[str, int]
) -> Cost:
    """What a function of a file costs; a method is ``Class.method``.

    Raises:
        ConfigError: no such function, or an axis that the mesh has not.
    """
    module = opened.module
    node = _function(module, name)
    recorder = Recorder()
    config = replace(opened.config, mesh=dict(mesh))
    analysis = run(opened.project, module, config, sends=recorder)
    counting = _Counting(analysis.it, Places(opened.project, opened.sources), mesh)
    arguments, results = counting.held(node, module.name)
    moved = [counting.moved(one) for one in recorder.sent.values() if one.base is node]
    left = [one for one in recorder.left if one.base is node]
    return Cost(
        name,
        mesh,
        sizes,
        tuple(arguments),
        tuple(results),
        tuple(_together(moved)),
        tuple((counting.where(one.place), one.why) for one in left),
    )


def _function(module: ir.Module, name: str) -> ir.Function:
    found = dict(_functions(module.body))
    if name not in found:
        raise ConfigError(module.path, messages.no_function(name, found))
    return found[name]


def _functions(
    body: tuple[ir.Stmt, ...], around: str = ""
) -> Iterator[tuple[str, ir.Function]]:
    for node in ir.statements(body):
        if isinstance(node, ir.Function):
            yield f"{around}{node.name}", node
        if isinstance(node, ir.Class):
            yield from _functions(node.body, f"{around}{node.name}.")


class _Counting:
    """Values as rows, on a mesh."""

    def __init__(
        self, it: Interpreter, places: Places, mesh: Mapping[str, int]
    ) -> None:
        self.it = it
        self.places = places
        self.mesh = mesh

    def where(self, place: tuple[str, int]) -> str:
        found = self.places.of(place[0]).place(place[1])
        return f"{found.path}:{found.line}"

    # --- arrays ---------------------------------------------------------------------------------------------------

    def held(self, node: ir.Function, module: str) -> tuple[list[Held], list[Held]]:
        """The arguments and the results, as they are annotated."""
        frame = Frame(module)
        arguments: list[Held] = []
        for param in node.params:
            type_ = resolve(self.it, param.annotation, module)
            value = parameter_value(self.it, frame, param, type_)
            at = node.at if param.annotation is None else param.annotation.at
            arguments += self._rows(param.name, value, (module, at))
        results: list[Held] = []
        type_ = resolve(self.it, node.returns, module)
        if node.returns is not None and says_something(type_):
            value = instantiate(self.it, type_, frame.bindings, as_symbol)
            results += self._rows("result", value, (module, node.returns.at))
        return arguments, results

    def _rows(self, name: str, value: Value, place: tuple[str, int]) -> Iterator[Held]:
        parts = children(value)
        for key, part in parts or ():
            shown = f".{key}" if isinstance(key, str) else f"[{key}]"
            yield from self._rows(f"{name}{shown}", part, place)
        if isinstance(value, ArrayValue):
            yield self._row(name, value, place)

    def _row(self, name: str, value: ArrayValue, place: tuple[str, int]) -> Held:
        axes = _axes(value)
        for axis in axes:
            if axis not in self.mesh:
                where = self.where(place)
                raise ConfigError(where, messages.axis_not_in_mesh(axis, self.mesh))
        split: bool | None = any(self.mesh[axis] > 1 for axis in axes)
        if not split and not _says_axes(value):
            split = None
        return Held(name, _shown(value), _bytes(value), split)

    # --- collectives ------------------------------------------------------------------------------------------------

    def moved(self, one: Sent) -> Moved:
        place = self.places.of(one.place[0]).place(one.place[1])
        for axis in one.axes:
            if axis not in self.mesh:
                where = f"{place.path}:{place.line}"
                raise ConfigError(where, messages.axis_not_in_mesh(axis, self.mesh))
        total = _bytes(one.operand)
        at_least = False
        if total is not None:
            total = self._sent(one, total)
        for rounds in one.rounds:
            times = None if rounds is None else of_size(rounds)
            if times is None:
                at_least = True
            elif total is not None:
                total *= times
        return Moved(
            COLLECTIVES[one.collective],
            one.axes,
            place.line,
            place.path,
            total,
            at_least,
        )

    def _sent(self, one: Sent, held: Formula) -> Formula:
        axes = [axis for axis in one.axes if self.mesh[axis] > 1]
        if not axes:
            return Formula.of(0)
        made: Formula = sends(one.collective)(
            held, Formula.devices(axes), Formula.others(axes)
        )
        return made


def _axes(value: ArrayValue) -> list[str]:
    return [axis for dim in value.dims or () for axis in dim.axes or ()]


def _says_axes(value: ArrayValue) -> bool:
    """Whether it is known of each dimension how it is sharded: jaxtyping's annotations do not say."""
    return value.dims is not None and all(dim.axes is not None for dim in value.dims)


def _bytes(value: ArrayValue) -> Formula | None:
    """What a device holds of an array of these global sizes."""
    width = _width(value.dtype)
    if value.dims is None or width is None:
        return None
    total = Formula.of(width)
    for dim in value.dims:
        size = None if dim.size is None else of_size(dim.size)
        if size is None:
            return None
        total *= size
    return total / Formula.devices(_axes(value))


def _width(dtype: str | None) -> int | None:
    """The bytes of an entry, where all that the dtype may be have as many."""
    if dtype is None:
        return None
    widths = {max(8, dtypes.bits(name)) // 8 for name in dtypes.members(dtype)}
    return widths.pop() if len(widths) == 1 else None


def _shown(value: ArrayValue) -> str:
    dtype = value.dtype or "array"
    if value.dims is None:
        return f"{dtype}['...']"
    sizes = [dim.size for dim in value.dims]
    axes = [dim.axes for dim in value.dims]
    return f"{dtype}[{format_shape(sizes, axes, value.pending or ())!r}]"


def _together(rows: Iterable[Moved]) -> list[Moved]:
    """Those of one line and kind in one row, if their bytes differ in a number alone; what sends nothing is left
    out."""
    found: dict[object, Moved] = {}
    for number, row in enumerate(rows):
        key: object = number
        if row.sent is not None:
            if row.sent.coefficient == 0:
                continue
            key = replace(row, sent=replace(row.sent, coefficient=Fraction(1)))
        before = found.get(key)
        if before is not None and before.sent is not None and row.sent is not None:
            total = before.sent.coefficient + row.sent.coefficient
            row = replace(row, sent=replace(row.sent, coefficient=total))
        found[key] = row
    return sorted(found.values(), key=lambda row: (row.file, row.line))
