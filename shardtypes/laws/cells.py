"""What is known of a value when it is followed what depends on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shardtypes.laws.walk import Host


@dataclass(frozen=True)
class Depends:
    """``on`` has a dimension for the positions in front, ``values`` are those of the elements that are ``known``.

    An element that depends on something may be known to be minus infinity: any other number that is below the mask's.
    """

    on: Host
    known: Host
    values: Host | None = None


Cells: TypeAlias = list[Depends]
