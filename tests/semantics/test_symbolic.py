"""Every public function with names for sizes: what is told of its shape holds for the sizes that JAX is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from shardlint.ops import lowered
from shardlint.ops.registry import Call, OpContext, OpError, constant
from shardlint.values import (
    ArrayValue,
    Dimension,
    ExternalValue,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.relation import NOTHING_KNOWN, Relations, split
from tests.semantics.call import Call as Asked
from tests.semantics.call import Function, types_in_jax
from tests.semantics.calls import CALLS

pytestmark = pytest.mark.once

NEED_NUMBERS = {
    "jax.lax.unstack": "as many arrays as the size",
    "jax.numpy.cross": "two or three components",
    "jax.numpy.digitize": "other functions of fewer than two edges",
    "jax.numpy.linalg.cross": "two or three components",
    "jax.numpy.poly": "a step for each entry",
    "jax.numpy.polyder": "a factor for each entry",
    "jax.numpy.polyint": "a factor for each entry",
    "jax.numpy.quantile": "several quantiles are computed one after another",
    "jax.numpy.tril_indices_from": "as many entries as the sizes say",
    "jax.numpy.triu_indices_from": "as many entries as the sizes say",
    "jax.numpy.unstack": "as many arrays as the size",
    "jax.numpy.vander": "a column for each power",
    "jax.scipy.linalg.lu_solve": "a step for each pivot",
    "jax.scipy.signal.convolve": "which of two sizes is larger",
}
"""Functions that have calls which are told for numbers alone."""

RELATED = ("jax.numpy.linalg.tensorinv", "jax.numpy.linalg.tensorsolve")
"""Functions that take arrays of which a product of sizes is another one: with names for them no call would fit."""

NAMES = [
    name
    for name in dict.fromkeys(call.name for call in CALLS)
    if lowered.is_lowered(name)
]
_TOGETHER = 60
GROUPS = [NAMES[k : k + _TOGETHER] for k in range(0, len(NAMES), _TOGETHER)]


def symbolic(argument: Any, size: Callable[[int], Size] | None = None) -> Value:
    """An argument of a call as the linter knows it; by default with a name for each size above 1, the same for equal
    sizes."""
    if isinstance(argument, np.ndarray):
        dims = tuple(map(Dimension, map(size or named, argument.shape)))
        dtype = "float32" if argument.dtype.kind == "f" else argument.dtype.name
        return ArrayValue(dims, dtypes.canonical(dtype), False, frozenset())
    if isinstance(argument, Function):
        return ExternalValue(argument.name)
    if isinstance(argument, (list, tuple)):
        kind = "list" if isinstance(argument, list) else "tuple"
        return SequenceValue(tuple(symbolic(item, size) for item in argument), kind)
    if argument is None or isinstance(argument, (bool, int, float, complex, str)):
        return constant(argument)
    return Unknown("another argument")


def asked(
    name: str, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None
) -> Value | None:
    """What the lowering of a function says of a call; None where the call does not fit the function."""
    found = lowered.find_lowered(name)
    assert found is not None
    bound = found.bind(args, kwargs or {})
    if bound is None:
        return None
    return found.function(Call(name, bound, OpContext()))


def named(size: int) -> Size:
    if size < 2:
        return Size.const(size)
    return Size.symbol(f"n{size}")


def told(call: Asked) -> list[Value]:
    args = [symbolic(argument) for argument in call.args]
    kwargs = {name: symbolic(value) for name, value in (call.kwargs or {}).items()}
    found = asked(call.name, args, kwargs)
    assert found is not None, call
    return parts(found)


def parts(value: Value) -> list[Value]:
    if isinstance(value, SequenceValue):
        return [part for item in value.items for part in parts(item)]
    return [value]


def evaluated(size: Size | None) -> int | None:
    if size is None:
        return None
    return size.evaluate({name: int(name[1:]) for name in size.symbols})


@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{one[0]}-to-{one[-1]}" for one in GROUPS]
)
def test_shapes_hold_for_the_sizes(group: list[str]) -> None:
    wrong: list[str] = []
    for call in CALLS:
        if call.name not in group or is_related(call):
            continue
        found = told(call)
        if is_open(found):
            if call.name not in NEED_NUMBERS and not is_of_another_kind(call):
                wrong.append(f"{call}: not known")
            continue
        types = types_in_jax(call)
        if len(found) != len(types):
            wrong.append(f"{call}: {len(found)} results, not {len(types)}")
            continue
        for one, (shape, dtype) in zip(found, types, strict=True):
            if isinstance(one, IntValue) or not isinstance(one, ArrayValue):
                continue
            assert one.dims is not None, call
            sizes = tuple(evaluated(dim.size) for dim in one.dims)
            if sizes != shape or one.dtype not in (dtype, None):
                wrong.append(f"{call}: {one.dtype}{sizes}, not {dtype}{shape}")
    assert not wrong, "\n".join(wrong)


def is_open(found: list[Value]) -> bool:
    """Whether nothing is known of a result, or only that it is an array."""
    if len(found) != 1:
        return False
    (one,) = found
    if isinstance(one, ArrayValue):
        return one.dims is None
    return isinstance(one, Unknown)


def is_related(call: Asked) -> bool:
    """Whether no call fits with names for sizes: one is a product of others, or a multiple of one."""
    return call.name in RELATED or "feature_group_count" in (call.kwargs or {})


def is_of_another_kind(call: Asked) -> bool:
    """Whether an argument is none of an array, a number, a text or a sequence of these."""
    given = [*call.args, *(call.kwargs or {}).values()]
    values = [part for argument in given for part in parts(symbolic(argument))]
    return any(isinstance(value, Unknown) for value in values)


def test_nothing_is_known_of_how_a_shape_alone_is_sharded() -> None:
    """Where only the shape is told, as the places of entries depend on names, the result is not taken as replicated."""
    size = Size.symbol("n6")
    vector = Array((size,), "float32", relations=Relations.of({"t": split(0)}))
    for name, more in SHAPES_ALONE.items():
        found = LOWERINGS[name](vector, *more)
        assert found.relations == NOTHING_KNOWN, name


SHAPES_ALONE: dict[str, tuple[Any, ...]] = {
    "jax.numpy.diagflat": (),
    "jax.numpy.resize": ((3, 4),),
    "jax.numpy.fft.fft": (8,),
    "jax.scipy.linalg.circulant": (),
    "jax.scipy.linalg.toeplitz": (),
    "jax.numpy.convolve": (np.ones(3),),
    "jax.numpy.roll": (1,),
}


def test_what_needs_numbers_is_listed_for_a_reason() -> None:
    left = {
        call.name for call in CALLS if call.name in NEED_NUMBERS and is_open(told(call))
    }
    assert left == set(NEED_NUMBERS)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("jax.numpy.add", "shapes 'B M' and 'B K' do not broadcast"),
        ("jax.scipy.stats.norm.pdf", "shapes 'B M' and 'B K' do not broadcast"),
        ("optax.losses.hinge_loss", "shapes 'B M' and 'B K' do not broadcast"),
        ("jax.numpy.matmul", "cannot contract 'B M' with 'B K': M against B"),
    ],
)
def test_sizes_that_do_not_go_together(name: str, reason: str) -> None:
    first, second = (
        ArrayValue(
            (Dimension(Size.symbol(one)), Dimension(Size.symbol(two))), "float32"
        )
        for one, two in ("BM", "BK")
    )
    with pytest.raises(OpError) as caught:
        asked(name, [first, second])
    assert caught.value.code == "ST204"
    assert reason in caught.value.message
    assert caught.value.witness


@pytest.mark.parametrize(
    ("known", "expected"), [(Size.symbol("B"), None), (Size.const(4), Size.const(4))]
)
@pytest.mark.parametrize("name", ["jax.numpy.add", "jax.numpy.where"])
def test_a_name_may_be_one_beside_a_size_that_is_not_known(
    name: str, known: Size, expected: Size | None
) -> None:
    given = [ArrayValue((Dimension(size),), "float32") for size in (known, None)]
    if name == "jax.numpy.where":
        given.insert(0, ArrayValue((), "bool"))
    found = asked(name, given)
    assert isinstance(found, ArrayValue)
    assert found.dims is not None
    assert found.dims[0].size == expected


def test_segment_ids_of_several_dimensions_are_not_followed() -> None:
    edges = symbolic(np.ones((3, 5)))
    receivers = symbolic(np.zeros((3, 5), np.int32))
    found = asked("jax.ops.segment_sum", [edges, receivers, IntValue(Size.const(4))])
    assert is_open([found])


def test_a_name_is_broadcast_to_a_number_rather_than_a_number_to_a_name() -> None:
    choices = [ArrayValue((Dimension(Size.const(2)),), "float32")]
    index = ArrayValue((Dimension(Size.symbol("B")),), "int32")
    given = [index, SequenceValue(tuple(choices), "list")]
    found = asked("jax.numpy.choose", given, {"mode": constant("wrap")})
    assert isinstance(found, ArrayValue)
    assert found.dims is not None
    assert [dim.size for dim in found.dims] == [2]


def test_a_key_without_dimensions_is_typed_whatever_is_known_of_its_dtype() -> None:
    key = ArrayValue((), None)
    keys = asked("jax.random.split", [key, IntValue(Size.const(3))])
    words = asked("jax.random.key_data", [key])
    assert isinstance(keys, ArrayValue)
    assert isinstance(words, ArrayValue)
    assert [dim.size for dim in keys.dims or ()] == [3]
    assert [dim.size for dim in words.dims or ()] == [2]


@pytest.mark.parametrize("name", ["split", "key_data"])
def test_of_a_key_of_unknown_rank_nothing_is_told(name: str) -> None:
    found = asked(f"jax.random.{name}", [ArrayValue(None)])
    assert isinstance(found, ArrayValue)
    assert found.dims is None


def test_of_several_keys_of_unknown_dtype_the_words_are_not_told() -> None:
    keys = ArrayValue((Dimension(Size.symbol("B")),), None)
    found = asked("jax.random.key_data", [keys])
    assert isinstance(found, ArrayValue)
    assert found.dims is None
