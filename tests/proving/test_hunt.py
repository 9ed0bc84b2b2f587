"""No claim of a proof is wrong: held against numbers, and these against eight devices."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shardtypes.proving.rules import RULES
from tests.proving import hunt
from tests.proving.programs import drawn
from tests.support import ROOT, run_python

pytestmark = pytest.mark.once  # the other suite runs the programs that people write


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_have_no_wrong_claims(seed: int) -> None:
    program = drawn(seed)
    asked = hunt.question(program)
    if asked is None:
        return  # what it does is possible on one mesh alone
    found = hunt.proof(program, *asked)
    assert found.claims
    assert not hunt.wrong_claims(program, *asked, found), str(program)


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of what is the same on all devices, the sum is not what one device computes.
    monkeypatch.setitem(
        RULES, "psum", lambda case: [replace(state, parts=()) for state in case.states]
    )
    wrong = []
    for seed in range(8):
        program = drawn(seed)
        asked = hunt.question(program)
        if asked is not None:
            wrong += hunt.wrong_claims(program, *asked, hunt.proof(program, *asked))
    assert wrong


_ON_DEVICES = """
import json, os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, numpy as np
from tests.proving import hunt
from tests.proving.cases import RIGHT, SIZES
from tests.proving.programs import drawn

mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), tuple(SIZES))
one = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), tuple(SIZES))
rng = np.random.default_rng(0)
off = {}
for name, case in RIGHT.items():
    args = [rng.normal(size=a.shape).astype(a.dtype) if a.dtype == np.float32 else rng.integers(0, 32, a.shape, a.dtype)
            for a in case.args]
    found, wanted = (jax.tree.map(np.asarray, case.made(m)(*args)) for m in (mesh, one))
    pairs = zip(*map(jax.tree.leaves, (found, wanted)))
    off[name] = max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
for seed in (1, 2, 3):
    program = drawn(seed)
    asked = hunt.question(program)
    if asked is not None:
        off[f"program {seed}"] = hunt.wrong_numbers(program, asked[0], seed)
print(json.dumps(off))
"""


@pytest.mark.long
def test_what_is_proved_holds_on_eight_devices() -> None:
    done = run_python("-c", _ON_DEVICES, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    off = json.loads(done.stdout.splitlines()[-1])
    assert max(off.values()) < 1e-4, off
