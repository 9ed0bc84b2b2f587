"""Generated checkers: they say what the general checks say, and count what they count."""

from __future__ import annotations

import dataclasses
import linecache
import sys
import threading
import traceback
import typing
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

import shardtypes
from shardtypes import _stats, bf16, f32, floating, i32, pytree_dataclass, switches
from shardtypes.annotation_checks import TypeCheckError


@pytest.fixture(autouse=True)
def generated_at_the_second_call() -> Iterator[None]:
    """So that the first call of each function is checked in the general way."""
    before, switches.calls_before_generated = switches.calls_before_generated, 1
    yield
    switches.calls_before_generated = before


@dataclasses.dataclass
class Layer:
    """Names its sizes by itself."""

    w: f32["A B"]
    b: f32["B"] | None = None


@pytree_dataclass
class Params:
    """Names the sizes of the call."""

    w: f32["A B"]
    n: int
    layers: list[Layer]


@pytree_dataclass(own_sizes=True)
class Own:
    """Names its sizes by itself, too."""

    w: f32["A B"]
    b: f32["B"]


class Pair(typing.NamedTuple):
    left: f32["A"]
    right: f32["A"]


# --- random signatures and values ------------------------------------------------------------------------------------

DTYPES = [f32, f32, f32, i32, bf16, floating]
DIMS = ["A", "A", "B", "C", "2", "3", "_", "2*A", "A//2", "A+B", "#B"]
AXES = ["", "", "", "/d", "/t"]


@st.composite
def shapes(draw: Any, sharded: bool) -> str:
    dims = draw(st.lists(st.sampled_from(DIMS), max_size=3))
    if sharded and dims:
        dims[0] += draw(st.sampled_from(AXES))
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(dims)))
        dims.insert(at, draw(st.sampled_from(["...", "*N"])))
    return " ".join(dims)


def types(sharded: bool = False) -> st.SearchStrategy[Any]:
    arrays = st.builds(lambda d, s: d[s], st.sampled_from(DTYPES), shapes(sharded))
    inner = st.one_of(arrays, st.sampled_from([Layer, Params, Own, Pair]))
    return st.one_of(
        arrays,
        arrays,
        inner.map(lambda t: typing.Optional[t]),  # noqa: UP045 - types of all kinds
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]  # made as they are drawn
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]  # as above
        inner.map(lambda t: tuple[t, ...]),  # type: ignore[valid-type]  # as above
        st.tuples(inner, arrays).map(lambda ts: tuple[ts]),
        st.sampled_from([int, float, Layer, Params, Own, Pair, str | None]),
    )


SIZES = st.sampled_from([2, 2, 2, 3, 4, 1])


@st.composite
def values(draw: Any, kind: Any, sizes: dict[str, int], mesh: Mesh | None) -> Any:
    """A value of a type, for the most part: of these sizes, or now and then of another one."""
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from([None, 1, "s", np.ones(2)]))
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, shardtypes.dtypes.ArrayType):
        return draw(arrays_of(kind, sizes, mesh))
    part = lambda t: draw(values(t, sizes, mesh))  # noqa: E731 - of what is drawn here
    if origin is list:
        return [part(args[0]) for _ in range(draw(st.integers(0, 3)))]
    if origin is dict:
        return {key: part(args[1]) for key in "pq"[: draw(st.integers(0, 2))]}
    if origin is tuple:
        if args[1:] == (Ellipsis,):
            return tuple(part(args[0]) for _ in range(draw(st.integers(0, 3))))
        return tuple(part(t) for t in args)
    if origin is not None or kind == str | None:
        return draw(st.sampled_from([None, part(args[0])]))
    if kind in (int, float, str):
        return kind(1)
    own = sizes if draw(st.booleans()) else {name: draw(SIZES) for name in "ABC"}
    if kind is Layer:
        return Layer(part_of(draw, own, "A B"), part_of(draw, own, "B"))
    if kind is Own:
        return Own(part_of(draw, own, "A B"), part_of(draw, own, "B"))
    if kind is Params:
        layers = [
            Layer(part_of(draw, own, "A B")) for _ in range(draw(st.integers(0, 2)))
        ]
        return Params(part_of(draw, sizes, "A B"), 1, layers)
    return Pair(part_of(draw, own, "A"), part_of(draw, own, "A"))


