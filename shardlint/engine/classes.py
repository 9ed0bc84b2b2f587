"""Classes of the project and their instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import (
    instances,
    matching,
    registration,
    stacked_trees,
    typed_dicts,
)
from shardlint.engine.annotations import without_prefix
from shardlint.engine.field_types import field_types
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.methods import find_method
from shardlint.engine.module_variables import METHODS
from shardlint.engine.positional_fields import (
    MAKING_DATACLASSES,
    is_field,
    positional_fields,
)
from shardlint.engine.sharding import manual_layers
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import is_tree, map_leaves
from shardlint.engine.types import AnyType, ArrayType, ClassType, Type
from shardlint.values import (
    ArrayValue,
    ClassValue,
    Dimension,
    DTypeValue,
    EnumMember,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    MeshValue,
    PartialValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    SuperValue,
    Unknown,
    Value,
)
from shardtypes.lang import Bindings, Different, Dim, Facts, Shape, compare

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Methods of a flax module that run its ``__call__``.
_RUNNING = frozenset({"apply", "init", "init_with_output"})
_MODULE = "flax.linen.Module"
_DATACLASS_DECORATORS = frozenset(
    {"dataclass", "pytree_dataclass", "frozen", "define", "register_dataclass"}
)
_DATACLASS_BASES = MAKING_DATACLASSES | {"typing.NamedTuple"}


def make(it: Interpreter, node: ir.Class, module: str) -> ClassValue:
    """The class of a module-level definition."""
    cls = ClassValue(node, module, node.name)
    it.statics[(module, node.name)] = cls  # a class may mention itself
    bases: list[Value] = []
    for base in node.bases:
        if base.keyword is None:
            expr = (
                base.value.obj if isinstance(base.value, ir.Subscript) else base.value
            )
            bases.append(_base(it.resolve_static(expr, module), cls))
    cls.bases = tuple(bases)
    _describe(it, cls)
    source = it.project.module(module)
    if node.name in it.classes.registered or node.decorators:
        cls.data = registration.data_fields(node, () if source is None else source.body)
    return cls


def _base(found: object, cls: ClassValue) -> Value:
    """What a class inherits from. In ``class Step(Step)`` that is what had the name before, which is not known."""
    if isinstance(found, ExternalValue):
        return found
    if isinstance(found, ClassValue) and not found.inherits(cls):
        return found
    return Unknown("a base class")


def _describe(it: Interpreter, cls: ClassValue) -> None:
    """Fill in what the body of a class says, once its bases are known."""
    body = cls.node.body
    cls.fields = {
        n.target.id: n
        for n in body
        if isinstance(n, ir.AnnAssign) and isinstance(n.target, ir.Name)
    }
    cls.decorated = tuple(_qualname(it, d, cls.module) for d in cls.node.decorators)
    cls.is_dataclass = any(
        _makes_dataclass(it, d, cls.module) for d in cls.node.decorators
    ) or any(
        (isinstance(b, ClassValue) and b.is_dataclass)
        or (isinstance(b, ExternalValue) and b.qualname in _DATACLASS_BASES)
        for b in cls.bases
    )


def _qualname(it: Interpreter, expr: ir.Expr, module: str) -> str:
    """The qualified name of a decorator, or of the function that is called to make it."""
    if isinstance(expr, ir.Call):
        name = _qualname(it, expr.func, module)
        is_partial = name == "functools.partial" and bool(expr.args)
        return _qualname(it, expr.args[0].value, module) if is_partial else name
    found = it.resolve_static(expr, module)
    return found.qualname if isinstance(found, ExternalValue) else ""


def _makes_dataclass(it: Interpreter, expr: ir.Expr, module: str) -> bool:
    if isinstance(expr, ir.Call):
        if expr.args and not _makes_dataclass(it, expr.func, module):
            return any(_makes_dataclass(it, arg.value, module) for arg in expr.args)
        return _makes_dataclass(it, expr.func, module)
    found = it.resolve_static(expr, module)
    return (
        isinstance(found, ExternalValue)
        and found.qualname.rpartition(".")[2] in _DATACLASS_DECORATORS
    )


def fields(it: Interpreter, cls: ClassValue) -> dict[str, tuple[ir.AnnAssign, str]]:
    """Annotated fields with the module of each, those of bases first."""
    found: dict[str, tuple[ir.AnnAssign, str]] = {}
    for base in reversed(cls.bases):
        if isinstance(base, ClassValue):
            found.update(fields(it, base))
    found.update(
        (name, (node, cls.module))
        for name, node in cls.fields.items()
        if is_field(node.annotation)
    )
    return found


def decorator_names(node: ir.Function) -> set[str]:
    """The last parts of the names of a function's decorators."""
    return {
        d.id if isinstance(d, ir.Name) else d.name if isinstance(d, ir.Attr) else "?"
        for d in node.decorators
    }


