"""What a library makes of a function that fails: expected where it alone is called under an expected error."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAM = """
import jax.numpy as jnp
import pytest
import some_library

X, Y = jnp.ones((2, 3)), jnp.ones((4, 5))


def test_it(holder):
    def f():
        return X + Y

{body}
    with pytest.raises(TypeError):
        {call}(None)
"""


def codes(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, call: str
) -> list[str]:
    path = folder / "test_it.py"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    path.write_text(PROGRAM.format(body=lines, call=call))
    main([str(path), "--no-cache", "--format", "concise", "--jobs", "1"])
    printed = capsys.readouterr().out.splitlines()
    return [line.split()[1] for line in printed if " ST" in line]


def test_what_it_makes_may_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "start, _ = some_library.transform(f)"
    assert codes(tmp_path, capsys, body, "start") == []


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("start, _ = some_library.transform(f)\nprint(start)", "start"),
        ("holder.start, _ = some_library.transform(f)", "holder.start"),
    ],
    ids=["used elsewhere", "kept elsewhere"],
)
def test_what_may_be_called_elsewhere_may_not(
    body: str, call: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codes(tmp_path, capsys, body, call) == ["ST204"]
