"""Values against annotations: what a promise gives, and whether a value keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import objects, stacked_trees, typed_dicts
from shardlint.engine.field_types import field_types, is_given, of_instance
from shardlint.engine.meeting import meet
from shardlint.engine.scopes import shares_scope
from shardlint.engine.sharding import explicit, manual_match, placements
from shardlint.engine.trees import is_tree, static_fields
from shardlint.engine.types import (
    AnyType,
    ArrayType,
    ClassType,
    FunctionType,
    MappingType,
    RepeatedType,
    ScalarType,
    SequenceType,
    Type,
    UnionType,
    has_own_scope,
)
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    Dimension,
    EitherValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Label,
    Literal,
    MaybeValue,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import (
    Bindings,
    Facts,
    Mismatch,
    Shape,
    Size,
    dtypes,
    format_shape,
    messages,
    unify,
)
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.frames import Frame
    from shardlint.engine.interpreter import Interpreter
    from shardlint.ops.sharding import View

_DEPTH = 4
_CONTAINERS = (RepeatedType, SequenceType, MappingType)
_CONTAINED = (SequenceValue, CollectionValue, DictValue)
# values in one value: classes that hold unions of classes would have millions, and no arrays that anyone sees
_MANY = 2000


@frozen
class Problem:
    """A value that does not keep its annotation. ``kind`` tells that it is no array where one is promised, or the
    reverse."""

    code: str
    message: str
    witness: Mapping[str, int] = field(default_factory=dict)
    where: ArrayType | None = None
    dim: int | None = None
    kind: bool = False

    @property
    def declared(self) -> tuple[tuple[str, int, str], ...]:
        """The place of the annotation, as related places of a finding; none where none is known."""
        return () if self.where is None else (self.where.declared,)

    @property
    def doubtful_names(self) -> frozenset[str]:
        """Those of an annotation with more or fewer dimensions than the array has: either may be wrong."""
        of_rank = not (self.code or self.kind) and self.dim is None
        shape = self.where.shape if self.where is not None else None
        return shape.names if of_rank and shape is not None else frozenset()

    @property
    def doubtful_dtype(self) -> str | None:
        """That of an annotation of another dtype than the array has: either may be wrong."""
        where = self.where
        return where.dtype if where is not None and self.code == "ST212" else None


def as_symbol(name: str) -> Size:
    """The names of a signature are independent unknown constants."""
    return Size.symbol(name)


class Opaque:
    """Names nothing has bound: fixed sizes that may coincide with anything."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it

    def __call__(self, name: str) -> Size:
        return self.it.fresh(name)


class Own:
    """The names of a class whose instances have a scope of their own, for one argument: ``Batch.B``."""

    def __init__(self, cls: ClassValue, bindings: Bindings) -> None:
        self.head, self.bindings = cls.name, bindings
        while any(name.startswith(f"{self.head}.") for name in bindings.sizes):
            self.head += "'"  # another argument of the class

    def __call__(self, name: str) -> Size:
        size = Size.symbol(f"{self.head}.{name}")
        self.bindings.bind(f"{self.head}.{name}", size)
        return size


def instantiate(
    it: Interpreter,
    type_: Type,
    bindings: Bindings,
    new: Callable[[str], Size],
) -> Value:
    """The value that an annotation promises; names without a binding are bound to ``new(name)``."""
    # one annotation may be read while another is: for what constructors leave in a part
    outer, it.parts = it.parts, 0
    try:
        return _part(it, type_, bindings, new, 0)
    finally:
        it.parts = outer


