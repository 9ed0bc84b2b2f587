"""Numbers that a program computes with Python: what the engine says of them, beside what Python says."""

from __future__ import annotations

import math

import pytest

from shardlint.engine import run
from shardlint.engine.shown import shown
from shardlint.lower import lower
from shardlint.project import Project

EXACT = [
    "math.sqrt(16)", "math.log(2.5)", "math.ceil(3.5)", "math.floor(3.5)", "math.gcd(12, 18)", "math.isqrt(17)",
    "math.comb(5, 2)", "math.factorial(4)", "math.log2(8)", "math.cos(0.0)", "math.isfinite(1.0)", "math.prod([2, 3])",
    "sum([1, 2, 3])", "sum([])", "math.hypot(3, 4)",
]  # fmt: skip
OPEN = {
    "math.sqrt(n)": "float", "math.exp(cfg.scale)": "float", "math.ceil(n / 3)": "int", "math.isnan(cfg.scale)": "bool",
    "x / math.sqrt(x.shape[-1])": "float32['B M']", "sum([x, y])": "float32['B M']", "sum(v.size for v in (x, x))":
    "int 2*B*M", "sum(jnp.sum(v) for v in (x, y))": "float32['']", "math.sqrt(-1)": "unknown",
    "math.factorial(10**9)": "int",
}  # fmt: skip


def opinions(lines: list[str]) -> list[str]:
    body = "".join(f"    v{number} = {line}\n" for number, line in enumerate(lines))
    head = "import math\nimport jax.numpy as jnp\nfrom shardtypes import f32\n\n"
    source = f"{head}def f(x: f32['B M'], y: f32['B 1'], n: int, cfg):\n{body}"
    module = lower(source.encode(), "m", "m.py").module
    analysis = run(Project({"m": module}), module)
    assert not analysis.found()
    named = {name: shown(value)[0] for name, value in analysis.it.seen.values()}
    return [named[f"v{number}"] for number in range(len(lines))]


def test_numbers_are_those_of_python() -> None:
    for line, said in zip(EXACT, opinions(EXACT), strict=True):
        want = eval(line, {"math": math})
        assert said == (
            f"int {want}"
            if isinstance(want, int) and not isinstance(want, bool)
            else repr(want)
        ), line


@pytest.mark.parametrize(("line", "want"), OPEN.items())
def test_of_numbers_that_are_not_known_the_kind_is(line: str, want: str) -> None:
    assert opinions([line]) == [want]


def test_sums_of_arrays_that_do_not_fit_are_reported() -> None:
    source = "from shardtypes import f32\ndef f(x: f32['B M'], y: f32['M B']):\n    return sum([x, y])\n"
    module = lower(source.encode(), "m", "m.py").module
    assert [event.code for event in run(Project({"m": module}), module).found()] == [
        "ST204"
    ]