def part_of(draw: Any, sizes: dict[str, int], shape: str) -> jax.Array:
    found: jax.Array = draw(arrays_of(f32[shape], sizes, None))
    return found


@st.composite
def arrays_of(draw: Any, kind: Any, sizes: dict[str, int], mesh: Mesh | None) -> Any:
    dims = []
    for dim in kind.__args__[0].decode().split():
        size = dim.removesuffix("/d").removesuffix("/t").lstrip("#")
        if size in ("...", "*N"):
            dims += [2] * draw(st.integers(0, 2))
        elif size == "_" or draw(st.integers(0, 30)) == 0:
            dims.append(draw(SIZES))
        else:
            dims.append(eval(size, dict(sizes)))
    name = kind.__origin__.name
    dtype = "float32" if name == "floating" else name
    if draw(st.integers(0, 30)) == 0:
        dtype = draw(st.sampled_from(["int32", "float16"]))
    found = jnp.ones(dims, dtype)
    if mesh is None or draw(st.booleans()):
        return found
    axis = draw(st.sampled_from([None, "d", "t"]))
    spec = P(axis) if dims and axis and dims[0] % mesh.shape[axis] == 0 else P()
    return jax.device_put(found, jax.NamedSharding(mesh, spec))


@st.composite
def calls(draw: Any, mesh: Mesh | None = None) -> tuple[Any, tuple[Any, ...]]:
    """A function and its arguments; what it returns is the last of these, and it may check something meanwhile."""
    kinds = draw(st.lists(types(mesh is not None), min_size=1, max_size=4))
    sizes = {name: draw(SIZES) for name in "ABC"}
    given_ = tuple(draw(values(kind, sizes, mesh)) for kind in kinds)
    asks = draw(st.sampled_from([None, None, None, "A", "B C", "A N"]))

    names = "abcd"[: len(kinds)]
    head = f"def f({', '.join(names[:-1])}, r):\n" if names[:-1] else "def f(r):\n"
    body = "    if asks is not None: check(f32, asks, ones((2,) * len(asks.split())))\n"
    space = {"asks": asks, "check": shardtypes.check, "f32": f32, "ones": jnp.ones}
    exec(f"{head}{body}    return r\n", space)
    made = space["f"]
    made.__annotations__ = dict(zip((*names[:-1], "r"), kinds, strict=True))
    made.__annotations__["return"] = kinds[-1] if draw(st.booleans()) else draw(types())
    made.__module__ = __name__
    return made, given_


