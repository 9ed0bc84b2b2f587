"""Every public function with arrays whose dtype is known as a set only: the set of a result holds what each member
gives, and a dtype that is not known at all gives none that JAX would not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from shardtypes.lang import dtypes
from shardtypes.semantics.lowerings.convert import UnknownDtype
from tests.semantics.call import Call
from tests.semantics.calls import CALLS
from tests.semantics.test_dtypes import (
    FLOAT,
    GROUPS,
    Given,
    Kind,
    arguments_here,
    arrays_in,
    kinds_here,
    mapped,
    with_kinds,
)

pytestmark = pytest.mark.once

#: By set, members that a call may be tried with.
SETS = {
    "bfloat16|float32": ("bfloat16", "float32"),
    "floating": ("bfloat16", "float16", "float32", "float8_e4m3fn"),
    "integer": ("int32", "uint8", "int8"),
    "bool|int32": ("bool", "int32"),
    "inexact": ("float32", "complex64", "bfloat16"),
    None: ("bool", "int32", "uint8", "bfloat16", "float32", "complex64"),
}


def dtypes_here(call: Call) -> list[str | None] | None:
    """The dtypes of the results; None where that of an operand would have to be known."""
    args, kwargs = arguments_here(call)
    try:
        found = call.own(*args, **kwargs)
    except UnknownDtype:
        return None
    return [array.dtype for array in arrays_in(found)]


def faults(call: Call) -> list[str]:
    """For which sets what is said of a call leaves a dtype out."""
    wrong = []
    for name, members in SETS.items():
        mark = _mark(members)
        for others in (mark, FLOAT):
            marked = with_kinds(call, mark, others)
            of_members = [kinds_here(with_dtype(marked, mark, one)) for one in members]
            results = [[one.dtype for one in kinds] for kinds in of_members if kinds]
            if not results:
                continue
            here = dtypes_here(with_dtype(marked, mark, name))
            if here is None:
                continue
            wrong += [
                f"{call} of {name}, {others}: {here}, of one of them {result}"
                for result in results
                if len(here) != len(result) or not all(map(_holds, here, result))
            ]
    return wrong


def _mark(members: Sequence[str]) -> Kind:
    """What stands in a call for a set. Of floats, it is not put in the place of indices."""
    if any("float" in name for name in members):
        return Kind("float16", weak=True)
    return Kind("int16", weak=True)


def with_dtype(call: Call, mark: Kind, name: str | None) -> Call:
    """The call with arrays of a dtype, or of a set, in the place of those that are marked."""

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, Given) and leaf.kind == mark:
            return replace(leaf, kind=Kind(name))
        return leaf

    args, kwargs = mapped(changed, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


def _holds(name: str | None, dtype: str) -> bool:
    return name is None or dtype in dtypes.members(name)


@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{one[0]}-to-{one[-1]}" for one in GROUPS]
)
def test_sets_hold_what_their_members_give(group: list[str]) -> None:
    wrong = [fault for call in CALLS if call.name in group for fault in faults(call)]
    assert not wrong, "\n".join(wrong)
