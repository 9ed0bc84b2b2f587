"""Random programs, continued: control flow, containers, functions, classes and transformations."""

from __future__ import annotations

import random

from tests.engine.random_programs import NAMES, NUMBERS, Body, Shape, extend, statement

HEAD = """from __future__ import annotations
import dataclasses, functools
from functools import partial
from typing import Any, NamedTuple
import jax, jax.numpy as jnp
from jax import lax
from shardtypes import f32

@dataclasses.dataclass
class Config:
    width: int = 4
    heads: int = 2
    names: tuple = ("a", "b")

class Pair(NamedTuple):
    first: jax.Array
    second: jax.Array

@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None
    scale: float = 1.0
    def __call__(self, x):
        y = x @ self.w * self.scale
        return y if self.b is None else y + self.b

class Block:
    def __init__(self, width, out):
        self.out = out
        self.w = jnp.ones((width, out))
        self.state = None
    @property
    def shape(self):
        return self.w.shape
    def remember(self, x):
        self.state = x
        return self
    def __call__(self, x):
        return jnp.tanh(x @ self.w)

"""


def _any(body: Body, least: int = 0, most: int = 4) -> tuple[str, Shape]:
    name = body.pick(lambda shape: least <= len(shape) <= most)
    if name is None:
        raise LookupError
    return name, body.arrays[name]


def _ending_in(inner: Body, shape: Shape) -> str:
    """An expression of that shape over what a body has."""
    name = inner.pick(lambda other: other == shape)
    if name is None:
        raise LookupError
    return inner.draw.choice((name, f"{name} + 1", f"jnp.tanh({name})"))


def _nested(body: Body, params: dict[str, Shape], statements: int) -> Body:
    inner = body.inner(params)
    extend(inner, statements)
    return inner


def _define(body: Body, params: str, inner: Body, result: str) -> str:
    name = body.fresh("f")
    body.lines += [
        f"def {name}({params}):",
        *(f"    {line}" for line in inner.lines),
        f"    return {result}",
    ]
    return name


@statement(3)
def scan(body: Body) -> bool:
    xs, shape = _any(body, 1)
    init, carry = _any(body)
    c, a = body.fresh(), body.fresh()
    inner = _nested(body, {c: carry, a: shape[1:]}, body.draw.randint(0, 3))
    out = inner.pick()
    assert out is not None
    f = _define(body, f"{c}, {a}", inner, f"{_ending_in(inner, carry)}, {out}")
    last, ys = body.fresh(), body.fresh()
    start = body.draw.choice((init, f"jnp.zeros_like({init})"))
    body.lines.append(
        f"{last}, {ys} = {body.draw.choice(('lax', 'jax.lax'))}.scan({f}, {start}, {xs})"
    )
    body.arrays[last], body.arrays[ys] = carry, (shape[0], *inner.arrays[out])
    return len(inner.arrays[out]) < 4 or bool(body.arrays.pop(ys))


@statement(3)
def vmap(body: Body) -> bool:
    xs, shape = _any(body, 1)
    i = body.draw.randrange(len(shape))
    ys = body.pick(lambda other: shape[i] in other)
    assert ys is not None
    other = body.arrays[ys]
    j = other.index(shape[i])
    both = body.draw.random() < 0.5
    a, b = body.fresh(), body.fresh()
    inner = _nested(
        body,
        {
            a: (*shape[:i], *shape[i + 1 :]),
            b: (*other[:j], *other[j + 1 :]) if both else other,
        },
        2,
    )
    out = inner.pick(lambda one: len(one) < 4)
    if out is None:
        return False
    f = _define(body, f"{a}, {b}", inner, out)
    result = inner.arrays[out]
    k = body.draw.randint(0, len(result))
    axes = f"({i}, {j if both else None})"
    options = f", out_axes={k}" if k or body.draw.random() < 0.2 else ""
    body.let(
        f"jax.vmap({f}, in_axes={axes}{options})({xs}, {ys})",
        (*result[:k], shape[i], *result[k:]),
    )
    return True


@statement(2)
def branches(body: Body) -> bool:
    x, shape = _any(body)
    a, b = body.fresh(), body.fresh()
    one, two = _nested(body, {a: shape}, 1), _nested(body, {b: shape}, 1)
    wanted = one.arrays[one.pick() or x]
    f = _define(body, a, one, _ending_in(one, wanted))
    g = _define(body, b, two, _ending_in(two, wanted))
    body.let(f"lax.cond({x}.sum() > 0, {f}, {g}, {x})", wanted)
    return True


@statement(2)
def counted(body: Body) -> bool:
    x, shape = _any(body)
    a = body.fresh()
    inner = _nested(body, {a: shape}, 2)
    f = _define(body, f"i, {a}", inner, _ending_in(inner, shape))
    body.let(
        f"lax.fori_loop(0, {body.draw.choice(('3', str(f'len({x})') if shape else '2'))}, {f}, {x})",
        shape,
    )
    return True


