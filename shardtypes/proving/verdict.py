"""What ``prove`` answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardtypes.proving.elsewhere import Shapes
from shardtypes.proving.intermediates import Intermediates
from shardtypes.proving.places import Place


class Refuted(AssertionError):
    """A program on several devices does not compute what it does on one."""


@dataclass(frozen=True)
class Where:
    """Where a program departs from what it means: the line, the operation, and ``what`` its operands were."""

    place: Place
    operation: str
    what: str
    related: tuple[tuple[Place, str], ...] = ()

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int:
        return self.place.line

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.what}"]
        if self.place.text:
            lines.append(f"    {self.place.text}")
        for place, text in self.related:
            lines.append(f"  {place}: {text}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Numbers:
    """One result that differs: its ``path``, numbers at one position of it, and the ``arguments`` that gave them."""

    path: str
    on_devices: float
    on_one: float
    off_by: float
    words: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Proof:
    """``ok`` is True (*proved*, for all values of the arguments), False (*refuted*, by numbers) or None (*could not
    tell*); ``reason`` says why.

    ``sizes`` are the axes of the mesh and ``shapes`` those of the arguments that it speaks of, and of no others;
    ``assumed`` is what was taken for granted. ``proved`` is the share of the program's operations for which the
    relation is known. Of a refuted program ``culprit`` is where it departs and ``numbers`` what differs; of one that
    could not be told ``culprit`` is where knowledge ends. ``agrees`` says whether devices and one device gave the same
    numbers; None where that was not tried.
    """

    ok: bool | None
    reason: str
    sizes: Mapping[str, int]
    assumed: tuple[str, ...] = ()
    proved: float = 0.0
    culprit: Where | None = None
    numbers: Numbers | None = None
    agrees: bool | None = None
    shapes: Shapes = ()
    follow: Callable[[], Intermediates] = field(
        default=Intermediates, repr=False, compare=False
    )
    others: Callable[[], tuple[Proof, ...]] = field(
        default=tuple, repr=False, compare=False
    )

    @property
    def intermediates(self) -> Intermediates:
        """How the arrays move over the mesh: what is known of the value that each line computes on the devices, as a
        table when printed. Worked out when asked for."""
        return self.follow()

    @property
    def elsewhere(self) -> tuple[Proof, ...]:
        """The verdicts on other meshes of the same axes (one axis twice or half as long, two exchanged), and on a mesh
        of three devices along each axis for larger arguments, as far as the program can be traced there. Each speaks
        of its own ``sizes`` and ``shapes``. Worked out when asked for: it takes as long again for each."""
        return self.others()

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict has three values: use .ok, which is True, False or None"
        )

    def raise_if_failed(self) -> Proof:
        """Raise ``Refuted`` if the program is refuted."""
        if self.ok is False:
            raise Refuted(str(self))
        return self

    def __str__(self) -> str:
        heads = {True: "proved", False: "refuted", None: "could not tell"}
        lines = [f"{heads[self.ok]}: {self.reason}"]
        if self.culprit is not None:
            lines.append(str(self.culprit))
        if self.ok is None and self.proved:
            lines.append(f"{self.proved:.0%} of the program is proved")
        if self.ok and self.assumed:
            lines.append(f"assumed: {'; '.join(self.assumed)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        if self.culprit is not None:
            where = f", culprit={str(self.culprit.place)!r}"
        else:
            where = ""
        sizes = dict(self.sizes)
        share = f"{self.proved:.2f}"
        return f"Proof(ok={self.ok}, reason={self.reason!r}, sizes={sizes}, proved={share}{where})"
