"""Verdicts of ``trace``: proved, failed with sizes, or could not tell; running the function is the oracle."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any, Union

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import Array, f32, key, pytree_dataclass, trace
from tests.support import run_python

STEPS: dict[str, Callable[[Any], Any]] = {
    "same": lambda x: x,
    "transposed": lambda x: x.T,
    "first rows": lambda x: x[:2],
    "every other column": lambda x: x[:, ::2],
    "doubled": lambda x: jnp.concatenate([x, x]),
    "padded": lambda x: jnp.pad(x, ((0, 0), (1, 0))),
    "squared": lambda x: x @ x.T,
    "symmetric": lambda x: x + x.T,
    "outer": lambda x: x[:, :1] * x[:1, :],
}
LAST: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: x,
    "rows": lambda x: x.sum(1),
    "flat": lambda x: x.reshape(-1),
    # each round is traced again
    "every eighth row": lambda x: sum(x[i] for i in range(0, x.shape[0], 8)),
    "none if small": lambda x: x if x.shape[0] > 3 else x[:0],
}
RESULTS = [
    "B M",
    "M B",
    "B",
    "M",
    "B*M",
    "2*B M",
    "B (M+1)//2",
    "B M//2",
    "B B",
    "B M+1",
    "2 M",
    "2*B",
    "_ M",
]


def made(steps: list[str], last: str, result: str) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](x)
        return LAST[last](x)

    program.__annotations__ = {"x": f32["B M"], "return": f32[result]}
    return program


@pytest.mark.once
@settings(max_examples=12, deadline=None)  # each is compiled for several sizes
@given(
    some.lists(some.sampled_from(list(STEPS)), max_size=2),
    some.sampled_from(list(LAST)),
    some.sampled_from(RESULTS),
)
def test_running_it_is_the_oracle(steps: list[str], last: str, result: str) -> None:
    program = made(steps, last, result)
    verdict = trace(program)

    def fails(rows: int, columns: int) -> bool:
        try:
            st.typechecked(program)(jnp.ones((rows, columns)))
        except (TypeError, ValueError, st.ShardTypeError):
            return True
        return False

    if verdict.ok is False:
        assert verdict.sizes is not None and fails(
            verdict.sizes["B"], verdict.sizes["M"]
        )
        with pytest.raises((TypeError, ValueError, st.ShardTypeError)) as caught:
            verdict.raise_if_failed()
        assert any("fails for B=" in note for note in caught.value.__notes__)
    elif verdict.proved:
        assert verdict.ok
        assert not any(fails(*sizes) for sizes in itertools.product((4, 5, 6), (4, 7)))
    else:
        assert verdict.reason


@pytree_dataclass
class Layer:
    w: f32["M F/t"]
    heads: int = dataclasses.field(default=4, metadata={"static": True})

    def apply(self, x: f32["B/d M"]) -> f32["B/d F/t"]:
        return x @ self.w

    def turned(self, x: f32["B/d M"]) -> f32["F/t B/d"]:
        return x @ self.w

    @staticmethod
    def free(x: f32["B"]) -> f32["B"]:
        return x


@pytree_dataclass
class Bare:
    w: f32["M"]
    heads: int = dataclasses.field(metadata={"static": True})

    def apply(self, x: f32["M"]) -> f32["M"]:
        return x * self.w * self.heads


def keyed(k: key[""], x: f32["B"]) -> f32["B"]:
    return x * jax.random.normal(k, x.shape)


def scanned(l: Array["layers", Layer], x: f32["B/d M"]) -> f32["B/d M"]:
    return jax.lax.scan(lambda x, l: (jnp.tanh(x @ l.w @ l.w.T), None), x, l)[0]


def many(*xs: f32["B"], y: f32["B"], **rest: Any) -> f32["B"]:
    return xs[0] + xs[1] + y


def times(x: f32["B"], n: int) -> f32["B*n"]:
    return jnp.concatenate([x] * n)


def branches(x: f32["B M"]) -> f32["B M"]:
    return x if x.shape[0] > 1 else x * 2


def grouped(x: f32["B M"], groups: int = 4) -> f32["B 4 M//4"]:
    return x.reshape(x.shape[0], groups, -1)


def of_values(x: f32["B"]) -> f32["B"]:
    return x if x.sum() > 0 else -x


def refuses(x: f32["B"]) -> f32["B"]:
    raise RuntimeError("not today")


def collective(x: f32["B/d"]) -> f32[""]:
    return jax.lax.psum(x.sum(), "d")


def by_name(xs: dict[str, f32["B"]]) -> f32["B"]:
    return xs["a"]


@dataclasses.dataclass(frozen=True)
class Config:
    heads: int = 4


@dataclasses.dataclass
class Partial:
    heads: int


class Plain:
    def apply(self, x: f32["B"]) -> f32["B"]:
        return x

    @staticmethod
    def static(x: f32["B"]) -> f32["B"]:
        return x


def configured(x: f32["B 4"], config: Config) -> f32["B 4"]:
    return x * config.heads


def misconfigured(x: f32["B 4"], config: Config) -> f32["B 4"]:
    return x[:, : config.heads - 1]


def partly(x: f32["B"], config: Partial) -> f32["B"]:
    return x


class Constructed:
    def __init__(self, by: int) -> None:
        self.by = by

    def apply(self, x: f32["B"]) -> f32["B"]:
        return x * self.by


@dataclasses.dataclass
class Named:
    name: str


def named(x: f32["B"], config: Named) -> f32["B"]:
    return x


def unannotated(x: f32["B"], config) -> f32["B"]:  # type: ignore[no-untyped-def]  # that is what is tried
    return x


PROVED = [
    configured,
    Plain.static,
    Plain.apply,
    keyed,
    scanned,
    many,
    Layer.apply,
    Layer.free,
    branches,
    by_name,
]
PROVED += [partly, collective]
TOLD = [
    (Bare.apply, "the static field self.heads has no default: give an example of self"),
    (named, "Named.name has no default: give an example of 'config'"),
    (
        Constructed.apply,
        "Constructed is not a pytree_dataclass, so no object of it can be made: give one as first",
    ),
    (
        unannotated,
        "parameter 'config' has no annotation and has no default: give an example",
    ),
    (of_values, "what it does depends on values: Attempted boolean conversion"),
    (refuses, "it stops before its result is known: RuntimeError: not today"),
]


@pytest.mark.parametrize("f", PROVED, ids=lambda f: f.__qualname__)
def test_proved(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok and verdict.proved and "holds for all sizes" in verdict.reason
    with pytest.raises(TypeError, match="three values"):
        bool(verdict)


@pytest.mark.parametrize(
    ("f", "why"), TOLD, ids=lambda f: getattr(f, "__qualname__", "")
)
def test_could_not_tell_and_why(f: Any, why: str) -> None:
    verdict = trace(f)
    assert verdict.ok is None and not verdict.proved
    assert verdict.reason.startswith(f"{f.__qualname__}: {why}")
    assert verdict.raise_if_failed() is verdict


def test_configurations_are_made_of_their_defaults() -> None:
    assert (
        trace(configured).reason
        == "configured: holds for all sizes; with config=Config(heads=4)"
    )
    assert trace(misconfigured).ok is False
    assert trace(misconfigured, config=Config(5)).proved
    assert trace(Plain.apply, Plain()).proved and trace(Plain().apply).proved
    assert (
        trace(Plain.apply).reason
        == "Plain.apply: holds for all sizes; with self=Plain()"
    )
    assert trace(Constructed(2).apply).proved


def test_failed_with_the_sizes() -> None:
    verdict = trace(Layer.turned)
    assert verdict.ok is False and verdict.sizes is not None
    assert verdict.reason.startswith(
        f"Layer.turned: fails for B={verdict.sizes['B']}, F={verdict.sizes['F']}"
    )
    assert "expected F =" in verdict.reason or "expected B =" in verdict.reason


def test_examples_take_the_place_of_what_is_not_known() -> None:
    assert trace(Bare.apply, Bare(w=jnp.ones(3), heads=2)).ok is True
    assert trace(Bare(w=jnp.ones(3), heads=2).apply).ok is True
    assert trace(Bare(w=jnp.ones(3), heads=2).apply, jnp.ones(4)).ok is False
    assert trace(by_name, {"a": jax.ShapeDtypeStruct((3,), jnp.float32)}).ok is True
    assert trace(grouped, sizes={"M": 12}).proved
    verdict = trace(times, n=1)
    assert (verdict.ok, verdict.proved) == (True, False)
    assert (
        verdict.reason
        == "times: holds for all sizes; size B*n not compared: n is not bound"
    )


def test_loops_over_a_size_prove_nothing() -> None:
    def summed(x: f32["B M"]) -> f32["M"]:
        return sum(x[i] for i in range(x.shape[0]))

    verdict = trace(summed)
    assert verdict.ok is True and not verdict.proved
    assert verdict.reason == "summed: holds for all sizes where B=11, and where B=7"


def test_what_is_not_compared_is_said() -> None:
    assert trace(Layer.apply).reason.endswith(
        "shardings were not compared: pass a mesh with Explicit axes"
    )
    auto = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    assert (
        "shardings over 'd' and 't' were not compared"
        in trace(Layer.apply, mesh=auto).reason
    )
    assert (
        trace(Layer.apply, mesh=AbstractMesh((2,), ("d",))).reason
        == "Layer.apply: the mesh has no axis 't' (axes: 'd')"
    )


def test_variables_of_a_function_without_source_are_said_not_to_be_checked() -> None:
    space: dict[str, Any] = {"f32": f32}
    source = "def f(x: f32['B M']) -> f32['B M']:\n    y: f32['M B'] = x\n    return y"
    exec(compile(source, "<nowhere>", "exec"), space)
    verdict = trace(space["f"])
    assert verdict.ok is True and not verdict.proved
    assert verdict.reason == (
        "f: holds for all sizes; annotations inside of f were not checked: "
        "its source is not there"
    )


@pytest.mark.parametrize("sizes", [(2, 4), (4096, 16)])
def test_shardings_on_explicit_meshes_of_any_size(sizes: tuple[int, int]) -> None:
    mesh = AbstractMesh(sizes, ("d", "t"), axis_types=(AxisType.Explicit,) * 2)

    def contracted(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
        return jnp.einsum("bm,mf->bf", x, w, out_sharding=P("d", None))

    def forgotten(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F"]:
        return x @ w

    verdict = trace(contracted, mesh=mesh)
    assert verdict.proved and verdict.reason == "contracted: holds for all sizes"
    assert str(st.layout(verdict.result)).endswith("F")
    verdict = trace(forgotten, mesh=mesh)
    assert verdict.ok is False
    assert (
        "the result: dimension 1 is sharded over 't', expected not sharded"
        in verdict.reason
    )
    assert trace(Layer.apply, mesh=mesh).proved


def test_mapped_functions() -> None:
    mesh = AbstractMesh((4, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2)

    @st.typed_shard_map
    @st.typechecked
    def summed(x: f32["B/d M/t"]) -> f32["B/d"]:
        return jax.lax.psum(x.sum(1), "t")

    @st.typed_shard_map
    @st.typechecked
    def gathered(x: f32["B/d M"]) -> f32["B/d M"]:
        return jax.lax.all_gather(x, "d", axis=0, tiled=True)

    @st.typed_shard_map
    def unreduced(x: f32["B/d M/t"]) -> f32["B/d"]:
        return x.sum(1)

    assert trace(summed, mesh=mesh).ok is True
    assert trace(gathered, mesh=mesh).ok is False
    verdict = trace(unreduced, mesh=mesh)
    assert verdict.ok is False and "require replication" in verdict.reason
    assert trace(summed).reason.endswith("(on a mesh with axes d, t)")


def test_two_reasons_at_different_sizes_are_no_proof() -> None:
    def picky(x: f32["N M"]) -> f32["N M"]:
        if hash(x.shape[0]) % 3:
            jnp.split(x, 1000, 1)
        return x + jnp.zeros(int(x.shape[0]) % 4 + 2)

    verdict = trace(picky)
    assert verdict.ok is None, verdict.reason


def test_no_backend_starts() -> None:
    done = run_python(
        "-c",
        "import json, jax\n"
        "from jax.sharding import AbstractMesh, AxisType\n"
        "from shardtypes import f32, key, trace\n"
        "from jax._src import xla_bridge\n"
        "def f(x, k): return x * jax.random.normal(k, x.shape)\n"
        "f.__annotations__ = {'x': f32['B/d M/t'], 'k': key[''], 'return': f32['B/d M/t']}\n"
        "mesh = AbstractMesh((512, 128), ('d', 't'), axis_types=(AxisType.Explicit,) * 2)\n"
        "oks = [trace(f).ok, trace(f, mesh=mesh).ok]\n"
        "print(json.dumps([oks, list(xla_bridge._backends)]))\n",
    )
    oks, backends = json.loads(done.stdout.splitlines()[-1])
    assert oks[0] is True and backends == [], done.stdout + done.stderr


def test_pending_sums() -> None:
    mesh = AbstractMesh((1024, 16), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)

    def right(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F {U:t}"]:
        return jnp.einsum("bm,mf->bf", x, w, out_sharding=P("d", None, unreduced={"t"}))

    def reduced(y: f32["B/d F {U:t}"]) -> f32["B/d F"]:
        return jax.sharding.reshard(y, P("d", None))

    def wrong(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F {U:t}"]:
        return jnp.einsum("bm,mf->bf", x, w, out_sharding=P("d", None))

    for f in (right, reduced):
        assert (st.trace(f, mesh=mesh).ok, st.trace(f, mesh=mesh).proved) == (
            True,
            True,
        )
    verdict = st.trace(wrong, mesh=mesh)
    assert (
        verdict.ok is False
        and "expected a partial sum over 't', got a value that is already reduced"
        in verdict.reason
    )
    auto = AbstractMesh(
        (2, 4), ("d", "t"), axis_types=(AxisType.Explicit, AxisType.Auto)
    )
    assert st.trace(reduced, mesh=auto).ok is None


LAYERS = 2


def scanned(x: f32["B"], keys: key["layers"], w: f32["layers"]) -> f32["B"]:
    def body(h: Any, layer: Any) -> Any:
        one, factor = layer
        return h * factor + jax.random.normal(one, h.shape), None

    return jax.lax.scan(body, x, (keys, w))[0]


def split_by_a_constant(x: f32["B"], w: f32["layers"], rng: key[""]) -> f32["B"]:
    return st.typechecked(scanned)(x, jax.random.split(rng, LAYERS), w)


def split_by_a_number(x: f32["B"], w: f32["layers"], rng: key[""]) -> f32["B"]:
    return st.typechecked(scanned)(x, jax.random.split(rng, 2), w)


def test_a_small_constant_of_the_module_may_be_what_a_size_has_to_be() -> None:
    verdict = trace(split_by_a_constant)
    assert verdict.ok is None
    assert "holds only where layers = 2" in verdict.reason
    assert trace(split_by_a_number).ok is False


# as optax.OptState, which names types of the module that it is made in
State = Union[jax.Array, "OnlyThere"]


def advanced(x: f32["B"], state: State = None) -> tuple[f32["B"], State]:
    return x, state


def longer(x: f32["B"], state: State = None) -> tuple[f32["B+1"], State]:
    return x, state


def needs_a_state(x: f32["B"], state: State) -> f32["B"]:
    return x


def names_nothing(x: f32["B"] | OnlyThere) -> f32["B"]:
    return x


def test_types_that_name_what_only_their_module_has() -> None:
    assert trace(advanced).ok is True
    assert trace(longer).ok is False
    verdict = trace(needs_a_state)
    assert verdict.ok is None
    assert "parameter 'state' is annotated" in verdict.reason
    assert "give an example" in verdict.reason
    verdict = trace(names_nothing)
    assert verdict.ok is None
    assert "name 'OnlyThere' is not defined" in verdict.reason
