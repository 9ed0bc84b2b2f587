"""What guarded code calls: attributes, operators, loops."""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

import numpy as np

from shardlint.evaluation.errors import NotEvaluable, OutOfBudget
from shardlint.evaluation.guarded_code import is_closed
from shardlint.evaluation.held import content
from shardlint.evaluation.layouts import Layouts
from shardlint.evaluation.recording import Alike, Place, Recorder, Where
from shardlint.evaluation.row_orders import RowOrder
from shardlint.evaluation.sending import Sending
from shardtypes.semantics import work
from shardtypes.semantics.array import Array, Shape, SizesDiffer
from shardtypes.semantics.local_sizes import axes_of_product, computed, operated
from shardtypes.semantics.lowerings.collectives import bound
from shardtypes.semantics.simulated import Axes, is_of_examples

ENTRIES = 10_000  # of an array, that take as long to compute as a step
ENTRIES_OF_NUMPY = (
    10_000  # of an array of NumPy's own, of which there is one for all devices
)
WORK = 40  # of what is computed, in the units in which it is told, that takes as long as a step
ITEM = "[]"
"""What gave a value that is an item of something."""
TOO_MANY_STEPS = "too many steps"
_OURS = tuple(
    str(Path(path).parents[1]) + os.sep
    for path in (__file__, computed.__code__.co_filename)
)
# entries of a sequence, and digits of a number, that a program may make at once
LARGE = 1_000_000


class Change(Protocol):
    """Another function to call at an expression, and another value for what it gave."""

    def function(self, function: Any, /) -> Any: ...

    def value(self, value: Any, /) -> Any: ...

    @property
    def needs_recorder(self) -> bool:
        """Whether it is made in a run that is recorded alone."""


@dataclass(slots=True)
class Surroundings:
    """What a program finds, and sets, outside of itself: the flags of its command line, variables of its environment,
    and the files and folders that it made, of which some folders were empty before."""

    flags: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    new_folders: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One evaluation: the steps that are left, the work that is not yet a step, what was computed where, in order, and
    what is changed of the program; ``alike`` are the draws that all devices made with the same key. With
    ``takes_varying`` it goes on where JAX refuses a result that varies and is returned as replicated. Mapped functions
    are given their rows in a ``row_order``, if there is one. ``idles`` tells that some ``pmean``, ``pmax`` or ``pmin``
    was given what all devices hold alike. What gradients send is kept in ``sending``, if that is asked for. ``rounds``
    are those that each ``while_loop`` made until it ended."""

    steps: int
    work: int = field(default=0, init=False)
    recorder: Recorder | None = None
    changes: Mapping[Where, Change] = field(default_factory=dict)
    surroundings: Surroundings = field(default_factory=Surroundings)
    alike: Alike = field(default_factory=Alike)
    takes_varying: bool = False
    row_order: RowOrder | None = None
    sending: Sending | None = None
    idles: bool = False
    layouts: Layouts = field(default_factory=Layouts)
    rounds: list[int] = field(default_factory=list)

    def tell_reduction(self, operand: Array, axes: Axes) -> None:
        """Remember whether a reduction changes nothing."""
        is_idle = _is_idle(operand, axes)
        self.idles |= is_idle
        if self.recorder is not None:
            self.recorder.tell_reduction(is_idle)

    def tell_draw(self, key: Array, shape: Shape) -> None:
        """Remember a draw, or keys that are split, where all devices have the same key."""
        draw = _alike(key, shape)
        if draw == Alike():
            return
        self.alike = self.alike.also(draw)
        if self.recorder is not None:
            self.recorder.tell_draw(draw)


def _is_idle(array: Array, axes: Axes) -> bool:
    """Whether it changes nothing to reduce an array over mesh axes: all devices along them hold the same by what it is
    computed from, and its type says so too where types keep track."""
    several = {axis for axis in axes if axis[1] > 1}
    if not several or any(map(is_of_examples, several)) or array.value is None:
        return False
    varying = several & (array.varying or frozenset())
    return not varying and several.isdisjoint(array.value.axes)


def _alike(key: Array, shape: Shape) -> Alike:
    value = key.value
    if value is None:
        return Alike()
    is_mapped = any(map(is_of_examples, value.axes))
    if not shape and not is_mapped:
        return Alike()
    axes = bound().axes.values()
    same = frozenset(name for name, size in axes if not value.differs_along(name, size))
    shards = axes_of_product(*shape)
    others = same - shards
    mapped = others if is_mapped else frozenset[str]()
    return Alike(shards & same, others, mapped)


_run: ContextVar[Run | None] = ContextVar("shardlint_run", default=None)


def row_order() -> RowOrder | None:
    """The order in which mapped functions are given their rows in this run; None for the program's own."""
    run = _run.get()
    return None if run is None else run.row_order


