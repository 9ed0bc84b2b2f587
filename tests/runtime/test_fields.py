"""Fields of every kind of dataclass are checked where a value is passed and where it is made; JAX's own doing is left
alone."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import attrs
import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from typeguard import TypeCheckError

import shardtypes as st
from shardtypes import _stats

MODELS = '''
import dataclasses
import typing
import attrs
import chex
import equinox
import flax.struct
import jax
import jax.numpy as jnp
from shardtypes import f32, pytree_dataclass


@pytree_dataclass
class Ours:
    w: f32["M F"]
    b: f32["F"]


@flax.struct.dataclass
class Flax:
    w: f32["M F"]
    b: f32["F"]
    steps: int = flax.struct.field(pytree_node=False, default=3)


class FlaxNode(flax.struct.PyTreeNode):
    w: f32["M F"]
    b: f32["F"]


@chex.dataclass
class Chex:
    w: f32["M F"]
    b: f32["F"]


@chex.dataclass(frozen=True, mappable_dataclass=False)
class ChexFrozen:
    w: f32["M F"]
    b: f32["F"]


class Equinox(equinox.Module):
    w: f32["M F"]
    b: f32["F"]
    name: str = equinox.field(static=True, default="x")


class EquinoxConverted(equinox.Module):
    w: f32["M F"]
    b: f32["F"] = equinox.field(converter=lambda x: x if x is None else jnp.asarray(x, jnp.float32))

    def __init__(self, w, b):
        self.w = w
        self.b = b


class EquinoxDerived(Equinox):
    pass


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    w: f32["M F"]
    b: f32["F"]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class OwnNode:
    w: f32["M F"]
    b: f32["F"]

    def tree_flatten(self):
        return (self.w, self.b), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@dataclasses.dataclass
class LambdaNode:
    w: f32["M F"]
    b: f32["F"]


jax.tree_util.register_pytree_node(LambdaNode, lambda x: ((x.w, x.b), None), lambda _, parts: LambdaNode(*parts))


@dataclasses.dataclass
class Plain:
    w: f32["M F"]
    b: f32["F"]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    w: f32["M F"]
    b: f32["F"]


@dataclasses.dataclass
class Derived(Plain):
    c: f32["F"] | None = None


class Named(typing.NamedTuple):
    w: f32["M F"]
    b: f32["F"]


@attrs.define
class Attrs:
    w: f32["M F"]
    b: f32["F"]


@dataclasses.dataclass
class Many:
    layers: list[Flax]
    by_name: dict[str, Equinox]
    pair: tuple[int, Named]
    last: typing.Optional[Attrs] = None
    parent: typing.Optional["Many"] = None


@dataclasses.dataclass
class NoArrays:
    size: int
    name: str = "x"


def make(kind, w, b):
    return kind(w=w, b=b)


def make_by_another_name(kind, w, b):
    Alias = kind
    return Alias(
        w=w,
        b=b,
    )


def make_in_a_list(kind, w, b):
    return [kind(w=w, b=x) for x in (b, b)][0]


def make_in_a_generator(kind, w, b):
    return list(kind(w=w, b=x) for x in (b, b))[0]


class Maker:
    def method(self, kind, w, b):
        return kind(w=w, b=b)

    @classmethod
    def class_method(cls, kind, w, b):
        return kind(w=w, b=b)


async def make_later(kind, w, b):
    return kind(w=w, b=b)


def total(kind, x):
    """Wrong: b is no F."""
    return kind(w=x, b=x[..., 0, :1]).w.sum()
'''

KINDS = [
    "Ours", "Flax", "FlaxNode", "Chex", "ChexFrozen", "Equinox", "EquinoxConverted", "EquinoxDerived", "Registered",
    "OwnNode", "LambdaNode", "Plain", "Slotted", "Derived", "Named", "Attrs",
]  # fmt: skip
NO_TREES = {"Plain", "Slotted", "Derived", "Attrs"}
TREES = [kind for kind in KINDS if kind not in NO_TREES]

W, B, WRONG = jnp.ones((2, 3)), jnp.ones(3), jnp.ones(4)


def load(folder: Path, name: str) -> ModuleType:
    (folder / f"{name}.py").write_text(MODELS)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The classes, without the hook: they check nothing where they are made."""
    return load(tmp_path_factory.mktemp("plain"), "fields_models_plain")


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    with st.install_import_hook("fields_models_hooked"):
        return load(tmp_path_factory.mktemp("hooked"), "fields_models_hooked")


