"""Annotations, dataclasses, scopes, specs, shard_map and the import hook."""

from __future__ import annotations

import importlib
import pickle
import threading
import typing
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import Array, annotated, f32, pytree_dataclass, u32


@pytree_dataclass
class Layer:
    w: f32["M/d F/t"]
    ln: f32["M/t/d"]


Stack = Array["layers", Layer]


def test_annotations_are_values() -> None:
    a = f32["B/d M"]
    assert (
        a is f32[b"B/d M"]
        and typing.get_origin(a) is f32
        and typing.get_args(a) == (b"B/d M",)
    )
    assert pickle.loads(pickle.dumps(a)) == a and hash(a) == hash(f32["B/d M"])
    assert isinstance(jnp.ones((2, 3)), f32["B M"]) and not isinstance(
        jnp.ones(2), f32["B M"]
    )
    with pytest.raises(st.ShapeStringError) as caught:
        f32["B/d //"]
    assert isinstance(caught.value, ValueError) and caught.value.column >= 4


def test_an_array_may_stand_before_the_string() -> None:
    """``f32[Array, 'B']``, which checkers without a plugin read, is the same type."""
    assert f32[jax.Array, "B/d M"] is f32["B/d M"]
    assert f32[jax.Array, b"B"] is f32["B"]
    with pytest.raises(st.ShapeStringError, match="annotates arrays of JAX, got numpy"):
        f32[np.ndarray, "B"]
    for name in annotated.__all__:
        assert getattr(annotated, name) is getattr(st, name)
    with pytest.raises(st.ShapeStringError) as caught:
        f32["B", "M"]
    assert str(caught.value) == (
        "f32[…] takes a shape string, alone or after jax.Array, got 'B' in front of it: "
        "write f32['batch/d embed'] or f32[Array, 'batch/d embed']"
    )


def test_annotations_with_an_array_are_checked() -> None:
    @st.typechecked
    def total(
        x: f32[jax.Array, "B M"], y: "f32[jax.Array, 'M']"
    ) -> f32[jax.Array, "B"]:
        return x @ y

    assert total(jnp.ones((2, 3)), jnp.ones(3)).shape == (2,)
    with pytest.raises(st.ShapeError, match="expected M = 3"):
        total(jnp.ones((2, 3)), jnp.ones(4))


def test_every_name_is_there() -> None:
    names: dict[str, object] = {}
    exec("from shardtypes import *", names)
    assert set(st.__all__) <= names.keys()
    assert all(callable(getattr(st, name)) for name in st.__all__)


def test_stacked_types() -> None:
    assert Stack is Array["layers", Layer] and issubclass(Stack, Layer)
    assert st.make_partition_specs(Stack) == Stack(
        w=P(None, "d", "t"), ln=P(None, ("t", "d"))
    )
    value = Stack(w=jnp.ones((3, 8, 8)), ln=jnp.ones((3, 8)))
    assert jax.tree.map(lambda x: x + 1, value).ln.shape == (3, 8)
    copy = pickle.loads(pickle.dumps(value))
    assert type(copy) is Layer and isinstance(copy, Stack)


def test_scopes_end_with_the_outermost_call() -> None:
    @st.typechecked
    def f(x: f32["B"], y: f32["B"]) -> f32["B"]:
        return x

    f(jnp.ones(2), jnp.ones(2))
    f(jnp.ones(3), jnp.ones(3))
    with st.Scope() as scope:
        f(jnp.ones(3), jnp.ones(3))
        assert scope.sizes == {"B": 3}
        st.check_size("B", 3)
        with pytest.raises(st.ShapeError, match="B is 4, expected 3"):
            st.check_size("B", 4)
        errors: list[Exception] = []

        def other() -> None:
            try:
                f(jnp.ones(5), jnp.ones(5))
            except st.ShardTypeError as error:
                errors.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not errors
        with pytest.raises(st.ShapeError):
            f(jnp.ones(2), jnp.ones(2))
    with pytest.raises(st.ShapeError, match="bound by f: parameter 'x', dimension 0"):
        f(jnp.ones(2), jnp.ones(3))


def test_typed_shard_map(auto_mesh: Mesh) -> None:
    @partial(st.typed_shard_map, check_rep=False)
    def step(l: Stack, x: f32["B/d M"], n: int = 2) -> tuple[f32["B/d M"], f32[""]]:
        st.check("f32", "B/d M", x)
        return x * n, jax.lax.psum(x.sum(), ("d", "t"))

    with jax.set_mesh(auto_mesh):
        l = st.shard(Stack(w=jnp.ones((3, 8, 8)), ln=jnp.ones((3, 8))), Stack)
        x = st.shard(jnp.ones((8, 16)), f32["B/d M"])
        for f in (step, jax.jit(step)):
            assert f(l, x)[1] == 8 * 16 * 4
        assert step(l, x=x, n=3)[0].max() == 3

    @st.typed_shard_map
    def bare(x, y: u32["B"]) -> u32["B"]:
        return y

    with (
        jax.set_mesh(auto_mesh),
        pytest.raises(TypeError, match="parameter 'x' has no annotation"),
    ):
        bare(1, 2)


def test_import_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hooked_example"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(
        "from __future__ import annotations\nfrom shardtypes import f32\n"
        "def f(x: f32['B M']) -> f32['M']:\n    y: f32['M'] = x.sum(0)\n    return y\n"
        "def wrong(x: f32['B M']) -> None:\n    y: f32['B'] = x.sum(0)\n"
        "class C:\n    @staticmethod\n    def s(x: f32['B']) -> f32['B']: return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    with st.install_import_hook(["hooked_example"]):
        model = importlib.import_module("hooked_example.model")
    model.f(jnp.ones((2, 3)))
    with pytest.raises(st.ShapeError, match="wrong: variable 'y'"):
        model.wrong(jnp.ones((2, 3)))
    with pytest.raises(st.ShapeError, match=r"C\.s: parameter 'x'"):
        model.C.s(jnp.ones((2, 3)))
    with st.enabled(False):
        model.C.s(jnp.ones((2, 3)))
    assert list((package / "__pycache__").glob("model.*shardtypes*.pyc"))
