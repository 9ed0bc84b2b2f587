"""The abstract interpreter, put together: expressions, statements, calls and classes evaluate each other through it."""

from __future__ import annotations

from shardlint import ir, ops
from shardlint.engine import annotations as reading
from shardlint.engine import (
    calls,
    classes,
    expressions,
    inline,
    instances,
    mutation,
    statements,
)
from shardlint.engine.frames import Frame
from shardlint.engine.interpreter import MAX_STEPS, Interpreter, StepLimit
from shardlint.engine.rooms import ROOMS
from shardlint.engine.sharding import manual_operands
from shardlint.engine.sharding.collectives import COLLECTIVES
from shardlint.project import Definition, External, ModuleRef
from shardlint.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    ModuleValue,
    Unknown,
    Value,
)

_BUILTINS = frozenset(
    """abs all any bool bytes callable complex dict divmod enumerate filter float frozenset getattr hasattr hash id
    int isinstance issubclass iter len list map max min next object pow print range repr reveal_type reversed round
    set setattr slice sorted str sum super tuple type vars zip property staticmethod classmethod""".split()
)


class Evaluator(Interpreter):
    """Evaluates the bodies of one module."""

    rooms = ROOMS

    # --- what is evaluated ----------------------------------------------------------------------------------------

    def evaluate(self, frame: Frame, expr: ir.Expr) -> Value:
        return expressions.evaluate(self, frame, expr)

    def assign(self, frame: Frame, target: ir.Expr, value: Value) -> None:
        statements.assign(self, frame, target, value)

    def block(self, frame: Frame, body: tuple[ir.Stmt, ...]) -> bool:
        return statements.block(self, frame, body)

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
        return calls.call(self, frame, func, args, kwargs, at, places, operands)

    def call_function(
        self,
        frame: Frame,
        func: FunctionValue,
        args: list[Value],
        kwargs: dict[str, Value],
        at: int,
        places: tuple[int, ...],
    ) -> Value:
        return calls.call_function(self, frame, func, args, kwargs, at, places)

    def in_place(
        self, frame: Frame, func: FunctionValue, bound: dict[str, Value], at: int
    ) -> Value:
        return inline.in_place(self, frame, func, bound, at)

    def decorated(self, frame: Frame, function: FunctionValue) -> Value:
        return calls.decorated(self, frame, function)

    def binary(
        self, frame: Frame, op: str, left: Value, right: Value, at: int
    ) -> Value:
        return expressions.binary(self, frame, op, left, right, at)

    def attribute(self, frame: Frame, value: Value, name: str, at: int) -> Value:
        return expressions.attribute(self, frame, value, name, at)

    def left_by_constructors(
        self, cls: ClassValue, declared: tuple[tuple[str, Value], ...]
    ) -> tuple[tuple[str, Value], ...]:
        return instances.left_by_constructors(self, cls, declared)

    def fields(self, cls: ClassValue) -> dict[str, tuple[ir.AnnAssign, str]]:
        return classes.fields(self, cls)

    def apply(
        self,
        frame: Frame,
        qualname: str,
        args: list[Value],
        kwargs: dict[str, Value],
        at: int,
    ) -> Value:
        """A modelled function; the facts it adds stay on the path."""
        ctx = self.context(frame, at)
        result = ops.apply(qualname, args, kwargs, ctx)
        self.keep_facts(frame, ctx)
        self.note_unmodelled(result)
        if self.view is not None and isinstance(result, Unknown):
            return (
                manual_operands.computed_apart(self.view, qualname, args, kwargs, ctx)
                or result
            )
        return result

    def note_unmodelled(self, value: Value) -> None:
        if isinstance(value, Unknown) and value.reason.startswith("no model for "):
            name = value.reason.removeprefix("no model for ")
            # which have models in manual code, and nowhere else
            if name not in COLLECTIVES:
                self.unmodelled[name] = self.unmodelled.get(name, 0) + 1

    # --- modules --------------------------------------------------------------------------------------------------

    def resolve_static(self, expr: ir.Expr, module: str) -> object:
        """What a dotted name in an annotation stands for."""
        return reading.static_definition(self, expr, module)

    def static_name(self, module: str, name: str) -> object:
        key = (module, name)
        if key not in self.statics:
            self.statics[key] = None  # while resolving: an alias of itself is nothing
            self.statics[key] = self._static(self.project.lookup(module, name), name)
        return self.statics[key]

    def _static(self, target: object, name: str) -> object:
        match target:
            case External(qualname=qualname):
                return ExternalValue(qualname)
            case ModuleRef(name=module):
                return ModuleValue(module)
            case Definition(module=module, node=ir.Class() as node):
                # one class, whatever it is imported as
                made = self.statics.get((module, node.name))
                return (
                    made
                    if isinstance(made, ClassValue) and made.node is node
                    else classes.make(self, node, module)
                )
            case Definition(module=module, node=ir.Function() as node):
                return FunctionValue(
                    node, module, self.modules.get(module), None, node.name
                )
            case Definition(
                module=module, node=ir.Assign(targets=(ir.Name(),), value=value)
            ):
                return reading.Definition(value, module)
            case Definition(module=module, node=ir.AnnAssign(value=value)) if (
                value is not None
            ):
                return reading.Definition(value, module)
            case None if name in _BUILTINS:
                return ExternalValue(f"builtins.{name}")
            case _:
                return None

    def module_member(self, module: str, name: str) -> Value:
        """``module.name`` of a project module."""
        found = self.static_name(module, name)
        if isinstance(found, (ExternalValue, ClassValue, ModuleValue)):
            return found
        target = self.project.lookup(module, name)
        if isinstance(target, Definition):
            return self.module_frame(target.module).variables.get(
                target.name, Unknown(f"{name} is not known")
            )
        return Unknown(f"{name} is not known")

    def module_frame(self, module: str) -> Frame:
        """The evaluated module level, silent unless it is the module under analysis."""
        frame = self.modules.get(module)
        if frame is None:
            frame = Frame(module)
            self.modules[module] = frame
            source = self.project.module(module)
            if source is not None:
                (steps, limit), (self.steps, self.limit) = (
                    (self.steps, self.limit),
                    (0, MAX_STEPS),
                )
                (view, base), (self.view, self.base) = (
                    (self.view, self.base),
                    (None, len(self.stack)),
                )
                frame.checking = module == self.target
                try:
                    statements.block(self, frame, source.body)
                except StepLimit:
                    frame.variables.clear()
                    self.cut[f"module {module}"] = 1
                finally:
                    self.steps, self.limit, self.view, self.base = (
                        steps,
                        limit,
                        view,
                        base,
                    )
                mutation.forgotten(self, frame)
                for name in self.project.assigned_by_functions(module):
                    frame.variables[name] = Unknown("assigned by a function")
                for name, is_set in self.changes.get(module, {}).items():
                    mutation.changed_at_any_time(self, frame, name, is_set)
                if not self.project.complete:
                    mutation.unfilled(self, frame)
        return frame