@pytest.fixture(autouse=True)
def _fresh_counts() -> None:
    _stats.reset()


def counted() -> set[str]:
    return set(_stats.snapshot()["not_possible"])


def checked(annotation: Any, role: str = "x") -> Any:
    def f(x: Any) -> Any:
        return x

    f.__annotations__[role] = annotation
    return st.typechecked(f)


# --- where it is passed ----------------------------------------------------------------------------------------------

CONTAINERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "itself": (lambda kind: kind, lambda value, _: value),
    "list": (lambda kind: list[kind], lambda value, good: [good, value]),  # type: ignore[valid-type]
    "tuple": (lambda kind: tuple[int, kind], lambda value, _: (1, value)),  # type: ignore[valid-type]
    "tuple of any length": (
        lambda kind: tuple[kind, ...],
        lambda value, good: (good, value),
    ),  # type: ignore[valid-type]
    "dict": (lambda kind: dict[str, kind], lambda value, good: {"a": good, "b": value}),  # type: ignore[valid-type]
    "optional": (lambda kind: Optional[kind], lambda value, _: value),  # noqa: UP045 - the other way to write it
    "union": (lambda kind: int | kind, lambda value, _: value),
    "another": (
        lambda kind: dataclasses.make_dataclass("Another", [("inner", kind)]),
        lambda value, _: None,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_where_it_is_passed(plain: ModuleType, kind: str, container: str) -> None:
    cls = getattr(plain, kind)
    type_of, value_of = CONTAINERS[container]
    declared = type_of(cls)
    if container == "another":
        value_of = lambda value, _: declared(inner=value)  # noqa: E731 - as the others are
    good = cls(w=W, b=B)
    for role in ("x", "return"):
        f = checked(declared, role)
        f(value_of(good, good))
        for wrong in (
            cls(w=W, b=WRONG),
            cls(w=W[0], b=B),
            cls(w=W.astype(jnp.bfloat16), b=B),
            cls(w="text", b=B),
        ):
            with pytest.raises(TypeCheckError) as caught:
                f(value_of(wrong, good))
            assert "parameter 'x'" in str(caught.value) or "the result" in str(
                caught.value
            )
    with pytest.raises(TypeCheckError):
        f(value_of(object(), good))
    assert counted() <= {"typeguard cannot check f: parameter 'x'"}


def test_the_path_is_in_the_message(plain: ModuleType) -> None:
    good = {
        "layers": [plain.Flax(w=W, b=B)],
        "by_name": {"k": plain.Equinox(w=W, b=B)},
        "pair": (1, plain.Named(W, B)),
        "last": plain.Attrs(W, B),
    }
    f = checked(plain.Many)
    f(plain.Many(**good))
    wrongs = {
        "layers": (
            [good["layers"][0], plain.Flax(w=W, b=WRONG)],
            "item 1 of f: parameter 'x', field 'layers.b': ",
        ),
        "by_name": (
            {"k": plain.Equinox(w=W, b=WRONG)},
            "value of key 'k' of f: parameter 'x', field 'by_name.b': ",
        ),
        "pair": ((1, plain.Named(W, WRONG)), "item 1 of f: parameter 'x', field 'pair"),
    }
    for name, (value, path) in wrongs.items():
        with pytest.raises(st.ShapeError) as caught:
            f(plain.Many(**{**good, name: value}))
        assert path in str(caught.value) and "dimension 0 is 4, expected F = 3" in str(
            caught.value
        )
    with pytest.raises(TypeCheckError, match=r"field 'last\.b'"):
        f(plain.Many(**{**good, "last": plain.Attrs(W, WRONG)}))


def test_a_value_that_holds_itself(plain: ModuleType) -> None:
    value = plain.Many(
        layers=[plain.Flax(w=W, b=B)], by_name={}, pair=(1, plain.Named(W, B))
    )
    value.parent = value
    checked(plain.Many)(value)
    value.layers.append(plain.Flax(w=W, b=WRONG))
    with pytest.raises(st.ShapeError, match=r"field 'layers\.b'"):
        checked(plain.Many)(value)


def test_fields_without_arrays_are_left_alone(plain: ModuleType) -> None:
    checked(plain.NoArrays)(plain.NoArrays(size="no int"))
    checked(plain.Flax)(plain.Flax(w=W, b=B, steps="no int"))


@pytest.mark.parametrize("kind", TREES)
def test_under_transformations(plain: ModuleType, auto_mesh: Mesh, kind: str) -> None:
    """One example under ``vmap``, tracers, gradients, shapes, global shapes in ``shard_map``."""
    cls = getattr(plain, kind)
    good, wrong = cls(w=W, b=B), cls(w=W, b=WRONG)
    f = checked(cls)

    def loss(value: Any) -> Any:
        return f(value).w.sum()

    runs: dict[str, Callable[[Any], Any]] = {
        "jit": jax.jit(loss),
        "grad": jax.grad(loss),
        "vmap": lambda value: jax.vmap(loss)(
            jax.tree.map(lambda x: jnp.stack([x, x]), value)
        ),
        "remat": jax.grad(jax.checkpoint(loss)),
        "scan": lambda value: jax.lax.scan(
            lambda c, _: (c, loss(value)), 0, None, length=2
        ),
        "eval_shape": lambda value: jax.eval_shape(loss, value),
        "structs": lambda value: f(jax.eval_shape(lambda: value)),
        "shard_map": lambda value: jax.jit(
            jax.shard_map(loss, mesh=auto_mesh, in_specs=P(), out_specs=P())
        )(value),
    }
    for name, run in runs.items():
        run(good)
        with pytest.raises(
            st.ShapeError, match=r"'b'.*: dimension 0 is 4, expected F = 3"
        ):
            run(wrong)
        assert name


# --- where it is made ------------------------------------------------------------------------------------------------


def makers(models: ModuleType) -> dict[str, Callable[[Any, Any, Any], Any]]:
    return {
        "call": models.make,
        "alias": models.make_by_another_name,
        "list": models.make_in_a_list,
        "generator": models.make_in_a_generator,
        "method": models.Maker().method,
        "class method": models.Maker.class_method,
        "coroutine": lambda kind, w, b: asyncio.run(models.make_later(kind, w, b)),
        "jit": jax.jit(models.make, static_argnums=0),
        "here": lambda kind, w, b: kind(w=w, b=b),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_is_made(hooked: ModuleType, kind: str) -> None:
    cls = getattr(hooked, kind)
    title = (
        "Equinox"
        if kind == "EquinoxDerived"
        else "Plain"
        if kind == "Derived"
        else kind
    )
    for name, make in makers(hooked).items():
        if name == "jit" and kind in NO_TREES:
            continue
        make(cls, W, B)
        with pytest.raises(st.ShapeError) as caught:
            make(cls, W, WRONG)
        assert str(caught.value) == (
            f"{title if kind != 'Derived' else 'Derived'}: field 'b': dimension 0 is 4, expected F = 3\n"
            "  declared f32['F']\n  actual   f32[4]\n"
            f"  F = 3, bound by {title if kind != 'Derived' else 'Derived'}: field 'w', dimension 1\n"
            "  pass arrays that agree in F, or give the dimension another name"
        )
        for wrong in ((W[0], B), (W.astype(jnp.bfloat16), B)):
            with pytest.raises(st.ShapeError, match="field 'w'"):
                make(cls, *wrong)
    assert not counted()


@pytest.mark.parametrize("kind", KINDS)
def test_replacing_a_field_is_making_one(hooked: ModuleType, kind: str) -> None:
    value = getattr(hooked, kind)(w=W, b=B)
    ways: list[Any] = [lambda b: attrs.evolve(value, b=b)] if kind == "Attrs" else []
    ways += [lambda b: value.replace(b=b)] if hasattr(value, "replace") else []
    if dataclasses.is_dataclass(value):
        ways.append(lambda b: dataclasses.replace(value, b=b))
    if kind == "Named":
        # neither calls the class
        ways += [lambda b: value._replace(b=b), lambda b: type(value)._make([W, b])]
        ways += [lambda b: copy.replace(value, b=b)] if hasattr(copy, "replace") else []
    for replace in ways:
        assert type(replace(B)) is type(value)
        with pytest.raises(st.ShapeError, match="field 'b'"):
            replace(WRONG)


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_than_arrays_is_counted(hooked: ModuleType, kind: str) -> None:
    """It may be what JAX takes in their place: axes, specs, masks, nothing."""
    cls = getattr(hooked, kind)
    for other in (
        0,
        True,
        P("d"),
        jax.ShapeDtypeStruct((2,), jnp.float32),
        np.ones(3),
        "text",
        object(),
    ):
        _stats.reset()
        if kind == "EquinoxConverted":
            cls(w=other, b=B)
        else:
            cls(w=other, b=None)
        assert any(
            "field 'w' was made of what does not fit its annotation" in reason
            for reason in counted()
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_cannot_be_told_is_counted(hooked: ModuleType, kind: str) -> None:
    cls = getattr(hooked, kind)
    functools.partial(cls, w=W)(b=WRONG)
    assert any(
        "field 'b' was made of what does not fit its annotation" in reason
        for reason in counted()
    )
    _stats.reset()
    list(
        map(
            functools.partial(cls, W)
            if kind != "Chex"
            else functools.partial(cls, w=W),
            [WRONG] * (kind != "Chex"),
        )
    )
    assert counted() or kind == "Chex"


@pytest.mark.parametrize("kind", TREES)
def test_what_jax_makes_never_raises(hooked: ModuleType, kind: str) -> None:
    jax.clear_caches()  # each kind is traced by itself
    cls = getattr(hooked, kind)
    value = cls(w=W, b=B)
    structure = jax.tree.structure(value)
    batched = jax.tree.map(lambda x: jnp.stack([x] * 5), value)
    adam = optax.adam(1e-3)
    jax.tree.map(jnp.shape, value)
    jax.tree.map(lambda x: x.sum(), value)
    jax.tree.map(lambda x: None, value)
    jax.tree.unflatten(structure, [1, 2])
    structure.unflatten([jnp.ones(2), object()])
    jax.tree.map(
        structure.unflatten, [[1, 2], [3, 4]], is_leaf=lambda x: isinstance(x, list)
    )
    jax.tree.transpose(
        structure, jax.tree.structure([0, 0]), jax.tree.map(lambda x: [x, x], value)
    )
    axes = jax.tree.map(lambda _: 0, value)
    jax.vmap(lambda v: v.w @ v.b, in_axes=(axes,))(batched)
    jax.vmap(lambda v: v, out_axes=axes)(batched)
    jax.jit(lambda v: jax.tree.map(lambda x: x[0], v))(value)
    jax.jit(lambda v: v)(batched)
    jax.grad(lambda v: (v.w @ v.b).sum())(value)
    jax.jvp(lambda v: v.w @ v.b, (value,), (value,))
    jax.jacobian(lambda v: v.w @ v.b)(value)
    jax.lax.scan(lambda c, v: (c + v.w.sum(), v), 0.0, batched)
    jax.lax.cond(True, lambda v: v, lambda v: v, batched)
    jax.eval_shape(lambda v: v, batched)
    jax.device_put(batched)
    jax.flatten_util.ravel_pytree(batched)[1](jnp.ones(45))
    updates, _ = adam.update(batched, adam.init(batched), batched)
    assert jax.tree.structure(updates) == jax.tree.structure(batched)
    optax.apply_updates(batched, updates)
    optax.masked(adam, jax.tree.map(lambda _: True, value)).init(batched)
    equinox.filter(batched, lambda x: x.ndim > 2)
    copy.copy(batched)
    copy.deepcopy(batched)
    pickle.loads(pickle.dumps(batched))
    # a function of any name may have been called by the program
    assert not counted() or kind == "LambdaNode"


@pytest.mark.parametrize("kind", KINDS)
def test_made_inside_transformations(
    hooked: ModuleType, auto_mesh: Mesh, kind: str
) -> None:
    total = functools.partial(hooked.total, getattr(hooked, kind))
    stacked = jnp.stack([W, W])
    runs: dict[str, Callable[[], Any]] = {
        "jit": lambda: jax.jit(total)(W),
        "vmap": lambda: jax.vmap(total)(stacked),
        "grad": lambda: jax.grad(total)(W),
        "remat": lambda: jax.grad(jax.checkpoint(total))(W),
        "scan": lambda: jax.lax.scan(lambda c, x: (c, total(x)), 0, stacked),
        "scan in jit": lambda: jax.jit(
            lambda xs: jax.lax.scan(lambda c, x: (c, total(x)), 0, xs)
        )(stacked),
        "shard_map": lambda: jax.shard_map(
            lambda x: total(x)[None],
            mesh=auto_mesh,
            in_specs=P("d"),
            out_specs=P(("d", "t")),
        )(jnp.ones((4, 3))),
        "cond": lambda: jax.lax.cond(True, total, total, W),
        "eval_shape": lambda: jax.eval_shape(total, W),
    }
    for run in runs.values():
        _stats.reset()
        try:
            run()
        except st.ShapeError as error:
            assert "field 'b': dimension 0 is 1, expected F = 3" in str(error)
        else:
            assert counted()  # called by JAX through more than its source tells


def test_shardings_are_not_compared_where_it_is_made(
    hooked: ModuleType, auto_mesh: Mesh
) -> None:
    @st.typechecked
    @dataclasses.dataclass
    class Sharded:
        w: st.f32["M/d F"]

    with jax.set_mesh(auto_mesh):
        value = Sharded(w=jnp.ones((8, 2)))
        assert counted() == {
            "the sharding of the fields of an object under construction: it may be placed afterwards"
        }
        with pytest.raises(st.ShardingError):
            checked(Sharded)(value)
        assert str(st.layout(st.shard(jnp.ones((8, 2)), st.f32["M/d F"]))) == "8/d 2"
    with pytest.raises(
        st.ShapeError, match="Sharded: field 'w': rank is 1, expected 2"
    ):
        Sharded(w=jnp.ones(8))


def test_each_value_has_names_of_its_own(hooked: ModuleType) -> None:
    @st.typechecked
    def f(x: st.f32["M F"]) -> st.f32["M F"]:
        hooked.make(hooked.Flax, W[:, :1], B[:1])
        return x

    f(W)
    hooked.make(hooked.Flax, W[:1], B)


def test_checks_that_are_off_check_nothing(hooked: ModuleType) -> None:
    with st.enabled(False):
        hooked.make(hooked.Flax, W, WRONG)
    assert not counted()


def test_an_annotation_that_names_nothing_leaves_the_others(plain: ModuleType) -> None:
    holder = dataclasses.make_dataclass(
        "Holder", [("a", "Missing"), ("b", st.f32["F"])]
    )
    checked(holder)(holder(a=1, b=B))
    assert any(
        "annotation of Holder.a not checked: name 'Missing' is not defined" in reason
        for reason in counted()
    )
    with pytest.raises(st.ShapeError, match="field 'b'"):
        checked(holder)(holder(a=1, b=W))


def test_names_of_the_function_around_a_class() -> None:
    local = st.f32["F"]

    @st.pytree_dataclass
    class Local:
        b: local

    checked(Local)(Local(b=B))
    with pytest.raises(st.ShapeError, match="field 'b'"):
        checked(Local)(Local(b=W))
