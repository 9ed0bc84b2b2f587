"""From what the engine knows of a function to what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from shardlint import ir, messages
from shardlint.config import ConfigError
from shardlint.costing.formula import Formula, bytes_sent, of_size
from shardlint.costing.gradients import NotCounted, gradients
from shardlint.costing.report import NOT_ANNOTATED, Cost, Held, Moved
from shardlint.engine import run
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import parameter_value
from shardlint.engine.frames import Frame
from shardlint.engine.interpreter import Interpreter
from shardlint.engine.matching import as_symbol, instantiate
from shardlint.engine.trees import children
from shardlint.placing import Places
from shardlint.run import Opened
from shardlint.sent import Place, Recorder, Sent
from shardlint.values import ArrayValue, InstanceValue, Value
from shardlint.walking import functions
from shardtypes.lang import Size, dtypes, format_shape
from shardtypes.lang.diagnostics import Place as Shown
from shardtypes.semantics.cost import COLLECTIVES


@dataclass(frozen=True)
class Analysed:
    """A file in which the engine has followed all functions on a mesh, and what it saw them send. Without a mesh, each
    axis has any number of devices."""

    opened: Opened
    mesh: Mapping[str, int] | None
    it: Interpreter
    recorder: Recorder


@dataclass(frozen=True)
class Counted:
    """What a function costs, and where it is defined."""

    cost: Cost
    file: str
    line: int


def analysed(opened: Opened, mesh: Mapping[str, int] | None) -> Analysed:
    """Follow the functions of a file."""
    recorder = Recorder()
    config = opened.config
    if mesh is not None:
        config = replace(config, mesh=dict(mesh))
    analysis = run(opened.project, opened.module, config, sends=recorder)
    return Analysed(
        opened=opened,
        mesh=mesh,
        it=analysis.it,
        recorder=recorder,
    )


def cost_of(file: Analysed, name: str, sizes: Mapping[str, int]) -> Cost:
    """What a function of a file costs; a method is ``Class.method``.

    Raises:
        ConfigError: no such function, or an axis that the mesh has not.
    """
    node = _function(file.opened.module, name)
    counting = _counting(file)
    cost = _cost(file, name, node, sizes, counting)
    return _with_gradients(file, name, node, cost, counting)


def costs_of(file: Analysed) -> dict[str, Counted]:
    """What each function of a file costs, methods included, by its name.

    Raises:
        ConfigError: an axis that the mesh has not.
    """
    counting = _counting(file)
    module = file.opened.module
    found = {}
    for name, node in functions(module.body):
        cost = _cost(file, name, node, {}, counting)
        place = counting.place((module.name, node.at))
        found[name] = Counted(cost, place.path, place.line)
    return found


def _with_gradients(
    file: Analysed, name: str, node: ir.Function, cost: Cost, counting: _Counting
) -> Cost:
    """The cost, with what gradients send, which the engine does not follow, if the function can be run in numbers."""
    left = [one for one in file.recorder.left if one.base is node and one.of_gradient]
    if not left or file.mesh is None:
        return cost
    listed = [(counting.where(one.place), one.why) for one in left]
    try:
        found = gradients(file.opened, name, file.mesh)
    except NotCounted as error:
        uncounted = []
        for place, why in cost.uncounted:
            if (place, why) in listed:
                why = f"{why} ({error})"
            uncounted.append((place, why))
        return replace(cost, uncounted=tuple(uncounted))
    rows = [*cost.moved, *found.rows]
    uncounted = [one for one in cost.uncounted if one not in listed]
    for path, line in found.again:
        uncounted.append((f"{path}:{line}", messages.may_run_again()))
    return replace(
        cost,
        moved=tuple(_together(rows)),
        uncounted=tuple(uncounted),
    )


def _counting(file: Analysed) -> _Counting:
    places = Places(file.opened.project, file.opened.sources)
    return _Counting(file.it, places, file.mesh)


def _cost(
    file: Analysed,
    name: str,
    node: ir.Function,
    sizes: Mapping[str, int],
    counting: _Counting,
) -> Cost:
    module = file.opened.module
    recorder = file.recorder
    moved = []
    for sent in recorder.sent.values():
        if sent.base is node:
            moved.append(counting.moved(sent))
    uncounted = []
    for left in recorder.left:
        if left.base is node:
            uncounted.append((counting.where(left.place), left.why))
    counted = recorder.calls_of(node)
    for left in recorder.mapped:
        if left.base is node and left.place not in counted:
            uncounted.append((counting.where(left.place), left.why))
    is_manual = any(one.base is node and one.own for one in recorder.sent.values())
    if id(node) in recorder.outside and not is_manual:
        place = counting.where((module.name, node.at))
        uncounted.append((place, messages.outside_of_manual_code()))
    arguments, results = counting.held(node, module.name)
    return Cost(
        function=name,
        mesh=file.mesh or {},
        sizes=sizes,
        arguments=tuple(arguments),
        results=tuple(results),
        moved=tuple(_together(moved)),
        uncounted=tuple(uncounted),
    )


def _function(module: ir.Module, name: str) -> ir.Function:
    found = dict(functions(module.body, nested=True))
    if name not in found:
        text = messages.no_function(name, found)
        raise ConfigError(module.path, text)
    return found[name]


class _Counting:
    """Values as rows, on a mesh."""

    def __init__(
        self, it: Interpreter, places: Places, mesh: Mapping[str, int] | None
    ) -> None:
        self.it = it
        self.places = places
        self.mesh = mesh

    def place(self, place: Place) -> Shown:
        module, at = place
        return self.places.of(module).place(at)

    def where(self, place: Place) -> str:
        found = self.place(place)
        return f"{found.path}:{found.line}"

    # --- arrays ---------------------------------------------------------------------------------------------------

    def held(self, node: ir.Function, module: str) -> tuple[list[Held], list[Held]]:
        """The arguments and the results, as they are annotated."""
        frame = Frame(module)
        arguments: list[Held] = []
        unknown: list[Held] = []
        for number, param in enumerate(node.params):
            if param.annotation is None:
                is_receiver = number == 0 and param.name in ("self", "cls")
                if not is_receiver:
                    unknown.append(_not_annotated(param.name))
                continue
            type_ = resolve(self.it, param.annotation, module)
            value = parameter_value(self.it, frame, param, type_)
            place = (module, param.annotation.at)
            arguments += self._rows(param.name, value, place)
        results: list[Held] = []
        if node.returns is not None:
            type_ = resolve(self.it, node.returns, module)
            value = instantiate(self.it, type_, frame.bindings, as_symbol)
            place = (module, node.returns.at)
            results += self._rows("result", value, place)
        else:
            results.append(_not_annotated("result"))
        # beside arrays that are, what is not annotated is mostly no array
        return arguments or unknown, results

    def _rows(self, name: str, value: Value, place: Place) -> Iterator[Held]:
        for key, part in children(value) or ():
            step = f"[{key!r}]"
            if isinstance(value, InstanceValue):
                step = f".{key}"
            yield from self._rows(f"{name}{step}", part, place)
        if isinstance(value, ArrayValue):
            yield self._row(name, value, place)

    def _row(self, name: str, value: ArrayValue, place: Place) -> Held:
        axes = _axes(value)
        self._require(axes, place)
        split: bool | None = bool(self._several(axes))
        if not split and not _says_axes(value):
            split = None
        return Held(
            name=name,
            array=_shown(value),
            held=_bytes(value),
            split=split,
            cuts=tuple(_cuts(value)),
        )

    def _require(self, axes: Iterable[str], place: Place) -> None:
        """Raises ``ConfigError`` where the mesh has not all of these axes."""
        if self.mesh is None:
            return
        for axis in axes:
            if axis not in self.mesh:
                text = messages.axis_not_in_mesh(axis, self.mesh)
                raise ConfigError(self.where(place), text)

    def _several(self, axes: Iterable[str]) -> list[str]:
        """Those that have, or may have, more than one device."""
        if self.mesh is None:
            return list(axes)
        return [axis for axis in axes if self.mesh[axis] > 1]

    # --- collectives ------------------------------------------------------------------------------------------------

    def moved(self, one: Sent) -> Moved:
        self._require(one.axes, one.place)
        total = _bytes(one.operand)
        at_least = False
        if total is not None:
            over = self._several(one.axes)
            total = bytes_sent(one.collective, total, over)
        for rounds in one.rounds:
            times = _formula(rounds)
            if times is None:
                at_least = True
            elif total is not None:
                total *= times
        place = self.place(one.place)
        return Moved(
            collective=COLLECTIVES[one.collective],
            axes=one.axes,
            line=place.line,
            file=place.path,
            sent=total,
            at_least=at_least,
        )


def _cuts(value: ArrayValue) -> Iterator[Formula]:
    for dim in value.dims or ():
        size = _formula(dim.size)
        if dim.axes and size is not None:
            yield size / Formula.devices(dim.axes)


def _not_annotated(name: str) -> Held:
    return Held(name=name, array=NOT_ANNOTATED, held=None, split=None)


def _formula(size: Size | None) -> Formula | None:
    if size is None:
        return None
    return of_size(size)


def _axes(value: ArrayValue) -> list[str]:
    found: list[str] = []
    for dim in value.dims or ():
        found += dim.axes or ()
    return found


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
        size = _formula(dim.size)
        if size is None:
            return None
        total *= size
    return total / Formula.devices(_axes(value))


def _width(dtype: str | None) -> int | None:
    """The bytes of an entry, where all that the dtype may be have as many."""
    if dtype is None:
        return None
    widths = set()
    for name in dtypes.members(dtype):
        bits = max(8, dtypes.bits(name))
        widths.add(bits // 8)
    if len(widths) > 1:
        return None
    return widths.pop()


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