def _part(
    it: Interpreter,
    type_: Type,
    bindings: Bindings,
    new: Callable[[str], Size],
    depth: int,
) -> Value:
    if it.parts >= _MANY:
        return Unknown("a part of a value that has too many")
    it.parts += 1
    match type_:
        case ArrayType():
            return _array(it, type_, bindings, new)
        case ScalarType(kind="int"):
            return IntValue(None)
        case ScalarType(kind="str"):
            return StringValue()
        case ScalarType(kind="None"):
            return Literal(None)
        case ScalarType(kind=kind):
            return ScalarValue(kind)
        case ClassType(cls=cls) if typed_dicts.is_typed_dict(cls):
            return _typed_dict(it, type_, bindings, new, depth)
        case ClassType() if depth < _DEPTH:
            return _instance(it, type_, bindings, new, depth)
        case SequenceType(items=items):
            return SequenceValue(
                tuple(_part(it, item, bindings, new, depth + 1) for item in items)
            )
        case UnionType(items=items):
            rest = [item for item in items if item != ScalarType("None")]
            if len(rest) == 1 and len(rest) < len(items):
                return MaybeValue(_part(it, rest[0], bindings, new, depth))
            return _either(it, items, bindings, new, depth)
        case RepeatedType(kind=kind, item=item):
            return CollectionValue(_any_item(it, item, bindings, depth), kind)
        case MappingType(value=item):
            return CollectionValue(_any_item(it, item, bindings, depth), "dict")
        case FunctionType(node=node, module=module) if node is not None:
            return FunctionValue(node, module, name=node.name)
        case _:
            return Unknown("no array annotation")


def _either(
    it: Interpreter,
    types: tuple[Type, ...],
    bindings: Bindings,
    new: Callable[[str], Size],
    depth: int,
) -> EitherValue:
    """One of several types. A name that not all arrays among them say is bound only where the value is of that type."""
    options: list[Value] = []
    bound: list[dict[str, Size]] = []
    mark = bindings.mark()
    for type_ in types:
        before = set(bindings.sizes)
        options.append(_part(it, type_, bindings, new, depth))
        names = {
            name: size for name, size in bindings.sizes.items() if name not in before
        }
        if names or isinstance(type_, ArrayType):
            bound.append(names)
        bindings.rollback(mark)
    for name, size in bound[0].items() if bound else ():
        if "." in name or all(name in names for names in bound):
            bindings.bind(name, size)
    return EitherValue(tuple(options))


def _any_item(it: Interpreter, type_: Type, bindings: Bindings, depth: int) -> Value:
    """What every item of a collection is: checkers look at one, so names that nothing else says may differ by item."""
    if depth >= _DEPTH:
        return Unknown("collections nested too deep")
    mark = bindings.mark()
    value = _part(it, type_, bindings, Opaque(it), depth + 1)
    bindings.rollback(mark)
    if isinstance(value, (IntValue, ScalarValue)):
        # lists of lists are often annotated so
        return Unknown("nothing enforces that items are single numbers")
    return value


def _array(
    it: Interpreter, type_: ArrayType, bindings: Bindings, new: Callable[[str], Size]
) -> Value:
    value = _promised(type_, bindings, new)
    return explicit.promised(it, value) if it.view is None else it.view.enter(value)


def _promised(
    type_: ArrayType, bindings: Bindings, new: Callable[[str], Size]
) -> ArrayValue:
    if type_.shape is None:
        return ArrayValue(None, type_.dtype)
    dims: list[Dimension] | None = []
    for dim in type_.shape.dims:
        axes = dim.axes if type_.shape.dialect == "shardtypes" else None
        if dim.size is not None:
            for name in sorted(dim.size.symbols):
                if bindings.get(name) is None:
                    bindings.bind(name, new(name))
        if dims is None:
            continue
        if dim.kind == "variadic":
            known = bindings.variadics.get(dim.name or "...")
            dims = (
                None
                if known is None
                else dims + [Dimension(size, axes) for size in known]
            )
        elif dim.kind == "size" and dim.size is not None:
            label = (
                Label(dim.name, False, (type_.module, type_.at)) if dim.name else None
            )
            dims.append(Dimension(dim.size.substitute(bindings.sizes), axes, label))
        else:
            dims.append(Dimension(None, axes))
    pending = (
        frozenset(type_.shape.pending) if type_.shape.dialect == "shardtypes" else None
    )
    return ArrayValue(
        None if dims is None else tuple(dims), type_.dtype, pending=pending
    )


