"""Each primitive against JAX: shapes, numbers and gradients; its relations against numbers on simulated devices."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardtypes.semantics.array import Array
from shardtypes.semantics.gradient import pulled_back, watched
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.relation import Relation, Relations, part, split
from shardtypes.semantics.simulated import Simulated
from tests.semantics.table import ROWS, Drawn, Row

pytestmark = pytest.mark.once  # what primitives compute does not change with JAX

CASES = int(os.environ.get("ORACLE_CASES", "5"))
sampled = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="ORACLE_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
each_row = pytest.mark.parametrize(
    "row", ROWS, ids=[row.primitive.name for row in ROWS]
)


def lifted(numbers: np.ndarray) -> Array:
    return Array(numbers.shape, numbers.dtype.name, value=Simulated.everywhere(numbers))


def results_of(row: Row, arrays: list[Array], params: dict[str, object]) -> list[Array]:
    found = row.primitive(*arrays, **params)
    return list(found) if row.primitive.several else [found]


def in_jax(
    row: Row, arrays: list[np.ndarray], params: dict[str, object]
) -> list[jax.Array]:
    found = row.function(*arrays, **params)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.compared], ids=lambda row: row.primitive.name
)
def test_numbers_and_shapes_are_those_of_jax(row: Row) -> None:
    @sampled
    @given(row.drawn)
    def run(drawn: Drawn) -> None:
        operands, params = drawn
        with jax.enable_x64(True), evaluation():
            truth = in_jax(row, operands, params)
            found = results_of(row, [lifted(x) for x in operands], params)
        for one, expected in zip(found, truth, strict=True):
            assert one.shape == expected.shape
            assert one.dtype == expected.dtype.name
            assert one.value is not None
            np.testing.assert_allclose(
                one.value.parts[0], expected, rtol=2e-7, atol=1e-9
            )

    run()


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.smooth], ids=lambda row: row.primitive.name
)
def test_gradients_are_those_of_jax(row: Row) -> None:
    @sampled
    @given(row.drawn, st.integers(0, 2**20))
    def run(drawn: Drawn, seed: int) -> None:
        operands, params = drawn
        floats = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]

        def of_floats(*given: jax.Array) -> list[jax.Array]:
            full = list(operands)
            for i, x in zip(floats, given, strict=True):
                full[i] = x
            return in_jax(row, full, params)

        with jax.enable_x64(True), evaluation():
            truth, pull = jax.vjp(of_floats, *[operands[i] for i in floats])
            cotangents = [
                np.random.default_rng(seed).normal(size=one.shape) for one in truth
            ]
            expected = pull([jax.numpy.asarray(c) for c in cotangents])
            arrays = [lifted(x) for x in operands]
            arrays = [watched(x) if i in floats else x for i, x in enumerate(arrays)]
            found = results_of(row, arrays, params)
            taken = pulled_back(
                found, [lifted(c) for c in cotangents], [arrays[i] for i in floats]
            )
        for one, wanted in zip(taken, expected, strict=True):
            assert one.shape == wanted.shape
            assert one.value is not None
            np.testing.assert_allclose(one.value.parts[0], wanted, rtol=1e-6, atol=1e-8)

    run()


COUNT = 2
KINDS = ("same", "split", "part", "scaled", "zero", "extreme")


@st.composite
def on_devices(
    draw: st.DrawFn, drawn: st.SearchStrategy[Drawn]
) -> tuple[Drawn, list[Relation]]:
    """Operands, and how each of them is held by two devices."""
    operands, params = draw(drawn)
    relations: list[Relation] = []
    for i, x in enumerate(operands):
        kind = (
            draw(st.sampled_from(KINDS))
            if x.dtype.kind == "f"
            else draw(st.sampled_from(("same", "split")))
        )
        places = [k for k, n in enumerate(x.shape) if n % COUNT == 0]
        if kind == "split" and places:
            relations.append(
                split(draw(st.sampled_from(places)), draw(st.sampled_from((0, 0, 1))))
            )
        elif kind == "part":
            relations.append(part("sum", draw(st.sampled_from((0, 0, 1)))))
        elif kind == "extreme":
            relations.append(part(draw(st.sampled_from(("max", "min")))))
        elif kind == "scaled":
            relations.append(Relation("same", power=1))
        elif kind == "zero":
            relations.append(Relation("zero"))
            operands[i] = np.zeros_like(x)
        else:
            relations.append(Relation("same"))
    return (operands, params), relations


def held(numbers: np.ndarray, relation: Relation, seed: int = 0) -> Simulated:
    """The numbers on two devices along ``t``, so that the relation holds."""
    scaled = numbers * float(COUNT**relation.power) if relation.power else numbers
    random = np.random.default_rng(seed)
    match relation.kind:
        case "split":
            pieces = np.split(scaled, COUNT, axis=relation.dim)
        case "part" if relation.monoid == "sum":
            first = random.normal(size=numbers.shape)
            pieces = [first, scaled - first]
        case "part":
            less = -1 if relation.monoid == "max" else 1
            mask = random.integers(0, 2, numbers.shape) == 0
            other = scaled + less * random.uniform(0.1, 1, numbers.shape)
            pieces = [np.where(mask, scaled, other), np.where(mask, other, scaled)]
        case _:
            return Simulated.everywhere(scaled)
    return Simulated((("t", COUNT),), tuple(pieces))


def restored(value: Simulated, relation: Relation) -> np.ndarray:
    """The global value that the relation promises."""
    pieces = [np.asarray(device.parts[0]) for device in value.devices(("t", COUNT))]
    match relation.kind:
        case "split":
            found = np.concatenate(pieces, axis=relation.dim)
        case "part":
            combine = {
                "sum": np.add,
                "max": np.maximum,
                "min": np.minimum,
                "prod": np.multiply,
                "and": np.logical_and,
                "or": np.logical_or,
            }[relation.monoid or "sum"]
            found = combine.reduce(pieces)
        case "zero":
            found = np.zeros_like(pieces[0])
        case _:
            found = pieces[0]
            np.testing.assert_allclose(pieces[1], found, rtol=1e-7, atol=1e-9)
    return found / float(COUNT**relation.power) if relation.power else found


@each_row
def test_relations_hold_in_numbers(row: Row) -> None:
    @settings(sampled, max_examples=CASES * 4)
    @given(on_devices(row.drawn), st.integers(0, 2**20))
    def run(drawn: tuple[Drawn, list[Relation]], seed: int) -> None:
        (operands, params), relations = drawn
        local = localised(params, relations, operands)
        if local is None:
            return
        arrays = []
        for i, (x, relation) in enumerate(zip(operands, relations, strict=True)):
            value = held(x, relation, seed + i)
            shape = np.shape(value.parts[0])
            arrays.append(
                Array(shape, x.dtype.name, False, Relations.of({"t": relation}), value)
            )
        with evaluation(), np.errstate(all="ignore"):
            truth = results_of(row, [lifted(x) for x in operands], params)
            try:
                found = results_of(row, arrays, local)
            except ValueError:
                # shapes that do not fit: one operand is sharded, the other is not
                return
        for one, whole in zip(found, truth, strict=True):
            assert (
                one.relations is not None
                and one.value is not None
                and whole.value is not None
            )
            relation = one.relations["t"]
            expected = np.asarray(whole.value.parts[0])
            finite = all(
                np.isfinite(np.asarray(p, complex)).all()
                for p in (*one.value.parts, expected)
            )
            if relation.has_meaning and finite:
                what = f"{row.primitive.name} of {[str(r) for r in relations]} {params} is {relation}"
                np.testing.assert_allclose(
                    restored(one.value, relation),
                    expected,
                    rtol=1e-6,
                    atol=1e-8,
                    err_msg=what,
                )

    run()


def localised(
    params: dict[str, object], relations: list[Relation], operands: list[np.ndarray]
) -> dict[str, object] | None:
    """The parameters that a program gives on local shapes; None where sizes in them cannot be told apart."""
    local = dict(params)
    dims = [relation.dim for relation in relations if relation.kind == "split"]
    if not dims:
        return local
    for name in ("new_sizes", "shape", "slice_sizes", "limit_indices"):
        if name in local:
            return _resized(local, name, relations, operands)
    return local


def _resized(
    local: dict[str, object],
    name: str,
    relations: list[Relation],
    operands: list[np.ndarray],
) -> dict[str, object] | None:
    dim = relations[0].dim
    if dim is None or relations[0].kind != "split":
        return None
    sizes = list(local[name])  # type: ignore[call-overload]
    if name == "shape":
        place = local["broadcast_dimensions"][dim]  # type: ignore[index]
        if operands[0].shape[dim] != sizes[place]:
            return None
    elif name == "new_sizes":
        before = int(np.prod(operands[0].shape[:dim]))
        place, count = 0, 1
        while place < len(sizes) and (
            count * sizes[place] <= before or sizes[place] == 1
        ):
            count *= sizes[place]
            place += 1
        if place == len(sizes):
            return None
    else:
        place = dim
        if sizes[place] != operands[0].shape[dim]:
            return None
    if sizes[place] % COUNT:
        return None
    sizes[place] //= COUNT
    return {**local, name: tuple(sizes)}
