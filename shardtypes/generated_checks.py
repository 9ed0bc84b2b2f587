"""The checkers that are made of a function's signature, and what they call.

Each is Python, made once its function was called some times; ``source`` shows it, and so do tracebacks and debuggers.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from jax._src.array import ArrayImpl  # the class of every concrete array
from jax._src.interpreters.partial_eval import (
    DynamicJaxprTracer,
)  # that of jit's tracers
from jax.sharding import SingleDeviceSharding
from typeguard import TypeCheckError, _suppression

from shardtypes import _stats, switches
from shardtypes.accepted_dtypes import accepts
from shardtypes.array_check import abandon
from shardtypes.checker_parts import Checked
from shardtypes.checker_source import Source, write_checker
from shardtypes.errors import ShardTypeError
from shardtypes.kept_checkers import KeptCheckers
from shardtypes.known_shardings import WITHOUT_MESH, count_unplaced, mesh_here
from shardtypes.logical_rules import rules_in_force
from shardtypes.meshes import GLOBAL_VIEW, NO_ABSTRACT_MESH, current_view
from shardtypes.scopes import Table, innermost_table
from shardtypes.sites import Site
from shardtypes.switches import said_here
from shardtypes.typeguard_checks import Checker

# What runs the checks in another way: the arguments of a call by position and by name.
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]

MISSING = object()
_HOME = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Signature:
    """What a checker is made of."""

    function: Any
    shown: Any  # what those who watch are shown for it: as it was before checks were put into its body
    code: CodeType | None
    name: str  # with the module
    parameters: tuple[Checked, ...]
    defaults: tuple[Any, ...]  # of the parameters; ``MISSING`` where there is none
    result: Checked | None
    arrays_only: bool
    slowly: Call
    check_arguments: Callable[[tuple[Any, ...], dict[str, Any], Table], None]


class Generated:
    """The checker of one function."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._source = source = write_checker(
            signature.parameters, signature.result, signature.arrays_only
        )
        self.text = source.text
        self.function_code = signature.code
        record = Record(signature, source)
        names = {
            **source.constants,
            "__shardtypes_checker__": self,
            "function": signature.function,
            "slowly": signature.slowly,
            "record": record,
            "calls": record.tally.calls,
            "results": record.tally.results,
            "check_result": self._check_result,
            "arguments_by_name": self._arguments_by_name,
        }
        module = getattr(signature.function, "__module__", "")
        made = run_checker(source.text, signature.name, names, module)
        self.call: Call = made["checked"]

    def table(self, frame: FrameType) -> Table | None:
        """The table of a call of which the checker runs in a frame; None before the function itself runs."""
        names = frame.f_locals
        return None if "tables" not in names else self._table(names)

    def _table(self, names: Mapping[str, Any]) -> Table:
        tables: list[Table] = names["tables"]
        if not tables:
            table = Table(self.function_code)
            fill(table, self._source.variables, self._source.places, names)
            tables.append(table)
            if self._source.has_own_names:
                tables[0].deferred = self._waiting(names["args"], names["kwargs"])
        return tables[0]

    def _waiting(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What values name by themselves, which is compared with what the call names later."""
        table = Table(self.function_code)
        with _stats.repeated():
            try:
                self._signature.check_arguments(args, kwargs, table)
            except TypeCheckError:  # the function has changed one of them meanwhile
                return []
        return table.deferred

    def _check_result(self, names: Mapping[str, Any]) -> Any:
        """Check the result in the general way, and return it."""
        __tracebackhide__ = True
        result, checked = names["result"], self._signature.result
        table = self._table(names)
        try:
            if checked is not None:
                checked.check(result, table, current_view(), checked.site)
            if table.deferred:
                abandon(table)
        except ShardTypeError as error:
            error.left_call(())
            raise
        return result

    def _arguments_by_name(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Any] | None:
        """The arguments that are checked; None where one is missing."""
        found = []
        defaults = self._signature.defaults
        for parameter, default in zip(
            self._signature.parameters, defaults, strict=True
        ):
            at = parameter.position
            if at is not None and at < len(args):
                found.append(args[at])
            else:
                found.append(kwargs.get(parameter.name, default))
        return None if any(value is MISSING for value in found) else found


def fill(
    table: Table,
    variables: Mapping[str, str],
    places: Mapping[str, tuple[Site, int] | str],
    values: Mapping[str, Any],
) -> None:
    """Put the sizes into a table that a checker has in its variables, by name, and where each comes from."""
    for name, variable in variables.items():
        size = values.get(variable)
        if size is None:
            continue
        place = places[name]
        table.places[name] = values[place] if isinstance(place, str) else place
        if name.startswith("*"):
            table.variadics[name[1:]] = size
        else:
            table.sizes[name] = size


def run_checker(
    text: str, name: str, names: Mapping[str, Any], module: str
) -> dict[str, Any]:
    """What the text of a checker defines, which may mention ``names`` and what all checkers are given. ``module`` is
    that of the function."""
    made = {**_GIVEN, **names}
    exec(_compiled(text, name, module), made)
    return made


class Record:
    """What is noted of the calls of one function while recording is on."""

    __slots__ = (
        "_arrays",
        "_function",
        "_lasts",
        "_name",
        "epoch",
        "is_watched",
        "tally",
    )

    def __init__(self, signature: Signature, source: Source) -> None:
        self._name = signature.name
        self._function = signature.shown
        self._lasts = source.lasts
        self._arrays = source.arrays
        self.tally = _stats.tally(signature.name, *source.arrays)
        self.epoch: object = None
        self.is_watched = False

    def begin(self) -> None:
        """Note everything anew: there are other counters, or others who watch."""
        for last in self._lasts:
            last.forget()
        self.is_watched = _stats.is_watched()
        self.epoch = _stats.epoch

    def show(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Show a call to those who watch, unless they have seen enough."""
        seen_enough = _stats.see_call(self._name, self._function, args, kwargs)
        self.is_watched = not seen_enough

    def calls(self, arrays: int, compared: int) -> None:
        """Count a call with arrays in containers."""
        _stats.count_function(self._name)
        self._count(self._arrays[0] + arrays, compared)

    def results(self, arrays: int, compared: int) -> None:
        """Count a result with arrays in containers."""
        self._count(self._arrays[1] + arrays, compared)

    def _count(self, shapes: int, compared: int) -> None:
        if shapes:
            _stats.count("shape", shapes)
        if compared:
            _stats.count("sharding", compared)


def is_plain() -> bool:
    """Whether nothing around a call makes its checks others than those of its signature."""
    table = innermost_table()
    return (
        (table is None or not table.shared)
        and said_here() is None
        and switches.on_by_default
        and not _suppression.type_checks_suppressed
        and not rules_in_force()
    )


def passes(check: Checker, value: Any) -> bool:
    """Whether a value passes a check that knows nothing of arrays."""
    try:
        check(value, Table(), GLOBAL_VIEW, _NOWHERE)
    except TypeCheckError:
        return False
    return True


_NOWHERE = Site("", "")
_GIVEN = {
    "__name__": __name__,
    "__builtins__": builtins,
    "Array": ArrayImpl,
    "Traced": DynamicJaxprTracer,
    "INT": frozenset((int,)),
    "NO_MESH_IN_TYPE": NO_ABSTRACT_MESH,
    "OneDevice": SingleDeviceSharding,
    "WITHOUT_MESH": WITHOUT_MESH,
    "ShardTypeError": ShardTypeError,
    "accepts": accepts,
    "count_unplaced": count_unplaced,
    "is_plain": is_plain,
    "mesh_here": mesh_here,
    "passes": passes,
    "rules_in_force": rules_in_force,
    "stats": _stats,
}


@functools.lru_cache(maxsize=4096)
def _compiled(text: str, name: str, module: str) -> CodeType:
    """The code of a checker, whose lines tracebacks and debuggers find."""
    file = _file(name)
    number = 1
    while file in linecache.cache:  # another function of this name
        number += 1
        file = _file(f"{name}, {number}")
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    loader = getattr(sys.modules.get(module), "__loader__", None)
    kept: KeptCheckers | None = getattr(loader, "checkers", None)
    if kept is not None:
        return kept.code(text, file)
    return compile(text, file, "exec")


def _file(name: str) -> str:
    # In the folder of the package, so that what leaves the package's lines out of reports leaves out these.
    return os.path.join(_HOME, f"<checks of {name}>")
