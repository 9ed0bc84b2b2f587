"""What the tools answer. Agents read the schemas that are made of these classes, and their docstrings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shardlint.api import Finding


@dataclass(frozen=True)
class Checked:
    """What a check found. ``not_read`` are sentences about work that could not be done: while there are some, no
    finding does not mean that there is none. ``left_out`` are files and folders that the settings leave out. ``more``
    findings are not listed."""

    findings: tuple[Finding, ...]
    more: int
    files: int
    not_read: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A rule: its page as Markdown, and the address of that."""

    code: str
    name: str
    page: str
    url: str


@dataclass(frozen=True)
class KnownName:
    """What is known of a name or an attribute. Lines and columns start at 1.

    ``type`` is as an annotation writes it, ``f32['B/d M']``; ``why`` says why nothing is known. Of arrays ``sizes`` are
    those of all devices together, by dimension, ``sharding`` the mesh axes of each dimension, ``pending`` those over
    which it is a partial sum. ``local`` is what one device has where the mesh is known. ``bytes`` and ``local_bytes``
    are numbers, or products of the names of sizes.
    """

    name: str
    line: int
    column: int
    type: str
    why: str | None
    sizes: tuple[str, ...] | None = None
    sharding: tuple[tuple[str, ...], ...] | None = None
    pending: tuple[str, ...] = ()
    local: str | None = None
    bytes: int | str | None = None
    local_bytes: int | str | None = None


@dataclass(frozen=True)
class Typed:
    """The names at a place. ``note`` says why there are none, or what of the file does not parse."""

    names: tuple[KnownName, ...]
    note: str | None


@dataclass(frozen=True)
class OtherLine:
    """Another line that explains a verdict."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Culprit:
    """The line where a program departs from what one device computes, or where knowledge ends."""

    file: str
    line: int
    text: str
    operation: str
    message: str
    related: tuple[OtherLine, ...]


@dataclass(frozen=True)
class Difference:
    """One number of the result that differs: ``path`` names the result."""

    path: str
    on_devices: str
    on_one: str
    message: str


@dataclass(frozen=True)
class Proved:
    """A verdict on one mesh and for arguments of these shapes; ``mesh`` are its axes, ``arguments`` the arrays by
    parameter, ``names`` the sizes that were chosen for names. ``proved`` is the share of the program for which the
    relation of devices to one device is known; ``agrees`` whether both gave the same numbers. ``moves`` are rows of
    place, array, and the line's text."""

    verdict: Literal["proved", "refuted", "could not tell"]
    reason: str
    mesh: Mapping[str, int]
    arguments: Mapping[str, tuple[str, ...]]
    names: Mapping[str, int]
    assumed: tuple[str, ...]
    proved: float
    agrees: bool | None
    culprit: Culprit | None
    numbers: Difference | None
    moves: tuple[tuple[str, ...], ...]
