"""Tables of modelled functions with strategies for their arguments; every row is held against JAX in the same way.

For each draw the model must agree with ``jax.eval_shape`` on the result or on the error. Then the sizes of the arrays
become symbols and the model runs once more: what it answers must be JAX's answer for two assignments of sizes, and
where it refuses, JAX must refuse at its witness. And some of what is known of the arguments is taken away: of what is
left the model must not say anything that is not so, nor refuse what JAX takes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes
from tests.ops.oracle import (
    CASES,
    QUICK,
    Runner,
    abstract,
    agree,
    assert_same,
    context,
    in_jax,
    is_array,
    sampled,
    show,
)

ABSENT = object()
FEW = 5 if QUICK else CASES  # there are a thousand rows
Drawn = tuple[list[object], dict[str, object]]


@dataclass(frozen=True)
class Case:
    """One modelled function, the real one, and a strategy for arguments of a call.

    ``run`` is given where the model is not asked by its name alone; ``times`` as many cases are drawn as for others.
    """

    name: str
    function: Callable[..., object]
    arguments: st.SearchStrategy[Drawn]
    run: Runner | None = None
    times: int = 1


def resolve(name: str) -> Callable[..., object] | None:
    """The function of that qualified name; None where this release of JAX has none."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found if callable(found) else None
    return None


def optional(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """The argument, or a call without it."""
    return st.one_of(st.just(ABSENT), strategy)


def case(prefix: str, names: str, *args: st.SearchStrategy[object], drawn: st.SearchStrategy[Drawn] | None = None,
         function: Callable[..., object] | None = None, run: Runner | None = None,
         times: int = 1, **kwargs: st.SearchStrategy[object]) -> list[Case]:  # fmt: skip
    """Rows for functions that take the same arguments."""
    arguments = drawn
    if arguments is None:
        arguments = st.tuples(st.tuples(*args), st.fixed_dictionaries(kwargs)).map(
            lambda pair: (
                [arg for arg in pair[0] if arg is not ABSENT],
                {key: arg for key, arg in pair[1].items() if arg is not ABSENT},
            )
        )
    rows = []
    for name in names.split():
        real = function or resolve(f"{prefix}.{name}")
        if real is not None:
            rows.append(Case(f"{prefix}.{name}", real, arguments, run, times))
    return rows


def family(*groups: list[Case]) -> Callable[[Case], None]:
    """The test of a table; several rows for one function are alternatives."""
    by_name: dict[str, Case] = {}
    for row in (row for group in groups for row in group):
        other = by_name.get(row.name)
        both = (
            row
            if other is None
            else replace(row, arguments=st.one_of(other.arguments, row.arguments))
        )
        by_name[row.name] = both
    rows = list(by_name.values())

    @pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])
    def test(row: Case) -> None:
        assert ops.is_modelled(row.name)

        @settings(sampled, max_examples=FEW * row.times)
        @given(row.arguments, st.tuples(*[st.integers(1, 6)] * 4), st.integers(0, 15))
        def run(drawn: Drawn, numbers: tuple[int, ...], chosen: int) -> None:
            args, kwargs = drawn
            # others look for attributes of arrays
            if row.name.startswith(("jax.numpy.", "jax.nn.", "jax.scipy.")):
                args, kwargs = (
                    [number(arg) for arg in args],
                    {key: number(arg) for key, arg in kwargs.items()},
                )
            truth = agree(row.name, row.function, args, kwargs, row.run)
            declared(row, args, kwargs, truth, chosen)
            symbolic(
                row,
                args,
                kwargs,
                truth,
                dict(zip(_SYMBOLS, numbers, strict=True)),
                chosen,
            )

        @settings(sampled, max_examples=FEW * row.times)
        @given(row.arguments, st.randoms(use_true_random=False))
        def run_in_part(drawn: Drawn, random: Random) -> None:
            known_in_part(row, *drawn, random)

        run()
        run_in_part()

    test.rows = rows  # type: ignore[attr-defined]  # for tests of functions that are called alike
    return test


def number(value: object) -> object:
    """A Python number for a weak array without dimensions: to JAX both are the same."""
    if is_array(value) and value.shape == () and value.weak_type:  # type: ignore[attr-defined]  # a ShapeDtypeStruct
        return {"int32": 2, "float32": 1.5, "complex64": 1j}[value.dtype.name]  # type: ignore[attr-defined]
    return value


def declared(
    row: Case,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    truth: object,
    chosen: int,
) -> None:
    """With families of dtypes in place of dtypes: JAX's answer for this member is one of those that the model gives."""
    values, named = (
        [_widened(arg, chosen) for arg in args],
        {key: _widened(v, chosen) for key, v in kwargs.items()},
    )
    what = f"{row.name}{tuple(args)} {dict(kwargs)}, families {chosen}"
    try:
        result = (
            row.run(values, named)
            if row.run
            else ops.apply(row.name, values, named, context())
        )
    except ops.OpError as error:
        assert isinstance(truth, Exception), (
            f"{what}: model says {error.code} {error.message!r}, JAX gives {truth}"
        )
        return
    if not isinstance(truth, Exception):
        assert_same(what, result, truth)


def known_in_part(
    row: Case, args: Sequence[object], kwargs: Mapping[str, object], random: Random
) -> None:
    """With ranks, sizes, numbers or whole arguments that are not known: what the model says is so of this call too."""
    truth = in_jax(row.function, args, kwargs)
    if isinstance(truth, Exception):
        return
    values = [_known_in_part(arg, random) for arg in args]
    named = {key: _known_in_part(arg, random) for key, arg in kwargs.items()}
    known = f"{[*map(show, values)]} {named}"
    what = f"{row.name}{tuple(args)} {dict(kwargs)}, known as {known}"
    try:
        if row.run:
            result = row.run(values, named)
        else:
            result = ops.apply(row.name, values, named, context())
    except ops.OpError as error:
        raise AssertionError(
            f"{what}: model says {error.code} {error.message!r}, JAX gives {truth}"
        ) from None
    assert_same(what, result, truth)


