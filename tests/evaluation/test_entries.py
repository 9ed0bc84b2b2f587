"""Functions are called by themselves, with arguments made from their annotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main
from shardlint.evaluation.comparison import Program
from shardlint.evaluation.entries import Trial, axis_names, mapping_functions, trials
from shardlint.evaluation.judgements import Judgement, judge
from shardlint.evaluation.modules import MOST_CHARACTERS
from shardlint.evaluation.other_ranks import judge_trial
from tests.evaluation.functions import HEAD, PAIRS, Pair

pytestmark = pytest.mark.once  # JAX has no part in it


def tried(text: str, function: str) -> Trial | str:
    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, "model.py", text) if name == "model" else None

    return dict(trials(find, "model", text, [function], 30_000, 300_000))[function]


def judged(text: str) -> Judgement:
    """About the only function of a module that maps over devices."""
    (function,) = mapping_functions(text)
    found = tried(text, function)
    assert isinstance(found, Trial), found
    return judge_trial(found)


def judged_as_program(text: str) -> Judgement:
    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, "model.py", text) if name == "model" else None

    return judge(Program(find, lambda world: world.run_program("model"), 30_000))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_right_functions_agree_and_wrong_ones_are_found(pair: Pair) -> None:
    run = judged_as_program if pair.call else judged
    right = run(pair.program(True))
    assert right.departures == ()
    assert right.compared == ("d", "t")
    wrong = pair.program(False)
    lines = wrong.splitlines()
    reported = [
        lines[one.culprit.step.value.key[0].place[0] - 1]
        for one in run(wrong).departures
    ]
    assert any(pair.found in line for line in reported), reported


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.call], ids=lambda pair: pair.name
)
def test_what_a_caller_may_make_right_is_not_reported_of_a_function_alone(
    pair: Pair,
) -> None:
    departures = judged(pair.program(False)).departures
    assert departures
    assert not any(one.is_wrong_alone for one in departures)


def test_sizes_stand_for_names_and_follow_from_expressions() -> None:
    text = (
        HEAD
        + """
def f(x: f32["B 2*M"], y: f32["M+1 B 7"], *rest: f32["Q"], scale: float = 2.0):
    return jax.shard_map(lambda x: x * scale, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x), y
"""
    )
    found = tried(text, "f")
    assert isinstance(found, Trial)
    assert found.sizes == {"B": 8, "M": 16}
    (region,) = found.declared.regions
    assert region.arguments[0].shape == (8, 32)


def test_sizes_that_must_agree_are_made_the_same() -> None:
    text = (
        HEAD
        + """
def f(x: f32["B M"], w: f32["N F"]):
    return jax.shard_map(lambda x: x @ w, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)
"""
    )
    found = tried(text, "f")
    assert isinstance(found, Trial)
    assert set(found.sizes.values()) == {8}


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("n, x", "its argument n, which has no annotation"),
        ("n: jax.Array, x", "its argument n, whose annotation gives no shape"),
        (
            'x: f32["B"], heads: int',
            "its argument heads: of a type of which no value is made",
        ),
        ('x: f32["B {U:d}"]', "its argument x: an array that is a partial sum"),
        ('x: f32["B-100"]', "its argument x: a size that is not positive"),
        ('x: f32["2000 2000 B"]', "its argument x: an array of too many entries"),
        ('x: f32["B B+"]', "its argument x: the shape 'B B+'"),
    ],
)
def test_a_function_that_cannot_be_called_says_why(signature: str, reason: str) -> None:
    text = (
        HEAD
        + f"""
def f({signature}):
    {"n.shape" if "n" in signature else ""}
    return jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)
"""
    )
    assert tried(text, "f") == reason


def test_a_module_is_run_once_for_all_functions_that_cannot_be_called() -> None:
    text = HEAD + "import counted\n"
    functions = [f"f{number}" for number in range(20)]
    for name in functions:
        text += f"def {name}(x: int): return jax.shard_map(abs, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)\n"
    asked: list[str] = []

    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        asked.append(name)
        return {
            "model": ("model", "model.py", text),
            "counted": ("counted", "counted.py", ""),
        }.get(name)

    found = dict(trials(find, "model", text, functions, 30_000, 300_000))
    assert found == dict.fromkeys(
        functions, "its argument x: of a type of which no value is made"
    )
    assert asked.count("counted") == 1
    assert dict(trials(find, "model", text, [], 30_000, 300_000)) == {}
    assert asked.count("counted") == 1


def test_functions_share_what_their_runs_may_take() -> None:
    text = HEAD
    functions = [f"f{number}" for number in range(4)]
    for name in functions:
        text += f"def {name}(x: f32['B']):\n    for i in range(100): i = i\n"
        text += "    return jax.shard_map(abs, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)\n"

    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, "model.py", text) if name == "model" else None

    found = list(dict(trials(find, "model", text, functions, 30_000, 250)).values())
    assert [isinstance(one, Trial) for one in found] == [True, True, False, False]
    assert found[2:] == ["too many steps"] * 2


def test_a_program_of_too_much_code_is_not_run() -> None:
    long = "x = 1\n" * (MOST_CHARACTERS // 12)
    text = "import first, second\n" + HEAD
    text += "def f(x: f32['B']): return jax.shard_map(abs, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)\n"
    texts = {"model": text, "first": long, "second": long}

    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, f"{name}.py", texts[name]) if name in texts else None

    (tried,) = dict(trials(find, "model", text, ["f"], 30_000, 300_000)).values()
    assert tried == "it imports more than 1,000,000 characters of code"
    texts["second"] = ""
    (tried,) = dict(trials(find, "model", text, ["f"], 30_000, 300_000)).values()
    assert isinstance(tried, Trial)


def test_a_mesh_is_made_of_the_axes_that_specs_name() -> None:
    text = (
        HEAD.replace("mesh = jax", "unused = None and jax")
        + """
