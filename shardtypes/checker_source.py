"""Writes the checker of a function: one straight piece of Python for the plain case of its signature.

It passes what is certainly right, and calls the general checks for everything else: what is wrong, so that they word
it, and what is unusual, so that they judge it. It never decides by itself that something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardtypes.checker_parts import Checked, Writer
from shardtypes.checker_text import Text, Unusual
from shardtypes.known_shardings import Last
from shardtypes.sites import Site


@dataclass(frozen=True)
class Source:
    """A checker as text, the constants that it mentions, and where its variables hold the sizes of names."""

    text: str
    constants: dict[str, Any]
    variables: dict[str, str]
    places: dict[str, tuple[Site, int] | str]
    has_own_names: bool
    # The shardings that it compares by identity.
    lasts: tuple[Last, ...]
    # How many arrays it counts in a call: in its arguments, and in its result.
    arrays: tuple[int, int]


_ARGUMENTS_FAIL = "return slowly(args, kwargs)"
_RESULT_FAILS = "return check_result(locals())"


def write_checker(
    parameters: Sequence[Checked], result: Checked | None, arrays_only: bool
) -> Source:
    """The checker of a function with these parameters. Raises ``Unusual``."""
    writer = Writer(arrays_only)
    text = writer.text
    variables = [text.fresh(parameter.name) for parameter in parameters]
    with text.block("def checked(args, kwargs):", always=True):
        text.line(
            "__tracebackhide__ = True  # pytest shows the call, not how it was checked"
        )
        with text.block("if not is_plain():"):
            text.line(_ARGUMENTS_FAIL)
        with text.block("if stats.recording and record.epoch is not stats.epoch:"):
            text.line("record.begin()")
        text.line("compared = arrays = 0")
        text.line("unplaced = ()")
        text.line("mesh = None")
        writer.begin()
        writer.fail = _ARGUMENTS_FAIL
        _write_arguments(text, parameters, variables)
        for parameter, variable in zip(parameters, variables, strict=True):
            writer.value(parameter, variable)
        writer.names.compare_own(_ARGUMENTS_FAIL)
        of_arguments = writer.arrays
        variables_of_call = dict(writer.names.variables)
        _write_counts(writer, "calls", "record.calls(arrays, compared)")
        _write_call(text)
        if result is not None:
            _write_result(writer, result)
        text.line("return result")
    writer.names.end()
    return Source(
        str(text),
        text.constants,
        variables_of_call,
        writer.names.places,
        writer.has_own_names,
        tuple(writer.lasts),
        (of_arguments, writer.arrays - of_arguments),
    )


@dataclass(frozen=True)
class Halves:
    """The checker of a function that others call, as text: one function checks the arguments, and another, given the
    sizes that the first returned, the result."""

    text: str
    constants: dict[str, Any]
    # The variables of the sizes, in the order in which they are returned.
    returned: tuple[str, ...]
    variables: dict[str, str]
    places: dict[str, tuple[Site, int] | str]


def write_halves(
    parameters: Sequence[tuple[Any, Checked | None]],
    result: Checked | None,
    arrays_only: bool,
) -> Halves:
    """The checker of a function with these parameters: the annotation of each, and its check where it holds arrays.

    Raises ``Unusual``.
    """
    writer = Writer(arrays_only)
    text = writer.text
    with text.block("def arguments_pass(arguments):", always=True):
        _begin_half(writer, "not is_plain()", "return None")
        _write_values(text, parameters, writer)
        _end_half(writer)
        returned = _variables_of(writer)
        text.line(f"return ({''.join(f'{name}, ' for name in returned)})")
    variables, places = dict(writer.names.variables), dict(writer.names.places)
    if result is not None:
        with text.block("def result_passes(result, sizes):", always=True):
            writer.names.open_again()
            _begin_half(writer, "rules_in_force()", "return False")
            if returned:
                text.line(f"({''.join(f'{name}, ' for name in returned)}) = sizes")
            writer.value(result, "result")
            _end_half(writer)
            text.line("return True")
    if writer.has_own_names:
        raise Unusual("values that name sizes by themselves")
    return Halves(str(text), text.constants, returned, variables, places)


def _begin_half(writer: Writer, is_unusual: str, fails: str) -> None:
    text = writer.text
    writer.fail = fails
    writer.counts_arrays = writer.counts_unplaced = False
    text.line("__tracebackhide__ = True")
    with text.block(f"if stats.recording or {is_unusual}:"):
        text.line(fails)
    text.line("compared = arrays = 0")
    text.line("unplaced = ()")
    text.line("mesh = None")
    if not writer.has_begun:
        writer.begin()


def _write_values(
    text: Text, parameters: Sequence[tuple[Any, Checked | None]], writer: Writer
) -> None:
    """The values of a call and their annotations, which it evaluates anew, and the checks of those that hold arrays."""
    names = [
        (text.fresh(f"argument_{at}"), text.fresh(f"type_{at}"))
        for at in range(len(parameters))
    ]
    pairs = "".join(f"({value}, {annotation}), " for value, annotation in names)
    text.line(f"{pairs}= arguments.values()")
    for (annotation, _), (_, variable) in zip(parameters, names, strict=True):
        known = text.constant(f"known_{variable}", annotation)
        with text.block(f"if {variable} is not {known} and {variable} != {known}:"):
            text.line(writer.fail)
    for (_, checked), (variable, _) in zip(parameters, names, strict=True):
        if checked is not None:
            writer.value(checked, variable)


def _end_half(writer: Writer) -> None:
    if writer.counts_unplaced:
        with writer.text.block("if unplaced:"):
            writer.text.line("count_unplaced(unplaced)")


def _variables_of(writer: Writer) -> tuple[str, ...]:
    names = writer.names
    places = [place for place in names.places.values() if isinstance(place, str)]
    return (*names.variables.values(), *places)


def _write_arguments(
    text: Text, parameters: Sequence[Checked], variables: Sequence[str]
) -> None:
    """Give each argument that is checked to a variable."""
    positions = [parameter.position for parameter in parameters]
    if not positions:
        return
    if None in positions:
        _write_arguments_by_name(text, variables)
        return
    last = max(position for position in positions if position is not None)
    with text.block(f"if len(args) > {last}:", always=True):
        for variable, position in zip(variables, positions, strict=True):
            text.line(f"{variable} = args[{position}]")
    with text.block("else:", always=True):
        _write_arguments_by_name(text, variables)


def _write_arguments_by_name(text: Text, variables: Sequence[str]) -> None:
    text.line("found = arguments_by_name(args, kwargs)")
    with text.block("if found is None:"):
        text.line(_ARGUMENTS_FAIL)
    text.line(f"({', '.join(variables)},) = found")


def _write_call(text: Text) -> None:
    text.comment("the call; who asks for its sizes meanwhile puts their table there")
    text.line("tables = []")
    with text.block("try:", always=True):
        text.line("result = function(*args, **kwargs)")
    with text.block("except ShardTypeError as error:"):
        text.line("error.left_call(())")
        text.line("raise")
    with text.block("if tables:"):
        text.line(_RESULT_FAILS)


def _write_result(writer: Writer, result: Checked) -> None:
    text = writer.text
    writer.fail = _RESULT_FAILS
    writer.counts_arrays = writer.counts_unplaced = False
    with text.block("if rules_in_force():"):
        text.line(_RESULT_FAILS)
    text.line("compared = arrays = 0")
    text.line("unplaced = ()")
    text.line("mesh = None")
    writer.value(result, "result")
    writer.names.compare_own(_RESULT_FAILS)
    _write_counts(writer, "results", "record.results(arrays, compared)")


def _write_counts(writer: Writer, what: str, several: str) -> None:
    """Count the checks that were made, and those that could not be."""
    text = writer.text
    if writer.counts_unplaced:
        with text.block("if unplaced:"):
            text.line("count_unplaced(unplaced)")
    with text.block("if stats.recording:"):
        if what == "calls":
            with text.block("if record.is_watched:"):
                text.line("record.show(args, kwargs)")
        text.line(several if writer.counts_arrays else f"next({what}[compared])")
