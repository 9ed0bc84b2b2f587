"""What the engine saw of the functions of one module, kept where somebody asks how to annotate them."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardlint import ir
from shardlint.values import Value


@dataclass(frozen=True)
class Returned:
    """A result of a function, and what was known of its parameters by then, each by its name; ``names`` are those that
    dimensions have in its annotations, and in the fields of its class."""

    result: Value
    parameters: dict[str, Value]
    names: frozenset[str]


@dataclass
class Signatures:
    """Of each function that was checked as one of the global view, by its node: all that it returns."""

    returned: dict[int, list[Returned]] = field(default_factory=dict)
    manual: set[int] = field(default_factory=set)
    """Those that were run as manual code, by their nodes, of which nothing is kept."""
    finished: set[int] = field(default_factory=set)
    """Those that were followed to their end, by their nodes."""

    def keep(
        self,
        node: ir.Function,
        result: Value,
        variables: dict[str, Value],
        names: frozenset[str],
    ) -> None:
        """A function returns."""
        parameters = {}
        for one in node.params:
            if one.name in variables:
                parameters[one.name] = variables[one.name]
        found = self.returned.setdefault(node.at, [])
        found.append(Returned(result, parameters, names))
