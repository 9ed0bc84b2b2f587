"""JAX is the oracle: on meshes with explicit axes the engine says of every line what JAX's own types say."""

from __future__ import annotations

import os
import re
from itertools import chain
from math import prod

import numpy as np
from hypothesis import HealthCheck, given, settings

from shardlint.values import ArrayValue
from tests.global_view.programs import AUTOMATIC, SIZES, Program, known, programs

CASES = int(os.environ.get("ORACLE_CASES", "60"))
COUNTS = {"lines": 0, "known": 0, "refused": 0, "reported": 0, "sums": 0}
#: What some releases of JAX refuse, or only some indices; and what depends on sizes that have names.
_OPEN = re.compile(r"jnp\.roll|\.at\[|jnp\.split|jnp\.outer|\[\w+\[:, 0\]")


def _of_sizes(program: Program, line: str, operands: list[str]) -> bool:
    """Whether sizes decide what JAX does: those that have names in a reshape or a step, dimensions of 1, a broadcast in
    ``where``, one single element."""
    shapes = {one: program.shapes[one] for one in operands}
    if "::2" in line:
        return any(
            size in SIZES.values() for shape in shapes.values() for size in shape
        )
    if "reshard" in line:  # parts of what has a name
        return any(size % 8 for shape in shapes.values() for size in shape)
    if "unreduced" in line:
        return any(1 in shape or not shape for shape in shapes.values())
    if "reshape" in line:
        sizes = [
            *chain(*shapes.values()),
            *eval(line, {one: np.empty(shape) for one, shape in shapes.items()}).shape,
        ]
        return 1 in sizes or any(
            not {8, 16, 24, 32}.issuperset(shape) for shape in shapes.values()
        )
    if "jnp.where" in line:  # broadcast first
        return len(set(shapes.values())) > 1
    return any(
        f"{one}[" in line and prod(program.shapes[one]) == max(program.shapes[one])
        for one in operands
    )


def judge(program: Program) -> None:
    program.trace()
    seen, found = program.opinion()
    text = program.source() + "\n".join(
        f"{name}: {e.code} {e.message}" for name, e in found
    )
    text += "".join(f"\n{name}: JAX: {why}" for name, why in program.refused.items())
    reported = {name for name, e in found if e.code.startswith(("ST1", "ST3"))}
    # names of sizes that agree by chance
    shapes = {name for name, _ in found} - reported
    explicit = {
        name: shape.replace(f"/{AUTOMATIC}", "")
        for name, shape in program.parameters.items()
    }
    split = {
        name
        for name, shape in explicit.items()
        if "/" in shape and 1 not in program.mesh.values()
    }
    for name, line in program.lines.items():
        COUNTS["lines"] += 1
        if name in reported:
            COUNTS["reported"] += 1
            assert name in program.refused, (
                f"{name} is reported, JAX accepts it\n{text}"
            )
            continue
        if name in shapes:
            continue
        operands = list(re.findall(r"\b(v\d+|[xywz])\b", line))
        certain = all(
            one in split or (one in seen and known(seen[one])) for one in operands
        )
        if name in program.refused:
            COUNTS["refused"] += 1
            certain = (
                certain
                and not _OPEN.search(line)
                and not _of_sizes(program, line, operands)
            )
            # releases refuse linear functions
            certain = certain and not any(program.sums.get(one) for one in operands)
            assert not certain, f"{name} is not reported\n{text}"
            continue
        value = seen[name]
        assert isinstance(value, ArrayValue), f"{name} is no array\n{text}"
        axes = [dim.axes for dim in value.dims or ()]
        if value.dims is not None:
            want = program.specs[name]
            agree = all(a is None or a == b for a, b in zip(axes, want, strict=True))
            assert agree, f"{name}: {axes}, JAX: {want}\n{text}"
            COUNTS["known"] += None not in axes
            if value.pending and value.mesh is not None:
                COUNTS["sums"] += 1
                assert value.pending == program.sums[name], (
                    f"{name}: {value.pending}, JAX: {program.sums[name]}\n{text}"
                )


@settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=CASES <= 60,
)
@given(programs())
def test_lines_agree_with_jax(program: Program) -> None:
    judge(program)


def test_most_lines_are_known() -> None:
    """What is silent would agree with anything."""
    if not COUNTS["lines"]:  # the test above ran in another worker
        test_lines_agree_with_jax()
    assert COUNTS["lines"] > 3 * CASES
    assert COUNTS["known"] + COUNTS["reported"] > 0.75 * COUNTS["lines"]
    assert COUNTS["reported"] > 0.04 * COUNTS["lines"]
