"""What the linter calls certain is what JAX does on eight devices: it raises, or an array does not lie as asked.

Each case is a script with ``<<right||wrong>>``: the right one is accepted by both, the wrong one by neither.
"""

from __future__ import annotations

import re

import jax
import pytest
from jax._src.named_sharding import DuplicateSpecError  # not public, and no ValueError
from jax.sharding import NamedSharding, PartitionSpec

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

SETUP = """from functools import partial
import flax.linen as nn, jax, numpy as np
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(AxisType.Auto,) * 2)
ROWS, COLUMNS, BOTH, WHOLE = (NamedSharding(mesh, spec) for spec in (P('t'), P(None, 't'), P(('d', 't')), P()))
"""
_CHOICE = re.compile(r"<<(.*?)\|\|(.*?)>>")
#: Scripts that JAX refuses, by the rule that says so.
REFUSED = [
    ("ST104", "x = jax.device_put(jnp.zeros((<<16||17>>, 4)), BOTH)"),
    ("ST104", "x = jax.device_put({'w': jnp.zeros((16, 4)), 'b': jnp.zeros((<<16||17>>,))}, BOTH)"),
    ("ST104", "x = jax.tree.map(lambda p: jax.device_put(p, BOTH), (jnp.zeros((<<16||17>>, 4)),))"),
    ("ST104", "x = jax.jit(lambda x: jax.device_put(x, BOTH))(jnp.zeros((<<16||17>>, 4)))"),
    ("ST104", "x = lax.with_sharding_constraint(jnp.zeros((<<16||17>>, 4)), BOTH)"),
    ("ST104", "x = jnp.zeros((<<16||17>>, 4), device=BOTH)"),
    ("ST104", "x = jnp.asarray(np.zeros((<<16||17>>, 4)), device=BOTH)"),
    ("ST104", "x = jnp.full_like(jnp.zeros((<<16||17>>, 4)), 2, device=BOTH)"),
    ("ST104", "x = jax.make_array_from_callback((<<16||17>>, 4), BOTH, lambda i: np.zeros((17, 4))[i])"),
    ("ST104", "x = jax.jit(jnp.tanh, in_shardings=BOTH)(jnp.zeros((<<16||17>>, 4)))"),
    ("ST104", "x = jax.jit(jnp.tanh, out_shardings=BOTH)(jnp.zeros((<<16||17>>, 4)))"),
    ("ST104", "@partial(jax.jit, out_shardings=BOTH)\ndef init():\n    return jnp.zeros((<<16||17>>, 4))\nx = init()"),
    ("ST104", "part = P(('d', 't'))\nf = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=part, out_specs=part)\n"
              "x = f(jnp.zeros((<<16||17>>, 4)))"),
]  # fmt: skip
REFUSED += [
    ("ST102", "f = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P('d', <<'t'||'d'>>), out_specs=P('d', 't'))\n"
              "x = f(jnp.ones((8, 8)))"),
    ("ST102", "f = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P('d'), out_specs=P('d', <<None||'d'>>))\n"
              "x = f(jnp.ones((8, 8)))"),
    ("ST102", "with jax.set_mesh(mesh):\n    x = jax.jit(jnp.tanh, in_shardings=P('d', <<'t'||'d'>>))"),
    ("ST102", "with jax.set_mesh(mesh):\n    x = lax.with_sharding_constraint([jnp.ones((8, 8))], "
              "[P('d', <<'t'||'d'>>)])"),
    ("ST102", "x = NamedSharding(mesh, P(('d', 't'), <<None||'t'>>))"),
    ("ST308", "x = jax.jit(jnp.tanh, in_shardings=ROWS)(jax.device_put(jnp.ones((8, 8)), <<ROWS||COLUMNS>>))"),
    ("ST308", "x = jax.jit(jnp.tanh, in_shardings=ROWS)(jnp.ones((8, 8), device=<<ROWS||WHOLE>>))"),
    ("ST308", "def put(x):\n    return jax.device_put(x, <<ROWS||COLUMNS>>)\n"
              "x = jax.jit(jnp.tanh, in_shardings=ROWS)(put(jnp.ones((8, 8))))"),
    ("ST308", "f = jax.jit(lambda p: p['w'], in_shardings=({'w': ROWS},))\n"
              "x = f(jax.device_put({'w': jnp.ones((8, 8))}, <<ROWS||COLUMNS>>))"),
    ("ST308", "x = jax.make_array_from_callback((8, 8), <<ROWS||COLUMNS>>, lambda i: np.ones((8, 8))[i])\n"
              "x = jax.jit(jnp.tanh, in_shardings=ROWS)(x)"),
    ("ST308", "x = jax.jit(jnp.exp, out_shardings=<<ROWS||COLUMNS>>)(jnp.ones((8, 8)))\n"
              "@partial(jax.jit, in_shardings=(ROWS, None))\ndef f(x, y):\n    return x + y\nx = f(x, x)"),
]  # fmt: skip
RULES = "RULES = (('batch', 'd'), ('embed', None), ('heads', 't'), ('mlp', 't'), ('vocab', ('d', 't')))\n"
REFUSED += [
    ("ST402", RULES + "with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):\n"
              f"    x = nnx.Param(jnp.ones((8, 8)), out_sharding=({first!r}, <<{right!r}||{wrong!r}>>))")
    for first, right, wrong in (("heads", "embed", "mlp"), ("vocab", "embed", "batch"), ("d", "heads", "batch"))
]  # fmt: skip
#: Scripts whose ``x`` does not lie as ``asked``: that is dropped, or refused by some releases.
DROPPED = [
    ("ST312", "asked = BOTH\n"
              "x = jax.jit(lambda x: lax.with_sharding_constraint(x, asked))(jnp.zeros((<<16||17>>, 4)))"),
    ("ST312", "asked = ROWS\nx = jax.jit(lambda x: lax.with_sharding_constraint(x, asked))(jnp.zeros((<<4||2>>, 4)))"),
    ("ST312", "asked = COLUMNS\ndef f(x):\n    return x.sum(), lax.with_sharding_constraint(x * 2, asked)\n"
              "x = jax.jit(f)(jnp.zeros((4, <<8||6>>)))[1]"),
    ("ST312", "asked = BOTH\n@jax.jit\ndef f():\n"
              "    return lax.with_sharding_constraint(jnp.ones((<<16||12>>, 4)), asked)\nx = f()"),
]  # fmt: skip


