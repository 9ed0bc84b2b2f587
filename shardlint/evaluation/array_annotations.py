"""shardtypes' own names in guarded code: array types, classes of them, and what follows from signatures."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, ForwardRef

from shardlint.evaluation import guarded_code, meshes
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guarded_code import PLACES
from shardlint.evaluation.guards import MARK, NAMES, changed, is_users
from shardlint.evaluation.mapping import shard_map
from shardlint.evaluation.meshes import Sharding, Spec
from shardlint.evaluation.outside import KNOWN, Outside, provide
from shardlint.evaluation.pieces import UnknownSharding
from shardlint.evaluation.recording import Where
from shardlint.evaluation.trees import static_fields
from shardtypes.lang import Dialect, Shape, ShapeSyntaxError, parse
from shardtypes.lang.array_names import JAXTYPING_DTYPES, SHARDTYPES_DTYPES


@dataclass(frozen=True)
class ArrayType:
    """``f32['B/d M']`` or jaxtyping's ``Float[Array, "b m"]``. ``dtype`` is a dtype or a family; None is any."""

    text: str
    dtype: str | None
    dialect: Dialect = "shardtypes"

    @property
    def shape(self) -> Shape:
        """Raises NotEvaluable."""
        try:
            return parse(self.text, self.dialect)
        except ShapeSyntaxError as error:
            raise NotEvaluable(f"the shape {self.text!r}") from error

    def axes(self) -> list[tuple[str, ...]]:
        """The mesh axes of each dimension."""
        return [tuple(dim.axes) for dim in self.shape.dims]

    def __or__(self, other: Any) -> ArrayType:
        return self

    __ror__ = __or__


@dataclass(frozen=True)
class Stacked:
    """``Array['layers', T]``: a type with dimensions in front."""

    text: str
    inner: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)

    def axes(self) -> list[tuple[str, ...]]:
        return [tuple(dim.axes) for dim in parse(self.text).dims]


for _cls in (ArrayType, Stacked):
    setattr(_cls, MARK, True)


def _text(given: Any) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


def _array_type(name: str, dtype: str | None) -> None:
    """Provide ``f32[…]`` and ``f32[Array, …]`` under a name of ours."""

    @provide(f"shardtypes.{name}[]")
    @provide(f"shardtypes.annotated.{name}[]")
    def made(item: Any) -> ArrayType:
        text = item[-1] if isinstance(item, tuple) else item
        return ArrayType(_text(text), dtype)


def _jaxtyping_type(name: str, dtype: str | None) -> None:
    """Provide ``Float[Array, "…"]`` under a name of jaxtyping's."""

    @provide(f"jaxtyping.{name}[]")
    def made(item: tuple[Any, Any]) -> ArrayType:
        return ArrayType(_text(item[1]), dtype, "jaxtyping")


for _name, _dtype in SHARDTYPES_DTYPES.items():
    _array_type(_name, _dtype)
for _name, _dtype in JAXTYPING_DTYPES.items():
    _jaxtyping_type(_name, _dtype)


@provide("shardtypes.Array[]")
def _stacked(item: tuple[Any, Any]) -> Any:
    text, inner = item
    return Stacked(_text(text), inner)


# --- annotations are text; they are read in the module that they stand in ---------------------------------------------


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation's text means. Raises NotEvaluable."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__  # as tuples with names keep it
    if not isinstance(annotation, str):
        return annotation
    try:
        tree = ast.parse(annotation.strip(), mode="eval")
        if isinstance(tree.body, ast.Constant) and isinstance(tree.body.value, str):
            return resolved(tree.body.value, names)  # it stands in quotes
        guarded = guarded_code.expression(tree)
        return eval(compile(guarded, "annotation", "eval"), names)
    except (SyntaxError, NameError, TypeError, AttributeError) as error:
        raise NotEvaluable(f"the annotation {annotation}") from error


NO_EXAMPLE: Any = object()
"""No example of a value; None is one of what is optional."""


