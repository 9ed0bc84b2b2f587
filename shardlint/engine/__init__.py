"""The static engine: follows shapes through function bodies and says where a program certainly fails.

``analyze`` gives the findings of one module, ``types`` what is known of each of its names. Neither imports the
program, JAX, or libcst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from shardlint import ir, messages
from shardlint.engine import (
    classes,
    declared,
    enforcement,
    expected_errors,
    learned_ranks,
    mutation,
    stacked_trees,
    stale_states,
    statements,
    strings,
)
from shardlint.engine.annotations import resolve, yielded_type
from shardlint.engine.arguments import note_layout, parameter_value
from shardlint.engine.evaluator import Evaluator
from shardlint.engine.frames import Frame
from shardlint.engine.interpreter import Interpreter, StepLimit
from shardlint.engine.regions import Region, Regions
from shardlint.engine.sharding import explicit
from shardlint.engine.sharding.elsewhere import may_be_manual, views_of
from shardlint.engine.sharding.manual import annotated_axes, configured, own_view
from shardlint.engine.sharding.manual_entry import entered
from shardlint.engine.sharding.manual_exit import Change, certain
from shardlint.engine.sharding.signatures import says_axes
from shardlint.engine.shown import rows, see_end
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    MappingType,
    RepeatedType,
    Type,
    says_something,
)
from shardlint.engine.vocabulary import vocabularies, written
from shardlint.events import Event
from shardlint.jax_version import Version
from shardlint.logical_rules import RuleList
from shardlint.ops.sharding import View
from shardlint.project import Project
from shardlint.sent import Recorder
from shardlint.signatures import Signatures
from shardlint.values import (
    ArrayValue,
    ClassValue,
    FunctionValue,
    InstanceValue,
    Unknown,
    Value,
    is_unranked,
    number_in,
)
from shardtypes.lang import Bindings, Facts, Size
from shardtypes.lang.frozen import frozen

_Task: TypeAlias = "tuple[ir.Function, ClassValue | None, Frame]"
__all__ = ["Interpreter", "Part", "StepLimit", "analyze", "run", "types"]


# how many dimensions ``*name`` may stand for; none at all is a case of its own, seldom meant
_RANKS = (1, 2, 3)

#: Methods that run while there is no instance yet.
_MAKING = frozenset({"__init__", "__new__", "__init_subclass__"})


@frozen
class Given:
    """What arguments are taken for: the rank of what an open one stands for, and how many dimensions trees have in
    front, more than their classes say."""

    rank: int | None = None
    stacked: int = 0


class HasMesh(Protocol):
    """What the engine reads of the configuration: the mesh axes with their sizes, which of them are explicit, the lists
    of logical rules, and the release of JAX that the program is for."""

    @property
    def mesh(self) -> dict[str, int | None]: ...

    @property
    def logical_rules(self) -> tuple[RuleList, ...]: ...

    @property
    def explicit_axes(self) -> tuple[str, ...] | bool: ...

    @property
    def jax(self) -> Version: ...


def analyze(
    project: Project, module: ir.Module, config: HasMesh | None = None
) -> list[Event]:
    """The findings of one module, in order of their nodes."""
    return run(project, module, config).found()


def types(
    project: Project, module: ir.Module, config: HasMesh | None = None
) -> list[tuple[int, str, str, str | None]]:
    """(node, name, type, why it is unknown or None) of every assigned name of one module, in order."""
    return rows(run(project, module, config).it.seen)


def _regions(project: Project, module: ir.Module, config: HasMesh) -> Regions:
    """What an analysis of another module finds to be manual."""
    return run(project, module, config).it.regions


@frozen
class Part:
    """Some statements of a module: what is in them is checked, the rest is only looked at where that needs it.
    ``expects_errors`` tells whether the module expects an error anywhere."""

    body: tuple[ir.Stmt, ...]
    expects_errors: bool


class run:
    """One analysis of one module: its interpreter, with everything that it found; with ``uses``, what names are where
    they are used as well, and with ``arrays`` what expressions are that give some; of a ``part`` of it, if one is
    given. ``sends`` keeps what its collectives send, ``signatures`` what its functions return."""

    def __init__(
        self,
        project: Project,
        module: ir.Module,
        config: HasMesh | None = None,
        uses: bool = False,
        arrays: bool = False,
        part: Part | None = None,
        sends: Recorder | None = None,
        signatures: Signatures | None = None,
    ) -> None:
        self.it: Interpreter = Evaluator(project, target=module.name)
        if config is not None:
            self.it = Evaluator(
                project,
                config.mesh,
                config.logical_rules,
                config.explicit_axes,
                config.jax,
                module.name,
            )
        self.it.uses = {} if uses else None
        self.it.arrays = {} if arrays else None
        self.it.sends = sends
        self.it.signatures = signatures
        self.module = module
        checked = module.body if part is None else part.body
        self._expects_errors = (
            expected_errors.expects_any(module.body)
            if part is None
            else part.expects_errors
        )
        # by body, the names that are used only where errors are expected
        self._failing: dict[int, frozenset[str]] = {}
        frame = self.it.module_frame(module.name)
        strings.check_module(self.it, frame, replace(module, body=checked))
        stale_states.check(self.it, frame, module.body)
        later: list[_Task] = []
        for node, owner, closure in _functions(self.it, module.name, checked, frame):
            self._function(node, owner, closure, later)
        self._waiting()
        for node, owner, closure in later:
            if not self.it.regions.seen(node) and annotated_axes(
                self.it, node, module.name
            ):
                for view in views_of(self.it, node, _regions):
                    self.it.regions.add(
                        FunctionValue(node, module.name, closure, owner, node.name),
                        view,
                    )
        self._waiting()
        # what runs in the manual view is known by now
        for node, owner, closure in later:
            if not self.it.regions.seen(node):
                self._in_any_view(node, owner, closure)
        self._waiting(last=True)

    def _waiting(self, last: bool = False) -> None:
        """Functions that were found to run in the manual view."""
        regions = self.it.regions
        while regions.waiting or (last and regions.extend()):
            func, view, region = regions.waiting.pop(0)
            if isinstance(func.node, ir.Function):
                closure = (
                    func.closure
                    if isinstance(func.closure, Frame)
                    else self.it.module_frame(func.module)
                )
                self._checked(func.node, func.owner, closure, (view, region))

    def gaps(self) -> list[tuple[str, int]]:
        """What the analysis could not follow, and how often."""
        unmodelled = [
            (messages.unmodelled(name), count)
            for name, count in self.it.unmodelled.items()
        ]
        cut = [
            (messages.cut_off(self.module.path, name), count)
            for name, count in self.it.cut.items()
        ]
        partly = [
            (messages.not_followed(self.module.path, name), count)
            for name, count in self.it.unfinished.items()
        ]
        loops = [
            (messages.loop_given_up(self.module.path, name), count)
            for name, count in self.it.given_up.items()
        ]
        return sorted(unmodelled + cut + partly + loops)

    def found(self) -> list[Event]:
        """In order. What is wrong with a result of which little was known is not said beside what made it wrong, which
        another evaluation of the same call found."""
        told = self.it.wrong_inside
        again = {
            key
            for key, (call, axes) in self.it.wrong_results.items()
            if axes and axes <= told.get(call, set())
        }
        events = [event for key, event in self.it.events.items() if key not in again]
        return sorted(events, key=lambda event: (event.at, event.code))

    def _function(
        self,
        node: ir.Function,
        owner: ClassValue | None,
        closure: Frame,
        later: list[_Task] | None = None,
    ) -> None:
        self.it.steps = 0
        view, region = own_view(self.it, closure, node, self.module.name)
        if view is None and later is not None:
            later.append((node, owner, closure))
            return
        self._checked(node, owner, closure, (view, region))

    def _in_any_view(
        self, node: ir.Function, owner: ClassValue | None, closure: Frame
    ) -> None:
        """Check a function as one of the global view. Where code that is not followed may as well call it in the manual
        view, certain is what is wrong in both."""
        it = self.it
        if not annotated_axes(it, node, self.module.name) or not may_be_manual(
            it, node
        ):
            self._function(node, owner, closure, None)
            return
        before, it.events = it.events, {}
        with it.regions.aside():
            self._checked(node, owner, closure, (configured(it), None))
        manual, it.events = it.events, {}
        self._function(node, owner, closure, None)
        both = _in_all([it.events, manual])
        it.events = {**both, **before}

    def _checked(
        self,
        node: ir.Function,
        owner: ClassValue | None,
        closure: Frame,
        runs: tuple[View | None, Region | None],
    ) -> None:
        it = self.it
        it.steps = 0
        before, (it.view, region) = (it.view, it.explicit), runs
        it.explicit = (
            explicit.of_function(it, closure, node.name) if it.view is None else None
        )
        if it.view is None and it.sends is not None:
            it.sends.outside.add(id(node))
        if it.view is not None:
            it.regions.add(
                FunctionValue(node, self.module.name, closure, owner, node.name),
                it.view,
                region,
                True,
            )
        func = FunctionValue(node, self.module.name, closure, owner, node.name)
        try:
            with closure.at_any_time_after(node.at if owner is None else owner.node.at):
                self._surely(node, owner, closure, func, region)
        except StepLimit:
            it.stack.clear()
            it.callers.clear()
            it.traced = False
            it.active.clear()
            it.cut[node.name] = it.cut.get(node.name, 0) + 1
        finally:
            it.view, it.explicit = before

    def _surely(
        self,
        node: ir.Function,
        owner: ClassValue | None,
        closure: Frame,
        func: FunctionValue,
        region: Region | None,
    ) -> None:
        """Evaluate the body. Where a parameter's rank is open, certain is what fails for several ranks; where one is a
        tree that may be stacked, nothing is if nothing fails then."""
        it = self.it

        def found(given: Given) -> dict[object, Event]:
            before, it.events = it.events, {}
            try:
                self._certain_body(node, owner, closure, func, given, region)
            except StepLimit:
                if given == Given():
                    _add(it.events, before)
                raise
            finally:
                events, it.events = it.events, before
            return events

        types_ = [
            resolve(it, param.annotation, self.module.name) for param in node.params
        ]
        ranks: tuple[int | None, ...] = (None,)
        if any(map(_has_open_rank, types_)):
            ranks = _RANKS
        events = _in_all([found(Given(rank)) for rank in ranks])
        try:
            if events and any(stacked_trees.may_be(it, type_) for type_ in types_):
                events = self._if_stacked(
                    events, lambda more: found(Given(ranks[0], more))
                )
        finally:
            _add(events, it.events)

    def _if_stacked(
        self,
        events: dict[object, Event],
        found: Callable[[int], dict[object, Event]],
    ) -> dict[object, Event]:
        """What of this is found if trees are stacked, too. What is found then alone tells that they are not."""
        seen = dict(self.it.seen)
        try:
            for more in stacked_trees.STACKED:
                other = found(more)
                if other.keys() <= events.keys():
                    events = _in_all([events, other])
        finally:
            self.it.seen = seen
        return events

    def _certain_body(
        self,
        node: ir.Function,
        owner: ClassValue | None,
        closure: Frame,
        func: FunctionValue,
        given: Given,
        region: Region | None,
    ) -> None:
        """Evaluate the body; in one that runs on every device, certain is what its results leave no doubt about."""
        if region is None:
            self._body(node, owner, closure, func, given, None)
            return
        certain(
            self.it,
            region,
            func,
            lambda change: self._body(
                node, owner, closure, func, given, region, change
            ),
        )

    def _body(
        self,
        node: ir.Function,
        owner: ClassValue | None,
        closure: Frame,
        func: FunctionValue,
        given: Given,
        region: Region | None,
        change: Change = lambda value: value,
    ) -> list[Value]:
        """Evaluate the body, and give what it returns. In manual code ``change`` says what arguments are instead."""
        it, module, rank = self.it, self.module.name, given.rank
        frame = Frame(
            module,
            {},
            Bindings(closure.bindings.sizes),
            closure.facts,
            closure,
            func,
            checking=True,
        )
        frame.silent = int(
            _is_patched(node) or self._is_expected_to_fail(node, owner, closure)
        )
        frame.mesh, frame.inside = it.explicit, it.view is not None
        known: set[str] = set(closure.bindings.sizes)
        method = owner is not None and not _is_static(node)
        named = [
            resolve(it, annotation, module)
            for annotation in (*(p.annotation for p in node.params), node.returns)
        ]
        if method and owner is not None:
            named.append(ClassType(owner))
        dotted = [type_ for type_ in named[: len(node.params)] if _is_anonymous(type_)]
        alone = len(dotted) == 1 and self._says_all(dotted[0], named, known)
        splits = any(map(says_axes, named))
        counted = written(it, named[: len(node.params)], named[len(node.params) :])
        frame.facts = frame.facts.writing(*counted).speaking(*vocabularies(it, named))
        for index, param in sorted(
            enumerate(node.params), key=lambda one: self._is_collection(one[1])
        ):
            type_ = resolve(it, param.annotation, module)
            if index == 0 and method and owner is not None and param.annotation is None:
                if node.name in _MAKING or "classmethod" in classes.decorator_names(
                    node
                ):
                    frame.variables[param.name] = (
                        InstanceValue(owner)
                        if node.name == "__init__"
                        else Unknown("a class")
                    )
                    continue
                type_ = ClassType(owner, own=True)
                known |= strings.names_in(it, type_)
            if isinstance(type_, ArrayType) and rank is not None:
                _open_rank(frame, type_, rank)
            if param.default is not None:
                declared.check_default(it, frame, param, type_)
            value = _assumed(it, frame, param, type_, given)
            if it.view is None:
                note_layout(it, type_, value)
            if isinstance(type_, ArrayType) and rank is not None and alone:
                value = _told_apart(value, type_)
            if it.explicit is not None and splits:
                value = explicit.parameter(it, value)
            if it.view is not None:
                value = change(entered(frame, it.view, value, region, param.name))
            frame.variables[param.name] = value
        if any(map(is_unranked, frame.variables.values())):
            learned_ranks.tell(it, frame, func)
        _speak_of_fields(frame)
        frame.facts = _constants(
            frame.facts,
            closure,
            frame.bindings.sizes.keys() - closure.bindings.sizes.keys(),
        )
        strings.check_result_names(it, frame, node, module, known)
        enforcement.check_decorators(it, frame, node)
        enforcement.check_jitted(it, frame, node)
        frame.named = frozenset(frame.bindings.sizes) | known
        frame.view, frame.region = it.view, region
        _promise(it, frame, node)
        it.stack.append((module, -1, node))
        try:
            ends = statements.block(it, frame, node.body)
            if it.signatures is not None:
                see_end(it.signatures, frame, node, ends)
            stale_states.check(it, frame, node.body)
        finally:
            it.stack.pop()
        self._defined_in(node, frame)
        return frame.returned

    def _is_expected_to_fail(
        self, node: ir.Function, owner: ClassValue | None, closure: Frame
    ) -> bool:
        """Whether an error in a function, or in what is around it, is what the program wants."""
        around = closure.function.node if closure.function is not None else None
        if closure.silent or expected_errors.is_failing(node):
            return True
        if owner is not None and expected_errors.is_failing(owner.node):
            return True
        body = owner.node.body if owner is not None else self.module.body
        if owner is None and isinstance(around, ir.Function):
            body = around.body
        if id(body) not in self._failing:
            self._failing[id(body)] = (
                expected_errors.only_failing(body)
                if self._expects_errors
                else frozenset()
            )
        return (node.name if owner is None else f"self.{node.name}") in self._failing[
            id(body)
        ]

    def _defined_in(self, node: ir.Function, frame: Frame) -> None:
        """Check the functions, and the classes, that a function holds."""
        functions, local_classes = list(_nested(node.body)), list(_classes(node.body))
        if functions or local_classes:
            mutation.forgotten(self.it, frame)
        for inner in functions:
            self._function(inner, None, frame)
        for cls_node in local_classes:
            cls = frame.variables.get(cls_node.name)
            if isinstance(cls, ClassValue) and cls.node is cls_node:
                for inner in _nested(cls_node.body):
                    self._function(inner, cls, frame)

    def _says_all(
        self, dotted: Type, types_: Iterable[Type], outside: set[str]
    ) -> bool:
        """Whether an annotation with ``...`` has every name that there is: what the dots hide can have none of them."""
        others = outside.union(*(strings.names_in(self.it, one) for one in types_))
        return strings.names_in(self.it, dotted).issuperset(others)

    def _is_collection(self, param: ir.Param) -> bool:
        """Whether a parameter is read last: the names in a collection are those that the other parameters say."""
        return isinstance(
            resolve(self.it, param.annotation, self.module.name),
            (RepeatedType, MappingType),
        )


def _constants(facts: Facts, around: Frame, names: Iterable[str]) -> Facts:
    """What the code around a function says of names in its annotations: where it has ``B = 8`` and ``'B L'``, the one
    is meant by the other."""
    for name in sorted(names):
        number = number_in(around.find(name))
        if number is not None:
            facts = facts.equal(Size.symbol(name), Size.const(number))
    return facts


def _assumed(
    it: Interpreter, frame: Frame, param: ir.Param, type_: Type, given: Given
) -> Value:
    """What a parameter is taken for."""
    value = parameter_value(it, frame, param, type_)
    if given.stacked:
        return stacked_trees.restacked(it, type_, value, given.stacked)
    return value


def _has_open_rank(type_: Type) -> bool:
    if isinstance(type_, ArrayType) and type_.shape is not None:
        return type_.shape.rank is None
    return False


def _add(found: dict[object, Event], events: dict[object, Event]) -> None:
    """What was found, but for what is known by another event."""
    for key, event in found.items():
        events.setdefault(key, event)


def _in_all(runs: Sequence[dict[object, Event]]) -> dict[object, Event]:
    """What the first of several evaluations finds, and all others do."""
    first, *others = runs
    return {
        key: event
        for key, event in first.items()
        if all(key in other for other in others)
    }


def _open_rank(frame: Frame, type_: ArrayType, rank: int) -> None:
    """Let the ``*name`` of a parameter stand for ``rank`` dimensions."""
    for dim in type_.shape.dims if type_.shape is not None else ():
        name = dim.name or "..."
        if dim.kind == "variadic" and name not in frame.bindings.variadics:
            # each '...' may be something else, so its sizes stay unknown
            sizes = [
                Size.symbol(f"{name}_{i}") if dim.name else None for i in range(rank)
            ]
            if (
                rank == 1
                and dim.name
                and type_.shape is not None
                and type_.shape.dialect == "kauldron"
            ):
                # for kauldron, '*B' of one dimension is 'B'
                sizes = [Size.symbol(name)]
            frame.bindings.bind_variadic(name, tuple(sizes))


def _speak_of_fields(frame: Frame) -> None:
    """Sizes of the fields of one instance are names that go together."""
    fields: dict[str, list[str]] = {}
    for name in frame.bindings.sizes:
        instance, dot, _ = name.rpartition(".")
        if dot:
            fields.setdefault(instance, []).append(name)
    for names in fields.values():
        frame.facts = frame.facts.speaking(names)


def _promise(it: Interpreter, frame: Frame, node: ir.Function) -> None:
    """Note in the frame what the function's annotation says of its result, or of what it yields."""
    if node.is_generator:
        frame.promised_items = yielded_type(it, node.returns, frame.module)
        return
    promise = resolve(it, node.returns, frame.module)
    if says_something(promise):
        frame.promise = promise