@statement(2)
def loop(body: Body) -> bool:
    """A loop over layers, or over a range, that keeps a shape."""
    x, shape = _any(body, 1, 3)
    y, many = body.fresh(), body.fresh()
    square = f"jnp.eye({body.size(shape[-1])})"
    body.lines.append(f"{y} = {x}")
    body.lines.append(f"{many} = [{square}, {square} * 2]")
    k = body.fresh("k")
    header = body.draw.choice(
        (
            f"for {k} in {many}:",
            f"for i, {k} in enumerate({many}):",
            f"for {k} in range(5):",
        )
    )
    step = f"{y} @ {k}" if "range" not in header else f"{y} @ {many}[{k} % 2]"
    body.lines += [header, f"    {y} = jnp.tanh({step})"]
    body.arrays[y] = shape
    return True


@statement(2)
def comprehension(body: Body) -> bool:
    x, shape = _any(body, 1)
    k = body.fresh("k")
    size = shape[0]
    if size.isdigit() and body.draw.random() < 0.5:
        body.let(f"jnp.stack([jnp.tanh({k}) for {k} in {x}])", shape)
        return True
    y = body.pick(lambda other: other == shape)
    ways = [f"jnp.stack([{k} * 2 for {k} in ({x}, {y})])", f"jnp.array([{k} for {k} in [{x}, {y}]])",
            f"jnp.stack(list(map(jnp.tanh, [{x}, {y}])))"]  # fmt: skip
    if len(shape) > 3:
        return False
    body.let(body.draw.choice(ways), ("2", *shape))
    return True


@statement(3)
def held(body: Body) -> bool:
    """A tuple, dict, list or NamedTuple of arrays, and its parts."""
    x, first = _any(body)
    y, second = _any(body)
    p = body.fresh("p")
    ways = [
        (f"({x}, {y})", "{}[0]", "{}[1]"), (f"[{x}, {y}]", "{}[0]", "{}[-1]"),
        (f"{{'a': {x}, 'b': {y}}}", "{}['a']", "{}['b']"), (f"dict(a={x}, b={y})", "{}['a']", "{}.get('b')"),
        (f"Pair({x}, {y})", "{}.first", "{}.second"), (f"Pair(second={y}, first={x})", "{}[0]", "{}.second"),
        (f"Layer({x}, {y})", "{}.w", "{}.b"), (f"Layer(w={x}, b={y}, scale=2.0)", "{}.w", "{}.b"),
    ]  # fmt: skip
    made, one, two = body.draw.choice(ways)
    tree = not made.startswith("Layer") and body.draw.random() < 0.4
    body.lines.append(f"{p} = {made}")
    if tree:
        body.lines.append(
            f"{p} = jax.tree.map(lambda a: {body.draw.choice(('a * 2', 'jnp.tanh(a)', 'a'))}, {p})"
        )
    how = body.draw.randrange(3)
    if how == 0 and made[0] in "([P":
        a, b = body.fresh(), body.fresh()
        body.lines.append(f"{a}, {b} = {p}")
        body.arrays[a], body.arrays[b] = first, second
    elif how == 1:
        body.let(two.format(p), second)
    else:
        body.let(one.format(p), first)
    return True


@statement(3)
def layered(body: Body) -> bool:
    """Calls of instances."""
    x, shape = _any(body, 1, 3)
    out = body.draw.choice((*NUMBERS, *shape))
    n, m = body.size(shape[-1]), body.size(out)
    k = body.fresh("m")
    way = body.draw.randrange(4)
    if way == 0:
        body.lines.append(
            f"{k} = Layer(jnp.ones(({n}, {m})), {body.draw.choice(('None', f'jnp.zeros({m})'))})"
        )
    else:
        body.lines.append(f"{k} = Block({n}, {body.draw.choice((m, f'out={m}'))})")
    if way == 2:
        body.lines.append(f"{k}.remember({x})")
        body.let(f"{k}.state", shape)
    if way == 3:
        body.lines.append(f"{k}.w = {k}.w.T")
        body.lines.append(f"{k}.w = jnp.ones({k}.shape[::-1])")
    body.let(f"{k}({x})", (*shape[:-1], out))
    return True


@statement(2)
def configured(body: Body) -> bool:
    x, shape = _any(body, 1, 3)
    c = body.fresh("c")
    width = body.draw.choice(NUMBERS)
    made, read = body.draw.choice((
        (f"Config(width={width})", "{}.width"), (f"{{'width': {width}, 'heads': 2}}", "{}['width']"),
        (f"dataclasses.replace(Config(), width={width})", "{}.width"), (f"dict(width={width})", "{}['width']"),
        (f"Config({width}, heads={width})", "{}.heads"),
    ))  # fmt: skip
    body.lines.append(f"{c} = {made}")
    body.let(
        f"{x} @ jnp.ones(({body.size(shape[-1])}, {read.format(c)}))",
        (*shape[:-1], width),
    )
    return True


