"""Each mistake about sharding is found wherever programs hide one, and its right twin is silent there."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from shardlint.config import Config
from shardlint.engine import run
from shardlint.events import Event
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.rules import all_rules
from tests.projects import lowered

SETUP = """from dataclasses import dataclass
import einops
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P
from shardtypes import f32, typed_shard_map
mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Auto,) * 2)
RULES = (('batch', 'd'), ('embed', None), ('mlp', 't'))
"""


@dataclass(frozen=True)
class Mistake:
    """A wrong expression and its right twin, over parameters with these shapes. What stands in ⟨…⟩ may be written
    elsewhere; ``manual`` is the result's shape of a function in manual code; ``note`` is said of a related place."""

    wrong: str
    right: str
    shapes: str
    manual: str | None = None
    before: str = ""
    note: str = ""


TAKE = "def take(x: f32['B/d M']):\n    return x\n"
TWO = "def two(a: f32['B M'], b: f32['B M']):\n    return a\n"
LAID = "LAID = (('batch', 'd'), ('embed', None), ('heads', 't'), ('mlp', 't'), ('vocab', ('d', 't')))\n"
MADE = "the spec is made here"
#: By code, and what of it where there are several.
MISTAKES = {
    "ST102": Mistake("lax.with_sharding_constraint(x, ⟨P('d', 'd')⟩)",
                     "lax.with_sharding_constraint(x, ⟨P('d')⟩)", "B M"),
    "ST102 of in_specs": Mistake("jax.shard_map(jnp.tanh, mesh=mesh, in_specs=⟨P('d', 'd')⟩, out_specs=P('d'))",
                                 "jax.shard_map(jnp.tanh, mesh=mesh, in_specs=⟨P('d', 't')⟩, out_specs=P('d'))", "B M"),
    "ST102 of out_specs": Mistake("jax.shard_map(given, mesh=mesh, in_specs=P(), out_specs=({'w': ⟨P('t', 't')⟩},))",
                                  "jax.shard_map(given, mesh=mesh, in_specs=P(), out_specs=({'w': ⟨P('t')⟩},))", "B M",
                                  before="def given(x):\n    return ({'w': x},)\n"),
    "ST102 of a tree": Mistake("jax.jit(jnp.tanh, in_shardings=({'w': ⟨P('d', 'd')⟩},))",
                               "jax.jit(jnp.tanh, in_shardings=({'w': ⟨P('d', 't')⟩},))", "B M"),
    "ST103 of in_specs": Mistake("jax.shard_map(jnp.tanh, mesh=mesh, in_specs=⟨P('data')⟩, out_specs=P('d'))",
                                 "jax.shard_map(jnp.tanh, mesh=mesh, in_specs=⟨P('d')⟩, out_specs=P('d'))", "B M"),
    "ST103": Mistake("lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('data')⟩))",
                     "lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('d')⟩))", "B M"),
    "ST104": Mistake("jax.device_put(x, NamedSharding(mesh, ⟨P('t')⟩))",
                     "jax.device_put(x, NamedSharding(mesh, ⟨P('d')⟩))", "6 M"),
    "ST104 of a new array": Mistake("jnp.zeros((6, 4), device=NamedSharding(mesh, ⟨P('t')⟩))",
                                    "jnp.zeros((6, 4), device=NamedSharding(mesh, ⟨P('d')⟩))", "B M"),
    "ST104 of parts": Mistake(
        "jax.make_array_from_callback((6, 4), NamedSharding(mesh, ⟨P('t')⟩), lambda i: np.zeros((6, 4))[i])",
        "jax.make_array_from_callback((6, 4), NamedSharding(mesh, ⟨P('d')⟩), lambda i: np.zeros((6, 4))[i])", "B M"),
    "ST104 of in_shardings": Mistake("jax.jit(jnp.tanh, in_shardings=NamedSharding(mesh, ⟨P('t')⟩))(x)",
                                     "jax.jit(jnp.tanh, in_shardings=NamedSharding(mesh, ⟨P('d')⟩))(x)", "6 M"),
    "ST104 of out_shardings": Mistake("jax.jit(jnp.tanh, out_shardings=NamedSharding(mesh, ⟨P('t')⟩))(x)",
                                      "jax.jit(jnp.tanh, out_shardings=NamedSharding(mesh, ⟨P('d')⟩))(x)", "6 M"),
    "ST104 of in_specs": Mistake(
        "jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P('t'), out_specs=P('t'))(jnp.ones((⟨6⟩, 4)))",
        "jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P('t'), out_specs=P('t'))(jnp.ones((⟨8⟩, 4)))", "B M"),
    "ST301": Mistake("lax.psum(jnp.tanh(x @ y), ⟨'t'⟩)", "jnp.tanh(lax.psum(x @ y, ⟨'t'⟩))", "B/d F/t, F/t M", "B/d M",
                     note="contracted here over a dimension sharded over 't'"),
    "ST302": Mistake("x * lax.rsqrt(jnp.mean(x * x, axis=⟨-1⟩, keepdims=True))",
                     "x * lax.rsqrt(lax.pmean(jnp.mean(x * x, axis=⟨-1⟩, keepdims=True), 't'))", "B/d V/t", "B/d V/t",
                     note="jnp.mean over V, which is sharded over 't'"),
    "ST303": Mistake("lax.psum(x, ⟨'t'⟩)", "lax.pmax(x, ⟨'t'⟩)", "B/d M", "B/d M"),
    "ST304": Mistake("lax.all_gather(x, ⟨'t'⟩, axis=0, tiled=True)", "lax.all_gather(x, ⟨'t'⟩, axis=1, tiled=True)",
                     "B/d M/t", "B/d M"),
    "ST305": Mistake("lax.pmax(x, ⟨'devices'⟩)", "lax.pmax(x, ⟨'t'⟩)", "B/d M", "B/d M"),
    "ST306": Mistake("lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('d', 't')⟩))",
                     "lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('d')⟩))", "M"),
    "ST307": Mistake("jax.jit(two, in_shardings=⟨(None, None, None)⟩)(x, x)",
                     "jax.jit(two, in_shardings=⟨(None, None)⟩)(x, x)", "B M", before=TWO),
    "ST308": Mistake("take(jax.device_put(x, NamedSharding(mesh, ⟨P('t')⟩)))",
                     "take(jax.device_put(x, NamedSharding(mesh, ⟨P('d')⟩)))", "B M", before=TAKE),
    "ST309": Mistake("x + y", "x + x", "B/d M, B/t M", "B/d M"),
    "ST310": Mistake("lax.psum(x @ y, ⟨'t'⟩)", "lax.psum(x @ z, ⟨'t'⟩)", "B F/t, F/d M, F/t M", "B M"),
    "ST311": Mistake("lax.psum(x @ lax.all_gather(y, 't', axis=⟨0⟩, tiled=True), 't')", "lax.psum(x @ y, 't')",
                     "B F/t, F/t M", "B M"),
    "ST312": Mistake("lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('t')⟩))",
                     "lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('d')⟩))", "2 M"),
    "ST313": Mistake("jax.sharding.reshard(x, NamedSharding(mesh, ⟨P('d')⟩))",
                     "lax.with_sharding_constraint(x, NamedSharding(mesh, ⟨P('d')⟩))", "B M"),
    "ST314": Mistake("jax.make_mesh((2, 4), ⟨('d',)⟩)", "jax.make_mesh((2, 4), ⟨('d', 't')⟩)", "B M"),
    "ST317": Mistake(
        "jax.jit(made, out_shardings=(NamedSharding(mesh, P('d')), NamedSharding(mesh, ⟨P()⟩)))()",
        "jax.jit(made, out_shardings=(NamedSharding(mesh, P('d')), NamedSharding(mesh, ⟨P('d')⟩)))()", "B M",
        before="import optax\nTX = optax.adamw(0.1)\n"
        "def made():\n    params = {'w': jnp.zeros((8, 4))}\n    return params, TX.init(params)\n"),
    "ST401": Mistake("nn.with_logical_constraint(x, ⟨('batch', 'embd')⟩, rules=RULES)",
                     "nn.with_logical_constraint(x, ⟨('batch', 'embed')⟩, rules=RULES)", "B M"),
    "ST402": Mistake("nn.with_logical_constraint(x, ⟨('batch', 'batch')⟩)",
                     "nn.with_logical_constraint(x, ⟨('batch', None)⟩)", "B M",
                     before=LAID + "nn.set_logical_axis_rules(LAID)\n"),
    "ST402 of a parameter": Mistake(
        "nn.with_logical_partitioning(nn.initializers.ones, ⟨('heads', 'mlp')⟩, rules=LAID)",
        "nn.with_logical_partitioning(nn.initializers.ones, ⟨('heads', 'embed')⟩, rules=LAID)", "B M", before=LAID),
    "ST402 in part": Mistake(
        "nn.with_logical_partitioning(nn.initializers.ones, ⟨('heads', 'vocab')⟩, rules=LAID)",
        "nn.with_logical_partitioning(nn.initializers.ones, ⟨('embed', 'vocab')⟩, rules=LAID)", "B M", before=LAID),
    "ST402 of a variable": Mistake(
        "nnx.Param(x, sharding=⟨('heads', 'mlp')⟩)", "nnx.Param(x, sharding=⟨('embed', 'mlp')⟩)", "B M",
        before=LAID + "nn.set_logical_axis_rules(LAID)\n"),
    "ST402 of an initializer": Mistake(
        "nnx.with_partitioning(nn.initializers.ones, ⟨('vocab', 'mlp')⟩)",
        "nnx.with_partitioning(nn.initializers.ones, ⟨('vocab', 'embed')⟩)", "B M",
        before=LAID + "nn.set_logical_axis_rules(LAID)\n"),
    "ST403": Mistake("x @ nn.with_logical_constraint(y, ⟨('mlp', 'embed')⟩)",
                     "x @ nn.with_logical_constraint(y, ⟨('embed', 'mlp')⟩)", "batch embed, embed F"),
    **{
        f"ST403 of {name}": Mistake(
            call.format("nn.with_logical_constraint(y, ⟨('mlp', 'embed')⟩)"),
            call.format("nn.with_logical_constraint(y, ⟨('embed', 'mlp')⟩)"), "batch embed, embed F",
        )
        for name, call in {
            "dot_general": "lax.dot_general(x, {}, (((1,), (0,)), ((), ())))",
            "named numbers": "lax.dot_general(x, {}, dimension_numbers=(([1], [0]), ((), ())))",
            "einsum": "jnp.einsum('be,ef->bf', x, {})",
            "an implied result": "jnp.einsum('be,ef', x, {})",
            "three operands": "jnp.einsum('be,ef,b->bf', x, {}, x[:, 0])",
            "names": "einops.einsum(x, {}, 'batch in, in out -> batch out')",
            "tensordot": "jnp.tensordot(x, {}, axes=1)",
            "given axes": "jnp.tensordot(x, {}, axes=((-1,), (0,)))",
            "matmul": "jnp.matmul(x, {})",
            "dot": "x.dot({})",
            "lax.dot": "lax.dot(x, {})",
            "inner": "jnp.inner(x, jnp.transpose({}))",
            "matvec": "jnp.matvec(jnp.transpose({}), x)",
        }.items()
    },
    "ST404": Mistake("nn.with_logical_constraint(x, ⟨('batch', 'embed', 'mlp')⟩)",
                     "nn.with_logical_constraint(x, ⟨('batch', 'embed')⟩)", "B M"),
}  # fmt: skip
#: Reported by other means: an annotation or a setting decides, and no expression.
ELSEWHERE = {"ST101", "ST105", "ST106", "ST315", "ST316", "ST318", "ST319"}
PLACES = {
    "plain": "{head}    return {it}\n",
    "helper": "def _part({names}):\n    return {it}\n\n{head}    return _part({names})\n",
    "method": "class Part:\n    def part(self, {names}):\n        return {it}\n\n"
              "{head}    return Part().part({names})\n",
    "nested": "{head}    def inner():\n        return {it}\n    return inner()\n",
    "lambda": "{head}    return (lambda {names}: {it})({names})\n",
    "carry": "{head}    def body(carry, _):\n        found = {it}\n        return carry, None\n"
             "    lax.scan(body, 0.0, None, length=2)\n    return {right}\n",
    "constant": "GIVEN = {given}\n\n{head}    return {named}\n",
    "field": "@dataclass(frozen=True)\nclass Config:\n    given: object\n\nCONFIG = Config({given})\n\n"
             "{head}    return {field}\n",
    "argument": "def _part({names}, given):\n    return {argument}\n\n{head}    return _part({names}, {given})\n",
    "coroutine": "async def _part({names}):\n    return {it}\n\nasync {head}    return await _part({names})\n",
    "across": "from helpers import part\n\n{head}    return part({names})\n",
}  # fmt: skip