def total(x: f32["B M"]):
    body = lambda x: lax.psum(x.sum(), "model") / x.shape[0]
    return jax.shard_map(body, in_specs=P("model"), out_specs=P())(x)
"""
    )
    assert axis_names(text) == ("model",)
    judgement = judged(text)
    assert judgement.compared == ("model",)
    assert len(judgement.departures) == 1


def test_only_functions_that_map_are_called() -> None:
    text = (
        HEAD
        + """
def helper(x): return lax.psum(x, "d")
def inner(x): return jax.shard_map(helper, mesh=mesh, in_specs=P("d"), out_specs=P())(x)
def outer(x): return inner(x) + 1
def test_outer(): outer(jnp.ones(8))
mapped = jax.jit(jax.shard_map(helper, mesh=mesh, in_specs=P("d"), out_specs=P()))
number = 3
class Layer:
    def __init__(self): self.x = inner(3)
    def __call__(self, x): return inner(x)
    def other(self, x): return x
    def test_outer(self): outer(jnp.ones(8))
class TestLayer:
    def call(self): outer(jnp.ones(8))
def run(layer: Layer): return layer
"""
    )
    assert mapping_functions(text) == (
        "inner",
        "outer",
        "mapped",
        "Layer.__call__",
        "run",
    )


@pytest.mark.parametrize(
    "named",
    [
        "from jax import shard_map as m",
        "m = jax.shard_map",
        "m = partial(jax.shard_map, mesh=mesh)",
        "m = functools.partial(jax.experimental.shard_map.shard_map, mesh=mesh)",
    ],
)
def test_what_maps_functions_may_have_another_name(named: str) -> None:
    text = f"{named}\nrun = m(body)\njitted = jax.jit(m(body))\nx = run(3)\n"
    assert mapping_functions(text) == ("run", "jitted")


def test_the_command_names_sizes_and_functions_that_were_not_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = next(one for one in PAIRS if one.name == "mean_by_local_size")
    mapped = "jax.shard_map(abs, mesh=mesh, in_specs=P('d'), out_specs=P('d'))"
    other = f"\n\ndef other(x):\n    x = abs(x)\n    return {mapped}(x)\n"
    (tmp_path / "model.py").write_text(pair.program(False) + other)
    status = main(
        [
            "--no-cache",
            "--jobs",
            "1",
            "--format",
            "concise",
            "--statistics",
            str(tmp_path),
        ]
    )
    out = capsys.readouterr().out
    assert status == 1
    assert "ST316 body's result [" in out
    assert "on 2 and on 4, with batch=8, dim=16): with " in out
    assert "model.py: other: its argument x, which has no annotation" in out


SEVERAL_MESHES = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

@functools.partial(
    jax.shard_map, mesh=jax.make_mesh((2, 4), ("d", "t")), in_specs=(P("d", "t"), P("t")), out_specs=P("d")
)
def whole(x, w):
    return lax.psum(x @ w, "t")

@functools.partial(
    jax.shard_map, mesh=jax.make_mesh((2, 4), ("d", "t")), in_specs=(P("d", "t"), P("t")), out_specs=P("d")
)
def layer(x, w):
    return {layer}

def block(x, w):
    mesh = jax.make_mesh((2, {size}), ("d", "t"))
    mapped = jax.shard_map(lambda x, w: {block}, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d"))
    return mapped(x, w)
"""
SUMMED_TWICE = "lax.psum(lax.psum(x @ w, 't') * 0.5, 't')"