def _is_anonymous(type_: Type) -> bool:
    return (
        isinstance(type_, ArrayType)
        and type_.shape is not None
        and any(dim.kind == "variadic" and not dim.name for dim in type_.shape.dims)
    )


def _told_apart(value: Value, type_: ArrayType) -> Value:
    """The dimensions that a ``...`` stands for are sizes like others, as nothing else may have the same."""
    if (
        not isinstance(value, ArrayValue)
        or value.dims is None
        or not _is_anonymous(type_)
    ):
        return value
    before = next(
        i
        for i, dim in enumerate(type_.shape.dims if type_.shape else ())
        if dim.kind == "variadic"
    )
    extra = len(value.dims) - len(type_.shape.dims if type_.shape else ()) + 1
    dims = [
        replace(dim, size=Size.symbol(f"..._{i - before}"))
        if before <= i < before + extra
        else dim
        for i, dim in enumerate(value.dims)
    ]
    return replace(value, dims=tuple(dims))


def _is_static(node: ir.Function) -> bool:
    return "staticmethod" in classes.decorator_names(node)


def _is_patched(node: ir.Function) -> bool:
    """Whether a decorator replaces parts of a library: then nothing is known of what they do."""
    for decorator in node.decorators:
        func = decorator.func if isinstance(decorator, ir.Call) else decorator
        while isinstance(func, ir.Attr):
            if func.name == "patch":
                return True
            func = func.obj
        if isinstance(func, ir.Name) and func.id == "patch":
            return True
    return False


def _functions(
    it: Interpreter, module: str, body: tuple[ir.Stmt, ...], frame: Frame
) -> Iterator[tuple[ir.Function, ClassValue | None, Frame]]:
    for node in _nested(body):
        yield node, None, frame
    for cls_node in _classes(body):
        cls = it.static_name(module, cls_node.name)
        owner = cls if isinstance(cls, ClassValue) and cls.node is cls_node else None
        for node in _nested(cls_node.body):
            if owner is not None:
                yield node, owner, frame


def _nested(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Function]:
    """The functions defined directly in a body, under conditions too."""
    return (node for node in ir.statements(body) if isinstance(node, ir.Function))


def _classes(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Class]:
    return (node for node in ir.statements(body) if isinstance(node, ir.Class))