def attribute(
    it: Interpreter, frame: Frame, value: InstanceValue | ClassValue, name: str
) -> Value:
    """A field, a property, a bound method, or a class constant."""

    cls = value if isinstance(value, ClassValue) else value.cls
    if isinstance(value, InstanceValue):
        for key, held in value.fields:
            if key == name:
                return held
    found = find_method(cls, name)
    if found is not None:
        if (
            isinstance(value, InstanceValue)
            and not value.exact
            and name in it.classes.overridden(cls)
        ):
            return Unknown(f"{name} is defined again in a class below {cls.name}")
        node, owner = found
        function = FunctionValue(
            node, owner.module, instances.closure_of(it, owner), owner, node.name
        )
        names = decorator_names(node)
        if names & {"property", "cached_property"}:
            if isinstance(value, InstanceValue):
                return it.call_function(frame, function, [value], {}, -1, ())
            return Unknown("a property")
        made = it.decorated(frame, function)
        if "staticmethod" in names:
            return made
        if "classmethod" in names:
            return PartialValue(made, (cls,))
        return (
            PartialValue(made, (value,)) if isinstance(value, InstanceValue) else made
        )
    constant = _constant(it, value, cls, name)
    if constant is not None:
        return constant
    if isinstance(value, InstanceValue) and (
        name == "_replace" or (name == "replace" and is_tree(cls))
    ):
        return PartialValue(ExternalValue("dataclasses.replace"), (value,))
    if name in _RUNNING and isinstance(value, InstanceValue) and _is_flax_module(cls):
        return PartialValue(ExternalValue(f"{_MODULE}.{name}"), (value,))
    if (name == "param" or name in METHODS) and _is_flax_module(cls):
        return ExternalValue(f"{_MODULE}.{name}")
    return Unknown(f"no attribute {name} known of {cls.name}")


def _constant(
    it: Interpreter, value: InstanceValue | ClassValue, cls: ClassValue, name: str
) -> Value | None:
    """What the body of a class, or of one above it, assigns to a name."""
    exact = isinstance(value, InstanceValue) and value.exact
    for statement in cls.node.body:
        if isinstance(statement, ir.Assign) and any(
            isinstance(t, ir.Name) and t.id == name for t in statement.targets
        ):
            if name in it.classes.volatile(cls) or (
                not exact and name in it.classes.overridden(cls)
            ):
                return Unknown(f"{name} of {cls.name} may change")
            result = _assigned(it, cls, statement)
            plain = isinstance(result, IntValue) or (
                isinstance(result, Literal) and isinstance(result.value, str)
            )
            if instances.is_enum(cls) and not (plain and _mixes_in(cls)):
                return Literal(EnumMember(cls, name))
            return result
    for base in cls.bases:
        found = (
            _constant(it, value, base, name) if isinstance(base, ClassValue) else None
        )
        if found is not None:
            return found
    return None


def _assigned(it: Interpreter, cls: ClassValue, statement: ir.Assign) -> Value:
    frame = instances.closure_of(it, cls)
    frame.silent += 1
    try:
        return it.evaluate(frame, statement.value)
    finally:
        frame.silent -= 1


def _mixes_in(cls: ClassValue) -> bool:
    """Whether the members of an enumeration are ints or strings themselves."""
    names = {base.qualname for base in cls.bases if isinstance(base, ExternalValue)}
    return not names.isdisjoint(
        ("enum.IntEnum", "enum.StrEnum", "builtins.int", "builtins.str")
    )


