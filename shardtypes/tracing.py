"""``trace``: is a function right for all sizes? Asked of JAX's own rules, with no data and no devices.

A failure is certain only if it cannot be the caller's: at every size that the program accepts an annotation does not
hold, or the program accepts none, and JAX's rules for shapes say so wherever what it divides is divisible and what it
compares is in the order that it needs. Sizes are independent of each other: a program that needs two names to be equal
is wrong. A number that a configuration gives may be the size of a name.
"""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType

from shardtypes.array_types import array_annotation
from shardtypes.certainty import (
    auto_axes_refused,
    mesh_to_lie_on,
    missing_axes,
    needs_mesh,
    refuses,
    unbound_axis,
    user_place,
    whole_tracebacks,
    why_uncertain,
)
from shardtypes.checked import _MISSING, UNREADABLE, _closure, evaluated_hints
from shardtypes.checks_in_place import checks_in_place, reached
from shardtypes.dtypes import shape_of_type
from shardtypes.errors import ShapeStringError, ShardTypeError, TypeCheckError
from shardtypes.function_names import display_name
from shardtypes.given_meshes import mesh_of
from shardtypes.jaxtyping_types import translated
from shardtypes.kept_meshes import forgetting_meshes
from shardtypes.lang import Shape, format_witness
from shardtypes.lang.messages import axes_text, listed, mesh_without_axis
from shardtypes.meshes import axes_of_type, mesh_sizes
from shardtypes.trace_arguments import (
    Argument,
    arguments_of,
    combinations,
    numbers_in,
    shapes_of,
    sizes_of_examples,
)
from shardtypes.trace_calls import Call, Configured, Surroundings
from shardtypes.trace_fits import Known, numbers_called, numbers_of
from shardtypes.trace_forms import innermost, mappings
from shardtypes.trace_guesses import CannotTell, shown
from shardtypes.trace_own_names import (
    holds_own_names,
    joins_own_names,
    readable,
    stacked,
    with_own_names,
)
from shardtypes.trace_search import Search, Trial
from shardtypes.trace_sizes import Sizes, sizes_of
from shardtypes.trace_untracked import untracked

_AXES_AT_MOST = 8
_UNTRACKED = (
    "what leaves shard_map as replicated was not compared: with check_vma=False "
    "JAX does not track what varies"
)
# What stands for dimensions of any number.
_MORE_DIMENSIONS = (), (5,), (5, 7)


@dataclass(frozen=True)
class Verdict:
    """``ok`` is True, False, or None for *could not tell*; ``reason`` says why. ``proved`` is whether it was shown for
    all sizes; what holds without that was tried with two assignments of sizes. ``sizes`` is an assignment for which it
    fails and ``error`` what was raised there; ``result`` is the tree of ``ShapeDtypeStruct`` that the function
    returns."""

    ok: bool | None
    reason: str
    result: Any = None
    sizes: Mapping[str, int] | None = None
    error: Exception | None = None
    proved: bool = False

    def raise_if_failed(self) -> Verdict:
        """Raise what was found wrong, with the sizes as a note."""
        if self.ok is False:
            error = (
                self.error if self.error is not None else ShardTypeError(self.reason)
            )
            if self.sizes:
                error.add_note(f"fails for {format_witness(dict(self.sizes))}")
            raise error
        return self

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict has three values: use .ok, which is True, False or None"
        )


def trace(
    f: Callable[..., Any],
    /,
    *examples: Any,
    mesh: Any = None,
    sizes: Mapping[str, int] | None = None,
    **named: Any,
) -> Verdict:
    """Check an annotated function without running it.

    Arguments are made from the annotations. Of a method found in its class the object is made like any argument, if the
    class is a ``pytree_dataclass``; ``*args`` stand for two, and so do ``**named``.

    Args:
        f: The function.
        examples: Arguments to use in place of made ones; needed for parameters that are neither annotated arrays nor
            have a default, and for static fields without one.
        mesh: A mesh, concrete or abstract and of any size, or the sizes of its axes, as ``{'d': 2, 't': 4}`` or
            ``'d=2,t=4'`` (which are Explicit then). Shardings are checked where axes are Explicit.
        sizes: The sizes of names that are to be fixed.
        named: Arguments by name.
    """
    return trace_call(f, examples, named, _explicit_mesh(mesh), sizes or {})