def specs_of(
    kind: Any,
    prefix: Sequence[tuple[str, ...]] = (),
    where: Where | None = None,
    example: Any = NO_EXAMPLE,
) -> Any:
    """The tree of specs of a type: one for each array in it, or for all items of a container of which no ``example``
    tells how many there are. ``where`` is the annotation."""
    if example is None or kind is None or kind is types.NoneType:
        return None
    if isinstance(kind, ArrayType):
        make = Spec if where is None else changed(where, Spec)
        spec = make(
            *[axes if len(axes) != 1 else axes[0] for axes in (*prefix, *kind.axes())]
        )
        spec.where = where
        return spec
    if isinstance(kind, Stacked):
        return specs_of(kind.inner, (*prefix, *kind.axes()), where, example)
    if isinstance(kind, type) and is_users(kind):
        if is_dataclass(kind) or issubclass(kind, tuple):
            return _specs_of_fields(kind, prefix, example)
    if isinstance(kind, dict):
        return {
            name: specs_of(one, prefix, where, _item(example, name))
            for name, one in kind.items()
        }
    if isinstance(kind, (list, tuple)):
        return type(kind)(_specs_of_items(kind, prefix, where, example))
    if isinstance(kind, types.GenericAlias):
        return _specs_of_container(kind, prefix, where, example)
    if isinstance(kind, Outside) and kind.qualname in ("typing.Any", "jax.Array"):
        return Spec()
    raise NotEvaluable("the specs of a type")


def _item(example: Any, key: Any) -> Any:
    try:
        return example[key]
    except (TypeError, LookupError):  # no example, or one of another structure
        return NO_EXAMPLE


def _specs_of_items(
    kinds: Sequence[Any],
    prefix: Sequence[tuple[str, ...]],
    where: Where | None,
    example: Any,
) -> Iterator[Any]:
    for number, one in enumerate(kinds):
        yield specs_of(one, prefix, where, _item(example, number))


def _specs_of_container(
    kind: types.GenericAlias,
    prefix: Sequence[tuple[str, ...]],
    where: Where | None,
    example: Any,
) -> Any:
    """Of ``tuple[T, U]``, and of what has any number of items: for those of the example, or all alike."""
    is_open = len(kind.__args__) == 2 and kind.__args__[1] is Ellipsis
    if kind.__origin__ is tuple and not is_open:
        return tuple(_specs_of_items(kind.__args__, prefix, where, example))
    if kind.__origin__ not in (tuple, list, dict):
        raise NotEvaluable("the specs of a type")
    item = kind.__args__[1 if kind.__origin__ is dict else 0]
    if isinstance(example, dict):
        return {key: specs_of(item, prefix, where, one) for key, one in example.items()}
    if isinstance(example, (list, tuple)):
        return type(example)([specs_of(item, prefix, where, one) for one in example])
    if isinstance(item, ArrayType):
        return specs_of(item, prefix, where)
    raise NotEvaluable("the specs of a container of which it is not known what it has")


def _specs_of_fields(cls: type, prefix: Sequence[tuple[str, ...]], example: Any) -> Any:
    """An object of a class of the program that has specs for its arrays, and of what is no array its value."""
    places = _places(cls)
    static = () if issubclass(cls, tuple) else static_fields(cls)
    found: dict[str, Any] = {}
    for name, kind in fields_of(cls).items():
        if name in static:
            found[name] = getattr(example, name, None)
            continue
        one = getattr(example, name, NO_EXAMPLE)
        found[name] = specs_of(kind, prefix, places.get(name), one)
    return with_fields(cls, found)


def with_fields(cls: type, found: Mapping[str, Any]) -> Any:
    """An object of a dataclass, whose own code does not run, or a tuple with names."""
    if issubclass(cls, tuple):
        return cls(**found)
    made = object.__new__(cls)
    for name, value in found.items():
        object.__setattr__(made, name, value)
    return made


def _places(cls: type) -> dict[str, Where]:
    """Where the annotations of a class stand."""
    found: dict[str, Where] = {}
    for base in reversed(cls.__mro__):
        path = base.__dict__.get(NAMES, {}).get("__file__", "")
        found.update(
            {name: Where(path, place) for name, place in base.__dict__.get(PLACES, ())}
        )
    return found