def program(one: Mistake, expression: str, place: str) -> dict[str, str]:
    """The modules of a program with this expression in this place."""
    shapes = one.shapes.split(", ")
    names = ", ".join("xyz"[: len(shapes)])
    head = "@typed_shard_map\n" if one.manual else ""
    params = ", ".join(
        f"{name}: f32['{shape}']"
        for name, shape in zip(names.split(", "), shapes, strict=True)
    )
    head += (
        f"def f({params})" + (f" -> f32['{one.manual}']" if one.manual else "") + ":\n"
    )
    found = re.search("⟨(.*)⟩", expression)
    values = {
        "head": head, "names": names, "it": re.sub("[⟨⟩]", "", expression), "right": re.sub("[⟨⟩]", "", one.right),
        "given": found.group(1) if found else "None",
    }  # fmt: skip
    for key, name in (
        ("named", "GIVEN"),
        ("field", "CONFIG.given"),
        ("argument", "given"),
    ):
        values[key] = re.sub("⟨.*⟩", name, expression)
    part = f"{SETUP}{one.before}def part({names}):\n    return {values['it']}\n"
    return {
        "main": SETUP + one.before + PLACES[place].format(**values),
        "helpers": part,
    }


def events(modules: dict[str, str]) -> list[Event]:
    project = lowered(modules)
    return run(Project(project), project["main"], Config(mesh={"d": 2, "t": 4})).found()