@statement(2)
def closure(body: Body) -> bool:
    x, shape = _any(body)
    a = body.fresh()
    inner = _nested(body, {a: shape}, body.draw.randint(1, 3))
    out = inner.pick()
    assert out is not None
    f = _define(body, a, inner, out)
    call = body.draw.choice(
        (
            "{}({})",
            "jax.jit({})({})",
            "jax.checkpoint({})({})",
            "(lambda g, z: g(z))({}, {})",
            "partial({}, {})()",
        )
    )
    body.let(call.format(f, x), inner.arrays[out])
    return True


@statement(2)
def early(body: Body) -> bool:
    """A function that leaves early, on a rank, a flag, or None."""
    x, shape = _any(body)
    a = body.fresh()
    inner = _nested(body, {a: shape}, 2)
    out = inner.pick()
    assert out is not None
    f = body.fresh("f")
    test, given = body.draw.choice(
        (
            ("flag", "True"),
            ("flag is not None", "2"),
            (f"{a}.ndim == {len(shape)}", "0"),
            ("flag == 'on'", "'on'"),
        )
    )
    default = body.draw.choice(("flag=None", "*, flag=None"))
    body.lines += [
        f"def {f}({a}, {default}):",
        f"    if not ({test}):",
        f"        return {a}.sum()",
        *(f"    {line}" for line in inner.lines),
        f"    return {out}",
    ]
    body.let(f"{f}({x}, flag={given})", inner.arrays[out])
    return True


@statement(1)
def gradient(body: Body) -> bool:
    x, shape = _any(body)
    a = body.fresh()
    inner = _nested(body, {a: shape}, 2)
    out = inner.pick()
    f = _define(body, a, inner, f"jnp.sum({out})")
    if body.draw.random() < 0.5:
        body.let(f"jax.grad({f})({x})", shape)
    else:
        value, grad = body.fresh(), body.fresh()
        body.lines.append(f"{value}, {grad} = jax.value_and_grad({f})({x})")
        body.arrays[value], body.arrays[grad] = (), shape
    return True


def _annotated(shape: Shape) -> str:
    return f"f32[{' '.join(shape)!r}]"


def _helper(
    draw: random.Random, name: str, count: list[int]
) -> tuple[list[str], tuple[Shape, ...], Shape, bool]:
    """A function of the module, its parameters' shapes and its result's; whether it is annotated."""
    shapes = tuple(
        tuple(draw.choices(NAMES, k=draw.randint(1, 3)))
        for _ in range(draw.randint(1, 2))
    )
    params = [f"a{name}{i}" for i in range(len(shapes))]
    body = Body(draw, dict(zip(params, shapes, strict=True)), count=count)
    extend(body, draw.randint(1, 4))
    known = {size for shape in shapes for size in shape}
    out = body.pick(
        lambda shape: all(
            set(size.replace("*", "+").split("+")) <= known | {size} for size in shape
        )
    )
    assert out is not None
    says = draw.random() < 0.5
    written = [
        f"{p}: {_annotated(s)}" if says else p
        for p, s in zip(params, shapes, strict=True)
    ]
    result = f" -> {_annotated(body.arrays[out])}" if says else ""
    text = [
        f"def {name}({', '.join(written)}){result}:",
        *(f"    {line}" for line in body.lines),
        f"    return {out}",
        "",
    ]
    return text, shapes, body.arrays[out], says


def program(seed: int) -> tuple[str, dict[str, Shape]]:
    """The text of a program, and the parameters of its ``main``."""
    draw = random.Random(seed)
    count = [0]
    text = [HEAD]
    helpers = [
        (f"h{i}", *_helper(draw, f"h{i}", count)) for i in range(draw.randint(0, 2))
    ]
    for _, lines, *_rest in helpers:
        text += lines
    params: dict[str, Shape] = {}
    for i in range(draw.randint(1, 3)):
        dims = [
            draw.choice(NAMES) if draw.random() < 0.7 else draw.choice(NUMBERS)
            for _ in range(draw.randint(1, 3))
        ]
        params[f"x{i}"] = tuple(dims)
    for _, _, shapes, _, _ in helpers:
        params.update({f"x{len(params) + i}": shape for i, shape in enumerate(shapes)})
    body = Body(draw, dict(params), count=count)
    extend(body, draw.randint(3, 7))
    for name, _, shapes, result, _ in helpers:
        given = [
            body.pick(lambda shape, wanted=wanted: shape == wanted) for wanted in shapes
        ]  # type: ignore[misc]
        body.let(f"{name}({', '.join(map(str, given))})", result)
    extend(body, draw.randint(1, 4))
    out = body.pick()
    assert out is not None
    head = ", ".join(f"{name}: {_annotated(shape)}" for name, shape in params.items())
    text += [
        f"def main({head}) -> {_annotated(body.arrays[out])}:",
        *(f"    {line}" for line in body.lines),
        f"    return {out}",
    ]
    return "\n".join(text) + "\n", params