def outcome(call: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call returns or says, and what is counted meanwhile."""
    _stats.reset()
    _stats.record()
    try:
        found: Any = id(call())
    except TypeCheckError as error:
        found = type(error), str(error)
    finally:
        _stats.record(False)
    counted = _stats.snapshot()
    del counted["declared"], counted["seconds"]
    for key in ("dimensions", "layouts"):
        counted[key] = sorted(counted[key])
    if isinstance(found, tuple):
        # What was counted before the alarm may be counted once more by those who word it.
        counted = {"functions": counted["functions"]}
    return found, counted


def agree(made: Any, arguments: tuple[Any, ...]) -> None:
    checked = shardtypes.typechecked(made)
    first = outcome(lambda: checked(*arguments))
    assert outcome(lambda: checked(*arguments)) == first
    assert outcome(lambda: checked(*arguments)) == first  # what lay so before


MANY = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@MANY
@given(calls())
def test_they_agree_with_the_general_checks(case: Any) -> None:
    """The first call is checked in the general way, the second one by what is generated."""
    agree(*case)


MESH = jax.make_mesh((2, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


@MANY
@given(calls(MESH), st.booleans())
def test_they_agree_on_a_mesh(case: Any, in_force: bool) -> None:
    if not in_force:
        agree(*case)
        return
    with jax.set_mesh(MESH):
        agree(*case)


@MANY
@given(calls())
def test_they_agree_in_a_trace(case: Any) -> None:
    made, arguments = case

    def traced(arrays: list[jax.Array]) -> None:
        left = iter(arrays)
        agree(made, jax.tree.map(lambda x: next(left) if is_array(x) else x, arguments))

    arrays = [leaf for leaf in jax.tree.leaves(arguments) if is_array(leaf)]
    jax.make_jaxpr(traced)(arrays)


def is_array(value: Any) -> bool:
    return isinstance(value, jax.Array)


# --- what a user sees ------------------------------------------------------------------------------------------------


def test_most_signatures_are_generated() -> None:
    """Else the tests above would compare the general checks with themselves."""

    @shardtypes.typechecked
    def f(x: f32["A/d B"], p: Params, more: list[Layer], n: int = 2) -> f32["A 2*B"]:
        return jnp.concatenate([x, x], 1)

    w = jnp.ones((2, 3))
    arguments = w, Params(w, 1, []), [Layer(w, None)]
    for _ in range(3):
        f(*arguments)
    assert "size_A" in shardtypes.source(f)
    assert f.__shardtypes_checked__.generated is not None


def test_source_is_what_runs_and_what_a_traceback_shows() -> None:
    @shardtypes.typechecked
    def fails(x: f32["A"]) -> f32["A"]:
        raise RuntimeError("mine")

    text = shardtypes.source(fails)
    with pytest.raises(RuntimeError, match="mine"):
        fails(jnp.ones(2))
    with pytest.raises(RuntimeError, match="mine") as caught:
        fails(jnp.ones(2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[-2:]] == ["checked", "fails"]
    assert frames[-2].line == "result = function(*args, **kwargs)"
    assert "".join(linecache.getlines(frames[-2].filename)) == text


def test_source_says_why_there_is_none() -> None:
    @shardtypes.typechecked
    def f(*xs: f32["A"]) -> None: ...

    def g() -> None: ...

    with pytest.raises(ValueError, match="f has no checker of its own: "):
        shardtypes.source(f)
    with pytest.raises(TypeError, match="g is not checked by shardtypes"):
        shardtypes.source(g)


def test_what_is_right_never_reaches_the_general_checks() -> None:
    """So that the figures are those of what is generated; what is wrong does reach them."""

    @shardtypes.typechecked
    def f(x: f32["A/d B"], layers: list[Layer]) -> f32["A B"]:
        return x

    def call() -> None:
        f(x, layers)
        jax.make_jaxpr(lambda x: f2(x))(x)

    x, layers = jnp.ones((4, 2)), [Layer(jnp.ones((4, 2)))]
    assert asks_the_general_checks(call)
    assert not asks_the_general_checks(call)
    layers += [Layer(jnp.ones((2, 2)))]
    assert asks_the_general_checks(call)
    assert not asks_the_general_checks(lambda: f2(x))
    with shardtypes.Scope():
        assert asks_the_general_checks(lambda: f2(x))


def asks_the_general_checks(call: Callable[[], Any]) -> bool:
    seen = set()
    sys.setprofile(lambda frame, *_: seen.add(frame.f_code.co_name))
    try:
        call()
    finally:
        sys.setprofile(None)
    return "_check_arguments" in seen


@shardtypes.typechecked
def f2(x: f32["A B"]) -> f32["A B"]:
    return x


def test_arguments_that_are_compared_once_more_are_counted_once() -> None:
    """A check in the body asks for the sizes of the call, and a layer names its own."""

    @shardtypes.typechecked
    def f(x: f32["A/d"], layer: Layer) -> None:
        shardtypes.check(f32, "C", jnp.ones(2))

    layer = Layer(jnp.ones((2, 3)))
    outcomes = [outcome(lambda: f(jnp.ones(2), layer)) for _ in range(3)]
    unplaced = {"no mesh in force, and the value is on one device": 1}
    assert outcomes[0][1]["not_possible"] == unplaced
    assert outcomes == outcomes[:1] * 3


def test_calls_on_several_threads_are_all_counted() -> None:
    @shardtypes.typechecked
    def f(x: f32["A"]) -> f32["A"]:
        return x

    x = jnp.ones(2)
    f(x)
    _stats.reset()
    _stats.record()
    threads = [
        threading.Thread(target=lambda: [f(x) for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _stats.record(False)
    counted = _stats.snapshot()
    assert list(counted["functions"].values()) == [2000]
    assert counted["checks"] == {"shape": 4000}
    _stats.reset()
