"""shardtypes' own names in guarded code: array types, classes of them, and what follows from signatures."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, ForwardRef

from shardlint.evaluation import guarded_code, meshes
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guarded_code import PLACES
from shardlint.evaluation.guards import MARK, NAMES, changed, is_users
from shardlint.evaluation.mapping import shard_map
from shardlint.evaluation.meshes import Sharding, Spec
from shardlint.evaluation.outside import Outside, provide
from shardlint.evaluation.recording import Where
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


def specs_of(
    kind: Any, prefix: Sequence[tuple[str, ...]] = (), where: Where | None = None
) -> Any:
    """The tree of specs of a type: one for each array in it. ``where`` is the annotation."""
    if isinstance(kind, ArrayType):
        make = Spec if where is None else changed(where, Spec)
        spec = make(
            *[axes if len(axes) != 1 else axes[0] for axes in (*prefix, *kind.axes())]
        )
        spec.where = where
        return spec
    if isinstance(kind, Stacked):
        return specs_of(kind.inner, (*prefix, *kind.axes()), where)
    if isinstance(kind, type) and is_users(kind) and is_dataclass(kind):
        places = _places(kind)
        found = {
            name: specs_of(kind_, prefix, places.get(name))
            for name, kind_ in fields_of(kind).items()
        }
        made = object.__new__(kind)
        for name, value in found.items():
            object.__setattr__(made, name, value)
        return made
    if isinstance(kind, types.GenericAlias) and kind.__origin__ is tuple:
        return tuple(specs_of(one, prefix, where) for one in kind.__args__)
    if isinstance(kind, Outside) and kind.qualname in ("typing.Any", "jax.Array"):
        return Spec()
    raise NotEvaluable("the specs of a type")


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
            specs_of(resolved(kinds.get(name, "?"), names)) for name in moving
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
def make_partition_specs(kind: Any) -> Any:
    return specs_of(kind)


@provide("shardtypes.make_shardings")
def make_shardings(kind: Any) -> Any:
    from shardtypes.semantics.trees import map_leaves

    return map_leaves(
        lambda spec: Sharding(meshes.current(), spec), specs_of(kind), is_leaf=_is_spec
    )


def _is_spec(value: Any) -> bool:
    return isinstance(value, Spec)


@provide("shardtypes.shard")
def _shard(x: Any, *rest: Any, **options: Any) -> Any:
    return x


@provide("shardtypes.check")
def _check(*args: Any) -> None:
    """Shapes are checked elsewhere."""


@provide("shardtypes.is_fully_sharded")
def _is_fully_sharded(spec: Spec) -> bool:
    mesh = meshes.current()
    if mesh is None:
        raise NotEvaluable("the mesh in force")
    used = spec.mentioned
    return used >= set(mesh.axis_names)