def _typed_dict(
    it: Interpreter,
    type_: ClassType,
    bindings: Bindings,
    new: Callable[[str], Size],
    depth: int,
) -> Value:
    if depth >= _DEPTH or not typed_dicts.has_every_key(type_.cls):
        return Unknown("a typed dict, some of whose keys may be absent")
    names = new
    if new is as_symbol:
        names = Own(type_.cls, bindings) if depth == 0 else Opaque(it)
        bindings = Bindings()
    types = of_instance(it, type_).items()
    return DictValue(
        tuple((name, _part(it, one, bindings, names, depth + 1)) for name, one in types)
    )


def _instance(
    it: Interpreter,
    type_: ClassType,
    bindings: Bindings,
    new: Callable[[str], Size],
    depth: int,
) -> InstanceValue:
    fields = []
    private, own = Bindings(), Own(type_.cls, bindings)
    shared = type_.own or shares_scope(type_.cls)
    for name, field_type in of_instance(it, type_).items():
        private_field = has_own_scope(field_type) and not type_.own
        is_private = private_field or not shared
        if new is as_symbol and is_private and not is_given(it, type_, name):
            names = (
                own if depth == 0 and isinstance(field_type, ArrayType) else Opaque(it)
            )
            value = _part(it, field_type, private, names, depth + 1)
        else:
            value = _part(it, field_type, bindings, new, depth + 1)
        fields.append((name, number_field(it, type_.cls, name, value)))
    prefix = tuple(
        Dimension(d.size.substitute(bindings.sizes) if d.size else None, d.axes)
        for d in type_.prefix
    )
    if not prefix:
        fields = _constructed(it, type_.cls, fields)
    return InstanceValue(type_.cls, tuple(fields), prefix)


def number_field(it: Interpreter, cls: ClassValue, name: str, value: Value) -> Value:
    """What a field holds that is annotated as a number: one of some size. In a tree it may as well be an array."""
    if (
        is_tree(cls)
        and isinstance(value, (IntValue, ScalarValue))
        and name not in static_fields(cls)
    ):
        return Unknown(
            "a number or an array",
            it.fresh(name) if isinstance(value, IntValue) else None,
        )
    return IntValue(it.fresh(name)) if value == IntValue(None) else value


def _constructed(
    it: Interpreter, cls: ClassValue, fields: list[tuple[str, Value]]
) -> list[tuple[str, Value]]:
    """The annotated fields, and what else the constructors leave in every instance."""

    known = dict(fields)
    for name, value in it.left_by_constructors(cls, tuple(fields)):
        if isinstance(known.get(name, Unknown()), (Unknown, CollectionValue)):
            known[name] = value
    return list(known.items())


def has_room(it: Interpreter, count: int) -> bool:
    """Whether the value under way may have so many parts more, which are counted then."""
    if it.parts + count > _MANY:
        return False
    it.parts += count
    return True


def parts_in(values: Iterable[Value]) -> int:
    """How many values are in these, and in one another; counted to one more than a value may have."""
    count = 0
    waiting = list(values)
    while waiting and count <= _MANY:
        value = waiting.pop()
        count += 1
        if isinstance(value, EitherValue):
            waiting.extend(value.options)
        elif isinstance(value, MaybeValue):
            waiting.append(value.value)
        else:
            waiting.extend(objects.parts(value))
    return count


