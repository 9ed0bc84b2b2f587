"""The checkers that are generated for functions under typeguard's decorator or import hook.

typeguard asks us at each argument, and then for the result. A function that is called often gets two functions of its
own: one passes all arguments of a call at the first question, and keeps the sizes; the other passes the result. What
they do not pass is checked in the general way, at each question by itself, so that the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from typeguard import TypeCheckMemo

from shardtypes import switches
from shardtypes.annotation_checks import compile_part
from shardtypes.array_types import array_annotation, holds_arrays
from shardtypes.checker_parts import Checked
from shardtypes.checker_source import write_halves
from shardtypes.checker_text import Unusual
from shardtypes.dtypes import ArrayType
from shardtypes.generated_checks import fill, run_checker
from shardtypes.methods import names_no_sizes
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.strings_in_types import has_strings
from shardtypes.typeguard_checks import CONFIG

# The arguments by name, each with its annotation, as typeguard has them.
Arguments = Mapping[str, tuple[Any, Any]]


def _passes_nothing(value: Any, sizes: tuple[Any, ...]) -> bool:
    """In the place of what passes results, where there is none."""
    return False


class InstrumentedFunction:
    """What is known of one function that typeguard instrumented, and its checker once there is one."""

    def __init__(self, code: CodeType, module: str) -> None:
        self.code = code
        self._module = module
        self._calls = 0
        self._parameters: list[tuple[Any, Checked | None]] = []
        self._name = ""
        self._returned: tuple[str, ...] = ()
        self._variables: Mapping[str, str] = {}
        self._places: Mapping[str, tuple[Site, int] | str] = {}
        self._is_sizeless: Callable[[Any], bool] | None = None
        holder = code.co_qualname.rpartition(".")[0]
        if holder and not holder.endswith("<locals>") and code.co_argcount:
            self._is_sizeless = names_no_sizes(code.co_qualname, module)
        # The annotations that are checked at the first question about arguments.
        self._checked_types: list[Any] = []
        # Functions inside of others have names around them, which are counted at each call.
        self.is_local = "<locals>" in code.co_qualname
        self.parameters: frozenset[str] = frozenset()
        # typeguard's own functions stand for whoever calls these
        self._is_usual = module.partition(".")[0] != "typeguard"
        self._arguments_pass: Callable[[Arguments], tuple[Any, ...] | None] | None
        self._arguments_pass = None
        # Given the result and the sizes.
        self.result_passes: Callable[[Any, tuple[Any, ...]], bool] = _passes_nothing
        # The annotation that results are passed for; the arguments of one of an array, by which it is known.
        self._result_type: Any = None
        self.result_args: tuple[Any, ...] | None = None

    def sizes(self, entry: FrameType, frame: FrameType) -> tuple[Any, ...] | None:
        """The sizes of a call of which all arguments certainly pass; None for others.

        ``entry`` is the frame of typeguard's check of the arguments, ``frame`` that of the call.
        """
        passes = self._arguments_pass
        if passes is None:
            if not self._is_usual:
                return None
            self._calls += 1
            if self._calls <= switches.calls_before_generated:
                return None
            passes = self._generate(entry.f_locals)
            if passes is None:
                return None
        if self._is_sizeless is not None:
            value = frame.f_locals.get(self.code.co_varnames[0])
            if not self._is_sizeless(value):
                return None
        return passes(entry.f_locals["arguments"])

    def _generate(self, local: Mapping[str, Any]) -> Any:
        """Make the checker, from what typeguard has at a call. None where there is something unusual about it."""
        self._name = name = local["func_name"].rpartition("<locals>.")[2]
        arguments: Arguments = local["arguments"]
        self.parameters = frozenset(arguments)
        self._parameters = [
            (
                annotation,
                self._checked(
                    annotation, Site(name, f"parameter {each!r}", self._module)
                ),
            )
            for each, (_, annotation) in arguments.items()
        ]
        self._write(None)
        return self._arguments_pass

    def _checked(self, annotation: Any, site: Site) -> Checked | None:
        """How a value is checked by us; None for one that holds no arrays, which typeguard checks."""
        if has_strings(annotation):
            self._is_usual = False
        elif array_annotation(annotation) is not None or holds_arrays(annotation):
            check = compile_part(annotation, TypeCheckMemo({}, {}, config=CONFIG))
            self._checked_types += [annotation, array_annotation(annotation)]
            return Checked(annotation, check, site)
        return None

    def checks(self, annotation: Any) -> bool:
        """Whether a parameter has this annotation, and is checked: a class may turn out to hold arrays later."""
        return annotation in self._checked_types

    def passes_result(
        self, value: Any, annotation: Any, sizes: tuple[Any, ...]
    ) -> bool:
        """Whether the result of a call with these sizes certainly passes."""
        if self._result_type is None:
            self._learn_result(annotation)
        is_known = annotation is self._result_type or annotation == self._result_type
        return is_known and self.result_passes(value, sizes)

    def _learn_result(self, annotation: Any) -> None:
        """Have results of this annotation passed from now on, for none are asked about before there is one."""
        self._result_type = annotation
        site = Site(self._name, "the result", self._module)
        checked = None if has_strings(annotation) else self._checked(annotation, site)
        if checked is not None:
            self._write(checked)
        if type(annotation) is ArrayType:
            self.result_args = annotation.__args__

    def _write(self, result: Checked | None) -> None:
        if not self._is_usual:
            return
        try:
            halves = write_halves(self._parameters, result, switches.arrays_only)
        except Unusual:
            self._is_usual = result is not None
            return
        made = run_checker(
            halves.text,
            f"{self._module}.{self._name}",
            halves.constants,
            self._module,
        )
        self._returned = halves.returned
        self._variables, self._places = halves.variables, halves.places
        self._arguments_pass = made["arguments_pass"]
        self.result_passes = made.get("result_passes", _passes_nothing)

    def table(self, sizes: tuple[Any, ...]) -> Table:
        """The table of a call whose arguments passed."""
        table = Table()
        values = dict(zip(self._returned, sizes, strict=True))
        fill(table, self._variables, self._places, values)
        return table


# By the number of the code object, which each keeps: a code object takes long to hash.
_functions: dict[int, InstrumentedFunction] = {}


def instrumented(frame: FrameType) -> InstrumentedFunction:
    """What is known of the function that is called in a frame."""
    code = frame.f_code
    found = _functions.get(id(code))
    if found is None:
        module = frame.f_globals.get("__name__", "")
        if len(_functions) > 4096:  # programs may define functions without an end
            _functions.clear()
        found = _functions[id(code)] = InstrumentedFunction(code, module)
    return found
