"""What is assigned to annotated variables: checked at every assignment, under the decorator and the import hook."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import dis
import inspect
import linecache
import types
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shardtypes as st
from shardtypes import f32
from shardtypes.assignments import reassigned_parameters
from tests.runtime.loading import OURS, TYPEGUARDS, load, outcome, run

HEAD = """
import contextlib
import jax
import jax.numpy as jnp
from shardtypes import f32, key

class Box:
    pass

"""

# The body of a function of x and y, which are f32['N'] in right calls, and whether typeguard checks it too.
BODIES: dict[str, tuple[str, bool]] = {
    "where it is annotated": ("h: f32['N'] = y", True),
    "assigned again": ("h: f32['N'] = x\nh = y", True),
    "annotated before": ("h: f32['N']\nif len(y):\n    h = y", True),
    "several targets": ("h: f32['N'] = x\nk = h = y", True),
    "a tuple": ("h: f32['N'] = x\nk, h = x, y", True),
    "a nested tuple": ("h: f32['N'] = x\n(k, [l, h]), m = (x, [x, y]), x", False),
    "the rest of a tuple": ("h: list[f32['N']] = []\nk, *h = x, y", True),
    "augmented": (
        "h: f32['N'] = x\nh += jnp.zeros((2, 1)) if len(y) != 3 else 0",
        True,
    ),
    "walrus": ("h: f32['N'] = x\nif (h := y) is not None:\n    pass", True),
    "walrus in a comprehension": (
        "h: f32['N'] = x\n[(h := y) for _ in range(1)]",
        False,
    ),
    "for": ("h: f32['N']\nfor h in [x, y]:\n    pass", False),
    "for, of pairs": ("h: f32['N']\nfor i, h in enumerate([x, y]):\n    pass", False),
    "with": ("h: f32['N']\nwith contextlib.nullcontext(y) as h:\n    pass", False),
    "match": (
        "h: f32['N'] = x\nmatch {'a': y}:\n    case {'a': h}:\n        pass",
        False,
    ),
    "match, with a guard that is not true": (
        "h: f32['N'] = x\nmatch {'a': y}:\n    case {'a': h} if len(h) > 9:\n        pass"
        "\n    case _:\n        pass",
        False,
    ),
    "walrus in a default": ("h: f32['N'] = x\ndef g(z=(h := y)):\n    pass", False),
    "walrus in a lambda's default": (
        "h: f32['N'] = x\ng = lambda *, z=(h := y): z",
        False,
    ),
    "walrus in a decorator": (
        "h: f32['N'] = x\n@(lambda g, z=(h := y): g)\nclass C:\n    pass",
        False,
    ),
    "walrus in a base": (
        "h: f32['N'] = x\nclass C(object if (h := y) is not None else int):\n    pass",
        False,
    ),
    "in a function inside": (
        "def g(z: f32['M']):\n    k: f32['M N'] = z[:, None] + y\n    return k\ng(x[:1])",
        False,
    ),
    "result of a function inside": (
        "def g(z) -> f32['N']:\n    return z\ng(y)",
        False,
    ),
    "method of a class inside": (
        "class C:\n    def g(self, z, k: f32['N']) -> f32['N']:\n        return z\n"
        "C().g(y, x)",
        False,
    ),
    "attribute": ("self = Box()\nself.q: f32['N'] = y", False),
    "attribute assigned again": (
        "self = Box()\nself.q: f32['N'] = x\nself.q = y",
        False,
    ),
    "item": ("d = {}\nd['a']: f32['N'] = y", False),
    "in parentheses": ("(h): f32['N'] = y", True),
    "string": ("h: \"f32['N']\" = y", True),
    "inside of a type": ("h: dict[str, f32['N']] = {'a': y}", True),
    "alias of the function": ("F = f32\nh: F['N'] = y", False),
    "local import": ("from shardtypes import f32 as F\nh: F['N'] = y", True),
    "loop, each round": ("for z in [x, y]:\n    h: f32['N'] = z", True),
    "generator": ("h: f32['N'] = y\nyield h", True),
    "nested block": (
        "try:\n    while True:\n        h: f32['N'] = y\n        break\nfinally:\n    pass",
        True,
    ),
}

KINDS = [
    (name, way)
    for name, (_, both) in BODIES.items()
    for way in (*OURS, *(TYPEGUARDS if both else ()))
]


def function(body: str, head: str = "def f(x: f32['N'], y):") -> str:
    return f"{HEAD}@checked\n{head}\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )


@pytest.mark.parametrize(("name", "way"), KINDS, ids=lambda part: str(part))
def test_every_assignment_is_checked(tmp_path: Path, name: str, way: str) -> None:
    f = load(tmp_path, function(BODIES[name][0]), way).f
    assert outcome(lambda: run(f, jnp.ones(3), jnp.ones(3))) == "silence"
    assert outcome(lambda: run(f, jnp.ones(3), jnp.ones(4))) == "alarm"


@pytest.mark.parametrize("way", OURS)
def test_coroutines_and_methods(tmp_path: Path, way: str) -> None:
    source = (
        f"{HEAD}@checked\nasync def f(x: f32['N'], y):\n    h: f32['N'] = y\n    return h\n"
        "class C:\n    def __init__(self):\n        self.__x = 1\n"
        "    @checked\n    def m(self, x: f32['N'], y):\n        h: f32['N'] = y\n        return self.__x\n"
        "class D(C):\n    @checked\n    def m(self, x: f32['N'], y):\n"
        "        h: f32['N'] = x\n        h = y\n        return super().m(x, h) + __class__.one\n    one = 1\n"
    )
    module = load(tmp_path, source, way)
    for call in (module.f, module.C().m, module.D().m):
        assert (
            outcome(lambda call=call: run(call, jnp.ones(3), jnp.ones(3))) == "silence"
        )
        assert outcome(lambda call=call: run(call, jnp.ones(3), jnp.ones(4))) == "alarm"
    assert module.D().m(jnp.ones(3), jnp.ones(3)) == 2


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("x = y", "f: parameter 'x': what is assigned to it is not checked"),
        (
            "h: f32['N'] = x\nh: f32['M'] = x\nh = y",
            "f: variable 'h', which has several annotations",
        ),
        ("x: f32['N'] = x\nx = y", "f: variable 'x', which has several annotations"),
        ("h = y\nh: f32['N'] = x", "f: variable 'h', before it is annotated"),
        (
            "for h in [y]:\n    h: f32['N'] = x",
            "f: variable 'h', before it is annotated",
        ),
        (
            "h, k = y, 1\nif k:\n    h: f32['N'] = x",
            "f: variable 'h', before it is annotated",
        ),
        (
            "match y:\n    case h:\n        h: f32['N'] = x",
            "f: variable 'h', before it is annotated",
        ),
        (
            "h: Missing['N'] = y",
            "annotation of f, variable 'h' not checked: name 'Missing' is not defined",
        ),
    ],
)
def test_what_is_left_out_is_counted(
    tmp_path: Path, way: str, body: str, reason: str
) -> None:
    f = load(tmp_path, function(body), way).f
    before = st._stats.snapshot()["not_possible"].get(reason, 0)
    f(jnp.ones(3), jnp.ones(4))
    assert st._stats.snapshot()["not_possible"].get(reason, 0) > before


ASSIGNED = """
@checked
def rope(x: f32['B L H D']) -> f32['B L H D']:
    return x