def takes_varying() -> bool:
    """Whether a result that varies may be returned as replicated in this run."""
    run = _run.get()
    return run is not None and run.takes_varying


@contextmanager
def running(run: Run) -> Iterator[Run]:
    """Evaluate in the block with these bounds."""
    token = _run.set(run)
    try:
        with work.telling(_count_work):
            yield run
    finally:
        _run.reset(token)


def _count_work(units: int) -> None:
    """Count what one function of ours computes: a layer or a gradient is a call, and as much as many steps."""
    run = _run.get()
    if run is None:
        return
    steps, run.work = divmod(run.work + units, WORK)
    if steps:
        tick(steps)


def tick(cost: int = 1) -> bool:
    """Count a step. Raises OutOfBudget."""
    run = _run.get()
    if run is None:
        raise NotEvaluable("code that runs outside of an evaluation")
    run.steps -= cost
    if run.steps < 0:
        raise OutOfBudget(TOO_MANY_STEPS)
    return True


def tell_rounds(number: int) -> None:
    """Remember how many rounds a loop made that ends when something is so."""
    run = _run.get()
    if run is not None:
        run.rounds.append(number)


def rounds_so_far() -> tuple[int, ...]:
    """How many rounds each such loop made."""
    run = _run.get()
    return () if run is None else tuple(run.rounds)


def surroundings() -> Surroundings:
    """What is outside of the program under way."""
    run = _run.get()
    if run is None:
        raise NotEvaluable("code that runs outside of an evaluation")
    return run.surroundings


def layouts() -> Layouts:
    """How the arrays of the evaluation under way lie."""
    run = _run.get()
    return Layouts() if run is None else run.layouts


def sending() -> Sending | None:
    """What is told of collectives in the evaluation under way, if anything is."""
    run = _run.get()
    return None if run is None else run.sending


def recorder() -> Recorder | None:
    """What records the values of the evaluation under way, if anything does."""
    run = _run.get()
    return None if run is None else run.recorder


class Resolver:
    """Attributes of objects by type; ``user`` tells whether a class is the program's own."""

    def __init__(self) -> None:
        self.of_type: dict[type, Callable[[Any, str], Any]] = {}

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``. Raises NotEvaluable where the program may not, or cannot, have it."""
        for cls in type(value).__mro__:
            found = self.of_type.get(cls)
            if found is not None:
                return found(value, name)
        if is_users(value):
            return _of_user(value, name)
        raise NotEvaluable(f"the attribute {name} of a {type(value).__name__}")


MARK = "__shardlint_user__"
"""The attribute by which a class is the program's own, or may be used as such."""
NAMES = "__shardlint_names__"
"""The attribute by which a class of the program knows the names of its module."""


def is_users(value: Any) -> bool:
    """Whether an object is of a class of the program, is one, or is a function of it."""
    cls = value if isinstance(value, type) else type(value)
    return any(MARK in vars(base) for base in cls.__mro__)


def _of_user(value: Any, name: str) -> Any:
    if is_closed(name):
        raise NotEvaluable(f"the attribute {name}")
    if name == "__dict__":
        return dict(vars(value))
    return getattr(value, name)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
}


