"""What gradients send, by ``shardlint cost``, against what a trace says of the same functions."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import pytest

import shardtypes
from shardlint.config import find
from shardlint.costing.counting import Analysed, analysed, cost_of
from shardlint.costing.report import Cost
from shardlint.run import opened
from tests.costing import gradient_programs

pytestmark = pytest.mark.once  # of what the engine does, another JAX changes nothing

MESH = {"d": 2, "t": 4}
SIZES = {"B": 16, "M": 32, "N": 24, "F": 40, "L": 3, "S": 5}
#: What a loss sends that is added up. JAX leaves it out where nobody asks for the loss beside its gradient.
LOSS = 8
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
Rows: TypeAlias = dict[tuple[int, str, frozenset[str]], int]
NAMES = [
    name
    for name, value in vars(gradient_programs).items()
    if inspect.isfunction(value) and hasattr(value, "__wrapped__")
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """The file in a folder of its own, so that no project around it is read."""
    path = tmp_path_factory.mktemp("programs") / "gradient_programs.py"
    shutil.copy(gradient_programs.__file__, path)
    return analysed(opened(str(path), find), MESH)


def _array(annotation: Any) -> Any:
    """Of these sizes what an annotation, or a class of them, describes."""
    fields = getattr(annotation, "__dataclass_fields__", None)
    if fields is not None:
        return annotation(*[_array(field.type) for field in fields.values()])
    found = re.search(r"(\w+)\['(.*?)'\]", str(annotation))
    assert found is not None
    names = [word.partition("/")[0] for word in found[2].split()]
    shape = tuple(SIZES[name] for name in names)
    return jax.ShapeDtypeStruct(shape, DTYPES[found[1]])


def _traced(name: str) -> Rows:
    function = getattr(gradient_programs, name)
    parameters = inspect.signature(function).parameters.values()
    arrays = [_array(parameter.annotation) for parameter in parameters]
    found: Rows = {}
    for row in shardtypes.cost(function, *arrays, mesh=MESH).moved:
        key = row.place.line, row.collective, frozenset(row.axes)
        found[key] = found.get(key, 0) + row.bytes
    return _but_for_losses(found)


def _said(cost: Cost) -> Rows:
    found: Rows = {}
    for row in cost.moved:
        number = cost.bytes_of(row.sent)
        assert number is not None
        key = row.line, row.collective, frozenset(row.axes)
        found[key] = found.get(key, 0) + number
    return _but_for_losses(found)


def _but_for_losses(rows: Rows) -> Rows:
    return {key: number for key, number in rows.items() if number > LOSS}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "remat"])
def test_lines_send_what_a_trace_says(programs: Analysed, name: str) -> None:
    cost = cost_of(programs, name, SIZES)
    assert cost.uncounted == ()
    rows = _said(cost)
    if (
        name == "megatron"
    ):  # the trace names the rule that is called, not the function that has it
        rows = _on_lines(rows, {103: 107})
    assert rows == _traced(name)


def _on_lines(rows: Rows, lines: dict[int, int]) -> Rows:
    return {(lines.get(line, line), *rest): n for (line, *rest), n in rows.items()}


def test_they_are_formulas(programs: Analysed) -> None:
    cost = cost_of(programs, "layers", {})
    assert {row.collective: str(row.sent) for row in cost.moved} == {
        "all_gather": "4*M*M*(d-1)*L/d",
        "reduce_scatter": "4*M*M*L*(d-1)/d",
        "psum": "8*(d-1)/d",
    }


def test_what_is_run_once_more_is_not_counted(programs: Analysed) -> None:
    cost = cost_of(programs, "remat", SIZES)
    ((place, why),) = cost.uncounted
    assert why == "what jax.checkpoint computes once more for gradients"
    line = int(place.rpartition(":")[2])
    text = Path(gradient_programs.__file__).read_text().splitlines()[line - 1]
    assert "all_gather" in text
    forward = _said(cost)[line, "all_gather", frozenset({"d"})]
    assert _traced("remat")[line, "all_gather", frozenset({"d"})] == 2 * forward


UNCOUNTED = """
import jax
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map
import elsewhere


@typed_shard_map
def unknown(x: f32["B/d M"], w: f32["M N"]) -> f32["M N"]:
    return jax.grad(lambda w: jnp.mean(elsewhere.layer(x, w) ** 2))(w)


@typed_shard_map
def shifted(x: f32["B/d M"], w: f32["M/d N"]) -> f32["M/d N"]:
    def loss(w):
        y = lax.all_gather(w[1:], "d", axis=0, tiled=True)
        return lax.pmean(jnp.mean(y**2) + jnp.mean(x), "d")

    return jax.grad(loss)(w)
"""


def _why(tmp_path: Path, name: str) -> Iterator[str]:
    path = tmp_path / "uncounted.py"
    path.write_text(UNCOUNTED)
    cost = cost_of(analysed(opened(str(path), find), MESH), name, {})
    for _, why in cost.uncounted:
        yield why


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "grad: what gradients send (elsewhere"),
        ("shifted", "grad: what gradients send (their bytes are no product of sizes)"),
    ],
)
def test_what_is_not_counted_has_a_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    assert any(why.startswith(reason) for why in _why(tmp_path, name))
