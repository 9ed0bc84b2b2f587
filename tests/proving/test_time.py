"""What a proof of many layers takes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from benchmarks.decoder import train_step
from shardtypes import prove
from shardtypes.proving import propagation
from shardtypes.proving.garbage import rarely_collected


def _compared(layers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often an operation is held against one of one device, for layers that are written one after another."""
    calls = 0

    def counted(plain: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return plain(*args)

        return call

    f, args, options = train_step(layers=layers, unrolled=True)
    with monkeypatch.context() as patch:
        for owner, name in (
            (propagation._Propagation, "_is_known"),
            (propagation, "_same_params"),
        ):
            patch.setattr(owner, name, counted(vars(owner)[name]))
        assert prove(f, *args, **options).ok
    return calls


def test_each_layer_takes_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    two, four, six = (_compared(layers, monkeypatch) for layers in (2, 4, 6))
    assert six - four == pytest.approx(four - two, rel=0.02)


def test_garbage_is_looked_for_rarely() -> None:
    """Whatever was set before, as mypy does for itself where it runs."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        with rarely_collected():
            assert gc.get_threshold()[0] > 700
        assert gc.get_threshold() == (700, 10, 10)
        gc.set_threshold(0)
        with rarely_collected():
            assert gc.get_threshold()[0] == 0  # switched off
    finally:
        gc.set_threshold(*before)