#: Of a mistake without anything in ⟨…⟩ nothing can be written elsewhere.
CASES = [
    (code, place)
    for code, one in MISTAKES.items()
    for place in PLACES
    if "⟨" in one.wrong or place not in ("constant", "field", "argument")
    if not (one.manual and place == "coroutine")  # nothing maps a coroutine function
]


@pytest.mark.once
@pytest.mark.parametrize(("code", "place"), CASES)
def test_the_mistake_is_found_there(code: str, place: str) -> None:
    one = MISTAKES[code]
    modules = program(one, one.wrong, place)
    found = events(modules)
    assert [event.code for event in found] == [code.partition(" ")[0]], modules["main"]
    notes = [text for _, _, text in found[0].related]
    assert one.note in ("", *notes)
    assert place != "across" or any(
        module == "helpers" for module, _, _ in found[0].related
    )
    assert events(program(one, one.right, place)) == []


@pytest.mark.once
def test_no_rule_is_missing() -> None:
    wanted = {
        rule.code for rule in all_rules() if rule.code.startswith(("ST1", "ST3", "ST4"))
    }
    assert {code.partition(" ")[0] for code in MISTAKES} | ELSEWHERE == wanted
    # only ST309 has nothing in ⟨…⟩
    left_out = 3 + sum(one.manual is not None for one in MISTAKES.values())
    assert len(CASES) == len(MISTAKES) * len(PLACES) - left_out


