"""Arrays inside of other values: checked in each item and field, or counted where nothing can look."""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tests.runtime.loading import WAYS, load, outcome

SOURCE = """
import collections
import dataclasses
import typing
from collections.abc import (
    AsyncIterator, Awaitable, Callable, Collection, Generator, ItemsView, Iterable, Iterator, Mapping, MutableMapping,
    MutableSequence, Sequence, ValuesView,
)
from typing import (
    Annotated, Final, Generic, NamedTuple, NewType, NotRequired, Optional, Protocol, TypedDict, TypeVar, Union,
)

import jax
from shardtypes import f32, pytree_dataclass

T = TypeVar("T")
Bound = TypeVar("Bound", bound=f32["N"])
Constrained = TypeVar("Constrained", f32["N"], f32["N N N"])
BoundText = TypeVar("BoundText", bound="f32['N']")
Nest = Union[f32["N"], "list[Nest]", dict[str, "Nest"]]
Params2 = dict[str, "f32['N'] | Params2"]
New = NewType("New", f32["N"])


class Named(NamedTuple):
    n: int
    x: f32["N"]


class NamedOf(NamedTuple, Generic[T]):
    x: T


class Typed(TypedDict):
    x: f32["N"]
    y: NotRequired[f32["N"]]


@pytree_dataclass
class Layer:
    x: f32["N"]


@pytree_dataclass
class Tree:
    x: f32["N"]
    inner: "Tree | None" = None


@pytree_dataclass
class PairOf(Generic[T]):
    x: T


class Params(dict[str, f32["N"]]):
    pass


class ListOf(list[T]):
    pass


class BoxOf(Generic[T]):
    def __init__(self, x):
        self.x = x


class HasX(Protocol):
    x: f32["N"]


class Applies(Protocol):
    def apply(self, y: f32["N"]) -> f32["N"]: ...


class Applier(BoxOf):
    def apply(self, y):
        return self.x


@dataclasses.dataclass
class Plain:
    x: f32["N"]


@dataclasses.dataclass
class PlainOf(Generic[T]):
    x: T


@dataclasses.dataclass
class OfArrays(PlainOf[f32["N"]]):
    pass


@dataclasses.dataclass
class Early:
    late: "Late"


@dataclasses.dataclass
class Late:
    x: f32["N"]


class Parent:
    x: f32["N"]

"""

