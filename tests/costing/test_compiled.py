"""What is said of programs against what XLA makes of them, on eight forced devices of a process of its own."""

from __future__ import annotations

from benchmarks.cost.__main__ import DIFFERENT
from tests.support import run_python

#: By hand and on explicit axes: sums, gathers, scatters, exchanges, rings, loops, gradients.
CHOSEN = """manual.cross_entropy manual.fsdp manual.sequence_to_heads parallel.two_dimensional parallel.accumulated
trainers.ring_attention explicit.training_step explicit.statistics explicit.from_t_to_d explicit.heads_for_rows
explicit.layers explicit.scattered""".split()


def test_programs_hold_and_send_what_they_are_said_to() -> None:
    done = run_python("-m", "benchmarks.cost", *CHOSEN)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = done.stdout.splitlines()
    assert rows[-1] == "11 within 5%, 1 that differ for the reason given"
    assert DIFFERENT["explicit.scattered"] in rows[-2]
