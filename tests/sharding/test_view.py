"""Local and global sizes, and sets of axes."""

from __future__ import annotations

from shardlint.axis_set import EVERY_AXIS, NO_AXIS, AxisSet
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension
from shardtypes.lang import Different, Equal, Facts, Size, compare

B, L = Size.of("B"), Size.of("L")


def test_a_local_size_is_taken_back_exactly() -> None:
    view = View()
    local = view.local_size(B, ("d", "t"))
    assert str(local) == "B//(|d|*|t|)"
    assert view.global_size(local, ("d", "t")) == B
    assert str(view.global_size(local, ("t",))) == "B//|d|"
    assert local is not None and view.global_size(local * L, ("d", "t")) == B * L


def test_known_numbers_of_devices() -> None:
    view = View((("d", 2), ("t", 4)))
    local = view.local_size(B, ("d", "t"))
    assert str(local) == "B//8"
    assert str(view.global_size(local, ("t",))) == "B//2"
    assert view.local_size(Size.const(16), ("t",)) == 4


def test_even_division_is_a_fact() -> None:
    view = View()
    array = ArrayValue((Dimension(B, ("d",)), Dimension(L, ())))
    facts = view.facts(Facts(), array)
    local = view.enter(array).dims
    assert local is not None and local[0].size is not None
    assert isinstance(compare(local[0].size * view.size("d"), B, facts), Equal)
    assert isinstance(compare(local[0].size, B, facts), Different)


def test_axis_sets() -> None:
    assert "d" in EVERY_AXIS and "d" not in NO_AXIS
    but_d = EVERY_AXIS.minus(["d"])
    assert "d" not in but_d and "t" in but_d
    assert "d" in but_d.plus(["d"])
    assert but_d | AxisSet(frozenset({"d"})) == EVERY_AXIS
    assert not (NO_AXIS.plus(["d"]).minus(["d"]))