def check(
    it: Interpreter,
    type_: Type,
    value: Value,
    bindings: Bindings,
    facts: Facts,
    what: str,
    depth: int = 0,
) -> Problem | None:
    """Match a value against an annotation, binding the names it meets first."""
    parts = _parts(it, type_, value, what)
    if parts is not None:
        if isinstance(type_, ClassType):
            bindings = Bindings()  # each value of a typed dict names its own sizes
            if _is_stack(parts):
                return None
        for name, one, item in parts:
            found = check(it, one, item, bindings, facts, name, depth + 1)
            if found is not None:
                return found
        return None
    match type_, value:
        case ArrayType(), ArrayValue():
            if it.view is not None and value.manual:
                return _check_manual(it.view, type_, value, bindings, facts, what)
            found = check_array(type_, value, bindings, facts, what)
            text = (
                placements.conflict(it, type_, value, what) if found is None else None
            )
            return found if text is None else Problem("ST308", text, {}, type_)
        case ClassType(), InstanceValue() if value.cls is type_.cls and depth < _DEPTH:
            return _check_fields(it, type_, value, bindings, facts, what, depth)
        case SequenceType(), SequenceValue():
            return _wrong_count(type_, value, what)
        case _, EitherValue(options=options):
            return _check_options(it, type_, options, bindings, facts, what, depth)
        case UnionType(items=types), _:
            only = _only_option(types, value)
            if only is None:
                return None
            return check(it, only, value, bindings, facts, what, depth)
        case _, MaybeValue(value=inner):
            return check(it, type_, inner, bindings, facts, what, depth)
        case _:
            return _of_other_kind(it, type_, value, what)


def _is_stack(parts: list[tuple[str, Type, Value]]) -> bool:
    """Whether all arrays have as many dimensions more than their types, as ``vmap`` makes of one of a class."""
    more = set()
    for _, type_, value in parts:
        if not isinstance(type_, ArrayType) or not isinstance(value, ArrayValue):
            return False
        rank = None if type_.shape is None else type_.shape.rank
        if rank is None or value.dims is None:
            return False
        more.add(len(value.dims) - rank)
    return len(more) == 1 and min(more) > 0


def _check_options(
    it: Interpreter,
    type_: Type,
    options: tuple[Value, ...],
    bindings: Bindings,
    facts: Facts,
    what: str,
    depth: int,
) -> Problem | None:
    """A value that is one of several is wrong if none of them fits."""
    problems: list[Problem] = []
    for option in options:
        mark = bindings.mark()
        found = check(it, type_, option, bindings, facts, what, depth)
        bindings.rollback(mark)
        if found is None:
            return None
        problems.append(found)
    return problems[0] if problems else None


def _only_option(types: tuple[Type, ...], value: Value) -> Type | None:
    """The one of several types that a value can be of: the others are numbers, strings and None."""
    others = [one for one in types if not isinstance(one, ScalarType)]
    if len(others) != 1:
        return None
    (only,) = others
    is_array = isinstance(only, ArrayType) and isinstance(value, ArrayValue)
    is_container = isinstance(only, _CONTAINERS) and isinstance(value, _CONTAINED)
    return only if is_array or is_container else None


def check_at(
    it: Interpreter,
    frame: Frame,
    type_: Type,
    value: Value,
    bindings: Bindings,
    what: str,
    at: int,
) -> Problem | None:
    """The same of the value of the expression at a place: if that is conditional, each of its values has to fit."""
    for one in it.arms_of(frame.module, at, value):
        if one is value:
            continue
        mark = bindings.mark()
        found = check(it, type_, one, bindings, frame.facts, what)
        bindings.rollback(mark)
        if found is not None:
            return found
    return check(it, type_, value, bindings, frame.facts, what)


def _parts(
    it: Interpreter, type_: Type, value: Value, what: str
) -> list[tuple[str, Type, Value]] | None:
    """The items of a container, each with its type and what messages call it; None for anything else."""
    match type_, value:
        case SequenceType(items=types), SequenceValue(items=values) if len(
            types
        ) == len(values):
            pairs = zip(types, values, strict=True)
            return [
                (f"{what}, item {index}", one, item)
                for index, (one, item) in enumerate(pairs)
            ]
        case RepeatedType(item=one), SequenceValue(items=values):
            return [
                (f"{what}, item {index}", one, item)
                for index, item in enumerate(values)
            ]
        case (
            (RepeatedType(item=one) | MappingType(value=one)),
            CollectionValue(item=item),
        ):
            return [(f"{what}, any item", one, item)]
        case MappingType(value=one), DictValue(items=pairs):
            return [(f"{what}[{key!r}]", one, item) for key, item in pairs]
        case ClassType(cls=cls), DictValue(items=pairs) if typed_dicts.is_typed_dict(
            cls
        ):
            known = field_types(it, cls, type_.prefix)
            return [
                (f"{what}[{key!r}]", known[key], item)
                for key, item in pairs
                if isinstance(key, str) and key in known
            ]
        case _:
            return None