def of_member(it: Interpreter, frame: Frame, member: EnumMember, name: str) -> Value:
    """``.value`` and ``.name`` of a member of an enumeration, and its methods."""
    if name == "name":
        return Literal(member.name)
    if find_method(member.cls, name) is not None:
        method = attribute(it, frame, member.cls, name)
        is_function = isinstance(method, FunctionValue)
        return PartialValue(method, (Literal(member),)) if is_function else method
    for statement in member.cls.node.body if name == "value" else ():
        if isinstance(statement, ir.Assign) and any(
            isinstance(t, ir.Name) and t.id == member.name for t in statement.targets
        ):
            return _assigned(it, member.cls, statement)
    return Unknown(f".{name} of a member of {member.cls.name}")


def super_of(frame: Frame, args: list[Value]) -> Value:
    """``super()`` or ``super(Cls, self)``."""
    if len(args) == 2 and isinstance(args[0], ClassValue):
        return SuperValue(args[0], args[1])
    around: Frame | None = frame
    while around is not None and (
        around.function is None or around.function.owner is None
    ):
        around = around.parent
    function = around.function if around is not None else None
    if (
        args
        or around is None
        or function is None
        or function.owner is None
        or not function.node.params
    ):
        return Unknown("super of a class that is not known")
    return SuperValue(
        function.owner,
        around.variables.get(function.node.params[0].name, Unknown("self")),
    )


def above(it: Interpreter, frame: Frame, value: SuperValue, name: str) -> Value:
    """``super().name``: a method of the one class above."""

    bases = value.owner.bases
    found = (
        find_method(bases[0], name)
        if len(bases) == 1 and isinstance(bases[0], ClassValue)
        else None
    )
    if found is None:
        return Unknown(f"no {name} known above {value.owner.name}")
    node, owner = found
    function = FunctionValue(
        node, owner.module, instances.closure_of(it, owner), owner, node.name
    )
    names = decorator_names(node)
    if names & {"property", "cached_property", "staticmethod", "classmethod"}:
        return Unknown(f"{name} above {value.owner.name}")
    return PartialValue(it.decorated(frame, function), (value.instance,))


def local(it: Interpreter, frame: Frame, node: ir.Class) -> ClassValue:
    """The class of a definition inside a function."""
    bases: list[Value] = []
    frame.silent += 1
    for base in node.bases:
        if base.keyword is None:
            expr = (
                base.value.obj if isinstance(base.value, ir.Subscript) else base.value
            )
            found = it.evaluate(frame, expr)
            bases.append(
                found
                if isinstance(found, (ClassValue, ExternalValue))
                else Unknown("a base class")
            )
    frame.silent -= 1
    cls = ClassValue(node, frame.module, node.name, tuple(bases), closure=frame)
    _describe(it, cls)
    return cls


@knows(f"{_MODULE}.{name}" for name in _RUNNING)
def run_module(site: Site) -> Value | None:
    """``module.apply(variables, …)``, ``init(rngs, …)``, ``init_with_output``: what ``__call__`` gives, and variables
    that are not known."""
    it, name, args, kwargs = site.it, site.name, site.args, site.kwargs
    if len(args) < 2 or not kwargs.keys().isdisjoint(
        ("method", "capture_intermediates")
    ):
        return None
    given = {
        key: value for key, value in kwargs.items() if key not in ("rngs", "mutable")
    }
    with manual_layers.parameters(
        it, args[1] if name == "apply" else Unknown("variables made here")
    ):
        result = it.call(site.frame, args[0], args[2:], given, site.at)
    variables = Unknown("variables of a flax module")
    if name == "init":
        return variables
    changes = name == "init_with_output" or kwargs.get(
        "mutable", Literal(False)
    ) != Literal(False)
    return SequenceValue((result, variables)) if changes else result


def _is_flax_module(cls: ClassValue) -> bool:
    return any(
        base.qualname == "flax.linen.Module"
        if isinstance(base, ExternalValue)
        else isinstance(base, ClassValue) and _is_flax_module(base)
        for base in cls.bases
    )


