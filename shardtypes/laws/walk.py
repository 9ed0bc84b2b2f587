"""A program of JAX, run equation by equation over whatever stands for its values.

Calls are entered, loops of a known length unrolled, branches chosen where that is possible. Inside ``shard_map`` a
value has a further dimension in front for each axis of the mesh, so that the devices are simulated.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from shardtypes.laws.families import CALLS

Host = np.ndarray[Any, np.dtype[Any]]
Path = tuple[int, ...]
Shape = tuple[int, ...]
Change = Callable[[Any, int], Any]
"""Of an array with so many dimensions in front."""

Join = Callable[[Sequence[Any], int], Any]
"""Of arrays, which becomes one."""

Axes = tuple[tuple[str, int], ...]
Cell = TypeVar("Cell")

_LONGEST_LOOP = 256


class Domain(ABC, Generic[Cell]):
    """What stands for the values of a program, and what becomes of it. ``devices`` are the axes of ``shard_map`` that
    the program is in, each a dimension in front of all arrays of a cell; ``calls`` are the equations around it."""

    devices: Axes = ()
    calls: tuple[Any, ...] = ()

    @abstractmethod
    def constant(self, value: Any) -> Cell:
        """What stands for a value of the program's own, without dimensions of devices."""

    @abstractmethod
    def equation(self, eqn: Any, path: Path, cells: list[Cell]) -> list[Cell]:
        """The results of one primitive."""

    @abstractmethod
    def opaque(self, eqn: Any, path: Path, cells: list[Cell]) -> list[Cell]:
        """The results of something that is not looked into."""

    @abstractmethod
    def each(self, cell: Cell, change: Change) -> Cell:
        """Change the arrays of a cell; the number says how many dimensions each has in front of the value's own."""

    @abstractmethod
    def joined(self, cells: Sequence[Cell], join: Join) -> Cell:
        """Make one cell of several of the same kind, array by array."""

    def carried(self, carry: list[Cell], items: list[Cell]) -> list[Cell]:
        """The values that a loop carries, at the beginning of an iteration with these items."""
        return carry

    def branch(self, index: Cell) -> int | None:
        """The branch that is taken, where that is known."""
        return None

    def branches(self, index: Cell, results: list[list[Cell]]) -> list[Cell] | None:
        """What comes of several branches of which it is not known which is taken; None to take the whole as opaque."""
        return None

    def looped(
        self, eqn: Any, path: Path, cells: list[Cell], walker: Walker[Cell]
    ) -> list[Cell]:
        """What comes of a loop whose length is not known."""
        return self.opaque(eqn, path, cells)