# The type, a value that holds an array, and what comes of a wrong one.
KINDS: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {
    "itself": ("f32['N']", lambda m, x: x, "alarm"),
    "optional": ("Optional[f32['N']]", lambda m, x: x, "alarm"),
    "optional, new": ("f32['N'] | None", lambda m, x: x, "alarm"),
    "union": ("f32['N'] | int", lambda m, x: x, "alarm"),
    "list": ("list[f32['N']]", lambda m, x: [jnp.ones(3), x], "alarm"),
    "list of optional": ("list[f32['N'] | None]", lambda m, x: [None, x], "alarm"),
    "tuple": ("tuple[int, f32['N']]", lambda m, x: (1, x), "alarm"),
    "tuple of many": ("tuple[f32['N'], ...]", lambda m, x: (jnp.ones(3), x), "alarm"),
    "tuple with many": ("tuple[int, *tuple[f32['N'], ...], int]", lambda m, x: (1, x, 2), "alarm"),
    "dict": ("dict[str, f32['N']]", lambda m, x: {"a": jnp.ones(3), "b": x}, "alarm"),
    "defaultdict": (
        "collections.defaultdict[str, f32['N']]", lambda m, x: collections.defaultdict(int, {"a": x}), "alarm"
    ),
    "OrderedDict": ("collections.OrderedDict[str, f32['N']]", lambda m, x: collections.OrderedDict(a=x), "alarm"),
    "deque": ("collections.deque[f32['N']]", lambda m, x: collections.deque([x]), "alarm"),
    "Mapping": ("Mapping[str, f32['N']]", lambda m, x: {"a": x}, "alarm"),
    "MutableMapping": ("MutableMapping[str, f32['N']]", lambda m, x: {"a": x}, "alarm"),
    "Sequence": ("Sequence[f32['N']]", lambda m, x: (jnp.ones(3), x), "alarm"),
    "MutableSequence": ("MutableSequence[f32['N']]", lambda m, x: [x], "alarm"),
    "Collection": ("Collection[f32['N']]", lambda m, x: [x], "alarm"),
    "values of a dict": ("ValuesView[f32['N']]", lambda m, x: {"a": x}.values(), "alarm"),
    "Iterable, a list": ("Iterable[f32['N']]", lambda m, x: [x], "alarm"),
    "Iterable, values of a dict": ("Iterable[f32['N']]", lambda m, x: {"a": x}.values(), "alarm"),
    "nested": ("dict[str, list[tuple[f32['N'], int]]]", lambda m, x: {"a": [(x, 1)]}, "alarm"),
    "string inside": ("list[\"f32['N']\"]", lambda m, x: [x], "alarm"),
    "Annotated": ("Annotated[jax.Array, f32['N']]", lambda m, x: x, "alarm"),
    "Annotated list": ("Annotated[list[f32['N']], 'a note']", lambda m, x: [x], "alarm"),
    "bound": ("Bound", lambda m, x: x, "alarm"),
    "constrained": ("Constrained", lambda m, x: x, "alarm"),
    "bound, a string": ("BoundText", lambda m, x: x, "alarm"),
    "a type that holds itself": ("Nest", lambda m, x: {"a": [[jnp.ones(3)], {"b": [x]}]}, "alarm"),
    "a type that holds itself, the first": ("Nest", lambda m, x: x, "alarm"),
    "a dict that holds itself": ("Params2", lambda m, x: {"a": {"b": {"c": x}}}, "alarm"),
    "new type": ("New", lambda m, x: x, "alarm"),
    "named tuple": ("Named", lambda m, x: m.Named(1, x), "own"),
    "generic named tuple": ("NamedOf[f32['N']]", lambda m, x: m.NamedOf(x), "alarm"),
    "typed dict": ("Typed", lambda m, x: m.Typed(x=x), "own"),
    "typed dict, a key that may be missing": ("Typed", lambda m, x: m.Typed(x=jnp.ones(3), y=x), "alarm"),
    "dataclass": ("Layer", lambda m, x: m.Layer(x), "alarm"),
    "dataclass that holds itself": ("Tree", lambda m, x: m.Tree(jnp.ones(3), m.Tree(x)), "alarm"),
    "generic dataclass": ("PairOf[f32['N']]", lambda m, x: m.PairOf(x), "alarm"),
    "list of dataclasses": ("list[Layer]", lambda m, x: [m.Layer(x)], "alarm"),
    "subclass of dict": ("Params", lambda m, x: m.Params(a=x), "alarm"),
    "generic subclass of list": ("ListOf[f32['N']]", lambda m, x: m.ListOf([x]), "alarm"),
    "Iterable, a generator": ("Iterable[f32['N']]", lambda m, x: (y for y in [x]), "count"),
    "Iterator": ("Iterator[f32['N']]", lambda m, x: iter([x]), "count"),
    "Generator": ("Generator[f32['N'], None, None]", lambda m, x: (y for y in [x]), "count"),
    "zip": ("Iterable[tuple[f32['N'], int]]", lambda m, x: zip([x], [1], strict=True), "count"),
    "items of a dict": ("ItemsView[str, f32['N']]", lambda m, x: {"a": x}.items(), "count"),
    "callable": ("Callable[[f32['N']], f32['N']]", lambda m, x: lambda y: x, "count"),
    "generic class": ("BoxOf[f32['N']]", lambda m, x: m.BoxOf(x), "count"),
    "protocol": ("HasX", lambda m, x: m.BoxOf(x), "alarm"),
    "protocol with methods": ("Applies", lambda m, x: m.Applier(x), "count"),
    "plain dataclass": ("Plain", lambda m, x: m.Plain(x), "own"),
    "dataclass of a generic one": ("OfArrays", lambda m, x: m.OfArrays(x), "own"),
    "generic plain dataclass": ("PlainOf[f32['N']]", lambda m, x: m.PlainOf(x), "alarm"),
    "dataclass that is named before it is defined": ("Early", lambda m, x: m.Early(m.Late(x)), "own"),
    "attribute of a class": ("Parent", lambda m, x: m.Parent(), "count"),
}  # fmt: skip
if sys.version_info >= (3, 12):
    SOURCE += (
        "type Alias = f32['N']\ntype ListAlias[S] = list[S]\n"
        "type Same[S] = S\ntype Turned[A, B] = tuple[B, A]\n"
        "type Deep = Alias | list[Deep] | dict[str, Deep]\n"
        "type DeepOf[S] = S | tuple[DeepOf[S], ...]\n"
        "type Deeper[S] = S | list[Deeper[list[S]]]\n"
        "@dataclasses.dataclass\nclass Member:\n    parts: 'Members'\n"
        "type Members = f32['N'] | list[Member]\n"
    )
    KINDS["alias"] = "Alias", lambda m, x: x, "alarm"
    KINDS["generic alias"] = "ListAlias[f32['N']]", lambda m, x: [x], "alarm"
    KINDS["alias of its variable"] = "Same[f32['N']]", lambda m, x: x, "alarm"
    KINDS["alias, variables in another order"] = (
        "Turned[int, f32['N']]",
        lambda m, x: (x, 1),
        "alarm",
    )
    KINDS["alias of itself"] = "Deep", lambda m, x: {"a": [[x]]}, "alarm"
    KINDS["generic alias of itself"] = (
        "DeepOf[f32['N']]",
        lambda m, x: ((jnp.ones(3), (x,)),),
        "alarm",
    )
    KINDS["alias of itself, of more each time"] = (
        "Deeper[f32['N']]",
        lambda m, x: [[[[x]]]],
        "alarm",
    )
    KINDS["alias and class that hold each other"] = (
        "Members",
        lambda m, x: [m.Member([m.Member(x)])],
        "own",
    )