@checked
def attend(q: f32['B L H D'], k: f32['B L K D']) -> f32['B L H D']:
    q, k = rope(q), rope(k)
    k = jnp.repeat(k, q.shape[2] // k.shape[2], axis=2)
    return q + k

@checked
async def cast(x: f32['B M']):
    x = x.reshape(-1).astype('int32')
    return x

@checked
def parts(xs: list[f32['B']], scale: float):
    while len(xs) > 1:
        (*xs, _) = xs[1:]
    yield xs

class Layer:
    @checked
    def __call__(self, x: f32['B M']) -> f32['B']:
        x = x @ jnp.ones((x.shape[1], 7))
        return x.sum(1)
"""


@pytest.mark.parametrize("way", [*OURS, *TYPEGUARDS])
def test_parameters_that_are_assigned_anew_are_counted_under_every_door(
    tmp_path: Path, way: str
) -> None:
    module = load(tmp_path, HEAD + ASSIGNED, way)
    calls = {
        "attend: parameter 'k'": lambda: module.attend(
            jnp.ones((2, 3, 4, 5)), jnp.ones((2, 3, 2, 5))
        ),
        "cast: parameter 'x'": lambda: run(module.cast, jnp.ones((2, 3))),
        "parts: parameter 'xs'": lambda: run(module.parts, [jnp.ones(2)] * 4, 1.0),
        "Layer.__call__: parameter 'x'": lambda: module.Layer()(jnp.ones((2, 3))),
    }
    for place, call in calls.items():
        st._stats.reset()
        call()
        assert (
            f"{place}: what is assigned to it is not checked"
            in st._stats.snapshot()["not_possible"]
        )


@pytest.mark.parametrize("way", OURS)
def test_right_programs_pass(tmp_path: Path, way: str) -> None:
    """Rounds of a loop may be of other sizes, parameters may be reshaped, a variable may hide the type of its name."""
    rounds = "for x in xs:\n    h: f32['C M'] = x\n    g: f32['C'] = h[:, 0]\n    h = h + g[:, None]\nreturn len(xs)"
    f = load(tmp_path, function(rounds, "def f(xs: list):"), way).f
    assert f([jnp.ones((n, m)) for n, m in ((2, 3), (5, 4), (1, 1))]) == 3
    f = load(
        tmp_path, function(rounds.replace("h[:, 0]", "h[0]"), "def f(xs: list):"), way
    ).f
    assert outcome(lambda: f([jnp.ones((2, 2)), jnp.ones((2, 3))])) == "alarm"
    f = load(
        tmp_path,
        function(
            "x = x.reshape(-1)\nx = x.astype('int32')\nreturn x",
            "def f(x: f32['B M']):",
        ),
        way,
    ).f
    assert f(jnp.ones((2, 3))).shape == (6,)
    body = "key: key[''] = jax.random.key(seed)\nkey, sub = jax.random.split(key)\nreturn key"
    f = load(tmp_path, function(body, "def f(seed: int):"), way).f
    assert f(0).shape == ()
    wrong = load(
        tmp_path,
        function(body.replace("split(key)", "split(key, (2, 2))"), "def f(seed: int):"),
        way,
    ).f
    assert outcome(lambda: wrong(0)) == "alarm"


def test_variables_of_a_module(tmp_path: Path) -> None:
    source = f"{HEAD}SIZES: dict[str, int] = {{}}\nx: f32['N'] = jnp.ones(SIZES.get('N', 3))\nnone: int = None\n"
    assert load(tmp_path, source, "shardtypes.install_import_hook").x.shape == (3,)
    with pytest.raises(st.ShapeError, match=r"^variable 'x': rank is 1, expected 2"):
        load(
            tmp_path,
            source.replace("f32['N']", "f32['N M']"),
            "shardtypes.install_import_hook",
        )


def test_a_wrong_shape_string_is_an_error(tmp_path: Path) -> None:
    for way in OURS:
        with pytest.raises(st.ShapeStringError):
            load(tmp_path, function("h: f32['N//'] = y"), way).f(
                jnp.ones(3), jnp.ones(3)
            )


def test_the_function_stays_what_it_was(tmp_path: Path) -> None:
    source = function(
        "h: f32['N'] = y\ndef inner():\n    return h\nreturn inner",
        "def f(x: f32['N'], y, *, z=3, **more):",
    )
    f = load(tmp_path, source, "shardtypes.typechecked").f
    inner = f(jnp.ones(3), jnp.ones(3))
    assert inner.__qualname__ == "f.<locals>.inner" and inner().shape == (3,)
    assert str(inspect.signature(f)) == "(x: f32['N'], y, *, z=3, **more)"
    assert f(jnp.ones(3), jnp.ones(3), z=1, a=2) is not None
    assert "inner" in inspect.getsource(f)


def test_source_that_is_not_that_of_the_function_is_not_used(tmp_path: Path) -> None:
    module = load(
        tmp_path, function("h: f32['N'] = y\nreturn h + 1"), "shardtypes.typechecked"
    )
    path = Path(module.__file__)
    path.write_text(path.read_text().replace("h + 1", "h + 1 + x[0]"))
    linecache.checkcache()
    reason = "f: its variables, for it was not compiled from the source that is there"
    before = st._stats.snapshot()["not_possible"].get(reason, 0)
    assert module.f(jnp.ones(3), jnp.ones(4)).sum() == 8
    assert st._stats.snapshot()["not_possible"].get(reason, 0) == before + 1


SOURCELESS = {
    "local": ("h: f32['N'] = y\n    return h", True),
    "attribute": ("x.h: f32['N'] = y", True),
    "global": ("global h\n    h = y", True),
    "function inside": ("def g(z: f32['N']): ...\n    return g(y)", True),
    "class inside": ("class C:\n        h: f32['N']\n    return C", True),
    "no variable": ("return (lambda: y)(), (z for z in ())", False),
}


@pytest.mark.parametrize(("body", "counted"), SOURCELESS.values(), ids=SOURCELESS)
def test_variables_of_functions_without_source_are_counted(
    body: str, counted: bool
) -> None:
    space: dict[str, Any] = {"f32": f32}
    source = f"def f(x, y, *rest, k: f32['K'], **more):\n    {body}"
    exec(compile(source, "<nowhere>", "exec"), space)
    st._stats.reset()
    with contextlib.suppress(AttributeError):  # of an array
        st.typechecked(space["f"])(jnp.ones(3), jnp.ones(4), k=jnp.ones(2))
    reason = "f: its variables, for its source is not there"
    assert st._stats.snapshot()["not_possible"] == ({reason: 1} if counted else {})


def test_generated_methods_of_dataclasses_are_not_counted() -> None:
    @st.typechecked
    @dataclasses.dataclass(order=True)
    class Box:
        h: f32["N"]

    st._stats.reset()
    Box(jnp.ones(3))
    assert not st._stats.snapshot()["not_possible"]


# What a function of x, y and parts puts into annotated containers; y is of another rank in wrong calls.
PUTS: dict[str, str] = {
    "item": "d: dict[str, f32['M']] = {}\nd['a'] = y",
    "item of a list": "d: list[f32['M']] = [x]\nd[0] = y",
    "item, of several": "d: dict[str, f32['M']] = {}\nd['a'], z = y, x",
    "item, augmented": "d: dict[str, f32['M']] = {'a': x}\nd['a'] += y",
    "item of an attribute": "o = Box()\no.d: dict[str, f32['M']] = {}\no.d['a'] = y",
    "append": "d: list[f32['M']] = []\nd.append(y)",
    "append, a string": "d: 'list[f32[\"M\"]]' = []\nd.append(y)",
    "insert": "d: list[f32['M']] = []\nd.insert(0, y)",
    "deque": "d: collections.deque[f32['M']] = collections.deque()\nd.appendleft(y)",
    "extend": "d: list[f32['M']] = []\nd.extend([x, y])",
    "update": "d: dict[str, f32['M']] = {}\nd.update(a=y)",
    "setdefault": "d: dict[str, f32['M']] = {}\nz = d.setdefault('a', y)",
    "optional": "d: dict[str, f32['M']] | None = {}\nd['a'] = y",
    "of lists": "d: dict[str, list[f32['M']]] = {}\nd['a'] = [x, y]",
    "of a function around": "d: list[f32['M']] = []\ndef g():\n    nonlocal d\n    d.append(y)\ng()",
    "of the module": "global MANY\nMANY.append(y)",
}


def put(body: str) -> str:
    head = "import collections\nMANY: list[f32['M']] = []\n@checked\n"
    made = function(body, "def f(x: f32['N'], y, parts: dict[str, f32['M']]):")
    return made.replace("@checked\n", head)


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("name", PUTS)
def test_what_is_put_into_a_container_is_checked(
    tmp_path: Path, name: str, way: str
) -> None:
    f = load(tmp_path, put(PUTS[name]), way).f
    x = jnp.ones(3)
    assert outcome(lambda: f(x, x, {})) == "silence"
    for wrong in (jnp.ones((3, 3)), x.astype(jnp.bfloat16) + 1j):
        assert outcome(lambda wrong=wrong: f(x, wrong, {})) == "alarm"


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "d: list[f32['N']] = []\nd.append(y)",
            "f: an item of variable 'd', names of the item: N is 4 there and 3 outside, which may be meant",
        ),
        ("parts['a'] = y", "f: variable 'parts', once its items are assigned to"),
        ("parts.update(a=y)", "f: variable 'parts', once its items are assigned to"),
        (
            "d: dict[str, list[f32['N']]] = {'a': []}\nd['a'].append(y)",
            "f: variable 'd', once its items are assigned to",
        ),
        (
            "d: list[f32['N']] = []\nd[:] = [y]",
            "f: variable 'd', once its items are assigned to",
        ),
        (
            "d: dict[str, f32['M']] = {}\nd: dict[str, f32['N']] = {}\nd['a'] = y",
            "f: variable 'd', once its items are assigned to",
        ),
    ],
)
def test_what_is_put_into_a_container_and_left_out_is_counted(
    tmp_path: Path, way: str, body: str, reason: str
) -> None:
    f = load(tmp_path, put(body), way).f
    before = st._stats.snapshot()["not_possible"].get(reason, 0)
    f(jnp.ones(3), jnp.ones(4), {})
    assert st._stats.snapshot()["not_possible"].get(reason, 0) > before


@pytest.mark.parametrize("way", OURS)
def test_containers_that_are_filled_right(tmp_path: Path, way: str) -> None:
    source = put(
        "d: dict[str, f32['I O']] = {}\nfor n in range(3):\n    d[str(n)] = jnp.ones((n + 1, n + 2))\n"
        "counts: dict[str, int] = {}\ncounts['a'] = 1.5\n"
        "h: f32['N'] = x\nh = h.at[0].add(1.0)\nbox = Box()\nbox.append = lambda z: z\nbox.append(y)\n"
        "seen: list[f32['I']] = [jnp.ones(n) for n in (1,)]\nseen.append(*[jnp.ones(1)])\nreturn d"
    )
    f = load(tmp_path, source, way).f
    assert len(f(jnp.ones(3), jnp.ones((3, 3)), {"a": jnp.ones(7)})) == 3


@pytest.mark.parametrize("way", OURS)
def test_classes_inside_keep_their_names(tmp_path: Path, way: str) -> None:
    source = function("h: f32['N'] = y\nclass C:\n    def g(self): pass\nreturn C")
    made = load(tmp_path, source, way).f(jnp.ones(3), jnp.ones(3))
    assert made.__qualname__ == "f.<locals>.C"
    assert made.g.__qualname__ == "f.<locals>.C.g"


NAMES = ("a", "b", "c", "d")
STATEMENTS = some.sampled_from(
    [f"{name} = 1" for name in NAMES]
    + [
        "a, b = 1, 2",
        "x = a",
        "for c in (): pass",
        "x.a = 1",
        "y = x = 3",
        "g = lambda: (d, a)",
        "del d",
        "a += 1",
    ]
)


@given(some.lists(STATEMENTS, max_size=8))
def test_reassigned_parameters_are_those_that_python_stores(
    statements: list[str],
) -> None:
    names: dict[str, Any] = {}
    exec(
        "def f(a, b, *, c=1, d=2):\n    x = y = None\n"
        + "".join(f"    {s}\n" for s in statements),
        names,
    )
    code: types.CodeType = names["f"].__code__
    tree = ast.parse("\n".join(statements))
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    assert set(reassigned_parameters(code)) == stored & set(NAMES), dis.Bytecode(
        code
    ).dis()