def _check_fields(
    it: Interpreter,
    type_: ClassType,
    value: InstanceValue,
    bindings: Bindings,
    facts: Facts,
    what: str,
    depth: int,
) -> Problem | None:
    """An instance, field by field. Those of a class with a scope of its own were checked when it was made."""
    shared = type_.own or shares_scope(type_.cls)
    if not shared and not type_.args:
        return None
    known = dict(value.fields)
    for name, field_type in of_instance(it, type_).items():
        is_own = has_own_scope(field_type) and not type_.own
        if (is_own or not shared) and not is_given(it, type_, name):
            continue
        if isinstance(field_type, AnyType):
            continue
        found = check(
            it,
            field_type,
            known.get(name, Unknown()),
            bindings,
            facts,
            f"{what}.{name}",
            depth + 1,
        )
        if found is not None and not found.kind:
            return found
    return None


def _wrong_count(
    type_: SequenceType, value: SequenceValue, what: str
) -> Problem | None:
    """A tuple of another number of items than its annotation; where that has no arrays, it is the type checker's."""
    promised = any(
        isinstance(one, ArrayType) and one.shape is not None for one in type_.items
    )
    if value.kind != "tuple" or len(type_.items) < 2 or not promised:
        return None
    got = f"a tuple of {_count(len(value.items))}"
    return Problem("", messages.expected_got(what, _count(len(type_.items)), got))


def _of_other_kind(
    it: Interpreter, type_: Type, value: Value, what: str
) -> Problem | None:
    """Something that is certainly no array where one is expected, or the reverse."""
    match type_, value:
        case ArrayType(shape=Shape()), SequenceValue(kind="tuple", items=values) if (
            _holds_arrays(values)
        ):
            got = f"a tuple of {_count(len(values))}"
            return Problem(
                "",
                messages.expected_got(what, type_.written, got),
                {},
                type_,
                kind=True,
            )
        case ArrayType(shape=Shape()), InstanceValue(cls=cls) if _only_holds_arrays(
            cls
        ):
            text = messages.expected_got(
                what, type_.written, f"an instance of {cls.name}"
            )
            return Problem("", text, {}, type_, kind=True)
        case ClassType(cls=cls), _ if not _tells_arrays(it, type_, 0):
            return None  # the type checker's business
        case ClassType(cls=cls), ArrayValue() if (
            value.dims is not None and _only_holds_arrays(cls)
        ):
            text = messages.expected_got(
                what, f"an instance of {cls.name}", written(value)
            )
            return Problem("", text, kind=True)
        case ClassType(cls=cls), SequenceValue(
            kind="tuple", names=None, items=values
        ) if _only_holds_arrays(cls):
            text = messages.expected_got(
                what, f"an instance of {cls.name}", f"a tuple of {_count(len(values))}"
            )
            return Problem("", text, kind=True)
        case _:
            return None


def _holds_arrays(values: tuple[Value, ...]) -> bool:
    """A tuple that is certainly no array's shape, nor a number that somebody wrote as a tuple."""
    return not values or any(isinstance(value, ArrayValue) for value in values)


def _count(number: int) -> str:
    return f"{number} item{'' if number == 1 else 's'}"


def _tells_arrays(it: Interpreter, type_: Type, depth: int) -> bool:
    """Whether a type says of anything inside that it is an array."""
    match type_:
        case ArrayType():
            return True
        case ClassType(cls=cls) if depth < _DEPTH:
            return any(
                _tells_arrays(it, one, depth + 1)
                for one in field_types(it, cls).values()
            )
        case SequenceType(items=items) | UnionType(items=items):
            return any(_tells_arrays(it, one, depth) for one in items)
        case RepeatedType(item=one) | MappingType(value=one):
            return _tells_arrays(it, one, depth)
        case _:
            return False


