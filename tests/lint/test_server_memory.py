"""The server's memory while somebody types: ``pytest --hypothesis-profile deep`` makes 2,000 edits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.lint.editor import Editor, drive

pytestmark = pytest.mark.once

#: Kilobytes that the process may grow by, however many edits there are.
_MOST = 24_000
_BLOCK = """

def block{index}(x: f32["B L M"], w: f32["M F"]) -> f32["B L F"]:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    return jnp.tanh(centred @ w) * {number}
"""


def _text(number: int, damaged: bool = False) -> str:
    text = "import jax.numpy as jnp\nfrom shardtypes import f32\n"
    for index in range(30):
        text += _BLOCK.format(index=index, number=number if index == 9 else 1)
    return text.replace(f"* {number}\n", f"* ({number}\n") if damaged else text


def test_memory_does_not_grow_with_edits(tmp_path: Path) -> None:
    """Once everything has been used; every fifth text does not parse."""
    edits = 2 * settings().max_examples
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        async def type_from(first: int) -> None:
            for number in range(first, first + edits):
                editor.change(path, _text(number, number % 5 == 0), number)
                await editor.until(lambda p, now=number: p.version == now)  # type: ignore[misc]  # bound per round

        editor.open(path, _text(2))
        await editor.next(editor.findings)
        await type_from(3)
        before = _kilobytes(editor.server)
        await type_from(3 + edits)
        assert _kilobytes(editor.server) - before < _MOST

    if Path("/proc/self/status").exists():  # where the system tells
        drive(tmp_path, script)


def _kilobytes(process: int) -> int:
    """What a process has in memory."""
    for line in Path("/proc", str(process), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no process says less")
