"""JAX is the oracle: on meshes with explicit axes the engine says of every line what JAX's own types say."""

from __future__ import annotations

import os
import re

from hypothesis import HealthCheck, given, settings

from shardlint.values import ArrayValue
from tests.global_view.programs import Program, known, programs

CASES = int(os.environ.get("ORACLE_CASES", "60"))
COUNTS = {"lines": 0, "known": 0, "refused": 0, "reported": 0}
#: What some releases of JAX refuse, or only some indices; and what depends on sizes that have names.
_OPEN = re.compile(r"jnp\.roll|\.at\[|jnp\.split|jnp\.outer|\[\w+\[:, 0\]")


def _of_sizes(program: Program, line: str, operands: list[str]) -> bool:
    """Whether it is a matter of sizes what JAX does: a reshape of names, or of dimensions of 1; one single element."""
    if "reshape" in line:
        return any(1 in program.shapes[one] or not {8, 16, 24, 32}.issuperset(program.shapes[one]) for one in operands)
    return any(len(program.shapes[one]) == 1 and f"{one}[" in line for one in operands)


def judge(program: Program) -> None:
    program.trace()
    seen, found = program.opinion()
    text = program.source() + "\n".join(f"{name}: {e.code} {e.message}" for name, e in found)
    text += "".join(f"\n{name}: JAX: {why}" for name, why in program.refused.items())
    reported = {name for name, _ in found}
    split = {name for name, shape in program.parameters.items() if "/" in shape and 1 not in program.mesh.values()}
    for name, line in program.lines.items():
        COUNTS["lines"] += 1
        if name in reported:
            COUNTS["reported"] += 1
            assert name in program.refused, f"{name} is reported, JAX accepts it\n{text}"
            continue
        operands = list(re.findall(r"\b(v\d+|[xywz])\b", line))
        certain = all(one in split or (one in seen and known(seen[one])) for one in operands)
        if name in program.refused:
            COUNTS["refused"] += 1
            certain = certain and not _OPEN.search(line) and not _of_sizes(program, line, operands)
            assert not certain, f"{name} is not reported\n{text}"
            continue
        value = seen[name]
        assert isinstance(value, ArrayValue), f"{name} is no array\n{text}"
        axes = [dim.axes for dim in value.dims or ()]
        if value.dims is not None and any(axes):
            want = program.specs[name]
            agree = all(a is None or a == b for a, b in zip(axes, want, strict=True))
            assert agree, f"{name}: {axes}, JAX: {want}\n{text}"
        COUNTS["known"] += known(value)


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=CASES <= 60)
@given(programs())
def test_lines_agree_with_jax(program: Program) -> None:
    judge(program)


def test_most_lines_are_known() -> None:
    """What is silent would agree with anything."""
    assert COUNTS["lines"] > 3 * CASES
    assert COUNTS["known"] + COUNTS["reported"] > 0.45 * COUNTS["lines"]
    assert COUNTS["reported"] > 0.04 * COUNTS["lines"]