class Walker(Generic[Cell]):
    """Runs a program over a domain."""

    def __init__(self, domain: Domain[Cell]) -> None:
        self.domain = domain

    def run(self, program: Any, arguments: Sequence[Cell]) -> list[Cell]:
        """The cells of the results of a closed jaxpr."""
        return self.evaluate(program.jaxpr, program.consts, list(arguments), ())

    def evaluate(
        self, jaxpr: Any, consts: Sequence[Any], arguments: list[Cell], path: Path
    ) -> list[Cell]:
        """The same of an open one."""
        environment: dict[Any, Cell] = {}
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            environment[variable] = self.spread(self.domain.constant(value))
        environment.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Cell:
            if hasattr(atom, "val"):
                return self.spread(self.domain.constant(atom.val))
            return environment[atom]

        for number, eqn in enumerate(jaxpr.eqns):
            results = self._equation(
                eqn, (*path, number), [read(atom) for atom in eqn.invars]
            )
            environment.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def spread(self, cell: Cell) -> Cell:
        """A value that every device has."""
        devices = self.domain.devices
        if not devices:
            return cell
        sizes = tuple(size for _, size in devices)

        def repeated(array: Any, lead: int) -> Any:
            before = lead - len(sizes)
            shape = array.shape
            ones = (1,) * len(sizes)
            array = array.reshape(*shape[:before], *ones, *shape[before:])
            return _np(array).broadcast_to(
                array, (*shape[:before], *sizes, *shape[before:])
            )

        return self.domain.each(cell, repeated)

    def _equation(self, eqn: Any, path: Path, cells: list[Cell]) -> list[Cell]:
        before = self.domain.calls
        try:
            return self._entered(eqn, path, cells)
        finally:
            self.domain.calls = before

    def _entered(self, eqn: Any, path: Path, cells: list[Cell]) -> list[Cell]:
        name = eqn.primitive.name
        if name in CALLS or name in ("scan", "cond", "shard_map"):
            self.domain.calls = (*self.domain.calls, eqn)
        if name in CALLS and CALLS[name] in eqn.params:
            inner = eqn.params[CALLS[name]]
            return self.evaluate(
                getattr(inner, "jaxpr", inner),
                getattr(inner, "consts", ()),
                cells,
                path,
            )
        if name == "scan" and eqn.params["length"] <= _LONGEST_LOOP:
            return self._scan(eqn.params, cells, path)
        if name == "cond":
            return self._cond(eqn, cells, path)
        if name == "while":
            return self.domain.looped(eqn, path, cells, self)
        if name == "shard_map":
            return self._shard_map(eqn.params, cells, path)
        if any(
            hasattr(value, "eqns") or hasattr(value, "jaxpr")
            for value in eqn.params.values()
        ):
            return self.domain.opaque(eqn, path, cells)
        return self.domain.equation(eqn, path, cells)

    def _scan(self, params: Any, cells: list[Cell], path: Path) -> list[Cell]:
        body = params["jaxpr"]
        consts, carries = _counts(params, len(cells))
        fixed = cells[:consts]
        carry = cells[consts : consts + carries]
        sequences = cells[consts + carries :]
        steps = range(params["length"])
        made: list[list[Cell]] = []
        for step in reversed(steps) if params["reverse"] else steps:
            items = [
                self.domain.each(cell, functools.partial(_item, step))
                for cell in sequences
            ]
            carry = self.domain.carried(carry, items)
            results = self.evaluate(
                body.jaxpr, body.consts, [*fixed, *carry, *items], (*path, step)
            )
            carry = results[:carries]
            made.append(results[carries:])
        if params["reverse"]:
            made.reverse()
        outputs = [
            self.domain.joined(cells, _stacked) for cells in zip(*made, strict=True)
        ]
        if not made:
            return [
                *carry,
                *(self._empty(v.aval) for v in body.jaxpr.outvars[carries:]),
            ]
        return [*carry, *outputs]

    def _empty(self, aval: Any) -> Cell:
        nothing = np.zeros((0, *aval.shape), aval.dtype)
        return self.spread(self.domain.constant(nothing))

    def _cond(self, eqn: Any, cells: list[Cell], path: Path) -> list[Cell]:
        index, *operands = cells
        branches = eqn.params["branches"]
        chosen = self.domain.branch(index)
        if chosen is not None:
            body = branches[min(max(chosen, 0), len(branches) - 1)]
            return self.evaluate(body.jaxpr, body.consts, operands, (*path, chosen))
        results = [
            self.evaluate(body.jaxpr, body.consts, operands, (*path, number))
            for number, body in enumerate(branches)
        ]
        together = self.domain.branches(index, results)
        if together is None:
            return self.domain.opaque(eqn, path, cells)
        return together

    def _shard_map(self, params: Any, cells: list[Cell], path: Path) -> list[Cell]:
        mesh = params["mesh"]
        names = (
            params.get("manual_axes")
            or params.get("newly_manual_axes")
            or frozenset(mesh.axis_names)
        )
        axes = tuple(
            (name, mesh.shape[name]) for name in mesh.axis_names if name in names
        )
        body = params["jaxpr"]
        split = [
            self.domain.each(cell, functools.partial(_split, axes, spec))
            for cell, spec in zip(cells, params["in_specs"], strict=True)
        ]
        before = self.domain.devices
        self.domain.devices = (*before, *axes)
        try:
            inner = getattr(body, "jaxpr", body)
            results = self.evaluate(inner, getattr(body, "consts", ()), split, path)
        finally:
            self.domain.devices = before
        return [
            self.domain.each(cell, functools.partial(_merged, axes, spec))
            for cell, spec in zip(results, params["out_specs"], strict=True)
        ]


