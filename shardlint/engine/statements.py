"""Execution of statements: assignments, branches, loops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import (
    attributes,
    classes,
    containers,
    declared,
    expected_errors,
    iteration,
    matching,
    mutation,
    objects,
    patterns,
    sharding,
    strings,
)
from shardlint.engine.annotations import resolve
from shardlint.engine.expressions import binary, defaults, evaluate
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join, join_variables
from shardlint.engine.narrowing import expand_shape, narrow
from shardlint.engine.plain import constant, element, truth
from shardlint.engine.sharding import boundaries, manual_exit, placements
from shardlint.engine.sharding.manual import annotated_axes
from shardlint.engine.shown import see, see_result
from shardlint.engine.trees import named_items
from shardlint.engine.types import (
    AnyType,
    ArrayType,
    ScalarType,
    Type,
    says_something,
    shape_dialects,
)
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    IntValue,
    Literal,
    MeshValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardlint.walking import nodes_of
from shardtypes.lang import Bindings
from shardtypes.lang.messages import expected_got

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MAX_UNROLL = 8
_UPDATES = frozenset(
    {
        "set",
        "add",
        "multiply",
        "divide",
        "power",
        "min",
        "max",
        "apply",
        "mul",
        "subtract",
    }
)


def block(it: Interpreter, frame: Frame, body: tuple[ir.Stmt, ...]) -> bool:
    """Run statements; True if control does not reach the end."""
    return any(execute(it, frame, node) for node in body)


def execute(it: Interpreter, frame: Frame, node: ir.Stmt) -> bool:
    it.step()
    match node:
        case ir.Assign():
            value = evaluate(it, frame, node.value)
            for target in node.targets:
                assign(it, frame, target, value, node.value)
        case ir.AnnAssign():
            _annotated(it, frame, node)
        case ir.AugAssign():
            _augmented(it, frame, node)
        case ir.ExprStmt():
            _discarded(it, frame, node.value)
            evaluate(it, frame, node.value)
        case ir.Return():
            _return(it, frame, node)
            return True
        case ir.If():
            return _if(it, frame, node)
        case ir.For():
            return iteration.run_for(it, frame, node)
        case ir.While():
            return iteration.run_while(it, frame, node)
        case ir.With():
            return _with(it, frame, node)
        case ir.Try():
            return _try(it, frame, node)
        case ir.Match():
            return patterns.execute(it, frame, node)
        case ir.Assert():
            return _assert(it, frame, node.test)
        case ir.Raise():
            return True
        case ir.Jump(what=what):
            ends = frame.breaks if what == "break" else frame.jumps
            ends.append(dict(frame.variables))
            return True
        case ir.Function():
            frame.note_definition(node.at)
            _define(it, frame, node)
        case ir.Class():
            frame.note_definition(node.at)
            frame.variables[node.name] = _defined_class(it, frame, node)
        case ir.Delete(targets=targets):
            for target in targets:
                _delete(it, frame, target)
        case ir.Declare(names=names):
            for name in names:
                frame.variables[name] = Unknown("assigned by a function")
        case ir.Import() | ir.ImportFrom():
            _import(it, frame, node)
    return False


def _assert(it: Interpreter, frame: Frame, test: ir.Expr) -> bool:
    """Whether nothing runs after the assertion."""
    evaluate(it, frame, test)
    if isinstance(test, ir.Const) and not test.value:
        return True
    narrow(it, frame, test, True)
    return False


def _defined_class(it: Interpreter, frame: Frame, node: ir.Class) -> Value:
    if frame.parent is None:
        found = it.static_name(frame.module, node.name)
        if isinstance(found, ClassValue):
            return found
    return classes.local(it, frame, node)


def _delete(it: Interpreter, frame: Frame, target: ir.Expr) -> None:
    """``del name`` or ``del held[index]``."""
    if isinstance(target, ir.Name):
        frame.variables[target.id] = Unknown("deleted")
    elif isinstance(target, ir.Subscript):
        held = evaluate(it, frame, target.obj)
        if isinstance(held, (SequenceValue, DictValue, CollectionValue)):
            index = evaluate(it, frame, target.index)
            after = containers.without_item(held, index)
            objects.replaced(it, frame, [(held, after)])


def _augmented(it: Interpreter, frame: Frame, node: ir.AugAssign) -> None:
    held = evaluate(it, frame, node.target)
    other = evaluate(it, frame, node.value)
    value = binary(it, frame, node.op, held, other, node.at)
    if isinstance(held, SequenceValue) and held.kind == "list":
        # under its other names, too
        objects.replaced(it, frame, [(held, value)])
    may_be_list = isinstance(held, (SequenceValue, CollectionValue, Unknown))
    if not may_be_list or not isinstance(node.target, ir.Name):
        assign(it, frame, node.target, value)
        return
    # a list keeps the items that it has: those that it is given are looked at
    declared.extended(it, frame, node.target, other, node.value.at)
    _bind(it, frame, node.target, value)


def _import(it: Interpreter, frame: Frame, node: ir.Import | ir.ImportFrom) -> None:
    if frame.parent is None:
        return  # module-level imports are the project's business
    if isinstance(node, ir.Import):
        for name, module in node.bindings:
            known = it.project.module(module) is not None
            frame.variables[name] = (
                Unknown("a local import") if known else it.external(module)
            )
    elif node.names is not None:
        for name, bound in node.names:
            outside = not node.level and it.project.module(node.module) is None
            frame.variables[bound] = (
                it.external(f"{node.module}.{name}")
                if outside
                else Unknown("a local import")
            )


def _define(it: Interpreter, frame: Frame, node: ir.Function) -> None:

    if frame.parent is not None:
        open_names = (
            one for one in nodes_of(node.body, ir.Declare) if one.what == "nonlocal"
        )
        frame.open_to(name for one in open_names for name in one.names)
    function = FunctionValue(
        node, frame.module, frame, None, node.name, defaults(it, frame, node.params)
    )
    frame.variables[node.name] = it.decorated(frame, function)


def assign(
    it: Interpreter,
    frame: Frame,
    target: ir.Expr,
    value: Value,
    source: ir.Expr | None = None,
) -> None:
    """Bind a target: a name, a sequence of targets, an attribute or an item."""
    match target:
        case ir.Name(id=name):
            if name in frame.local_types:
                at = target.at if source is None else source.at
                value = declared.assigned(it, frame, name, value, at)
            if isinstance(value, IntValue) and frame.checking:
                _tell_size(frame, name, value)
            _bind(it, frame, target, value)
        case ir.Sequence(items=items):
            if source is not None and not any(
                isinstance(item, ir.Star) for item in items
            ):
                names = [item.id if isinstance(item, ir.Name) else "" for item in items]
                value = expand_shape(it, frame, source, value, names)
            mutation.consumed(it, frame, value)
            _unpack(it, frame, items, _fresh(it, frame, value, source), target.at)
        case ir.Star(value=inner):
            assign(it, frame, inner, Unknown("takes the rest"))
        case ir.Attr(obj=owner, name=name):
            if isinstance(owner, ir.Name):
                see(it, frame, (target.at, f"{owner.id}.{name}"), value)
            given = target.at if source is None else source.at
            attributes.assign(it, frame, owner, name, value, target.at, given)
        case ir.Subscript(obj=obj):
            held, key = evaluate(it, frame, obj), evaluate(it, frame, target.index)
            if not isinstance(target.index, ir.Slice):
                at = target.at if source is None else source.at
                declared.put(it, frame, obj, value, at, key)
            if isinstance(held, (SequenceValue, DictValue, CollectionValue)):
                objects.replaced(
                    it, frame, [(held, containers.with_item(held, key, value))]
                )
            elif isinstance(obj, ir.Name) and not isinstance(held, ArrayValue):
                frame.variables[obj.id] = containers.CHANGED
        case _:
            pass


def _bind(it: Interpreter, frame: Frame, target: ir.Name, value: Value) -> None:
    frame.bind(target.id, value)
    see(it, frame, (target.at, target.id), value)


def _tell_size(frame: Frame, name: str, value: IntValue) -> None:
    """``width = heads * depth`` tells what a dimension is that annotations call ``width``."""
    written, computed = frame.bindings.get(name), value.size
    if written is None or computed is None or name in frame.variables:
        return
    if computed.constant is None and written.symbols.isdisjoint(computed.symbols):
        frame.facts = frame.facts.equal(written, computed)


def _fresh(
    it: Interpreter, frame: Frame, value: Value, source: ir.Expr | None
) -> Value:
    """A list that a function of arrays has just made cannot have grown: as good as a tuple."""
    if (
        isinstance(value, SequenceValue)
        and value.kind == "list"
        and isinstance(source, ir.Call)
    ):
        func = (
            evaluate(it, frame, source.func)
            if isinstance(source.func, (ir.Name, ir.Attr))
            else None
        )
        if isinstance(func, ExternalValue) and func.qualname.startswith(
            ("jax.numpy.", "numpy.")
        ):
            return replace(value, kind="tuple")
    return value


def _unpack(
    it: Interpreter, frame: Frame, items: tuple[ir.Expr, ...], value: Value, at: int
) -> None:
    value = named_items(value)
    star = next((i for i, item in enumerate(items) if isinstance(item, ir.Star)), None)
    values = _unpacked(value, len(items), star is not None)
    if values is not None and star is not None and len(values) >= len(items) - 1:
        values = _starred(values, star, len(items))
        items = tuple(
            item.value if isinstance(item, ir.Star) else item for item in items
        )
    if values is not None and len(values) != len(items):
        what = _miscounted(value, values)
        if what is not None:
            it.report(frame, "ST214", at, f"{len(items)} names unpack {what}")
        values = None
    leaf = value.leaf if isinstance(value, Unknown) else None
    rest = Unknown("part of something unknown", leaf=leaf)
    for index, item in enumerate(items):
        assign(it, frame, item, values[index] if values is not None else rest)


def _unpacked(value: Value, names: int, starred: bool) -> list[Value] | None:
    """The items of a value that is unpacked to so many names; None where they are not known."""
    if isinstance(value, SequenceValue):
        return list(value.items)
    if not isinstance(value, ArrayValue) or not value.dims:
        return None
    first = value.dims[0].size
    count = None if first is None else first.constant
    if count is not None and count <= _MAX_UNROLL:
        return [element(value)] * count
    return None if starred else [element(value)] * names


def _starred(values: list[Value], star: int, names: int) -> list[Value]:
    """The values with those that ``*name`` in the place ``star`` takes as one list."""
    end = star + len(values) - names + 1
    taken = SequenceValue(tuple(values[star:end]), "list")
    return [*values[:star], taken, *values[end:]]


def _miscounted(value: Value, values: list[Value]) -> str | None:
    """What was unpacked to another number of names; None where that is no certain mistake about arrays."""
    count = len(values)
    if isinstance(value, ArrayValue):
        return f"a dimension of size {count}"
    if not isinstance(value, SequenceValue):
        return None
    if value.kind == "keys":
        return f"{count} random keys"
    # a list may have grown unseen
    if value.kind != "tuple":
        return None
    if all(isinstance(item, IntValue) for item in values):
        return f"a shape of rank {count}"
    # other tuples are the type checker's business
    if count > 1 and any(isinstance(item, ArrayValue) for item in values):
        return f"a tuple of {count}"
    return None


def _annotated(it: Interpreter, frame: Frame, node: ir.AnnAssign) -> None:
    type_ = resolve(it, node.annotation, frame.module)
    if isinstance(node.target, ir.Name):
        # the value is held against it below
        frame.local_types.pop(node.target.id, None)
    fits = True
    if node.value is not None:
        fits = _assign_annotated(it, frame, node, type_, node.value)
    elif frame.parent is None and frame.function is None and says_something(type_):
        _declare_global(it, frame, node.target, type_)
    if isinstance(node.target, ir.Name) and fits:
        declared.declare(frame, node.target.id, type_)


def _declare_global(
    it: Interpreter, frame: Frame, target: ir.Expr, type_: Type
) -> None:
    """``table: f32['4']`` of a module, which other code gives its value."""
    if not isinstance(target, ir.Name) or target.id in frame.variables:
        return
    mark = frame.bindings.mark()
    value = matching.instantiate(it, type_, frame.bindings, matching.Opaque(it))
    frame.bindings.rollback(mark)
    frame.bind(target.id, value)


def _assign_annotated(
    it: Interpreter, frame: Frame, node: ir.AnnAssign, type_: Type, given: ir.Expr
) -> bool:
    """Whether the value fits the annotation; if not, either may be wrong, and nothing more is held against it."""
    value = evaluate(it, frame, given)
    name = node.target.id if isinstance(node.target, ir.Name) else "the attribute"
    if isinstance(type_, (AnyType, ScalarType)) and not isinstance(value, Unknown):
        assign(it, frame, node.target, value)
        return True
    bindings = _scope(it, frame, type_)
    mark = bindings.mark()
    found = matching.check_at(it, frame, type_, value, bindings, name, given.at)
    if found is not None:
        it.report(frame, found.code or "ST203", given.at, found.message, found.witness)
        bindings.rollback(mark)
        promised = matching.instantiate(it, type_, bindings, matching.Opaque(it))
        # either may be meant: what both agree on is known
        assign(it, frame, node.target, join(promised, value))
        return False
    assign(it, frame, node.target, matching.refine(it, type_, value, bindings))
    return True


def _scope(it: Interpreter, frame: Frame, type_: Type) -> Bindings:
    """What is known of the names in the annotation of a local. Those of jaxtyping are sizes of what each device has: in
    manual code they are not the names of the same function that stand for what all devices have."""
    if it.view is None or shape_dialects(type_) <= {"shardtypes"}:
        return frame.bindings
    function = frame.function
    if function is None or isinstance(function.node, ir.Lambda):
        return frame.bindings
    axes = annotated_axes(it, function.node, function.module)
    return Bindings() if axes else frame.bindings


def _return(it: Interpreter, frame: Frame, node: ir.Return) -> None:
    value = constant(None) if node.value is None else evaluate(it, frame, node.value)
    frame.returned.append(value)
    frame.leave(value)
    if it.signatures is not None:
        see_result(it.signatures, frame, value)
    if frame.view is not None and node.value is not None:
        manual_exit.leave(it, frame, node.value, value)
    boundaries.leave(
        it, frame, value, node.value.at if node.value is not None else node.at
    )
    if frame.promise is None or node.value is None:
        return
    mark = frame.bindings.mark()
    name = frame.function.name if frame.function is not None else "the function"
    what = f"result of {name}"
    found = matching.check_at(
        it, frame, frame.promise, value, frame.bindings, what, node.value.at
    )
    frame.bindings.rollback(mark)
    if found is not None and found.code == "ST308" and frame.function is not None:
        is_placed = placements.replaced(frame.function.node)
        if is_placed or not _takes_arrays(it, frame.function):
            found = None  # its caller places what it makes
    if (
        value == Literal(None)
        and isinstance(node.value, ir.Name)
        and isinstance(frame.promise, ArrayType)
    ):
        # `return None` itself says that the annotation is meant loosely
        text = expected_got(f"result of {name}", frame.promise.written, "None")
        found = matching.Problem("", text, {}, frame.promise)
    if found is not None:
        it.report(
            frame,
            found.code or "ST201",
            node.value.at,
            found.message,
            found.witness,
            found.declared,
        )
    elif (
        frame.named
        and isinstance(frame.promise, ArrayType)
        and isinstance(value, ArrayValue)
    ):
        strings.check_result_alias(it, frame, frame.promise, value)


def _takes_arrays(it: Interpreter, function: FunctionValue) -> bool:
    """Whether a function is given arrays whose sizes have names, which one that initialises weights is not."""
    for param in function.node.params:
        if param.annotation is None:
            continue
        type_ = resolve(it, param.annotation, function.module)
        if not isinstance(type_, ArrayType) and says_something(type_):
            return True
        if isinstance(type_, ArrayType) and type_.shape is not None:
            if type_.shape.names:
                return True
    return False


def _if(it: Interpreter, frame: Frame, node: ir.If) -> bool:
    decided = truth(evaluate(it, frame, node.test))
    if decided is not None:
        return block(it, frame, node.body if decided else node.orelse)
    before, facts, around = (
        dict(frame.variables),
        frame.facts,
        (frame.mesh, frame.rules),
    )
    narrow(it, frame, node.test, True)
    frame.silent += frame.in_place
    first_ends = block(it, frame, node.body)
    first, first_facts = frame.variables, frame.facts
    frame.variables, frame.facts = before, facts
    narrow(it, frame, node.test, False)
    second_ends = block(it, frame, node.orelse)
    if (frame.mesh, frame.rules) != around:
        # one of the branches put others in force
        frame.mesh, frame.rules = MeshValue(None), None
    if first_ends == second_ends:  # else what follows is a branch too
        frame.silent -= frame.in_place
    if first_ends and second_ends:
        return True
    if second_ends:
        frame.variables, frame.facts = first, first_facts
    elif not first_ends:
        frame.variables = join_variables(first, frame.variables)
        frame.facts = facts
    return False


def _with(it: Interpreter, frame: Frame, node: ir.With) -> bool:
    expects_error, watched, outside = False, False, (frame.mesh, frame.rules)
    for context, target in node.items:
        entered = evaluate(it, frame, context)
        sharding.enter(frame, entered)
        named = it.resolve_static(
            context.func if isinstance(context, ir.Call) else context, frame.module
        )
        expects_error |= expected_errors.enters(context, named, frame.function)
        watched |= expected_errors.watches(context)
        if target is not None:
            given = (
                entered
                if isinstance(entered, MeshValue)
                else Unknown("what a context manager gives")
            )
            assign(it, frame, target, given)
    frame.silent += expects_error
    frame.watched += watched
    ended = block(it, frame, node.body)
    frame.silent -= expects_error
    frame.watched -= watched
    frame.mesh, frame.rules = outside
    return ended and not expects_error


def _try(it: Interpreter, frame: Frame, node: ir.Try) -> bool:
    before = dict(frame.variables)
    expects_error = expected_errors.handled(node)
    frame.silent += expects_error
    ended = block(it, frame, node.body)
    frame.silent -= expects_error
    if not ended:
        ended = block(it, frame, node.orelse)
    paths = [] if ended else [frame.variables]
    frame.silent += frame.in_place
    for handler in node.handlers:
        frame.variables = join_variables(before, frame.variables)
        if not block(it, frame, handler):
            paths.append(frame.variables)
    frame.silent -= frame.in_place
    if paths:
        frame.variables = paths[0]
        for path in paths[1:]:
            frame.variables = join_variables(frame.variables, path)
    return block(it, frame, node.final) or not paths


def _discarded(it: Interpreter, frame: Frame, expr: ir.Expr) -> None:
    """``x.at[i].set(v)`` gives a new array; as a statement it does nothing. ``x.resize(shape)`` changes x."""
    match expr:
        case ir.Call(func=ir.Attr(obj=base, name="resize")):
            value = evaluate(it, frame, base)
            if isinstance(value, ArrayValue) and value.numpy:
                objects.replaced(it, frame, [(value, ArrayValue(None, numpy=True))])
        case _ if frame.watched:
            pass
        case ir.Call(
            func=ir.Attr(obj=ir.Subscript(obj=ir.Attr(obj=base, name="at")), name=name)
        ) if name in _UPDATES:
            frame.silent += 1
            value = evaluate(it, frame, base)
            frame.silent -= 1
            if isinstance(value, ArrayValue) and not value.numpy:
                it.report(
                    frame,
                    "ST216",
                    expr.at,
                    f"`.at[…].{name}(…)` returns a new array, which is discarded here: assign it",
                )
        case _:
            pass