@pytest.mark.parametrize("size", [4, 8])
def test_the_same_axis_may_be_written_in_several_meshes(size: int) -> None:
    """Its size is changed in all of them together; another size is that of another mesh."""
    right = "lax.psum(x @ w, 't')"
    for layer, block in ((right, right), (SUMMED_TWICE, right), (right, SUMMED_TWICE)):
        text = SEVERAL_MESHES.format(layer=layer, block=block, size=size)
        for function, body in (("whole", right), ("layer", layer), ("block", block)):
            found = tried(text, function)
            assert isinstance(found, Trial), found
            judgement = judge_trial(found)
            assert judgement.compared == ("d", "t"), judgement.reasons
            axes = [departure.axis for departure in judgement.departures]
            assert axes == (["t"] if body == SUMMED_TWICE else [])


METHODS = """
import dataclasses
import functools
import jax
from jax import lax
from jax.sharding import PartitionSpec as P
from shardtypes import f32

mesh = jax.make_mesh((2, 4), ("d", "t"))
mapped = functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d"))

@dataclasses.dataclass
class WithFields:
    w: f32["M F"]

    def method(self, x: f32["B M"]):
        return mapped(lambda x, w: {body})(x, self.w)

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(self, x: f32["B M"]):
        return mapped(lambda x, w: {body})(x, self.w)

class WithConstructor:
    def __init__(self, w, axis="t"):
        self.w, self.axis = w, axis

    def __call__(self, x):
        return mapped(lambda x, w: {body})(x, self.w)

class WithNothing:
    @staticmethod
    def static(x, w):
        return mapped(lambda x, w: {body})(x, w)

    @classmethod
    def of_class(cls, x, w):
        return mapped(lambda x, w: {body})(x, w)
"""


@pytest.mark.parametrize(
    ("body", "axes"), [("lax.psum(x @ w, 't')", []), (SUMMED_TWICE, ["t"])]
)
def test_methods_are_called_of_objects_that_are_made(
    body: str, axes: list[str]
) -> None:
    text = METHODS.format(body=body)
    methods = [name for name in mapping_functions(text) if "." in name]
    assert methods == [
        "WithFields.method",
        "WithFields.compiled",
        "WithConstructor.__call__",
        "WithNothing.static",
        "WithNothing.of_class",
    ]
    for method in methods:
        found = tried(text, method)
        assert isinstance(found, Trial), (method, found)
        judgement = judge_trial(found)
        assert judgement.compared == ("d", "t"), (method, judgement.reasons)
        assert [one.axis for one in judgement.departures] == axes, method


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("class C:\n    def __init__(self):\n        raise ValueError('no')\n", "no"),
        ("class C(elsewhere.Module):\n    w: int\n", "elsewhere"),
    ],
)
def test_of_a_class_that_cannot_be_made_it_is_said(head: str, reason: str) -> None:
    mapped = "jax.shard_map(lambda x: x, mesh=mesh, in_specs=P('d'), out_specs=P('d'))"
    call = f"    def call(self, x):\n        return {mapped}(x)\n"
    text = f"{HEAD}import elsewhere\n{head}{call}"
    assert mapping_functions(text) == ("C.call",)
    assert reason in str(tried(text, "C.call"))


CONFIGURED = """
from dataclasses import dataclass, field
from typing import NamedTuple

@dataclass(frozen=True)
class Rates:
    first: float = 0.5
    rest: tuple[float, ...] = (0.25, 0.125)

class {config}
    width: int = 4
    rates: Rates = {rates}
    hidden: int{required}

class Batch(NamedTuple):
    x: f32["B/d M"]
    scale: float = 2.0

class State(NamedTuple):
    w: f32["M F"]
    step: int = 3

def make_step(cfg: Config, mesh: jax.sharding.Mesh):
    def step(state: State, batch: Batch):
        total = jnp.sum(batch.x @ state.w) * batch.scale * cfg.rates.rest[1] / cfg.hidden
        return {result} / state.step
    specs = State(P(), P()), Batch(P("d"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))
"""
CONFIGS = {
    "dataclass": {"config": "Config:", "rates": "field(default_factory=Rates)"},
    "tuple": {"config": "Config(NamedTuple):", "rates": "Rates()"},
}


def configured(kind: str, result: str, required: str = " = 8") -> str:
    text = CONFIGURED.replace("class {config}", "@dataclass\nclass {config}")
    if kind == "tuple":
        text = CONFIGURED
    return HEAD + text.format(**CONFIGS[kind], result=result, required=required)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_has_its_defaults(kind: str) -> None:
    right = judged(configured(kind, 'lax.psum(total, "d")'))
    assert right.departures == ()
    assert right.compared == ("d", "t")
    (departure,) = judged(configured(kind, 'lax.psum(total + 1.0, "d")')).departures
    assert departure.axis == "d"


def test_of_a_configuration_without_defaults_it_is_said() -> None:
    text = configured("dataclass", "total", required="")
    found = tried(text, "make_step")
    assert found == "its argument cfg: of a type of which no value is made"