def sides(script: str) -> tuple[str, str]:
    right, wrong = (
        _CHOICE.sub(lambda found, side=side: found[side], script) for side in (1, 2)
    )
    assert right != wrong
    return right, wrong


def reported(script: str) -> list[str]:
    module = lower((SETUP + script).encode(), "script", "script.py").module
    return [event.code for event in analyze(Project({"script": module}), module)]


#: Names of two dimensions, and those of them that linen leaves whole though their only rule gives them an axis.
NAMES = [
    (a, b)
    for a in ("batch", "embed", "heads", "mlp", "vocab")
    for b in ("embed", "heads", "mlp", "vocab")
    if a != b
]


@pytest.mark.parametrize("names", NAMES)
def test_parameters_that_flax_leaves_whole_are_found(names: tuple[str, str]) -> None:
    found = run(RULES + f"x = nn.logical_to_mesh_axes({names!r}, RULES)")["x"]
    assert isinstance(found, PartitionSpec)
    whole = [
        name
        for name, axes in zip(names, found, strict=True)
        if axes is None and name != "embed"
    ]
    script = (
        RULES
        + f"x = nn.with_logical_partitioning(nn.initializers.ones, {names!r}, rules=RULES)"
    )
    assert reported(script) == ["ST402"] * len(whole)


MESSAGES = {
    RULES
    + "x = nn.with_logical_partitioning(nn.initializers.ones, ('vocab', 'batch'), rules=RULES)": (
        "the logical axes 'batch' and 'vocab' both map to mesh axis 'd', so 'vocab' is replicated: give it another rule"
    ),
    RULES
    + "nn.set_logical_axis_rules(RULES)\nx = nnx.Param(jnp.ones((8, 8)), out_sharding=('heads', 'mlp'))": (
        "the logical axes 'heads' and 'mlp' both map to mesh axis 't', which JAX refuses: give one of them another rule"
    ),
    "x = jax.jit(jnp.tanh, in_shardings=ROWS)(jax.device_put(jnp.ones((8, 16)), COLUMNS))": (
        "argument 0, '8 16', is committed to P(None, 't'), but in_shardings has P('t'): "
        "jax.device_put it again, or correct in_shardings"
    ),
    "x = jax.device_put(jnp.zeros((17, 4)), BOTH)": (
        "dimension 0 of the value: 17 is not divisible by 8, the number of devices along 'd' and 't'; "
        "pad it to 24, or do not shard it"
    ),
    "x = jax.jit(lambda x: lax.with_sharding_constraint(x, ROWS))(jnp.zeros((6, 4)))": (
        "dimension 0 of the value: 6 is not divisible by 4, the number of devices along 't'; "
        "pad it to 8, or do not shard it; on a result of jit JAX silently drops the constraint"
    ),
}


@pytest.mark.parametrize("script", MESSAGES)
def test_the_message_is_word_for_word(script: str) -> None:
    module = lower((SETUP + script).encode(), "script", "script.py").module
    assert [
        event.message for event in analyze(Project({"script": module}), module)
    ] == [MESSAGES[script]]


def run(script: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(SETUP + script, "<script>", "exec"), names)
    return names


def lies_as_asked(script: str) -> bool:
    try:
        names = run(script)
    except ValueError:
        return False
    x, asked = names["x"], names["asked"]
    assert isinstance(x, jax.Array)
    assert isinstance(asked, NamedSharding)
    return x.sharding.is_equivalent_to(asked, x.ndim)


@pytest.mark.parametrize(("code", "script"), REFUSED, ids=range(len(REFUSED)))
def test_what_jax_refuses_is_found(code: str, script: str) -> None:
    right, wrong = sides(script)
    run(right)
    with pytest.raises((ValueError, TypeError, DuplicateSpecError)):
        run(wrong)
    assert reported(right) == []
    assert reported(wrong) == [code]


@pytest.mark.parametrize(("code", "script"), DROPPED, ids=range(len(DROPPED)))
def test_what_jax_drops_is_found(code: str, script: str) -> None:
    right, wrong = sides(script)
    assert lies_as_asked(right)
    assert not lies_as_asked(wrong)
    assert reported(right) == []
    assert reported(wrong) == [code]
