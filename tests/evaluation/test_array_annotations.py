"""Array annotations in programs that are evaluated."""

from __future__ import annotations

import pytest

from shardlint.evaluation.array_annotations import ArrayType
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.outside import Outside
from tests.evaluation.running import (
    assert_computes,
    computed_by_jax,
    evaluated,
    main_of,
    programs_of,
)


@pytest.mark.parametrize("name", ["shardtypes.f32", "shardtypes.annotated.f32"])
def test_both_forms_are_the_same_type(name: str) -> None:
    dtype, array = Outside(name), Outside("jax.Array")
    wanted = ArrayType("B/d M", "float32")
    assert dtype["B/d M"] == wanted
    assert dtype[array, "B/d M"] == wanted
    assert dtype[array, b"B/d M"] == wanted


HEAD = """
import dataclasses
from typing import Generic, NamedTuple, TypedDict, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType
from shardtypes import Array, enabled, f32, layout, make_shardings, pytree_dataclass, shard, typed_shard_map

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
x = np.arange(96.0, dtype=np.float32).reshape(8, 12)


T = TypeVar("T")


class Options(TypedDict):
    factor: float


class Base:
    options: Options = {"factor": 3.0}


class Held(Generic[T], Base):
    def __init__(self, item: T):
        self.item = item


class Metrics(NamedTuple):
    rows: f32["B/d"]
    total: f32[""]


@pytree_dataclass
class Layer:
    w: f32["F/t"]
    b: f32[""]
    power: int = dataclasses.field(default=2, metadata={"static": True})


def layer(number):
    return Layer(np.full(12, number, np.float32), np.float32(number))


"""
#: By what is in the signature: the mapped function, its parameters and result, and what it is given.
MAPPED = {
    "a tuple with names": """
        def f(x: f32["B/d F/t"]) -> Metrics:
            rows = lax.psum(jnp.sum(x, axis=1), "t")
            return Metrics(rows, lax.psum(jnp.sum(rows), "d"))
        given = (x,)
""",
    "a list of arrays": """
        def f(xs: list[f32["B/d F/t"]]) -> dict[str, f32["B/d"]]:
            return {str(k): lax.psum(jnp.sum(one, axis=1), "t") for k, one in enumerate(xs)}
        given = ([x, 2 * x, 3 * x],)
""",
    "tuples of any length": """
        def f(xs: tuple[f32["B/d F/t"], ...], last: f32["F/t"]) -> tuple[f32["F/t"], ...]:
            return (*(lax.psum(jnp.sum(one, axis=0), "d") for one in xs), last)
        given = (x, x), x[0]
""",
    "a list of objects": """
        def f(layers: list[Layer], x: f32["B/d F/t"]) -> f32["B/d F/t"]:
            for one in layers:
                x = (x * one.w + one.b) ** one.power
            return x
        given = [layer(0.5), layer(0.25)], x
""",
    "objects by name": """
        def f(layers: dict[str, Layer], x: f32["B/d F/t"]) -> f32["B/d"]:
            return lax.psum(jnp.sum(x * layers["a"].w + layers["b"].b, axis=1), "t")
        given = {"a": layer(1.0), "b": layer(2.0)}, x
""",
    "an object with a static field": """
        def f(layer: Layer, x: f32["B/d F/t"]) -> tuple[Layer, f32["B/d F/t"]]:
            return Layer(layer.w + 1, layer.b, layer.power), x ** layer.power * layer.w
        given = layer(3.0), x
""",
    "what a generic class holds": """
        held = Held(jax.device_put(layer(2.0), make_shardings(Layer, mesh)))
        def f(layer: Layer, x: f32["B/d F/t"]) -> f32["B/d F/t"]:
            return x * layer.w * Options(**held.options)["factor"]
        given = held.item, x
""",
    "layouts that a program prints, and values that it places": """
        enabled(False)
        def f(x: f32["B/d F/t"]) -> f32["B/d F/t"]:
            return x * 2
        given = (shard(jnp.asarray(x), f32["B/d F/t"], mesh),)
        print(layout(given[0]), layout(given[0]) == layout(f32["8/d 12/t"], mesh))
""",
    "what may be left out": """
        def f(x: f32["B/d F/t"], bias: f32["F/t"] | None, scale: f32["F/t"] | None) -> f32["B/d F/t"]:
            x = x if bias is None else x + bias
            return x if scale is None else x * scale
        given = x, None, x[0]
""",
}


CALL = "        return typed_shard_map(f, mesh=mesh)(*given)\n"
PROGRAMS = programs_of(HEAD, {name: body + CALL for name, body in MAPPED.items()})
wanted = computed_by_jax(PROGRAMS)


@pytest.mark.parametrize("name", MAPPED)
def test_signatures_say_how_arguments_and_results_are_sharded(
    name: str, wanted: dict[str, list[object]]
) -> None:
    assert_computes(PROGRAMS[name], wanted[name])


def test_of_how_many_objects_a_result_has_nothing_is_known() -> None:
    body = """
        def f(layers: list[Layer]) -> list[Layer]:
            return layers
        given = ([layer(0.5)],)
"""
    text = HEAD + main_of(body + CALL)
    with pytest.raises(NotEvaluable, match="a container of which it is not known"):
        evaluated(text)