#: Calls of collectives that are wrong about what is in «…»; ``x`` is 'B/d M F'.
POINTED = (
    "lax.psum(x, «'r'»)",
    "lax.psum(«x», 't')",
    "lax.psum_scatter(«x», 't', tiled=True)",
    "lax.all_gather(«x», 'd', axis=1, tiled=True)",
    "lax.all_to_all(«x», 'd', split_axis=1, concat_axis=2, tiled=True)",
)


@pytest.mark.once
@pytest.mark.parametrize("call", POINTED)
def test_a_finding_about_a_collective_points_at_what_is_wrong(call: str) -> None:
    source = (
        SETUP
        + f"@typed_shard_map\ndef f(x: f32['B/d M F']):\n    return {re.sub('[«»]', '', call)}\n"
    )
    (event,) = events({"main": source})
    place = Positions(source.encode(), "main.py").place(event.at)
    found = source.splitlines()[place.line - 1][place.column - 1 : place.end_column - 1]
    assert f"«{found}»" in call, event.message


@pytest.mark.once
def test_names_that_a_helper_gives_are_shown_with_the_array() -> None:
    source = (
        "import flax.linen as nn\n"
        "def named(*names):\n    return nn.with_logical_partitioning(nn.initializers.ones, names)\n"
        "class Dense(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
        "        return x @ self.param('w', named('embed', 'kv', 'mlp'), (4, 8))\n"
    )
    (event,) = events({"main": source})
    ((_, at, text),) = event.related
    assert (event.code, text) == ("ST404", "given to the array here")
    assert Positions(source.encode(), "main.py").place(at).line == 7