def _explicit_mesh(mesh: Any) -> Any:
    """A mesh; sizes of axes as one of Explicit axes, which are part of JAX's types."""
    if mesh is None:
        return None
    given = isinstance(mesh, (str, Mapping))
    made, lengths = mesh_of(mesh)
    return _mesh_of(lengths, AxisType.Explicit) if given else made


def trace_call(
    f: Callable[..., Any],
    examples: tuple[Any, ...],
    named: Mapping[str, Any],
    mesh: Any = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Verdict:
    """The same, where parameters may have any names."""
    configured = _numbers_around(f)  # before the functions run their checked forms
    with whole_tracebacks(), checks_in_place(f) as left:
        verdict = _trace(f, examples, mesh, sizes, named, configured)
    if verdict.ok is True and left:
        reason = "; ".join([verdict.reason, *left])
        return replace(verdict, reason=reason, proved=False)
    return verdict


def _trace(
    f: Callable[..., Any],
    examples: tuple[Any, ...],
    mesh: Any,
    sizes: Mapping[str, int],
    named: Mapping[str, Any],
    configured: Configured,
) -> Verdict:
    name = display_name(innermost(f))
    try:
        calls = combinations(arguments_of(f, examples, named))
    except ShapeStringError as error:
        return Verdict(False, f"{name}: {error}", error=error)
    except (CannotTell, NameError, AttributeError, SyntaxError) as error:
        return Verdict(None, f"{name}: {error}")
    if len(calls) == 1:
        return _trace_call(name, f, calls[0][1], mesh, sizes, configured)
    verdicts: list[tuple[str, Verdict]] = []
    for words, parameters in calls:
        title = f"{name} with {words}"
        verdict = _trace_call(title, f, parameters, mesh, sizes, configured)
        if verdict.ok is False:
            return verdict
        # values that do not go together are no fault
        if not verdicts or not refuses(verdict.error):
            verdicts.append((title, verdict))
    title, weakest = min(
        verdicts, key=lambda pair: (pair[1].ok is not None, pair[1].proved)
    )
    if weakest.ok is None:
        return weakest
    tried = (
        " or ".join(words for words, _ in calls)
        if len(calls) < 4
        else f"{len(calls)} combinations of values"
    )
    reason = f"{name}: {weakest.reason.removeprefix(title + ': ')}; with {tried}"
    return replace(weakest, reason=reason, result=verdicts[0][1].result)


def _trace_call(
    name: str,
    f: Callable[..., Any],
    parameters: list[Argument],
    mesh: Any,
    sizes: Mapping[str, int],
    configured: Configured,
) -> Verdict:
    verdict = _of_names(name, f, parameters, mesh, sizes, configured)
    if verdict.ok is not False or not holds_own_names(parameters):
        return verdict
    for words, others in stacked(parameters):
        if _of_names(name, f, others, mesh, sizes, configured).ok:
            reason = (
                f"{name}: holds only where {words}, which its annotations do not say"
            )
            return replace(verdict, ok=None, reason=reason)
    apart = with_own_names(parameters)
    if apart is None:
        reason = f"{verdict.reason}; where parts of its arguments have other sizes it may hold: give an example"
        return replace(verdict, ok=None, reason=reason)
    other = _of_names(name, f, apart, mesh, sizes, configured)
    if other.ok is False:
        return verdict
    return replace(other, ok=None, reason=readable(other.reason))


def _of_names(
    name: str,
    f: Callable[..., Any],
    parameters: list[Argument],
    mesh: Any,
    sizes: Mapping[str, int],
    configured: Configured,
) -> Verdict:
    """The verdict where each name is one size in all arguments."""
    try:
        call = Call(
            f, parameters, mappings(f), result_of(f), Surroundings(mesh), configured
        )
        fixed = {**sizes_of_examples(f, parameters), **sizes}
        shapes = list(shapes_of(parameters))
    except (CannotTell, NameError, AttributeError, SyntaxError) as error:
        return Verdict(None, f"{name}: {error}")
    if not any(shape.variadic is not None for shape in shapes):
        return _surrounded(name, call, fixed, shapes, mesh)
    verdicts = [
        _surrounded(name, replace(call, more=more), fixed, shapes, mesh)
        for more in _MORE_DIMENSIONS
    ]
    if not any(verdict.ok or _is_broken(verdict) for verdict in verdicts):
        tied = _with_open_dimension_named(name, call, fixed, shapes, mesh)
        if tied is not None:
            return tied
    if len({verdict.ok for verdict in verdicts}) == 1:
        return max(verdicts, key=lambda verdict: not verdict.proved)
    # where the function itself refuses so many dimensions, it must not be called with them
    run = [v for v in verdicts if v.ok is not None or not refuses(v.error)]
    found, ok = next(v for v in verdicts if v.ok is not verdicts[0].ok), None
    if run and all(map(_is_broken, run)):
        found, ok = run[0], False
    more = next(
        m for m, v in zip(_MORE_DIMENSIONS, verdicts, strict=True) if v is found
    )
    words = f"{name} where {_open_dimensions(shapes)} is {more}"
    reason = f"{words}: {found.reason.removeprefix(name + ': ')}"
    return replace(found, ok=ok, reason=reason)


def _with_open_dimension_named(
    name: str, call: Call, fixed: Mapping[str, int], shapes: list[Shape], mesh: Any
) -> Verdict | None:
    """A verdict where what stands for any number of dimensions is one that has a name elsewhere, if it holds so: the
    annotations do not say that it is."""
    more = _MORE_DIMENSIONS[1]
    found: list[tuple[str, Verdict]] = []
    for symbol in _symbols(call.parameters, fixed):
        same = {**fixed, symbol: more[0]}
        verdict = _surrounded(name, replace(call, more=more), same, shapes, mesh)
        if verdict.ok is not False:
            found.append((symbol, verdict))
    if not found:
        return None
    # the fewer other needs the better
    symbol, best = min(found, key=lambda pair: (not pair[1].ok, len(pair[1].reason)))
    words = f"{_open_dimensions(shapes)} is {symbol}"
    if best.ok:
        reason = f"{name}: holds only where {words}, which its annotations do not say"
    else:
        reason = f"{name} where {words}: {best.reason.removeprefix(name + ': ')}"
    return replace(best, ok=None, reason=reason, proved=False)


def _is_broken(verdict: Verdict) -> bool:
    """Whether the function runs, and an annotation does not hold."""
    return verdict.ok is False and isinstance(verdict.error, TypeCheckError)


def _open_dimensions(shapes: list[Shape]) -> str:
    """```*batch```, or ```...```: what stands for any number of dimensions."""
    names = {
        dim.name for shape in shapes for dim in shape.dims if dim.kind == "variadic"
    }
    written = sorted("..." if name is None else f"*{name}" for name in names)
    return listed([f"`{name}`" for name in written])


def _surrounded(
    name: str, call: Call, fixed: Mapping[str, int], shapes: list[Shape], mesh: Any
) -> Verdict:
    """The verdict in the surroundings that a function needs."""
    verdict = first = _judged(name, call, fixed)
    axes = sorted({axis for shape in shapes for axis in shape.axes})
    for _ in range(_AXES_AT_MOST):
        around = _other_surroundings(verdict, call.around, mesh, axes)
        if around is None:
            break
        call = replace(call, around=around)
        verdict = _judged(name, call, fixed)
    if verdict is first:
        return first
    if verdict.error is not None and why_uncertain(verdict.error) is not None:
        return first
    names = ", ".join(mesh_sizes(call.around.mesh))
    where = (
        f"inside shard_map over {names}"
        if call.around.manual
        else f"on a mesh with axes {names}"
    )
    head, *rest = verdict.reason.split("\n", 1)
    return replace(verdict, reason="\n".join([f"{head} ({where})", *rest]))


def _other_surroundings(
    verdict: Verdict, now: Surroundings, mesh: Any, axes: list[str]
) -> Surroundings | None:
    """What the function needs around it, where its error says that it lacks something; None where it does not."""
    if verdict.ok is True or verdict.error is None:
        return None
    have = tuple(mesh_sizes(now.mesh))
    unbound = unbound_axis(verdict.error)
    if unbound is not None and not (now.manual and unbound in have):
        if mesh is not None:
            return (
                Surroundings(mesh, True) if unbound in have and not now.manual else None
            )
        return Surroundings(_mesh_over((*axes, *have, unbound)), True)
    if mesh is not None:
        return None
    own = mesh_to_lie_on(verdict.error)
    if own is not None:
        return Surroundings(own, now.manual) if now.mesh is None else None
    if now.mesh is None and needs_mesh(verdict.error):
        return Surroundings(_mesh_over(axes or ["x"]), now.manual)
    if (
        now.mesh is not None
        and auto_axes_refused(verdict.error)
        and axes_of_type(now.mesh, "Auto")
    ):
        return Surroundings(_mesh_over(have, AxisType.Explicit), now.manual)
    missing = [axis for axis in missing_axes(verdict.error) if axis not in have]
    if now.mesh is not None and missing:
        kind = (
            AxisType.Explicit if axes_of_type(now.mesh, "Explicit") else AxisType.Auto
        )
        return Surroundings(
            _mesh_over((*(axes if axes else ()), *have, *missing), kind), now.manual
        )
    return None


def _mesh_over(
    names: typing.Iterable[str], kind: AxisType = AxisType.Auto
) -> AbstractMesh:
    """Axes of two devices each, so that every one of them splits something."""
    return _mesh_of(dict.fromkeys(names, 2), kind)


def _mesh_of(lengths: Mapping[str, int], kind: AxisType) -> AbstractMesh:
    names = tuple(lengths)
    return AbstractMesh(tuple(lengths.values()), names, axis_types=(kind,) * len(names))


def result_of(f: Callable[..., Any]) -> Any:
    """The annotation of the result, None where there is none or it cannot be read: the checks say so."""
    inner = innermost(f)
    try:
        hints = evaluated_hints(inner)
    except UNREADABLE:
        return None
    return translated(hints.get("return"))


# --- judging --------------------------------------------------------------------------------------------------------


def _judged(name: str, call: Call, fixed: Mapping[str, int]) -> Verdict:
    try:
        symbols = _symbols(call.parameters, fixed)
        factors = _factors(call.parameters, call.around.mesh)
        search = Search(call)
        sizes = _meaningful(sizes_of(symbols, factors, fixed), call.parameters)
        with forgetting_meshes(any_mesh=True):
            search.run(sizes, _known(call), *_kinds_of_names(call.parameters))
    except CannotTell as error:
        return Verdict(None, f"{name}: {error}")
    if not search.wrong:
        if search.of("broken"):
            return _mixed(name, search)
        return _with_what_leaves(name, call, search, _right(name, search))
    verdict = _wrong(name, search)
    guessed = ", ".join(_guessed(call))
    if not any(a.guess is not None and a.guess.is_used for a in call.parameters):
        return verdict
    reason = f"{name} with {guessed}, a guess: {verdict.reason.removeprefix(name + ': ')}; give an example"
    return replace(verdict, ok=None, reason=reason)


def _right(name: str, search: Search) -> Verdict:
    silent = _silent(search.call)
    result = search.of("holds")[0].result
    unbound = dict.fromkeys(reason for path in search.paths for reason in path.unbound)
    if search.proved:
        reason = (
            f"{name}: holds for all sizes" + "".join(f"; {r}" for r in unbound) + silent
        )
        return Verdict(True, reason, search.paths[0].result, proved=not unbound)
    reason = f"{name}: holds for {_where(search)}"
    refused = search.of("refused")
    if refused:
        reason += f"; not for {_witness(refused[0])}: {_line(refused[0].error)}"
    return Verdict(True, reason + "".join(f"; {r}" for r in unbound) + silent, result)


def _with_what_leaves(
    name: str, call: Call, search: Search, verdict: Verdict
) -> Verdict:
    """The verdict with what is known of results that leave ``shard_map`` where JAX does not track what varies."""
    if call.around.manual:  # its annotations entered it, and the caller may reduce
        return verdict
    trial = search.of("holds")[0]
    with forgetting_meshes(any_mesh=True):
        found = untracked(call, trial.sizes)
    if found is None:
        return verdict
    if found.wrong is None:
        reason = f"{verdict.reason}; {_UNTRACKED}"
        return replace(verdict, reason=reason, proved=False)
    reason = f"{name}: fails for {_witness(trial)}: {found.wrong}"
    error = ShardTypeError(found.wrong)
    return Verdict(False, reason, None, trial.sizes, error)


def _where(search: Search) -> str:
    """The sizes for which it holds: all that have some needs where that is proved, else those that were tried."""
    held = sorted(
        (trial.sizes for trial in search.of("holds")),
        key=lambda sizes: list(sizes.values()).count(1),
    )
    proved = [path for path in search.paths if path.proved and path.sizes.needs]
    for path in proved:
        if all(numbers in held for numbers in path.sizes.trials()):
            return f"all sizes where {' and '.join(dict.fromkeys(path.sizes.needs))}"
    if search.proved_where:
        steps = map(format_witness, search.proved_where)
        return f"all sizes where {', and where '.join(steps)}"
    two = dict.fromkeys(format_witness(sizes) for sizes in held[:2])
    tried = "; ".join(two) or "the sizes given"
    if search.looped:
        numbers = ", ".join(sorted(search.looped))
        return f"{tried} (for all sizes it cannot be told: numbers were used for {numbers})"
    first = next((path.error for path in search.paths if path.error is not None), None)
    return (
        tried
        if first is None
        else f"{tried} (for all sizes it cannot be told: {_line(first)})"
    )


def _mixed(name: str, search: Search) -> Verdict:
    """It runs at all of these sizes, and its annotations hold at some: those may be all that its callers use."""
    trial = search.of("broken")[0]
    reason = f"{name}: holds for {_where(search)}, fails for {_witness(trial)}: {_line(trial.error)}"
    return Verdict(None, reason, search.of("holds")[0].result, trial.sizes, trial.error)


def _wrong(name: str, search: Search) -> Verdict:
    broken, refused = search.of("broken"), search.of("refused")
    if not broken and not refused:
        trial = search.of("meaningless")[0]
        reason = f"{name}: no sizes were found for which each dimension is positive: {_line(trial.error)}"
        return Verdict(None, reason, None, trial.sizes, trial.error)
    trial = broken[0] if broken else _furthest(refused)
    if search.beyond is not None:
        return Verdict(
            None, f"{name}: {why_uncertain(search.beyond)}", None, None, search.beyond
        )
    if search.only_where and not joins_own_names(search.only_where):
        equal = " and ".join(search.only_where)
        reason = f"{name}: holds only where {equal}, which its annotations do not say: {_line(trial.error)}"
        return Verdict(None, reason, None, trial.sizes, trial.error)
    if broken:
        return Verdict(False, _failure(name, trial), None, trial.sizes, trial.error)
    why = why_uncertain(trial.error)
    if why is not None:
        return Verdict(None, f"{name}: {why}", None, None, trial.error)
    if search.refused_everywhere:
        return Verdict(False, _failure(name, trial), None, trial.sizes, trial.error)
    alike = [found for found in refused if found.needs == trial.needs]
    other = next(
        (found for found in alike if _kind(found.error) != _kind(trial.error)), None
    )
    if other is not None:
        tried = f"{_witness(trial)}: {_line(trial.error)}; for {_witness(other)}: {_line(other.error)}"
        return Verdict(
            None, f"{name}: fails for {tried}", None, trial.sizes, trial.error
        )
    if not _seen_up_to(search, trial):
        reason = f"{name}: fails for {_witness(trial)}, and other sizes may do: {_line(trial.error)}"
        return Verdict(None, reason, None, trial.sizes, trial.error)
    return Verdict(False, _failure(name, trial), None, trial.sizes, trial.error)


def _furthest(refused: list[Trial]) -> Trial:
    """The trial in whose sizes the most is built in of what the program was seen to need."""
    return max(refused, key=lambda trial: (not trial.few, len(trial.needs)))


def _seen_up_to(search: Search, trial: Trial) -> bool:
    """Whether the program was followed with symbols up to where it fails with numbers."""
    place = user_place(trial.error)
    followed = [path for path in search.paths if not path.needs.integers]
    return any(
        path.error is None or user_place(path.error) == place for path in followed
    )


def _failure(name: str, trial: Trial) -> str:
    return (
        f"{name}: fails for {_witness(trial)}: {trial.error}"
        if trial.sizes
        else f"{name}: {trial.error}"
    )


def _witness(trial: Trial) -> str:
    return format_witness(trial.sizes) or "its arguments"


def _line(error: Exception | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _kind(error: Exception | None) -> tuple[type, str]:
    """What an error says, whatever the sizes."""
    return type(error), re.sub(r"\d+", "", _line(error))


def _silent(call: Call) -> str:
    """What a verdict must add: arguments that were supposed, and what was not compared."""
    supposed = [
        f"{a.parameter.name}={shown(a.value)}" for a in call.parameters if a.supposed
    ]
    supposed += _guessed(call)
    return "".join(f"; with {text}" for text in supposed) + _not_compared(
        call.parameters, call.around.mesh
    )


def _guessed(call: Call) -> list[str]:
    names = {symbol for shape in shapes_of(call.parameters) for symbol in _names(shape)}
    return [
        f"{a.parameter.name}={a.guess.words(names)}"
        for a in call.parameters
        if a.guess is not None
    ]


def _names(shape: Shape) -> set[str]:
    return {
        symbol
        for dim in shape.dims
        if dim.size is not None
        for symbol in dim.size.symbols
    }


def _not_compared(parameters: list[Argument], mesh: Any) -> str:
    """What a verdict must add where annotations name axes and JAX's types say nothing about them."""
    axes = sorted({axis for shape in shapes_of(parameters) for axis in shape.axes})
    if not axes:
        return ""
    if mesh is None:
        return "; shardings were not compared: pass a mesh with Explicit axes"
    left = [axis for axis in axes if axis not in axes_of_type(mesh, "Explicit")]
    if not left:
        return ""
    return f"; shardings over {axes_text(left)} were not compared: only Explicit axes are part of JAX's types"


def _symbols(parameters: list[Argument], sizes: Mapping[str, int]) -> list[str]:
    names: dict[str, None] = {}
    for shape in shapes_of(parameters):
        for dim in shape.dims:
            for symbol in sorted(dim.size.symbols) if dim.size is not None else ():
                names[symbol] = None
    return [name for name in names if name not in sizes]


def _meaningful(sizes: Sizes, parameters: list[Argument]) -> Sizes:
    """Sizes with which no dimension of an argument is negative, as ``'n-k'`` may be."""
    for shape in shapes_of(parameters):
        for dim in shape.dims:
            size = None if dim.size is None else dim.size.substitute(sizes.named)
            positive = (
                None if size is None or size.is_nonnegative else sizes.positive(size)
            )
            if positive is not None:  # no need of the program's
                sizes = replace(
                    positive, needs=sizes.needs, open=sizes.open, partial=False
                )
    return sizes


def _factors(parameters: list[Argument], mesh: Any) -> dict[str, int]:
    """By how much each name must be divisible, so that its axes split it evenly."""
    lengths = mesh_sizes(mesh)
    factors: dict[str, int] = {}
    for shape in shapes_of(parameters):
        for dim in shape.dims:
            for axis in dim.axes:
                if mesh is not None and axis not in lengths:
                    raise CannotTell(mesh_without_axis(axis, lengths))
            count = math.prod(lengths.get(axis, 1) for axis in dim.axes)
            for symbol in dim.size.symbols if dim.size is not None else ():
                factors[symbol] = math.lcm(factors.get(symbol, 1), count)
    return factors


def _known(call: Call) -> Known:
    """The numbers of the configurations that a function uses, its arguments' and those of its module, and the sizes of
    arrays that are given."""
    given = [a.value for a in call.parameters if a.value is not _MISSING]
    values: list[Any] = list(given)
    values += [value for argument in call.parameters for value in numbers_in(argument)]
    own = numbers_of(values) | call.configured.numbers
    literal = [
        d.size.constant
        for shape in shapes_of(call.parameters)
        for d in shape.dims
        if d.size is not None
    ]
    taken = {
        **_defaults(call.f),
        **{a.parameter.name: a.value for a in call.parameters},
    }
    called = numbers_called([taken, *taken.values()])
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree_util.tree_leaves(given)]
    return Known(
        own | numbers_of(literal) if own else own,
        call.configured.constants,
        called,
        frozenset(size for shape in shapes for size in shape),
    )


def _defaults(f: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(f).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _numbers_around(f: Callable[..., Any]) -> Configured:
    """The numbers that a function and those that it calls take from their defaults, from around them and from their
    modules."""
    constants: list[int] = []
    values: list[Any] = list(_defaults(f).values())
    for function in (called.function for called in reached(f)):
        values += [
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
        ]
        values += _closure(function).values()
        used = {
            name: function.__globals__[name]
            for name in function.__code__.co_names
            if name in function.__globals__
        }
        values += used.values()
        constants += [
            value
            for name, value in used.items()
            if name.isupper() and isinstance(value, int)
        ]
    return Configured(numbers_of(values), numbers_of(constants))


def _kinds_of_names(
    parameters: list[Argument],
) -> tuple[frozenset[str], frozenset[str]]:
    """The names of sizes that only annotations of the signature itself have, and those that none of these has."""
    arrays = [a for a in parameters if array_annotation(a.annotation) is not None]
    direct = {symbol for a in arrays for symbol in _names_of(a.annotation)}
    inside = {
        symbol
        for shape in shapes_of([a for a in parameters if a not in arrays])
        for symbol in _names(shape)
    }
    return frozenset(direct - inside), frozenset(inside - direct)


def _names_of(annotation: Any) -> set[str]:
    array = array_annotation(annotation)
    return set() if array is None else _names(shape_of_type(array))


__all__ = ["TypeCheckError", "Verdict", "trace"]