if sys.version_info >= (3, 13):
    SOURCE += "@dataclasses.dataclass\nclass WithDefault[S = f32['N']]:\n    x: S\n"
    KINDS["default of a class"] = (
        "WithDefault",
        lambda m, x: m.WithDefault(x),
        "own",
    )
    KINDS["default of a class, given"] = (
        "WithDefault[f32['N']]",
        lambda m, x: m.WithDefault(x),
        "alarm",
    )

NUMBERED = dict(zip(KINDS, itertools.count(), strict=False))
FUNCTIONS = "".join(
    f"Type{number} = {KINDS[kind][0]}\n"
    f"@checked\ndef take{number}(x: f32['N'], value: Type{number}) -> None:\n    return None\n"
    f"@checked\ndef give{number}(x: f32['N'], value) -> Type{number}:\n    return value\n"
    for kind, number in NUMBERED.items()
)


@pytest.fixture(scope="module", params=WAYS)
def module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    return load(
        tmp_path_factory.mktemp("containers"), SOURCE + FUNCTIONS, request.param
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["take", "give"])
def test_each_array_in_a_value_is_checked_or_counted(
    module: Any, kind: str, role: str
) -> None:
    _, make, expected = KINDS[kind]
    function = getattr(module, f"{role}{NUMBERED[kind]}")
    x = jnp.ones(3)
    # names that are the value's own are compared, and may differ
    checked = expected in ("alarm", "own")
    assert outcome(lambda: function(x, make(module, x))) == (
        "silence" if checked else "count"
    )
    assert outcome(lambda: function(x, make(module, jnp.ones(4)))) == expected.replace(
        "own", "count"
    )


@pytest.mark.parametrize(
    "kind",
    ["list", "tuple", "dict", "Sequence", "named tuple", "typed dict", "dataclass"],
)
def test_a_value_of_another_type_is_refused(module: Any, kind: str) -> None:
    assert (
        outcome(lambda: getattr(module, f"take{NUMBERED[kind]}")(jnp.ones(3), 3))
        == "alarm"
    )


def test_parts_are_named_in_messages(tmp_path: Path) -> None:
    module = load(tmp_path, SOURCE + FUNCTIONS, "shardtypes.typechecked")

    def message(kind: str, value: Any) -> str:
        with pytest.raises(Exception, match=r".") as caught:
            getattr(module, f"take{NUMBERED[kind]}")(jnp.ones(3), value)
        return str(caught.value).splitlines()[0].replace(f"take{NUMBERED[kind]}", "f")

    wrong = jnp.ones(4)
    said = "dimension 0 is 4, expected N = 3"
    assert (
        message("list", [jnp.ones(3), wrong])
        == f"item 1 of f: parameter 'value': {said}"
    )
    assert (
        message("dict", {"a": wrong})
        == f"value of key 'a' of f: parameter 'value': {said}"
    )
    whole = jnp.ones(3, jnp.int32)
    dtype = "dtype is i32, expected f32"
    assert (
        message("named tuple", module.Named(1, whole))
        == f"attribute 'x' of f: parameter 'value': {dtype}"
    )
    assert (
        message("dataclass", module.Layer(wrong))
        == f"f: parameter 'value', field 'x': {said}"
    )
    assert message("nested", {"a": [(wrong, 1)]}) == (
        f"item 0 of item 0 of value of key 'a' of f: parameter 'value': {said}"
    )
    assert message("list", (wrong,)) == "f: parameter 'value' is not a list"
    assert message("tuple", (1, wrong, 3)) == (
        "f: parameter 'value' has wrong number of elements (expected 2, got 3 instead)"
    )
    assert (
        message("tuple", ("a", wrong))
        == "item 0 of f: parameter 'value' is not an instance of int"
    )
    assert (
        message("typed dict", {})
        == "f: parameter 'value' is missing required key(s): \"x\""
    )
    assert message("typed dict", {"x": jnp.ones(3), "z": 1}) == (
        "f: parameter 'value' has unexpected extra key(s): \"z\""
    )