def construct(
    it: Interpreter,
    frame: Frame,
    cls: ClassValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...] = (),
    prefix: tuple[Dim, ...] = (),
) -> Value:
    """``Cls(…)`` of a dataclass: each argument is checked against its field. ``prefix`` is in front of every field."""
    record = typed_dicts.made(cls, args, kwargs)
    if record is not None:
        return record
    if find_method(cls, "__init__") is not None or not cls.is_dataclass:
        if prefix:
            return Unknown(f"a stacked {cls.name}")
        return instances.construct(it, frame, cls, args, kwargs, at, places)
    declared = fields(it, cls)
    given, where = _given(it, cls, declared, args, kwargs, (at, places))
    stack = () if prefix else _stack(it, cls, given, frame.facts)
    given = {name: _one_of(value, stack) for name, value in given.items()}
    bindings = Bindings()
    made: list[tuple[str, Value]] = []
    types = dict(field_types(it, cls, prefix))
    missing = 0 if prefix else _missing(types, given)
    types = {name: without_prefix(type_, missing) for name, type_ in types.items()}
    for name, (node, module) in declared.items():
        type_ = types[name]
        if name in given:
            what = f"field {name} of {cls.name}{' (stacked)' if stack else ''}"
            found = matching.check(it, type_, given[name], bindings, frame.facts, what)
            if found is not None and found.code == "ST308":
                found = None  # an object may be made first and placed then
            # A tree of specs, of shapes or of anything else has the classes of the tree of arrays that it is about.
            if found is not None and not found.kind:
                it.report(
                    frame,
                    found.code or "ST202",
                    where[name],
                    found.message,
                    found.witness,
                    found.declared,
                )
                given[name] = Unknown("an error was reported here")
                types[name] = AnyType()
            made.append((name, given[name]))
        elif node.value is not None:
            made.append((name, _default(it, module, node.value)))
        else:
            made.append((name, Unknown("not given")))
    made = [
        (name, _refined(it, cls, name, types[name], value, bindings))
        for name, value in made
    ]
    front = tuple(
        Dimension(d.size.substitute(bindings.sizes) if d.size else None, d.axes)
        for d in prefix
    )
    if front or stack:
        fields_ = tuple((name, _stacked(value, stack)) for name, value in made)
        return InstanceValue(cls, fields_, front or stack, exact=True)
    return instances.completed(
        it, frame, InstanceValue(cls, tuple(made), exact=True), at
    )


def _given(
    it: Interpreter,
    cls: ClassValue,
    declared: Iterable[str],
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    at: tuple[int, tuple[int, ...]],
) -> tuple[dict[str, Value], dict[str, int]]:
    """The arguments of a constructor by field, and the node of each; ``at`` are the call's and those of its arguments,
    as far as these are known."""
    call, places = at
    order = (
        positional_fields(cls, lambda expr, module: _makes_dataclass(it, expr, module))
        if args
        else ()
    )
    given: dict[str, Value] = {}
    if order is None:
        unknown = Unknown("fields of a base class that is not known come first")
        given = dict.fromkeys(declared, unknown)
    pairs = [*zip(order or (), args, strict=False)]
    nodes = [*zip(order or (), places, strict=False)][: len(pairs)]
    nodes += zip(kwargs, places[len(args) :], strict=False)
    where = {**dict.fromkeys((*dict(pairs), *kwargs), call), **dict(nodes)}
    return {**given, **dict(pairs), **kwargs}, where


def _stack(
    it: Interpreter, cls: ClassValue, given: dict[str, Value], facts: Facts
) -> tuple[Dimension, ...]:
    """The dimensions in front of every array that a tree is made of, where all have as many more than their fields:
    then its fields are stacked."""
    types = field_types(it, cls) if is_tree(cls) else {}
    found = (
        _front(it, type_, given.get(name, Unknown())) for name, type_ in types.items()
    )
    fronts = [front for front in found if front is not None]
    return (
        fronts[0]
        if fronts and all(_may_be_equal(front, fronts[0], facts) for front in fronts)
        else ()
    )


def _missing(types: Mapping[str, Type], given: Mapping[str, Value]) -> int:
    """How many dimensions in front all arrays that an object is made of lack: it is one layer of a stack, and its
    fields are annotated as the whole stack has them. One array alone does not tell."""
    found = [
        len(type_.shape.dims) - len(value.dims)
        for name, type_ in types.items()
        if isinstance(type_, ArrayType)
        and type_.shape is not None
        and type_.shape.variadic is None
        for value in (given.get(name),)
        if isinstance(value, ArrayValue) and value.dims is not None
    ]
    alike = len(found) > 1 and len({*found}) == 1
    return max(0, found[0]) if alike else 0