def operate(path: str, place: Place, name: str, left: Any, right: Any) -> Any:
    """``left op right``, within bounds."""
    left, right = content(left), content(right)
    if name.endswith("=") and isinstance(left, np.ndarray) and isinstance(right, Array):
        right = np.asarray(right)  # NumPy changes its array in place
    if not isinstance(left, Array) and not isinstance(right, Array):
        symbol = name.rstrip("=")
        _bounded(symbol, left, right)
        return within_bounds(
            operated(symbol, _OPERATORS[name], left, right, (path, place))
        )
    return _of_arrays(path, place, name, _OPERATORS[name], left, right)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def compare(path: str, place: Place, name: str, left: Any, right: Any) -> Any:
    """``left op right``, a comparison."""
    comparison = _COMPARISONS[name]
    if not isinstance(left, Array) and not isinstance(right, Array):
        return comparison(left, right)
    left, right = content(left), content(right)
    return _of_arrays(path, place, name, comparison, left, right)


def _of_arrays(
    path: str,
    place: Place,
    name: str,
    function: Callable[[Any, Any], Any],
    left: Any,
    right: Any,
) -> Any:
    """What an operator gives, one of whose operands is an array."""
    where = Where(path, place)
    told = sending()
    try:
        with nullcontext() if told is None else told.at(where):
            value = changed(where, function)(left, right)
    except SizesDiffer as error:
        _blame(error, (left, right))
        raise
    return note(path, place, name, value, (left, right))


def _blame(error: SizesDiffer, given: Sequence[Any]) -> None:
    """Tell an error which arrays of the program it is about: those of the innermost expression."""
    error.operands = error.operands or tuple(
        one for one in given if isinstance(one, Array)
    )


def _bounded(name: str, left: Any, right: Any) -> None:
    """Refuse what would take all memory or time: powers, shifts, and sequences many times over."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        refuse_size(entries_made(name, left, right))
    if isinstance(left, int) and isinstance(right, int):
        digits = left.bit_length()
        too_large = (name == "**" and digits * abs(right) > 10_000) or (
            name == "<<" and right > 10_000
        )
        too_large |= name == "*" and digits + right.bit_length() > 100_000
    elif name == "*":
        sequence, times = (left, right) if hasattr(left, "__len__") else (right, left)
        too_large = (
            isinstance(times, int)
            and hasattr(sequence, "__len__")
            and len(sequence) * times > LARGE
        )
    elif name == "%":
        too_large = isinstance(left, (str, bytes))
        if too_large and isinstance(left, str) and len(left) < 1000 and "*" not in left:
            too_large = any(
                part.isdigit() and int(part) > 1000 for part in _digits(left)
            )
    else:
        too_large = False
    if too_large:
        raise NotEvaluable("a number, a string or a sequence beyond all bounds")


def within_bounds(value: Any) -> Any:
    """A value, unless it is an array of NumPy's beyond all bounds: the program's steps bound how many there are."""
    if isinstance(value, np.ndarray):
        refuse_size(value.size)
        tick(value.size // ENTRIES_OF_NUMPY)
    return value


def refuse_size(entries: int) -> None:
    """Raises NotEvaluable for an array of so many entries if these are too many."""
    if entries > 10 * LARGE:
        raise NotEvaluable("an array beyond all bounds")


def entries_made(name: str, left: Any, right: Any) -> int:
    """How many entries an operator makes of two arrays; 0 where NumPy will refuse them."""
    a: tuple[int, ...] = np.shape(left)
    b: tuple[int, ...] = np.shape(right)
    if name == "@":
        if len(a) < 2 or len(b) < 2:
            return max(math.prod(a), math.prod(b))
        a, b = (*a[:-1], 1), (*b[:-2], 1, b[-1])
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return 0
    return math.prod(shape)


def _digits(text: str) -> list[str]:
    return "".join(c if c.isdigit() else " " for c in text).split()


def call(path: str, place: Place, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)``."""
    given = (*map(content, args), *map(content, kwargs.values()))
    run = _run.get()
    where = Where(path, place)
    called = (
        function if run is None or not run.changes else _changed(run, where, function)
    )
    try:
        with _noted_call(run, where, function, args, kwargs):
            value = called(*args, **kwargs)
    except SizesDiffer as error:
        _blame(error, given)
        raise
    if getattr(value, "where", MARK) is None:  # a PartitionSpec that was made here
        value.where = where
    is_number = isinstance(value, (int, float, np.generic))
    if is_number and code_of(function) is None and not _adds_up(function):
        value = computed(value, *given)
    return note(path, place, function, value, given)


