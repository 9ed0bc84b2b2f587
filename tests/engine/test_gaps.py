"""What the engine does not follow is counted, never passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint import messages
from shardlint.cli import main
from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project

pytestmark = pytest.mark.once  # what is not followed is the same for any Python and JAX

UNMODELLED = """
import jax.numpy as jnp
from jax.experimental import something
from shardtypes import f32

def f(x: f32['B M'], w: f32['F M']):
    y = something.new(x)
    z = something.new(y)
    return x @ w
"""
LOOPS = "".join(f"{'    ' * depth}for v{depth} in range(8):\n" for depth in range(1, 8))
NESTED = f"def f(x):\n{LOOPS}{'    ' * 8}x = x + v1\n"
LONG = "def f(x):\n" + f"    x = x{' + 1' * 40}\n" * 400


def analysis(program: str) -> run:
    module = lower(program.encode(), "example", "example.py").module
    return run(Project({"example": module}), module)


def test_calls_without_a_model_are_counted() -> None:
    found = analysis(UNMODELLED)
    assert found.gaps() == [("without a model: jax.experimental.something.new", 2)]
    assert [event.code for event in found.found()] == ["ST204"]


def test_a_function_that_takes_too_many_steps_is_named() -> None:
    after = (
        LONG
        + "\nfrom shardtypes import f32\ndef g(x: f32['B M'], w: f32['F M']):\n    return x @ w\n"
    )
    found = analysis(after)
    assert found.gaps() == [("cut off after the bound of steps: f in example.py", 1)]
    assert [event.code for event in found.found()] == ["ST204"]


def test_calls_that_take_too_many_steps_leave_the_rest_to_be_checked() -> None:
    calls = "def g(x: f32['B M'], w: f32['F M']):\n    f(x)\n    y = f(w)\n    return x @ w, y\n"
    found = analysis(LONG + "\nfrom shardtypes import f32\n" + calls)
    assert ("not followed to the end: f called from example.py", 2) in found.gaps()
    assert [event.code for event in found.found()] == ["ST204"]


def test_a_loop_that_takes_too_many_steps_is_given_up_and_what_follows_is_checked() -> (
    None
):
    before = "from jax import numpy as jnp\ndef f():\n    x, t, w = jnp.zeros((3, 4)), [1], jnp.zeros((5,))\n"
    body = f"{'    ' * 8}x = jnp.concatenate([x, x]) + v1\n{'    ' * 8}t.append(v2)\n"
    after = "    if len(t) == 1:\n        return w @ jnp.zeros((2,))\n    y = x @ jnp.zeros((7,))\n"
    after += "    return w @ jnp.zeros((6,))\n"
    found = analysis(before + LOOPS + body + after)
    assert [name for name, _ in found.gaps()] == [
        "not followed to the end: a loop of f, for example.py"
    ]
    assert [(event.code, event.message) for event in found.found()] == [
        ("ST204", "@: cannot contract '5' with '2': 5 against 2"),
        ("ST204", "@: cannot contract '5' with '6': 5 against 6"),
    ]


def test_steps_that_do_the_same_again_are_not_taken() -> None:
    assert (
        analysis(
            NESTED.replace("range(8)", "[4] * 8").replace("x = x + v1", "x + v1")
        ).gaps()
        == []
    )


def test_the_user_is_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "long.py").write_text("import jax\n\n" + LONG)
    monkeypatch.chdir(tmp_path)
    assert main(["--no-cache", "--format", "concise", "long.py"]) == 0
    told = capsys.readouterr().err.splitlines()[0]
    assert told == "shardlint: cut off after the bound of steps: f in long.py"


def test_of_many_the_first_are_named() -> None:
    told = messages.cut_short(["a", "b", "c", "d", "e"])
    assert (
        told
        == "shardlint: a\nshardlint: b\nshardlint: c\nshardlint: … and 2 more, named by --statistics\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "t = t + t",
        "t = (t, t)",
        "t = [*t, *t]",
        "n = n * (n + 1)",
        "n = (n * n + 1) // 3",
    ],
)
def test_what_doubles_with_each_line_is_given_up(line: str) -> None:
    lines = "".join(f"    {line}\n" for _ in range(50))
    after = "    tree = jax.tree.map(lambda y: y + 1, t)\n    x.reshape(n, -1)\n    return x @ x\n"
    start = "import jax\nfrom shardtypes import f32\ndef f(x: f32['A 3']):\n    t, n = (x,), x.shape[0]\n"
    assert [event.code for event in analysis(start + lines + after).found()] == [
        "ST204"
    ]
