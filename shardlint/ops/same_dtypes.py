"""Functions that do not promote: what they take has one dtype, Python numbers included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from shardlint.ops.arrays import as_array
from shardlint.ops.registry import Call, OpError
from shardlint.values import (
    ArrayValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    Value,
)
from shardtypes.lang import dtypes


def check(call: Call, names: tuple[str, ...]) -> None:
    """Raises OpError where two of these arguments certainly differ in dtype: several arguments that are sequences item
    by item, and all items of a sequence that stands alone."""
    groups: defaultdict[str, list[tuple[str, ArrayValue]]] = defaultdict(list)
    for name in names:
        for path, value in _known(call, "", call.args.get(name)):
            groups[path if len(names) > 1 else ""].append((f"{name}{path}", value))
    for given in groups.values():
        _check_group(call, given)


def _check_group(call: Call, given: list[tuple[str, ArrayValue]]) -> None:
    first = next((one for one in given if not one[1].weak), None)
    if first is None:
        return
    for name, value in given:
        if _differ(first[1], value):
            dtype = f"a Python number of {value.dtype}" if value.weak else value.dtype
            what = f"{first[0]} is {first[1].dtype}, {name} is {dtype}"
            raise OpError(
                "ST212",
                f"{call.name}: {what}; jax.lax does not promote; cast one with .astype",
            )


def _known(
    call: Call, path: str, value: Value | None
) -> Iterator[tuple[str, ArrayValue]]:
    """The arrays of an argument whose dtype is known, and where in it they stand."""
    if isinstance(value, SequenceValue):
        for index, item in enumerate(value.items):
            yield from _known(call, f"{path}[{index}]", item)
        return
    if value is None or isinstance(value, ScalarValue):
        return  # who passes an array where `float` is annotated is not wrong
    found = as_array(value, call.ctx.x64)
    if found is None or found.dtype not in dtypes.CONCRETE:
        return
    if not found.weak or isinstance(value, (Literal, IntValue)):
        yield path, found


def _differ(array: ArrayValue, other: ArrayValue) -> bool:
    """Whether dtypes differ, whatever size Python's numbers have in this program."""
    if array.dtype is None or other.dtype is None or array.dtype == other.dtype:
        return False
    if not other.weak:
        return True
    return (
        dtypes.KIND_OF[array.dtype] != dtypes.KIND_OF[other.dtype]
        or array.dtype not in dtypes.OF_PYTHON
    )