def fields_of(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        names = base.__dict__.get(NAMES, {})
        texts = inspect.get_annotations(base)
        found.update({name: resolved(text, names) for name, text in texts.items()})
    return found


def names_of(function: Any) -> dict[str, Any]:
    """The names that a function's annotations may use."""
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if isinstance(inner, types.MethodType):
        inner = inner.__func__
    if not isinstance(inner, types.FunctionType):
        raise NotEvaluable("the signature of something that is no function")
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    return {**inner.__globals__, **{name: cell.cell_contents for name, cell in cells}}


#: Marks what ``typed_shard_map`` makes, which takes ``self`` as the function does.
MAPPED_BY_TYPES = "_mapped_by_types"
#: What the first parameter of a method is called.
_RECEIVERS = ("self", "cls")


def _is_sharded(value: Any) -> bool:
    """Whether a value is of a dataclass of which a field says that it is sharded."""
    kind = type(value)
    if not (is_users(kind) and is_dataclass(kind)):
        return False
    fields = fields_of(kind).values()
    return any(any(field.axes()) for field in fields if isinstance(field, ArrayType))


@provide("shardtypes.typed_shard_map")
@provide("shardlib.shardtypes.typed_shard_map")
def typed_shard_map(
    f: Any = None,
    *,
    mesh: Any = None,
    check_rep: bool = True,
    check_vma: bool = True,
    **options: Any,
) -> Any:
    if f is None:
        return functools.partial(
            typed_shard_map, mesh=mesh, check_rep=check_rep, check_vma=check_vma
        )
    names = names_of(f)
    inner = f

    def mapped(*args: Any, **kwargs: Any) -> Any:
        annotations = inner.__annotations__
        parameters = inner.__code__.co_varnames[: inner.__code__.co_argcount]
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        kinds = dict(annotations)
        closed_over = None
        receiver = parameters[0] if parameters else None
        if receiver in _RECEIVERS and receiver not in kinds and receiver in given:
            kinds[receiver] = type(given[receiver])
            if not _is_sharded(given[receiver]):
                closed_over = receiver
        moving = {
            name: value
            for name, value in given.items()
            if not isinstance(value, (int, float, str, bool)) and name != closed_over
        }
        specs = tuple(
            specs_of(resolved(kinds.get(name, "?"), names), example=value)
            for name, value in moving.items()
        )
        results = specs_of(resolved(annotations.get("return", "?"), names))
        static = {name: value for name, value in given.items() if name not in moving}

        def body(*values: Any) -> Any:
            return inner(**dict(zip(moving, values, strict=True)), **static)

        body.__name__ = inner.__name__
        over = shard_map(body, mesh, specs, results, check_vma=check_vma and check_rep)
        return over(*moving.values())

    mapped.__name__ = inner.__name__
    setattr(mapped, MAPPED_BY_TYPES, True)
    mapped.__wrapped__ = inner  # type: ignore[attr-defined]  # for whoever asks for the signature
    return mapped


@provide("shardtypes.make_partition_specs")
def make_partition_specs(kind: Any, example: Any = None) -> Any:
    return specs_of(kind, example=NO_EXAMPLE if example is None else example)


@provide("shardtypes.make_shardings")
def make_shardings(kind: Any, mesh: Any = None, example: Any = None) -> Any:
    from shardtypes.semantics.trees import map_leaves

    specs = make_partition_specs(kind, example)
    over = meshes.current() if mesh is None else mesh
    return map_leaves(lambda spec: Sharding(over, spec), specs, is_leaf=_is_spec)


def _is_spec(value: Any) -> bool:
    return isinstance(value, Spec)


@provide("shardtypes.shard")
def _shard(x: Any, *rest: Any, **options: Any) -> Any:
    return x


@provide("shardtypes.check")
@provide("shardtypes.check_size")
@provide("shardtypes.install_import_hook")
def _check(*args: Any) -> None:
    """Shapes are checked elsewhere."""


@provide("shardtypes.layout")
def _layout(x: Any, mesh: Any = None) -> UnknownSharding:
    """What programs print of an array."""
    return UnknownSharding()


provide("shardtypes.enabled")(KNOWN["contextlib.nullcontext"])
provide("shardtypes.Scope")(KNOWN["contextlib.nullcontext"])


@provide("shardtypes.is_fully_sharded")
def _is_fully_sharded(spec: Spec) -> bool:
    mesh = meshes.current()
    if mesh is None:
        raise NotEvaluable("the mesh in force")
    used = spec.mentioned
    return used >= set(mesh.axis_names)