def _only_holds_arrays(cls: ClassValue) -> bool:
    """A dataclass that inherits nothing and converts to nothing: no array can be one, nor it an array."""
    methods = {node.name for node in cls.node.body if isinstance(node, ir.Function)}
    return cls.is_dataclass and not cls.bases and "__jax_array__" not in methods


def _check_manual(
    view: View,
    type_: ArrayType,
    value: ArrayValue,
    bindings: Bindings,
    facts: Facts,
    what: str,
) -> Problem | None:
    """The same in manual code, where sizes are local and the axes of dimensions are known."""
    value = manual_match.read_as_declared(view, type_, value)
    problem = check_array(
        type_, manual_match.as_declared(view, type_, value), bindings, facts, what
    )
    if problem is None:
        found = manual_match.conflict(view, type_, value, what)
    else:
        found = manual_match.replicated_for_sharded(
            view, type_, value, problem.dim, what
        )
        if found is None and not problem.code:
            mark = bindings.mark()
            if (
                check_array(
                    type_,
                    manual_match.with_own_sizes(view, value),
                    bindings,
                    facts,
                    what,
                )
                is None
            ):
                found = manual_match.conflict(view, type_, value, what)
            bindings.rollback(mark)
        if found is None or problem.code:
            return problem
        found = replace(found, witness=problem.witness)
    return (
        None if found is None else Problem(found.code, found.text, found.witness, type_)
    )


def check_array(
    type_: ArrayType, value: ArrayValue, bindings: Bindings, facts: Facts, what: str
) -> Problem | None:
    """One array against one annotation: sizes first, then dtype."""
    if type_.shape is not None:
        sizes = None if value.dims is None else [dim.size for dim in value.dims]
        mismatch = unify(type_.shape, sizes, bindings, facts)
        if mismatch is not None:
            return Problem(
                "",
                describe(type_, value, mismatch, what),
                mismatch.witness,
                type_,
                mismatch.dim,
            )
    if type_.dtype is not None and value.dtype is not None and not value.numpy:
        if not dtype_fits(type_.dtype, value.dtype):
            detail = messages.wrong_dtype(
                messages.dtype_text(type_.dtype), messages.dtype_text(value.dtype)
            )
            return Problem(
                "ST212",
                messages.expected_got(what, type_.written, written(value), detail),
                {},
                type_,
            )
    return None


def describe(type_: ArrayType, value: ArrayValue, mismatch: Mismatch, what: str) -> str:
    return messages.expected_got(what, type_.written, written(value), mismatch.text)


def written(value: ArrayValue) -> str:
    """The type of an array as an annotation writes it."""
    sizes = None if value.dims is None else [dim.size for dim in value.dims]
    return messages.array_text(value.dtype, format_shape(sizes))


def dtype_fits(declared: str, actual: str) -> bool:
    """Whether some array of the actual dtype, or dtype family, is allowed where ``declared`` stands."""
    return dtypes.fits(declared, actual)


def refine(it: Interpreter, type_: Type, value: Value, bindings: Bindings) -> Value:
    """What is known after an annotation was passed: the value, its gaps filled from the annotation. A tree of which
    nothing else is known may be a stack of what its class says."""
    if isinstance(type_, ArrayType):
        promised = instantiate(it, type_, bindings, Opaque(it))
        known = isinstance(promised, ArrayValue) and isinstance(
            value, (ArrayValue, Unknown)
        )
        return meet(it, promised, value) if known else value
    if (
        isinstance(type_, SequenceType)
        and isinstance(value, SequenceValue)
        and len(type_.items) == len(value.items)
    ):
        items = tuple(
            refine(it, one, item, bindings)
            for one, item in zip(type_.items, value.items, strict=True)
        )
        return replace(value, items=items)
    if isinstance(value, Unknown):
        promised = instantiate(it, type_, bindings, Opaque(it))
        if isinstance(promised, Unknown):
            return value
        return stacked_trees.without_ranks(it, promised)
    return value