def _may_be_equal(
    a: tuple[Dimension, ...], b: tuple[Dimension, ...], facts: Facts
) -> bool:
    sizes = [(x.size, y.size) for x, y in zip(a, b, strict=False)]
    return len(a) == len(b) and not any(
        x is not None and y is not None and isinstance(compare(x, y, facts), Different)
        for x, y in sizes
    )


def _front(it: Interpreter, type_: Type, value: Value) -> tuple[Dimension, ...] | None:
    """The dimensions that a value has more than its type, in front; None where that is not known."""
    match type_, value:
        case ClassType(), InstanceValue(prefix=()) if stacked_trees.may_be(it, type_):
            return None
        case ArrayType(shape=Shape(variadic=None) as shape), ArrayValue(
            dims=tuple() as dims
        ):
            return dims[: max(0, len(dims) - len(shape.dims))]
        case ClassType(), InstanceValue(cls=cls, prefix=prefix) if cls is type_.cls:
            return prefix[: max(0, len(prefix) - len(type_.prefix))]
        case _:
            return None


def _one_of(value: Value, front: tuple[Dimension, ...]) -> Value:
    """An array, or a tree of stacked ones, without the dimensions of its stack."""
    if isinstance(value, InstanceValue) and front and len(value.prefix) >= len(front):
        one = map_leaves(value, lambda leaf: _one_of(leaf, front))
        return (
            replace(one, prefix=value.prefix[len(front) :])
            if isinstance(one, InstanceValue)
            else one
        )
    if not isinstance(value, ArrayValue) or value.dims is None:
        return value
    return replace(value, dims=value.dims[len(front) :])


def _stacked(value: Value, front: tuple[Dimension, ...]) -> Value:
    if isinstance(value, InstanceValue) and front:
        many = map_leaves(value, lambda leaf: _stacked(leaf, front))
        return (
            replace(many, prefix=(*front, *value.prefix))
            if isinstance(many, InstanceValue)
            else many
        )
    if not isinstance(value, ArrayValue) or value.dims is None:
        return value
    return replace(value, dims=(*front, *value.dims))


def _refined(
    it: Interpreter,
    cls: ClassValue,
    name: str,
    type_: Type,
    value: Value,
    bindings: Bindings,
) -> Value:
    """What a field holds: what it was given, or else what its annotation says of it."""
    refined = matching.refine(it, type_, value, bindings)
    return (
        matching.number_field(it, cls, name, refined)
        if isinstance(value, Unknown)
        else refined
    )


def _default(it: Interpreter, module: str, expr: ir.Expr) -> Value:
    """The default of a field: a constant, a dtype, a function of a library, a spec, or a tuple of them."""

    frame = it.module_frame(module)
    if isinstance(expr, ir.Const):
        return it.evaluate(frame, expr)
    options = _field_options(expr)
    frame.silent += 1
    factory = options.get("default_factory")
    value = it.evaluate(frame, factory or options.get("default", expr))
    if factory is not None:
        value = it.call(frame, value, [], {}, -1)
    frame.silent -= 1
    return value if factory is not None or _is_fixed(value) else Unknown("a default")


def _field_options(expr: ir.Expr) -> dict[str, ir.Expr]:
    """What ``dataclasses.field(…)``, or another library's, is given by keyword."""
    func = expr.func if isinstance(expr, ir.Call) else None
    name = (
        func.id
        if isinstance(func, ir.Name)
        else func.name
        if isinstance(func, ir.Attr)
        else ""
    )
    if not isinstance(expr, ir.Call) or name != "field":
        return {}
    return {arg.keyword: arg.value for arg in expr.args if arg.keyword is not None}


_FIXED = (
    Literal,
    IntValue,
    SpecValue,
    ShardingValue,
    MeshValue,
    DTypeValue,
    ExternalValue,
)


def _is_fixed(value: Value) -> bool:
    """Whether a value stays what it is."""
    if isinstance(value, SequenceValue):
        return value.kind == "tuple" and all(map(_is_fixed, value.items))
    return isinstance(value, _FIXED)
