"""Where checked values were met, and where names got their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardtypes.lang.messages import stands_for


@dataclass(frozen=True, slots=True)
class Site:
    """Where a checked value was met: the function, and its role there (``"parameter 'x'"``, ``'the result'``)."""

    function: str
    role: str
    module: str = ""

    def __str__(self) -> str:
        return f"{self.function}: {self.role}" if self.function else self.role

    @property
    def is_variable(self) -> bool:
        """Whether it is an assignment to an annotated variable."""
        return self.role.startswith("variable ")

    @property
    def is_result(self) -> bool:
        """Whether it is what a function returns, or a part of that."""
        return self.role.startswith("the result")

    @property
    def qualified(self) -> str:
        """The function with its module, as reports of a whole project name it."""
        return (
            f"{self.module}.{self.function}"
            if self.module and self.function
            else self.function
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a name got its size."""

    site: Site
    dim: int | None

    def __str__(self) -> str:
        return (
            f"{self.site}" if self.dim is None else f"{self.site}, dimension {self.dim}"
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A name (``*name`` of a variadic dimension), its size (sizes), and where it got it."""

    name: str
    size: Any
    place: Binding

    def __str__(self) -> str:
        return f"{stands_for(self.name, self.size)}, bound by {self.place}"