def _counts(params: Any, count: int) -> tuple[int, int]:
    """How many of the operands of a ``scan`` are the same in each step, and how many are carried."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    # since JAX 0.12
    consts, carry, _ = params["ft_in"].update(list(range(count))).unpack()
    return len(list(consts)), len(list(carry))


def bind(eqn: Any, values: Sequence[Any], devices: Axes, more: int = 0) -> list[Any]:
    """The results of a primitive for arrays with a dimension in front for each axis of devices, and ``more`` before
    these."""

    def apply(*arguments: Any) -> Any:
        return _applied(eqn, arguments)

    for name, size in reversed(devices):
        apply = jax.vmap(apply, axis_name=name, axis_size=size)
    for _ in range(more):
        apply = jax.vmap(apply)
    found = apply(*values)
    if eqn.primitive.multiple_results:
        return list(found)
    return [found]


def _applied(eqn: Any, arguments: Sequence[Any]) -> Any:
    name = eqn.primitive.name
    params = eqn.params
    if name in ("pvary", "pcast", "pbroadcast"):
        if eqn.primitive.multiple_results:
            return list(arguments)
        return arguments[0]
    if name == "psum_invariant":
        return jax.lax.psum(arguments[0], params["axes"])
    if name.startswith("all_gather_"):
        axis = params.get("all_gather_dimension", 0)
        return jax.lax.all_gather(
            arguments[0],
            params["axis_name"],
            axis=axis,
            tiled=params.get("tiled", False),
        )
    ready = eqn.primitive.get_bind_params(params)
    # by the version of JAX
    if isinstance(ready, tuple):
        functions, rest = ready
    else:
        functions = ()
        rest = ready
    return eqn.primitive.bind(*functions, *arguments, **rest)


def first_along(where: Host, axis: int) -> int:
    """The first position along a dimension at which it holds anywhere."""
    others = tuple(at for at in range(where.ndim) if at != axis)
    return int(np.flatnonzero(where.any(others))[0])


def any_along(array: Host, axes: int | tuple[int, ...], keepdims: bool = False) -> Host:
    """Where anything along these dimensions is true, as an array in any case."""
    return np.asarray(array.any(axes, keepdims=keepdims))


def named_axes(eqn: Any) -> tuple[str, ...]:
    """The mesh axes that a collective is over."""
    names = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    if isinstance(names, (tuple, list)):
        return tuple(names)
    return (names,)


def _np(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np
    return jax.numpy


def _item(step: int, array: Any, lead: int) -> Any:
    return array[(*(slice(None) for _ in range(lead)), step)]


def _stacked(arrays: Sequence[Any], lead: int) -> Any:
    return _np(arrays[0]).stack(arrays, lead)


def _entries(axes: Axes, spec: Any, rank: int) -> Iterator[list[tuple[str, int]]]:
    """The axes that each dimension is split over."""
    known = dict(axes)
    for entry in itertools.islice(itertools.chain(spec, itertools.repeat(None)), rank):
        if isinstance(entry, tuple):
            names = entry
        else:
            names = (entry,)
        yield [(name, known[name]) for name in names if name in known]


def _split(axes: Axes, spec: Any, array: Any, lead: int) -> Any:
    """Give an array a dimension for each axis, after the ``lead`` first."""
    shape = list(array.shape[:lead])
    places: dict[str, int] = {}
    for size, entry in zip(
        array.shape[lead:], _entries(axes, spec, array.ndim - lead), strict=True
    ):
        for name, count in entry:
            places[name] = len(shape)
            shape.append(count)
            size //= count
        shape.append(size)
    array = array.reshape(shape)
    others = [at for at in range(lead, array.ndim) if at not in places.values()]
    split = [places[name] for name, _ in axes if name in places]
    array = array.transpose(*range(lead), *split, *others)
    for at, (name, _) in enumerate(axes, lead):
        if name not in places:
            array = array.reshape(*array.shape[:at], 1, *array.shape[at:])
    sizes = [size for _, size in axes]
    local = array.shape[lead + len(axes) :]
    return _np(array).broadcast_to(array, (*array.shape[:lead], *sizes, *local))


def _merged(axes: Axes, spec: Any, array: Any, lead: int) -> Any:
    """The reverse: an axis over which nothing is split has the same on all devices, and the first is taken."""
    entries = list(_entries(axes, spec, array.ndim - lead - len(axes)))
    used = [name for entry in entries for name, _ in entry]
    kept = [name for name, _ in axes if name in used]
    index: list[Any] = [slice(None)] * lead
    for name, _ in axes:
        index.append(slice(None) if name in used else 0)
    array = array[tuple(index)]
    order = list(range(lead))
    shape = list(array.shape[:lead])
    for dim, entry in enumerate(entries, lead + len(kept)):
        order += [lead + kept.index(name) for name, _ in entry]
        order.append(dim)
        devices = math.prod(count for _, count in entry)
        shape.append(array.shape[dim] * devices)
    return array.transpose(*order).reshape(shape)