def _known_in_part(value: object, random: Random) -> Value:
    if random.random() < 0.15:
        return Unknown()
    if isinstance(value, (tuple, list)):
        items = tuple(_known_in_part(item, random) for item in value)
        return SequenceValue(items, type(value).__name__)
    known = abstract(value)
    if isinstance(known, IntValue):
        return random.choice([known, IntValue(None)])
    if not isinstance(known, ArrayValue) or known.dims is None:
        return known
    some = tuple(random.choice([dim, Dimension(None)]) for dim in known.dims)
    return replace(known, dims=random.choice([known.dims, some, None]))


def _widened(value: object, chosen: int) -> Value:
    """The abstract value, its dtypes known as families only, or as one of two."""
    if isinstance(value, (tuple, list)):
        return SequenceValue(
            tuple(_widened(item, chosen) for item in value), type(value).__name__
        )
    known = abstract(value)
    if (
        not is_array(value)
        or not isinstance(known, ArrayValue)
        or known.dtype in (None, "bool")
        or known.weak
    ):
        return known
    around = [name for name, names in dtypes.FAMILIES.items() if known.dtype in names]
    around.append(
        dtypes.any_of(
            (known.dtype, ("int8", "bfloat16", "uint32", "float32")[chosen % 4])
        )
        or known.dtype
    )
    return replace(known, dtype=around[chosen % len(around)])


_SYMBOLS = {"B": 2, "L": 3, "M": 4, "K": 5}


def _named(value: object, chosen: int) -> Value:
    """The abstract value, the chosen sizes being symbols."""
    if isinstance(value, (tuple, list)):
        return SequenceValue(
            tuple(_named(item, chosen) for item in value), type(value).__name__
        )
    if isinstance(value, dict):
        return DictValue(
            tuple((key, _named(item, chosen)) for key, item in value.items())
        )
    known = abstract(value)
    if not is_array(value) or not isinstance(known, ArrayValue) or known.dims is None:
        return known
    names = {
        number: name
        for i, (name, number) in enumerate(_SYMBOLS.items())
        if chosen & (1 << i)
    }
    sizes = [dim.size.constant if dim.size is not None else None for dim in known.dims]
    dims = [Size.symbol(names[n]) if n in names else Size.const(n or 0) for n in sizes]
    return replace(known, dims=tuple(Dimension(dim, ()) for dim in dims))


def _resized(value: object, chosen: int, sizes: Mapping[str, int]) -> object:
    if isinstance(value, (tuple, list)):
        return type(value)(_resized(item, chosen, sizes) for item in value)
    if isinstance(value, dict):
        return {key: _resized(item, chosen, sizes) for key, item in value.items()}
    if not is_array(value):
        return value
    swap = {
        number: sizes[name]
        for i, (name, number) in enumerate(_SYMBOLS.items())
        if chosen & (1 << i)
    }
    shape = tuple(swap.get(n, n) for n in value.shape)  # type: ignore[attr-defined]  # a ShapeDtypeStruct
    return jax.ShapeDtypeStruct(shape, value.dtype, weak_type=value.weak_type)  # type: ignore[attr-defined]


def evaluated(value: Value, sizes: Mapping[str, int]) -> Value:
    """The value with numbers for its symbols."""
    if isinstance(value, ArrayValue) and value.dims is not None:
        known = [
            None if dim.size is None else Size.const(dim.size.evaluate(sizes))
            for dim in value.dims
        ]
        return replace(value, dims=tuple(Dimension(size) for size in known))
    if isinstance(value, SequenceValue):
        return replace(
            value, items=tuple(evaluated(item, sizes) for item in value.items)
        )
    if isinstance(value, IntValue) and value.size is not None:
        return IntValue(Size.const(value.size.evaluate(sizes)))
    if isinstance(value, DictValue):
        return DictValue(
            tuple((key, evaluated(item, sizes)) for key, item in value.items)
        )
    return value


def symbolic(row: Case, args: Sequence[object], kwargs: Mapping[str, object], drawn: object,
             numbers: Mapping[str, int], chosen: int) -> None:  # fmt: skip
    """What the model says for all sizes holds for the drawn ones, where JAX says ``drawn``, and for other numbers."""

    def real(sizes: Mapping[str, int]) -> object:
        resized = {key: _resized(value, chosen, sizes) for key, value in kwargs.items()}
        return in_jax(
            row.function, [_resized(value, chosen, sizes) for value in args], resized
        )

    values = [_named(value, chosen) for value in args]
    named = {key: _named(value, chosen) for key, value in kwargs.items()}
    what = f"{row.name}{tuple(args)} {dict(kwargs)}, symbols {chosen:04b}"
    try:
        result = (
            row.run(values, named)
            if row.run
            else ops.apply(row.name, values, named, context())
        )
    except ops.OpError as error:
        truth = real({**numbers, **error.witness})
        assert isinstance(truth, Exception), (
            f"{what}: {error.message} for {error.witness}, JAX gives {truth}"
        )
        return
    if values == [abstract(value) for value in args] and named == {
        k: abstract(v) for k, v in kwargs.items()
    }:
        return  # no size became a symbol
    for sizes, truth in ((_SYMBOLS, drawn), (numbers, real(numbers))):
        if not isinstance(truth, Exception):
            where = f"{what} = {show(result)} at {dict(sizes)}"
            assert_same(where, evaluated(result, sizes), truth)