def _adds_up(function: Any) -> bool:
    """Whether it is the sum over devices, which makes the size of the whole of local sizes."""
    return getattr(function, "qualname", "") == "jax.lax.psum"


def code_of(function: Any) -> CodeType | None:
    """The code of a function of the program, or of what it binds arguments of."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__code__", None)


def _definition(function: Any) -> CodeType | None:
    """The code of the function of the program that a transformation is of, or of the function itself."""
    code = code_of(function)
    while code is not None and code.co_filename.startswith(_OURS):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            break
        code = code_of(function)
    return code


def _changed(run: Run, where: Where, function: Any) -> Any:
    """The function to call there instead of one, or itself: a change is of the call, or of whoever calls it."""
    change = run.changes.get(where)
    code = code_of(function)
    if change is None and code is not None:
        change = run.changes.get(Where.of_definition(code))
    return function if change is None else change.function(function)


def changed(where: Where, function: Any) -> Any:
    """The function that makes something there instead of one, or itself."""
    run = _run.get()
    return (
        function if run is None or not run.changes else _changed(run, where, function)
    )


def _noted_call(
    run: Run | None,
    where: Where,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> AbstractContextManager[None]:
    """Remember in the block that a function of the program is called there."""
    if run is not None and run.sending is not None:
        return run.sending.at(where)
    code = code_of(function)
    if run is None or run.recorder is None or code is None:
        return nullcontext()
    inner = getattr(function, "__wrapped__", function)
    if not isinstance(inner, functools.partial):
        run.recorder.note_parameters(code, args, kwargs)
    return run.recorder.called(where)


def mapped_call() -> AbstractContextManager[None]:
    """In the block a mapped function runs."""
    run = _run.get()
    return (
        nullcontext()
        if run is None or run.recorder is None
        else run.recorder.called(None)
    )


def item(path: str, place: Place, value: Any) -> Any:
    """``value``, which is an item of something."""
    if isinstance(value, Array):
        return note(path, place, ITEM, value, ())
    return within_bounds(value)


def note(path: str, place: Place, what: Any, value: Any, given: Sequence[Any]) -> Any:
    """Count the work, and remember what a function or an operator gave where that is asked for."""
    run = _run.get()
    if run is None:
        return value
    if isinstance(value, Array) and value.value is not None:
        tick(value.value.entries // ENTRIES)
    within_bounds(value)
    if run.changes:
        change = run.changes.get(Where(path, place))
        value = value if change is None else change.value(value)
    return (
        value
        if run.recorder is None
        else run.recorder.note(path, place, what, value, given)
    )


def note_argument(function: Any, value: Any, spec: Where | None = None) -> Any:
    """Remember what a function of the program is given on each device, where it is called, and where the spec is made
    that says so."""
    run = _run.get()
    code = _definition(function)
    if run is None or run.recorder is None or code is None:
        return value
    where = Where.of_definition(code)
    noted = run.recorder.note(where.path, where.place, function, value)
    if not isinstance(noted, Array):
        return noted
    if spec is not None:
        run.recorder.specs.update(dict.fromkeys(noted.sources, spec))
    called = run.recorder.callers[-1] if run.recorder.callers else None
    if called is not None:
        run.recorder.calls.update(dict.fromkeys(noted.sources, called))
    return noted


def note_rule(rule: Any, cotangents: Any) -> Any:
    """Remember what a backward rule of the program gave."""
    run = _run.get()
    code = code_of(rule)
    if run is None or run.recorder is None or code is None:
        return cotangents
    where = Where.of_return(code, backward=True)
    change = run.changes.get(where)
    if change is not None:
        cotangents = change.value(cotangents)
    return run.recorder.note_rule(where, rule, cotangents)


def note_cotangent(value: Array, cotangent: Array) -> Array:
    """Remember the cotangent of what an expression gave, where that is asked for."""
    run = _run.get()
    if run is not None and run.sending is not None:
        run.sending.go_back(value)
    if run is None or run.recorder is None:
        return cotangent
    where = run.recorder.backward(value)
    change = None if where is None else run.changes.get(where)
    if change is not None:
        cotangent = change.value(cotangent)
    return run.recorder.note_cotangent(value, cotangent)
