"""The communicating instructions of a compiled XLA module, read from its serialised structure.

Field numbers are those of XLA's ``hlo.proto`` and ``xla_data.proto``
(https://github.com/openxla/xla/tree/main/xla/service/hlo.proto). Where devices talk in groups, XLA writes the groups
in one of four forms, by version and by pass: one by one, one by one in a list, as a reshaped and transposed range,
or as axes of a mesh of XLA's own naming. All become plain groups here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardtypes.protobuf import Message

Group = tuple[int, ...]

# XLA's opcode, without the suffix of the asynchronous form, to the name JAX users know the operation by.
KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-broadcast": "broadcast",
    "collective-permute": "ppermute",
    "reduce-scatter": "reduce_scatter",
}

# Bits of each PrimitiveType in xla_data.proto.
_BITS = {
    **dict.fromkeys((1, 2, 6, 19, 20, 23, 24, 25, 28, 29, 33), 8),
    **dict.fromkeys((3, 7, 10, 16), 16),
    **dict.fromkeys((4, 8, 11), 32),
    **dict.fromkeys((5, 9, 12, 15), 64),
    18: 128,
    **dict.fromkeys((21, 22, 32), 4),
    **dict.fromkeys((26, 27), 2),
}
_TUPLE = 13
# In the configuration of a loop, written by the analysis that counts its rounds.
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True)
class Communication:
    """One instruction through which devices talk.

    ``groups`` are positions in the program's device order that talk with each other; for a permutation they are
    (source, target) pairs. None where XLA wrote them in a form unknown here. ``bytes`` is the size of what one
    device receives as the result. ``rounds`` is how often it runs: in a loop, as often as XLA knows the loop to
    go round.
    """

    kind: str
    groups: tuple[Group, ...] | None
    bytes: int
    source: str | None
    rounds: int = 1


def communications(serialised: bytes, devices: int) -> tuple[Communication, ...]:
    """Every communicating instruction of a module that runs on ``devices`` devices, in the module's order.

    Raises ``protobuf.BadMessage`` for bytes that are no module.
    """
    module = Message.parse(serialised)
    frames = _Frames(module.message(17) or module.message(25))
    computations = list(module.messages(3))
    rounds = _rounds(computations, module.number(6))
    found = []
    for computation in computations:
        for instruction in computation.messages(2):
            opcode = instruction.text(2)
            started = opcode.endswith("-start")
            kind = KINDS.get(opcode.removesuffix("-start"))
            if kind is None:
                continue
            shape = instruction.message(3)
            metadata = instruction.message(7)
            found.append(
                Communication(
                    kind=kind,
                    groups=_groups(instruction, kind, devices),
                    bytes=0 if shape is None else _result_bytes(shape, kind, started),
                    source=None if metadata is None else frames.source(metadata),
                    rounds=rounds[computation.number(5)],
                )
            )
    return tuple(found)


def _rounds(computations: Sequence[Message], entry: int) -> Counter[int]:
    """How often each computation runs, by its number; those that are called come before their callers."""
    found = Counter({entry: 1})
    for computation in reversed(computations):
        times = found[computation.number(5)]
        for instruction in computation.messages(2):
            for called in instruction.numbers(38):
                found[called] += times * _trips(instruction)
    return found


def _trips(instruction: Message) -> int:
    """How often an instruction runs what it calls, as far as XLA knows."""
    known = _TRIPS.search(instruction.text(43))
    if instruction.text(2) != "while" or known is None:
        return 1
    return int(known[1])


def _result_bytes(shape: Message, kind: str, started: bool) -> int:
    parts = list(shape.messages(4))
    if started and kind in ("all_gather", "ppermute") and len(parts) >= 2:
        return _shape_bytes(parts[1])  # an asynchronous start also carries its operand
    return _shape_bytes(shape)


def _shape_bytes(shape: Message) -> int:
    element = shape.number(2)
    if element == _TUPLE:
        return sum(_shape_bytes(part) for part in shape.messages(4))
    return (math.prod(shape.numbers(3)) * _BITS.get(element, 0) + 7) // 8


def _groups(instruction: Message, kind: str, devices: int) -> tuple[Group, ...] | None:
    if kind == "ppermute":
        return tuple(
            (pair.number(1), pair.number(2)) for pair in instruction.messages(52)
        )
    if (axes := instruction.message(93)) is not None:
        return _mesh_groups(axes)
    if (iota := instruction.message(92)) is not None:
        return _iota_groups(iota)
    if (listed := instruction.message(87)) is not None:
        if (iota := listed.message(2)) is not None:
            return _iota_groups(iota)
        groups = tuple(tuple(group.numbers(1)) for group in listed.messages(1))
    else:
        groups = tuple(tuple(group.numbers(1)) for group in instruction.messages(49))
    return groups or (tuple(range(devices)),)  # no groups: everyone talks with everyone


def _iota_groups(iota: Message) -> tuple[Group, ...]:
    order = _iota(iota.numbers(3), iota.numbers(4))
    return _rows(order.reshape(iota.number(1), iota.number(2)))


def _iota(
    shape: list[int], order: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return (
        np.arange(math.prod(shape)).reshape(shape).transpose(order or range(len(shape)))
    )


def _mesh_groups(listed: Message) -> tuple[Group, ...] | None:
    mesh = listed.message(1)
    if mesh is None:
        return None
    sizes = [axis.number(2) for axis in mesh.messages(1)]
    ids = mesh.numbers(2)
    # the devices in order, as a grid whose dimensions are transposed
    if (iota := mesh.message(3)) is not None:
        ids = [int(i) for i in _iota(iota.numbers(1), iota.numbers(2)).ravel()]
    ids = ids or list(range(math.prod(sizes)))
    if len(ids) != math.prod(sizes) or not mesh.fields.keys() <= {1, 2, 3}:
        return None
    # An axis may take part with a slice of itself: (part before, part that talks, part after).
    shape: list[tuple[int, int, int]] = [(size, 1, 1) for size in sizes]
    for axis in listed.messages(2):
        at, part = axis.number(1), axis.message(2)
        if at >= len(sizes):
            return None
        before, talking = (
            (1, sizes[at]) if part is None else (part.number(1), part.number(2))
        )
        if (
            before < 1
            or talking < 1
            or sizes[at] % (before * talking)
            or shape[at] != (sizes[at], 1, 1)
        ):
            return None
        shape[at] = (before, talking, sizes[at] // (before * talking))
    talking_at = [3 * at + 1 for at in range(len(sizes))]
    others = [at for at in range(3 * len(sizes)) if at not in talking_at]
    grid = np.asarray(ids).reshape([size for triple in shape for size in triple])
    size = math.prod(triple[1] for triple in shape)
    return _rows(grid.transpose([*others, *talking_at]).reshape(-1, size))


def _rows(grid: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> tuple[Group, ...]:
    return tuple(tuple(int(device) for device in row) for row in grid)


class _Frames:
    """The table of source lines at the module's end; all its numbers count from 1."""

    def __init__(self, table: Message | None) -> None:
        self._files: Sequence[str] = () if table is None else table.texts(1)
        self._locations = () if table is None else tuple(table.messages(3))
        self._frames = () if table is None else tuple(table.messages(4))

    def source(self, metadata: Message) -> str | None:
        """``file:line`` of the user's code that an instruction came from."""
        if metadata.text(3):
            return f"{metadata.text(3)}:{metadata.number(4)}"
        frame = metadata.number(15)
        if not 1 <= frame <= len(self._frames):
            return None
        location = self._frames[frame - 1].number(1)
        if not 1 <= location <= len(self._locations):
            return None
        file, line = (
            self._locations[location - 1].number(1),
            self._locations[location - 1].number(3),
        )
        return (
            f"{self._files[file - 1]}:{line}" if 1 <= file <= len(self._files) else None
        )
