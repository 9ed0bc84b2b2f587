"""Findings of earlier runs are used again exactly where a new analysis would find the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint import placing
from shardlint.config import Config
from shardlint.engine import run
from shardlint.run import Report, check

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]

#: Files with places in braces; each place has one of the texts that stand in it, divided by ``|``.
FILES = {
    "pyproject.toml": "[tool.shardlint]\n",
    "model/__init__.py": "{from .parts import Layer as Exported|from .common import Base as Exported|Exported = 1}\n",
    "model/common.py": """\
{import jax.numpy as jnp|import numpy as jnp}
from shardtypes import f32, {f32 as floats|i32 as floats|bf16 as floats}
import dataclasses
import jax
{# a comment|# one|}
{WIDTH = 4|WIDTH = 5|WIDTH = None|}


def scale(x: floats['{B M|M B|B 4}']) -> floats['{B M|B 4}']:
    return {x|x.T|x * 2}


def double(x):
    return {x + x|x.T|x[0]|jnp.sum(x, axis=1)|other(x)}


{def other(x): return x[None]|other = scale|}


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Base:
    w: f32['{M F|F M|M}']
    n: int = 3

    def call(self, x):
        return {x @ self.w|x * self.n|x}
""",
    "model/parts.py": """\
import jax.numpy as jnp
from shardtypes import f32
from .common import {Base|Base as Other}
from .common import *
{from model import common|import model.common as common}


class Layer({Base|object|Other}):
    {kind = 'a'|scale = 3|n = 4}

    def __init__(self, size={4|WIDTH|5}):
        self.w = jnp.ones((size, {3|size}))
        {self.bias = jnp.ones(3)|self.bias = None}

    def {call|apply}(self, x):
        return double(x) {@|+} self.w
""",
    "model/use.py": """\
import jax
import jax.numpy as jnp
from shardtypes import f32
from model import Exported
from model.parts import *
from . import common
{from .extra import double|from .common import double|}


def one(x: f32['B M'], y: f32['M B']) -> f32['{B M|M B}']:
    a = common.scale(y)
    {b = double(x) + x|b = common.double(y) @ y|b = x}
    c = Layer(4)
    d = c.call(jnp.ones((2, 4)))
    e = d + jnp.ones((2, {3|4}))
    return {x|y|x  # shardlint: ignore[ST201]}


def two(layer: Layer, base: common.Base, x: f32['B M']):
    return layer.{bias|n|kind} + x, base.call(x), base.w @ base.w, base.n + Exported.n


@jax.jit
def three(base: common.Base, x: f32['{4 4|5 4}']):
    return common.scale(x) + jnp.ones(common.WIDTH)
""",
    "model/writes.py": """\
import jax
from model.common import Base


class Below(Base):
    {w = None|v = None|def call(self, x): return x[0]}


def change(thing, name):
    {thing.w = 1|thing.bias = 2|setattr(thing, name, 3)|setattr(thing, 'w', 3)|pass}
    {vars(thing).update(w=1)|pass}
""",
    "rules.py": """\
{import flax.linen as nn|import other as nn}
RULES = [('batch', {'d'|'t'|None}), ('{embed|embd}', None)]
{nn.set_logical_axis_rules(RULES)|RULES.append(1)|nn.set_logical_axis_rules(make())|}
""",
    "layer.py": """\
import flax.linen as nn
import jax
from shardtypes import f32
import space.tools
from {model.common|common|helpers} import double


def f(x: f32['B M']) -> f32['B M']:
    y = nn.with_logical_constraint(x, ('batch', '{embed|embd}'))
    x = space.tools.double(x) + y
    return double({y|x})
""",
    "mesh.py": """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from shardtypes import f32

jax.set_mesh(jax.make_mesh((2, 4), ('d', 't'){, axis_types=(jax.sharding.AxisType.Explicit,) * 2|}))


def g(x: f32['B/d M'], y: f32['B/t M']) -> f32['B/d M']:
    z = x + y
    return jax.lax.with_sharding_constraint(z, P({'d'|'t'}))
""",
    "spread.py": """\
import jax
from shardtypes import f32
{from train import step as other|other = None|import between}


def total(x: f32['B/d M']) -> f32['B M']:
    return {jax.lax.psum(x, 'd')|x * 2|x}


def wide(x: f32['B/t M']) -> f32['B/t M']:
    return {x + 1|x.T|x}
""",
    "between.py": "{from spread import *|import spread|from spread import wide as total}\n",
    "train.py": """\
import jax
from jax.sharding import PartitionSpec as P
from shardtypes import f32
{import spread|import between as spread|from model import common as spread}


def step(x: f32['B/d M']):
    return spread.{total|wide|spread.total}(x)


{mapped = jax.shard_map(step, mesh=None, in_specs=P('d'), out_specs=P())|mapped = None}
{other = jax.pmap(spread.wide, axis_name='t')|other = 2}
""",
    "switch.py": "import jax\n{h = jax.sharding.auto_axes|h = None}\n",
}
#: Files that are there only sometimes.
COMING = {
    "model/extra.py": "def double(x):\n    return {x.T|x[0].T[0]|x}\n",
    "space/tools.py": "def double(x):\n    return {x.T|x}\n",
    "helpers.py": "{from model.common import double|def double(x): return x[0, 0, 0]}\n",
    "common.py": "def double(x):\n    return {x.T|x}\n",
    "model/common/__init__.py": "from shardtypes import f32\nBase = scale = double = None\nWIDTH = {7|4}\n",
}


class Edited:
    """A project that changes a little at a time."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.chosen: dict[str, list[int]] = {}
        for name, text in FILES.items():
            self.chosen[name] = [0] * len(places(text))
            self.write(name)

    def write(self, name: str) -> None:
        parts = places({**FILES, **COMING}[name])
        text = {**FILES, **COMING}[name]
        for place, index in zip(parts, self.chosen[name], strict=True):
            text = text.replace("{" + place + "}", place.split("|")[index], 1)
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def edit(self) -> str:
        """One change; returns which, for the message of a failure."""
        name = self.random.choice([*FILES, *COMING])
        if name in COMING and name not in self.chosen:
            self.chosen[name] = [0] * len(places(COMING[name]))
        elif name in COMING and self.random.random() < 0.5:
            del self.chosen[name]
            (self.folder / name).unlink()
            if name.endswith("__init__.py"):
                shutil.rmtree((self.folder / name).parent)
            return f"{name} goes"
        options = [p.split("|") for p in places({**FILES, **COMING}[name])]
        if options:
            at = self.random.randrange(len(options))
            self.chosen[name][at] = self.random.randrange(len(options[at]))
        self.write(name)
        return f"{name} {self.chosen[name]}"


def places(text: str) -> list[str]:
    return [part.split("}")[0] for part in text.split("{")[1:]]


def told(report: Report) -> tuple[object, ...]:
    return (
        report.diagnostics,
        report.problems,
        sorted(report.gaps.items()),
        report.checked,
    )


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Edited]:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return lambda seed: Edited(tmp_path, seed)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_used_again_is_what_would_be_found(
    edited: Callable[[int], Edited], seed: int
) -> None:
    project = edited(seed)
    config = Config(root=project.folder, jobs=1)
    codes, history = set(), []
    for _ in range(30):
        anew = check(["."], config, cache=False)
        again = check(["."], config, cache=True)
        assert told(again) == told(anew), history
        codes |= {found.code for found in anew.diagnostics}
        history.append(project.edit())
    assert len(codes) > 2


USER = "from shardtypes import f32\n{}\ndef f(x: f32['B M']) -> f32['B M']:\n    return {}\n"
KEEPS = "def g(x):\n    return x\n"
TRANSPOSES = "def g(x):\n    return x.T\n"
CHANGES = {
    "a module comes": (USER.format("from a import g", "g(x)"), {}, {"a.py": TRANSPOSES}),
    "a folder comes": (USER.format("import a.b", "a.b.g(x)"), {}, {"a/b.py": TRANSPOSES}),
    "a module below a package comes": (
        USER.format("from a import b", "b.g(x)"), {"a/__init__.py": ""}, {"a/b.py": TRANSPOSES}
    ),
    "a body changes": (USER.format("from a import g", "g(x)"), {"a.py": KEEPS}, {"a.py": TRANSPOSES}),
    "what a package hands on changes": (
        USER.format("from a import g", "g(x)"),
        {"a/__init__.py": "from .b import *\n", "a/b.py": TRANSPOSES, "a/c.py": KEEPS},
        {"a/__init__.py": "from .c import *\n"},
    ),
    "another file writes an attribute": (
        USER.format("class C:\n    n = 2\n", "x.reshape(x.shape[0] * C().n, x.shape[1])"),
        {"a.py": "import jax\n"},
        {"a.py": "import jax\ndef f(c):\n    c.n = 1\n"},
    ),
    "another file has a class below": (
        "from shardtypes import f32\nclass C:\n    n = 2\n    def f(self, x: f32['B M']):\n"
        "        return x.reshape(x.shape[0] * self.n, x.shape[1])\n",
        {"a.py": "import jax\n"},
        {"a.py": "import jax\nfrom user import C\nclass D(C):\n    n = 1\n"},
    ),
    "another file gives rules": (
        "import flax.linen as nn\n" + USER.format("", "nn.with_logical_constraint(x, ('batch', 'embd'))"),
        {"a.py": "import flax.linen as nn\nnn.set_logical_axis_rules([('batch', 'd'), ('embd', None)])\n"},
        {"a.py": "import flax.linen as nn\nnn.set_logical_axis_rules([('batch', 'd'), ('embed', None)])\n"},
    ),
    "another file switches axis types": (
        "import jax\nfrom shardtypes import f32\n"
        "jax.set_mesh(jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Explicit,) * 2))\n"
        "def f(x: f32['B/d M'], y: f32['B/t M']):\n    return x + y\n",
        {"a.py": "import jax\n"},
        {"a.py": "import jax\nf = jax.sharding.auto_axes\n"},
    ),
    "another file maps what calls a function": (
        "from shardtypes import f32\ndef g(x: f32['B/d M']) -> f32['B M']:\n    return x * 2\n",
        {"a.py": "import jax\n"},
        {"a.py": "import jax\nfrom shardtypes import f32\nfrom user import g\n"
         "def f(x: f32['B/d M']) -> f32['B M']:\n    return g(x)\nh = jax.pmap(f, axis_name='d')\n"},
    ),
    "a line moves that a finding points to": (
        USER.format("from a import g", "g(x)"),
        {"a.py": "from shardtypes import f32\ndef g(x: f32['B M B']) -> f32['B M B']: return x\n"},
        {"a.py": "from shardtypes import f32\n# a comment\ndef g(x: f32['B M B']) -> f32['B M B']: return x\n"},
    ),
    "a script of that name comes": (
        USER.format("from a import g", "g(x)"), {"b/a.py": TRANSPOSES, "a.py": KEEPS}, {"a.py": TRANSPOSES}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_elsewhere_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    user, before, after = CHANGES[name]
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    seen = []
    for files in ({**before, "user.py": user}, after):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        config = Config(root=tmp_path, jobs=1)
        seen.append(told(check(["."], config)))
        assert seen[-1] == told(check(["."], config, cache=False))
    assert seen[0] != seen[1]


def test_an_edit_is_analysed_alone(
    edited: Callable[[int], Edited], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = edited(0)
    analysed: list[str] = []

    def watched(
        project: object, module: object, config: object, **more: object
    ) -> object:
        analysed.append(module.name)  # type: ignore[attr-defined]  # a lowered module
        return run(project, module, config, **more)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(placing, "run", watched)
    config = Config(root=project.folder, jobs=1)

    def after(name: str, old: str, new: str) -> list[str]:
        analysed.clear()
        text = (project.folder / name).read_text()
        assert old in text
        (project.folder / name).write_text(text.replace(old, new))
        check(["."], config)
        return sorted(analysed)

    check(["."], config)
    everything = sorted(analysed)
    assert after("model/use.py", "b = ", "bb = ") == ["model.use"]
    assert after("switch.py", "h = ", "hh = ") == ["switch"]
    assert after("layer.py", "'embed'", "'batch'") == ["layer"]
    users = ["layer", "mesh", "rules", "spread", "train"]
    assert after("rules.py", "'embed'", "'embd'") == users
    users = ["layer", "model.common", "model.parts", "model.use", "model.writes"]
    assert after("model/common.py", "x + x", "x - x") == users
    assert after("layer.py", "f(x", "g(x") == ["layer"]
    assert after("train.py", "step(x", "stop(x") == ["spread", "train"]
    assert set(everything) > set(
        after("model/writes.py", "thing.w", "thing.unheard_of")
    )


@pytest.mark.long
def test_whatever_is_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that cannot be read again counts as missing, so that its file would be analysed in each run."""
    for place in (
        "fixtures/lint/right",
        "fixtures/lint/training",
        "fixtures/lint/sharding_manual/wrong",
        "tests/evaluation/programs",
    ):
        shutil.copytree(ROOT / place, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    config = Config(root=tmp_path, jobs=1)
    first = check(["."], config)
    assert {one.code[:3] for one in first.diagnostics} >= {"ST2", "ST3"}

    def never(*given: object, **named: object) -> object:
        raise AssertionError("a file is analysed again")

    monkeypatch.setattr(placing, "run", never)
    again = check(["."], config)
    assert again.problems == []
    assert told(again) == told(first)
