"""Every public function with arrays of other dtypes: the dtype of a result, and whether it gives way, is JAX's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, product, repeat
from typing import Any

import jax
import numpy as np
import pytest

from shardlint.ops import lowered
from shardtypes.semantics.array import Array, NotConcrete, UnknownRank
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.convert import asarray, x64
from shardtypes.semantics.registry import Refused
from tests.semantics.call import Call, Function, resolved
from tests.semantics.calls import CALLS

pytestmark = pytest.mark.once


@dataclass(frozen=True)
class Kind:
    """The dtype of an array; a ``weak`` one gives way to others in promotion."""

    dtype: str
    weak: bool = False


FLOAT = Kind("float32")
KINDS = (
    FLOAT,
    Kind("bfloat16"),
    Kind("float16"),
    Kind("int32"),
    Kind("uint8"),
    Kind("bool"),
    Kind("float32", weak=True),
    Kind("int32", weak=True),
)
PAIRS = [(kind, other) for kind in KINDS for other in dict.fromkeys((kind, FLOAT))] + [
    (FLOAT, Kind("int32")),
    (FLOAT, Kind("bfloat16")),
    (Kind("float32", weak=True), Kind("bfloat16")),
]
"""The dtype of the first array of a call, and that of all others."""

NAMES = [
    name
    for name in dict.fromkeys(call.name for call in CALLS)
    if lowered.is_lowered(name)
]
_TOGETHER = 40
GROUPS = [NAMES[k : k + _TOGETHER] for k in range(0, len(NAMES), _TOGETHER)]


@dataclass(frozen=True)
class Given:
    """An array among the arguments, without its numbers."""

    shape: tuple[int, ...]
    kind: Kind


def with_kinds(call: Call, first: Kind, others: Kind, scalars: bool = False) -> Call:
    """The call with arrays of other dtypes, by wish of rank 0. Indices and masks stay that."""
    kinds = chain([first], repeat(others))

    def changed(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        shape = () if scalars else leaf.shape
        return Given(shape, _fitting(leaf, next(kinds)))

    args, kwargs = mapped(changed, (call.args, call.kwargs or {}))
    return Call(call.name, args, kwargs)


def _fitting(array: np.ndarray, kind: Kind) -> Kind:
    if array.dtype.kind == "c":
        return Kind("complex64")
    if array.dtype.kind == "b" and "float" in kind.dtype:
        return Kind("bool")
    if array.dtype.kind in "iu" and "float" in kind.dtype:
        return Kind("int32")
    return kind


def mapped(function: Callable[[Any], Any], argument: Any) -> Any:
    """A nest of dicts, lists and tuples with a function of its leaves."""
    if isinstance(argument, dict):
        return {name: mapped(function, value) for name, value in argument.items()}
    if isinstance(argument, (list, tuple)):
        return type(argument)(mapped(function, item) for item in argument)
    return function(argument)


def arguments_here(call: Call) -> tuple[Any, Any]:
    """The arguments as the lowering takes them."""

    def given(leaf: Any) -> Any:
        if isinstance(leaf, Given):
            return Array(leaf.shape, leaf.kind.dtype, leaf.kind.weak)
        if isinstance(leaf, Function):
            return LOWERINGS[leaf.name]
        return leaf

    args, kwargs = mapped(given, (call.args, call.kwargs))
    return args, kwargs


def arrays_in(found: Any) -> list[Array]:
    """What a lowering gives, as arrays."""
    is_array = lambda leaf: isinstance(leaf, Array)  # noqa: E731 - one line
    return [asarray(leaf) for leaf in jax.tree.leaves(found, is_leaf=is_array)]


def kinds_here(call: Call) -> list[Kind] | None:
    """The dtypes of the results by the lowering: none where it says that JAX refuses the call, None where it does not
    cover it."""
    args, kwargs = arguments_here(call)
    try:
        found = call.own(*args, **kwargs)
    except Refused:
        return []
    except (Unsupported, UnknownRank, NotConcrete, *_OF_ARGUMENTS):
        return None
    arrays = arrays_in(found)
    if any(array.dtype is None for array in arrays):
        return None
    return [_kind(array.dtype, array.weak) for array in arrays]


_OF_ARGUMENTS = (TypeError, ValueError, LookupError, AttributeError)


def _kind(dtype: str, weak: bool) -> Kind:
    return Kind(dtype, weak and dtype != "bool")


def kinds_in_jax(call: Call) -> list[Kind] | None:
    """The dtypes of the results in JAX; None where it refuses the call."""
    shapes: list[jax.ShapeDtypeStruct] = []

    def noted(leaf: Any) -> Any:
        if isinstance(leaf, Given):
            dtype = leaf.kind.dtype
            shape = jax.ShapeDtypeStruct(leaf.shape, dtype, weak_type=leaf.kind.weak)
            shapes.append(shape)
        return leaf

    def run(arrays: list[jax.Array]) -> Any:
        rest = iter(arrays)

        def given(leaf: Any) -> Any:
            if isinstance(leaf, Given):
                return next(rest)
            if isinstance(leaf, Function):
                return resolved(leaf.name)
            return leaf

        args, kwargs = mapped(given, (call.args, call.kwargs))
        found = call.function(*args, **kwargs)
        return [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(found)]

    mapped(noted, (call.args, call.kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = jax.eval_shape(run, shapes)
    except Exception:  # noqa: BLE001 - whatever JAX says of it
        return None
    return [_kind(one.dtype.name, one.weak_type) for one in found]


WIDE = (FLOAT, Kind("float64"), Kind("int32"), Kind("int64"), Kind("bool"))
WIDE_PAIRS = [(kind, kind) for kind in WIDE] + [(Kind("float32"), Kind("float64"))]
#: Functions that make of 32-bit integers, or of booleans, a dtype of another width than most: there the linter makes
#: nothing of the dtype that the lowering gives.
OF_ANOTHER_WIDTH = frozenset(
    """jax.numpy.angle jax.numpy.cov jax.numpy.gradient jax.numpy.linalg.vector_norm jax.numpy.nanstd jax.numpy.nanvar
    jax.numpy.polyint jax.numpy.power jax.numpy.rint jax.scipy.special.multigammaln jax.scipy.stats.multinomial.logpmf
    jax.scipy.stats.multinomial.pmf""".split()
)


def faults(call: Call, pairs: Sequence[tuple[Kind, Kind]] = PAIRS) -> list[str]:
    """For which dtypes what is said of a call is wrong."""
    wrong = []
    for (first, others), scalars in product(pairs, (False, True)):
        changed = with_kinds(call, first, others, scalars)
        here = kinds_here(changed)
        if here is None:
            continue
        there = kinds_in_jax(changed)
        if there is not None and here != there:
            what = f"{call} of {first} and {others}, {scalars=}"
            wrong.append(f"{what}: {here}, JAX gives {there}")
    return wrong


@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{one[0]}-to-{one[-1]}" for one in GROUPS]
)
def test_dtypes_are_those_of_jax(group: list[str]) -> None:
    wrong = [fault for call in CALLS if call.name in group for fault in faults(call)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{one[0]}-to-{one[-1]}" for one in GROUPS]
)
def test_dtypes_are_those_of_jax_with_64_bits(group: list[str]) -> None:
    calls = [call for call in CALLS if call.name in group]
    of_floats = [pair for pair in WIDE_PAIRS if pair[1].dtype.startswith("float")]
    wrong = []
    with x64(True), jax.enable_x64(True):
        for call in calls:
            pairs = of_floats if call.name in OF_ANOTHER_WIDTH else WIDE_PAIRS
            wrong += faults(call, pairs)
    assert not wrong, "\n".join(wrong)


def test_most_calls_are_covered() -> None:
    """What no lowering covers is not compared."""
    calls = [call for call in CALLS if call.name in NAMES]
    known = [call for call in calls if kinds_here(with_kinds(call, FLOAT, FLOAT))]
    assert len(known) > 0.95 * len(calls)


def test_another_dtype_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = LOWERINGS["jax.numpy.square"]
    lowerings = {
        **LOWERINGS,
        "jax.numpy.square": lambda x: asarray(plain(x), "float16"),
    }
    monkeypatch.setattr("tests.semantics.call.LOWERINGS", lowerings)
    assert faults(Call("jax.numpy.square", (np.ones((2, 3)),)))


def test_products_of_any_two_dtypes() -> None:
    """``lax`` promotes by a rule of its own."""
    names = "bool uint8 int4 int32 uint32 float16 bfloat16 float32 complex64".split()
    for first, second in product(names, names):
        own = [Array((2, 2), name) for name in (first, second)]
        found = LOWERINGS["jax.lax.dot"](*own)
        given = [jax.ShapeDtypeStruct((2, 2), name) for name in (first, second)]
        truth = jax.eval_shape(jax.lax.dot, *given)
        assert (found.dtype, found.weak) == (truth.dtype.name, truth.weak_type)
