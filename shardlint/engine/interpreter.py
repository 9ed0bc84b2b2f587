"""The abstract interpreter, as the code that it evaluates with sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from shardlint import ir
from shardlint.changed_modules import Changed, changed_modules
from shardlint.changes import mutated_names
from shardlint.engine.after_errors import Again, left_over
from shardlint.engine.class_index import ClassIndex
from shardlint.engine.frames import Frame
from shardlint.engine.parameter_ranks import Constants, Rank
from shardlint.engine.regions import Regions
from shardlint.engine.sharding.placed import Placement
from shardlint.engine.types import ArrayType, Type
from shardlint.events import Event
from shardlint.jax_version import NEWEST, Version
from shardlint.logical_rules import RuleList
from shardlint.made_axes import MadeAxes
from shardlint.ops import OpContext, OpError
from shardlint.ops.sharding import ShardingError, View
from shardlint.ops.sharding.explicit import configured, explicit_axes
from shardlint.project import (
    AXES,
    CHANGES,
    CLASSES,
    Project,
    canonical,
)
from shardlint.sent import Recorder
from shardlint.signatures import Signatures
from shardlint.values import (
    ArrayValue,
    ClassValue,
    ExternalValue,
    FunctionValue,
    MeshValue,
    Unknown,
    Value,
)
from shardlint.walking import nodes_of
from shardtypes.lang import Dim, Facts, Size
from shardtypes.lang.frozen import frozen

MAX_STEPS = 24_000

_T = TypeVar("_T")


class StepLimit(Exception):
    """A function took more steps than one analysis may."""


@frozen
class LeftFields:
    """What the constructors of a class leave in every instance. Sizes that are numbered from ``first`` to ``last`` are
    new for each caller; ``parts`` are how many values are in the fields, and in one another."""

    fields: tuple[tuple[str, Value], ...] = ()
    first: int = 0
    last: int = 0
    parts: int = 0


class Interpreter(ABC):
    """What is known while the bodies of one module are evaluated over abstract values, and the events found there.

    How expressions, statements and calls are evaluated is left to ``Evaluator``: they need each other, and rooms for
    libraries need them through this class alone.
    """

    def __init__(
        self,
        project: Project,
        mesh: Mapping[str, int | None] | None = None,
        rules: Sequence[RuleList] = (),
        explicit: Sequence[str] | bool = (),
        jax: Version = NEWEST,
        target: str = "",
    ) -> None:
        self.project = project
        self.mesh = dict(mesh or {})
        # the configured mesh, where it has explicit axes
        self.configured = configured(self.mesh, explicit)
        self.rules = tuple(rules)
        self.jax = jax  # the release that the program is for
        self.placements: dict[int, Placement] = {}
        self.declared_layouts: dict[int, tuple[ArrayValue, ArrayType]] = {}
        # what was found wrong; what follows from it is not told
        self.wrong_places: set[tuple[str, int]] = set()
        # by call of a mapped function: over which axes something is wrong inside of it, and with its result
        self.wrong_inside: dict[tuple[str, int], set[str]] = {}
        self.wrong_results: dict[object, tuple[tuple[str, int], set[str]]] = {}
        self.types: dict[tuple[str, int, int], Type] = {}
        self.keep: list[ir.Expr] = []
        self.fields_of: dict[
            tuple[ClassValue, tuple[Dim, ...], tuple[Type, ...]], dict[str, Type]
        ] = {}
        self._names = _OfFunctions(_names_in)
        self._changed = _OfFunctions(_names_changed_in)
        self.modules: dict[str, Frame] = {}
        self.annotated_axes: dict[int, frozenset[str]] = {}  # by function
        self.axes_spoken_of: dict[str, frozenset[str]] = {}  # in annotations, by module
        # by definition, and strings that are given: what its body tells of its parameters
        self.learned_ranks: dict[
            tuple[int, Constants], tuple[ir.Function, Mapping[str, Rank]]
        ] = {}
        # arrays whose shape an annotation of a result says, and nothing else, by their ids
        self.promises: dict[int, tuple[ArrayValue, ArrayType]] = {}
        self.libraries: dict[str, frozenset[str]] = {}  # what each module imports
        # signatures of functions that have several, by module
        self.overloads: dict[str, dict[int, tuple[ir.Function, ...]]] = {}
        self.statics: dict[tuple[str, str], object] = {}
        self.events: dict[object, Event] = {}
        # the keys of those that were found in a function as it was called
        self.borrowed: set[object] = set()
        # by function, and its view
        self.own_findings: dict[object, frozenset[tuple[str, tuple[str, int]]]] = {}
        # what assigned names are, by node
        self.seen: dict[tuple[int, str], tuple[str, Value]] = {}
        # and used ones, if wanted
        self.uses: dict[tuple[int, str], tuple[str, Value]] | None = None
        # what expressions are that give arrays, by node, if wanted
        self.arrays: dict[tuple[int, str], tuple[str, Value]] | None = None
        self.unmodelled: dict[str, int] = {}
        # functions whose analysis was cut off, and how often
        self.cut: dict[str, int] = {}
        self.target = target  # the module under analysis
        self.stack: list[tuple[str, int, ir.Function | ir.Lambda]] = []
        # arguments of the calls being evaluated, by function
        self.active: dict[int, list[dict[str, Value]]] = {}
        # what manual code takes from outside, and how it sees that
        self.taken: dict[object, tuple[Value, Value]] = {}
        self.memo: dict[object, tuple[Value, Value | None, int]] = {}
        # the instance that the last method evaluated in place left behind
        self.left: Value | None = None
        # the place of the call whose result is awaited
        self.awaited: int | None = None
        # of the functions that are being evaluated in place
        self.callers: list[Frame] = []
        # calls of functions whose gradients a rule gives that may reduce them
        self.by_hand = 0
        # functions with rules for their gradients that certainly do not
        self.local_rules: set[int] = set()
        # functions (nodes) whose results were found to lie otherwise than ``jit`` asks
        self.judged: set[int] = set()
        # calls being evaluated whose functions a library runs, or JAX traces
        self.tracing = 0
        # as a transformation leaves a function
        self.tracers: dict[tuple[FunctionValue, str], FunctionValue] = {}
        # what is called now may be called any number of times, or with copies
        self.traced = False
        self.generic: dict[ClassValue, LeftFields] = {}
        # functions that were not followed to the end of a call, and how often
        self.unfinished: dict[str, int] = {}
        # functions with loops that were not followed to the end, and how often
        self.given_up: dict[str, int] = {}
        self.steps, self.limit = 0, MAX_STEPS
        # how many calls were being evaluated when what has these steps began
        self.base = 0
        self.counter = 0
        # how many values are in that of the annotation which is being read
        self.parts = 0
        # of the code that is being evaluated; None where it is global, or not known
        self.view: View | None = None
        # axes along which devices differ in what they run, where
        self.apart: Mapping[str, tuple[str, int]] | None = {}
        # with explicit axes, on which the function under analysis runs
        self.explicit: MeshValue | None = None
        # how those of a module that is applied in manual code lie
        self.parameters: ArrayValue | None = None
        self.regions = Regions(project, target)
        # what collectives send, if somebody asks
        self.sends: Recorder | None = None
        self.arms: dict[tuple[str, int], tuple[Value, tuple[Value, ...]]] = {}
        """What conditional expressions gave last, by their places: what is known of both values, and each by itself."""
        self.signatures: Signatures | None = None

    # --- bookkeeping --------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.limit:
            raise StepLimit

    def left_steps(self) -> int:
        """How many steps what is being evaluated may still take."""
        return self.limit - self.steps

    @contextmanager
    def at_most(self, steps: int) -> Iterator[None]:
        """What is evaluated here may take no more steps than these."""
        before, self.limit = self.limit, min(self.limit, self.steps + steps)
        try:
            yield
        finally:
            self.limit = before

    @contextmanager
    def entered(self, call: tuple[str, int, ir.Function | ir.Lambda]) -> Iterator[None]:
        """A call that is being evaluated, for as long as it is."""
        self.stack.append(call)
        try:
            yield
        finally:
            self.stack.pop()

    @contextmanager
    def awaiting(self, expr: ir.Expr) -> Iterator[None]:
        """An expression whose value is awaited at once, for as long as it is evaluated."""
        outer, self.awaited = self.awaited, expr.at
        try:
            yield
        finally:
            self.awaited = outer

    def fresh(self, name: str) -> Size:
        """A size that nothing explains."""
        self.counter += 1
        return Size.symbol(f"?{name.lstrip('?')}.{self.counter}")

    def named(self, name: str) -> Size:
        """A size of which only its name in the program is known; messages say it."""
        self.counter += 1
        return Size.symbol(f"?{name}#{self.counter}")

    def report(
        self,
        frame: Frame,
        code: str,
        at: int,
        message: str,
        witness: Mapping[str, int] | None = None,
        related: tuple[tuple[str, int, str], ...] = (),
        span: tuple[int, int] | None = None,
    ) -> None:
        """Record a finding; one inside another module goes to the call in this one that led there."""
        if frame.silent:
            return
        if frame.module != self.target:
            site = next(
                ((m, a) for m, a, _ in reversed(self.stack) if m == self.target), None
            )
            if site is None:
                return
            related = (*related, (frame.module, at, "here"))
            at, span = site[1], None
        if at < 0:
            return
        event = Event(code, at, message, dict(witness or {}), related, span)
        borrowed = len(self.stack) > self.base + 1
        if event.key not in self.events or (
            event.key in self.borrowed and not borrowed
        ):
            self.events[event.key] = event
            (self.borrowed.add if borrowed else self.borrowed.discard)(event.key)

    def op_error(
        self,
        frame: Frame,
        error: OpError,
        at: int,
        operands: Sequence[ir.Expr] = (),
        name: str = "",
        values: Sequence[Value] = (),
        again: Again | None = None,
    ) -> Value:
        """Report what an operation of that name on ``values`` raised; gives what is known of its result all the same.
        ``again`` is the operation on other values."""
        place = at
        if error.operand is not None and error.operand < len(operands):
            place = operands[error.operand].at
        if (
            isinstance(error, ShardingError)
            and error.where is not None
            and error.where[0] == frame.module
        ):
            place = error.where[1]
        related = (*error.related, *self._declarations(values))
        self.report(frame, error.code, place, error.message, error.witness, related)
        if again is None:
            return Unknown("an error was reported here")
        frame.silent += 1
        try:
            return left_over(name, error, values, again)
        finally:
            frame.silent -= 1

    def _declarations(self, values: Sequence[Value]) -> Iterator[tuple[str, int, str]]:
        """The annotations that the shapes of values were taken from, as related places of a finding."""
        for value in values:
            known = self.promises.get(id(value))
            if known is not None and known[0] is value:
                yield known[1].declared

    def context(self, frame: Frame, at: int = -1) -> OpContext:
        def call(
            func: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
        ) -> Value:
            return self.call(frame, func, list(args), dict(kwargs), at)

        mesh = frame.mesh if self.view is None and explicit_axes(frame.mesh) else None
        return OpContext(
            frame.facts,
            call,
            False,
            self.mesh,
            self.view,
            (frame.module, at),
            explicit=mesh,
        )

    # --- what is evaluated ----------------------------------------------------------------------------------------

    @abstractmethod
    def evaluate(self, frame: Frame, expr: ir.Expr) -> Value:
        """The abstract value of an expression."""

    @abstractmethod
    def assign(self, frame: Frame, target: ir.Expr, value: Value) -> None:
        """Assign a value to a name, an attribute, an item, or several of them."""

    @abstractmethod
    def block(self, frame: Frame, body: tuple[ir.Stmt, ...]) -> bool:
        """Run statements; whether control comes past them."""

    @abstractmethod
    def apply(
        self,
        frame: Frame,
        qualname: str,
        args: list[Value],
        kwargs: dict[str, Value],
        at: int,
    ) -> Value:
        """A modelled function; the facts it adds stay on the path."""

    @abstractmethod
    def note_unmodelled(self, value: Value) -> None:
        """Count a value that is unknown since nothing models what gave it."""

    @abstractmethod
    def call(
        self,
        frame: Frame,
        func: Value,
        args: list[Value],
        kwargs: dict[str, Value],
        at: int,
        places: tuple[int, ...] = (),
        operands: tuple[ir.Expr, ...] = (),
    ) -> Value:
        """The result of calling an abstract function value. ``operands`` are the expressions of the arguments, those
        by keyword last, and ``places`` their nodes."""

    @abstractmethod
    def call_function(
        self,
        frame: Frame,
        func: FunctionValue,
        args: list[Value],
        kwargs: dict[str, Value],
        at: int,
        places: tuple[int, ...],
    ) -> Value:
        """Call a function of the program: by its signature, or by its body."""

    @abstractmethod
    def in_place(
        self, frame: Frame, func: FunctionValue, bound: dict[str, Value], at: int
    ) -> Value:
        """The result of a body with these arguments."""

    @abstractmethod
    def decorated(self, frame: Frame, function: FunctionValue) -> Value:
        """The function as its decorators leave it."""

    @abstractmethod
    def binary(
        self, frame: Frame, op: str, left: Value, right: Value, at: int
    ) -> Value:
        """``left op right``, with a finding at the node ``at``."""

    @abstractmethod
    def attribute(self, frame: Frame, value: Value, name: str, at: int) -> Value:
        """``value.name``."""

    @abstractmethod
    def left_by_constructors(
        self, cls: ClassValue, declared: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        """What the constructors of a class leave in every instance, beside the ``declared`` fields."""

    @abstractmethod
    def fields(self, cls: ClassValue) -> dict[str, tuple[ir.AnnAssign, str]]:
        """Annotated fields with the module of each, those of bases first."""

    # --- modules --------------------------------------------------------------------------------------------------

    @abstractmethod
    def resolve_static(self, expr: ir.Expr, module: str) -> object:
        """What a dotted name in an annotation stands for."""

    @abstractmethod
    def static_name(self, module: str, name: str) -> object:
        """What a name of a module stands for, without evaluating the module."""

    @abstractmethod
    def module_member(self, module: str, name: str) -> Value:
        """``module.name`` of a project module."""

    @abstractmethod
    def module_frame(self, module: str) -> Frame:
        """The evaluated module level, silent unless it is the module under analysis."""

    def arms_of(self, module: str, at: int, value: Value) -> tuple[Value, ...]:
        """What the expression at a place, which gave this value, may have given: one value unless it is conditional."""
        known = self.arms.get((module, at))
        if known is None or known[0] is not value:
            return (value,)
        return known[1]

    # --- names --------------------------------------------------------------------------------------------------

    def external(self, qualname: str) -> ExternalValue:
        return ExternalValue(canonical(qualname))

    @property
    def classes(self) -> ClassIndex:
        """What the project does with its classes."""
        return self.project.note(
            CLASSES, lambda: ClassIndex(self.project.own_outlines())
        )

    @property
    def changes(self) -> Changed:
        """What the project changes of its modules when they have run."""
        return self.project.note(
            CHANGES, lambda: changed_modules(self.project), meanwhile={}
        )

    def on_other_mesh(self, axis: str) -> bool:
        """Whether code of the project makes an axis that the configured mesh has not."""
        return (
            bool(self.mesh) and axis not in self.mesh and axis in self.made_axes.names
        )

    @property
    def made_axes(self) -> MadeAxes:
        """The meshes, and other axes, that code of the project makes."""
        return self.project.note(AXES, self.project.made_axes)

    def names_in(self, node: ir.Function | ir.Lambda) -> tuple[str, ...]:
        """The names that a function reads or binds anywhere in it, in order."""
        return self._names(node)

    def names_changed_in(self, node: ir.Function | ir.Lambda) -> frozenset[str]:
        """The names of what a function changes in place itself, or something in it."""
        return self._changed(node)

    def keep_facts(self, frame: Frame, ctx: OpContext) -> None:
        """Facts that an op found hold from here on. That something divides a size which nothing explains is left
        out: it decides nothing, and would keep every comparison near it undecided."""
        facts = ctx.facts
        if facts is not frame.facts:
            added = [
                f
                for f in facts.items
                if f.kind != "divides" or _decides(facts, f.left, f.right)
            ]
            frame.facts = (
                facts
                if len(added) == len(facts.items)
                else replace(facts, items=tuple(added))
            )


class _OfFunctions(Generic[_T]):
    """What is made of a function's text, once for each."""

    def __init__(self, make: Callable[[ir.Function | ir.Lambda], _T]) -> None:
        self._make = make
        self._known: dict[int, tuple[ir.Function | ir.Lambda, _T]] = {}

    def __call__(self, node: ir.Function | ir.Lambda) -> _T:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._make(node))
        return known[1]


def _names_in(node: ir.Function | ir.Lambda) -> tuple[str, ...]:
    return tuple(sorted({one.id for one in nodes_of((node,), ir.Name)}))


def _names_changed_in(node: ir.Function | ir.Lambda) -> frozenset[str]:
    return frozenset(mutated_names((node,)))


def _decides(facts: Facts, left: Size, right: Size) -> bool:
    """Whether what divides what can tell sizes apart: nothing in it is open, nor from another vocabulary."""
    return not (left.is_opaque or right.is_opaque) and facts.comparable(
        left.symbols | right.symbols
    )
