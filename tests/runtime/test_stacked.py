"""``Array['layers', T]``: the class is found again wherever it goes, and says what its fields are."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import typing
from abc import ABC
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import cloudpickle
import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Float
from typeguard import TypeCheckError

import shardtypes as st
from shardtypes import Array, f32, i32, pytree_dataclass, typechecked
from shardtypes.errors import ShapeError
from tests.support import run_python

T = TypeVar("T")


@pytree_dataclass
class Layer:
    w: f32["M F"]
    b: f32["F"] | None = None
    name: str = dataclasses.field(default="x", metadata={"static": True})

    def total(self) -> Any:
        return self.w.sum()


@pytree_dataclass(frozen=True)
class Frozen(ABC):
    w: f32["M F"]


@pytree_dataclass
class Pair(Generic[T]):
    x: T
    y: i32["Q"]


@pytree_dataclass
class Block:
    one: Layer
    many: list[Layer]


Layers = Array["layers", Layer]


@pytree_dataclass
class Grown(Layers):
    z: f32["Z"] | None = None


W, B = jnp.ones((4, 2, 3)), jnp.ones((4, 3))
KINDS: dict[str, Any] = {
    "layers": Layers,
    "frozen": Array["layers/t", Frozen],
    "generic": Array["layers", Pair[f32["A"]]],
    "nested": Array["layers", Block],
    "twice": Array["steps", Array["layers", Layer]],
    "any rank": Array["... n", Layer],
    "subclass": Grown,
}
VALUES: dict[str, Any] = {
    "layers": Layers(w=W, b=B, name="q"),
    "frozen": KINDS["frozen"](w=W),
    "generic": KINDS["generic"](x=B, y=B.astype(int)),
    "nested": KINDS["nested"](one=Layers(w=W), many=[Layers(w=W, b=B)]),
    "twice": KINDS["twice"](w=W[None]),
    "any rank": KINDS["any rank"](w=W),
    "subclass": Grown(w=W, z=jnp.ones(2)),
}

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "oldest pickle": lambda x: pickle.loads(pickle.dumps(x, 0)),
    "cloudpickle": lambda x: pickle.loads(cloudpickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def same(a: Any, b: Any) -> bool:
    equal = jax.tree.map(lambda x, y: bool((x == y).all()), a, b)
    return (
        type(a) is type(b)
        and jax.tree.structure(a) == jax.tree.structure(b)
        and all(jax.tree.leaves(equal))
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_it_is_copied(name: str, way: str) -> None:
    value, send = VALUES[name], WAYS[way]
    assert same(send(value), value)
    for kind in (type(value), KINDS[name]):
        assert send(kind) is kind
        assert send([kind, value])[0] is kind
        assert send(list[kind]) == list[kind]


@pytest.mark.parametrize(
    "dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"]
)
def test_it_reaches_another_process(
    tmp_path: Path, dumps: Callable[[Any], bytes]
) -> None:
    (tmp_path / "stacked_model.py").write_text(
        "from shardtypes import Array, f32, pytree_dataclass\n"
        "@pytree_dataclass\nclass Layer:\n    w: f32['M F']\n"
        "Layers = Array['... layers/t', Layer]\n"
    )
    program = tmp_path / "reads.py"
    program.write_text(
        "import pickle, sys, jax\nsys.path.insert(0, sys.argv[1])\n"
        "kind, value = pickle.load(open(sys.argv[1] + '/sent', 'rb'))\nimport stacked_model\n"
        "assert kind is stacked_model.Layers and type(value) is stacked_model.Layer, kind\n"
        "assert [leaf.shape for leaf in jax.tree.leaves(value)] == [(4, 2, 3)]\nprint(kind.__annotations__)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import stacked_model  # type: ignore[import-not-found,unused-ignore]

        (tmp_path / "sent").write_bytes(
            dumps((stacked_model.Layers, stacked_model.Layers(w=W)))
        )
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("stacked_model", None)
    done = run_python(str(program), str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "{'w': f32['... layers/t M F']}\n"), (
        done.stderr
    )


def test_its_fields_are_the_stacked_ones_wherever_one_asks() -> None:
    wanted = {"w": f32["layers M F"], "b": f32["layers F"] | None, "name": str}
    assert {field.name: field.type for field in dataclasses.fields(Layers)} == wanted
    assert typing.get_type_hints(Layers) == Layers.__annotations__ == wanted
    assert {
        name: p.annotation for name, p in inspect.signature(Layers).parameters.items()
    } == wanted
    # the class itself is as it was
    assert typing.get_type_hints(Layer)["w"] == f32["M F"]
    assert (
        dataclasses.fields(Layers)[2].metadata == {"static": True}
        and Layers(w=W).name == "x"
    )
    assert typing.get_type_hints(Grown) == {**wanted, "z": f32["Z"] | None}
    assert typing.get_type_hints(Array["n", Pair[f32["A"]]]) == {
        "x": f32["n A"],
        "y": i32["n Q"],
    }
    assert typing.get_type_hints(Array["n", Block]) == {
        "one": Array["n", Layer],
        "many": list[Array["n", Layer]],
    }
    assert typing.get_type_hints(Array["s", Layers])["w"] == f32["s layers M F"]


def test_names_equality_and_methods() -> None:
    assert (
        Layers.__name__ == Layers.__qualname__ == "Layer['layers']"
        and Layers.__module__ == __name__
    )
    assert repr(Layers) == f"<class '{__name__}.Layer['layers']'>"
    assert Layers(w=1) == Layers(w=1) != Layers(w=2)
    assert (
        issubclass(Layers, Layer)
        and Array["layers ", Layer] is Layers is Array[b"layers", Layer]
    )
    assert Layers(w=W).total() == 24 and dataclasses.replace(Layers(w=W), b=B).b is B
    assert hash(Layers) == hash(Array["layers", Layer])
    assert jax.tree.map(lambda x: x.shape, Layers(w=W)) == Layers(w=(4, 2, 3))


def test_its_values_are_of_the_class_that_is_stacked() -> None:
    made = Layers(w=W, b=B, name="q")
    assert type(made) is Layer and same(made, Layer(w=W, b=B, name="q"))
    assert isinstance(made, Layers) and not isinstance(B, Layers)
    assert type(KINDS["frozen"](w=W)) is Frozen
    assert type(KINDS["twice"](w=W)) is Layer
    assert repr(Layers(w=1, b=2)) == "Layer(w=1, b=2, name='x')"
    # a class that derives from one has values of its own
    grown = Grown(w=W, z=jnp.ones(2))
    assert type(grown) is Grown and isinstance(grown, Layers)
    assert not isinstance(made, Grown)


def test_it_is_checked_as_what_it_says() -> None:
    @st.typechecked
    def f(p: Layers) -> f32["layers"]:
        return p.w.sum((1, 2))

    f(Layers(w=W, b=B))
    for wrong in (Layers(w=W, b=B[:3]), Layers(w=W[0])):
        with pytest.raises(TypeCheckError, match=r"parameter 'p', field '[wb]'"):
            f(wrong)
    with pytest.raises(TypeCheckError, match="not an instance"):
        f(Block(one=Layer(w=W), many=[]))


def test_what_vmap_makes_of_the_class_is_checked_as_a_stack() -> None:
    @st.pytree_dataclass
    class Model:
        layers: Layers
        twice: Array["steps", Layers]

    @st.typechecked
    def f(p: Layers, many: list[Layers] | None = None) -> f32["layers"]:
        return p.w.sum((1, 2))

    @st.typechecked
    def g(m: Model) -> f32["layers"]:
        return m.layers.w.sum((1, 2))

    def make(seed: jax.Array) -> Layer:
        return Layer(w=jnp.ones((2, 3)) * seed, b=jnp.ones(3))

    made = jax.vmap(make)(jnp.arange(4.0))
    twice = jax.vmap(jax.vmap(make))(jnp.ones((5, 4)))
    assert type(made) is Layer
    f(made, [made])
    g(Model(made, twice))
    for wrong in (Layer(w=W, b=B[:3]), Layer(w=W[0]), make(jnp.ones(()))):
        with pytest.raises(TypeCheckError, match=r"parameter 'p', field '[wb]'"):
            f(wrong)
        with pytest.raises(TypeCheckError, match=r"field 'layers.[wb]'"):
            g(Model(wrong, twice))
    with pytest.raises(TypeCheckError, match=r"field 'twice\.w': rank is 3"):
        g(Model(made, made))


def test_a_class_that_is_checked_where_it_is_made_is_so_when_stacked() -> None:
    @st.typechecked
    @pytree_dataclass
    class Checked:
        w: f32["M F"]
        b: f32["F"]

    stacked = Array["layers", Checked]
    stacked(w=W, b=B)
    Checked(w=W[0], b=B[0])
    with pytest.raises(
        st.ShapeError,
        match=r"Checked\['layers'\]: field 'b': dimension 0 is 3, expected layers = 4",
    ):
        stacked(w=W, b=B[:3])
    with pytest.raises(st.ShapeError, match="field 'w': rank is 3, expected 2"):
        Checked(w=W, b=B[0])


def test_a_stack_that_a_program_makes_by_the_class_of_one_is_counted() -> None:
    @st.typechecked
    @pytree_dataclass
    class Checked:
        w: f32["M F"]
        b: f32["F"]

    st._stats.reset()
    Checked(w=W, b=B)
    assert [*st._stats.snapshot()["not_possible"]] == [
        "Checked: a stack was made by the class of one of its values"
    ]
    for w, b in ((W, B[:3]), (W, B[:, :2]), (W, B.astype(int)), (W[0], B)):
        with pytest.raises(st.ShapeError, match="Checked: field"):
            Checked(w=w, b=b)


def test_a_stack_may_be_made_from_another() -> None:
    @typechecked
    def doubled(layers: Array["n", Layer]) -> Array["2*n", Layer]:
        return jax.tree.map(lambda w: jnp.concatenate([w, w]), layers)

    @typechecked
    def kept(layers: Array["n", Layer]) -> Array["2*n", Layer]:
        return layers

    layers = Array["n", Layer](w=W, b=B, name="q")
    assert doubled(layers).w.shape == (8, 2, 3)
    with pytest.raises(ShapeError, match="dimension 0 is 4, expected 2\\*n = 8"):
        kept(layers)


class OfJaxtyping(NamedTuple):
    v: Float[jax.Array, "2"]
    w: Float[jax.Array, "2 n"]


class TypedOfJaxtyping(TypedDict):
    v: Float[jax.Array, "2"]
    w: Float[jax.Array, "2 n"]


@pytest.mark.parametrize(
    "kind",
    [OfJaxtyping, tuple[OfJaxtyping, int], OfJaxtyping | None, TypedOfJaxtyping],
    ids=["named tuple", "in a tuple", "optional", "typed dict"],
)
def test_a_stack_of_what_other_annotations_describe_is_counted(kind: Any) -> None:
    @typechecked
    def f(state: kind) -> None: ...  # type: ignore[valid-type]  # made when it runs

    v, w = jnp.ones((5, 2)), jnp.ones((5, 2, 3))

    def given(v: jax.Array, w: jax.Array) -> Any:
        if kind is TypedOfJaxtyping:
            return {"v": v, "w": w}
        one = OfJaxtyping(v, w)
        return (one, 1) if typing.get_origin(kind) is tuple else one

    st._stats.reset()
    f(given(v[0], w[0]))
    assert not st._stats.snapshot()["not_possible"]
    for stack in (given(v, w), given(v[None], w[None])):
        st._stats.reset()
        f(stack)
        (why,) = st._stats.snapshot()["not_possible"]
        assert "a stack, annotated as one of its values" in why
    for wrong in (given(v, w[0]), given(v[:, :1], w), given(v.astype(int), w)):
        with pytest.raises(TypeCheckError):
            f(wrong)
    with pytest.raises(TypeCheckError):
        typechecked(_alone)(v)


def _alone(x: Float[jax.Array, "2"]) -> None:
    """An array that is annotated by itself is no stack of one."""
