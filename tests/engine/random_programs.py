"""Random programs of several functions that are correct by construction: what they compute is drawn step by step, with
the shape of every local known. A size is a text: a dimension's name, a number, or a sum or product of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Shape = tuple[str, ...]
NAMES = ("B", "L", "M", "H")
NUMBERS = ("2", "4", "6")
MAX_RANK = 4
MAX_DEPTH = 2  # of nested functions


@dataclass
class Body:
    """A function body under construction: the arrays in scope with their shapes, and the lines so far."""

    draw: random.Random
    arrays: dict[str, Shape]
    lines: list[str] = field(default_factory=list)
    # how code says a size, where a name holds it
    sizes: dict[str, str] = field(default_factory=dict)
    count: list[int] = field(default_factory=lambda: [0])
    depth: int = 0

    def fresh(self, what: str = "v") -> str:
        self.count[0] += 1
        return f"{what}{self.count[0]}"

    def let(self, code: str, shape: Shape) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {code}")
        self.arrays[name] = shape
        return name

    def pick(self, wanted: Callable[[Shape], bool] = lambda shape: True) -> str | None:
        """An array of a wanted shape, later ones more often."""
        names = [name for name, shape in self.arrays.items() if wanted(shape)]
        return (
            None
            if not names
            else self.draw.choice(names[-4:] if self.draw.random() < 0.7 else names)
        )

    def size(self, size: str) -> str:
        """How the code says a size."""
        if size.isdigit():
            return size
        ways = [self.sizes[size]] if size in self.sizes else []
        ways += [
            f"{n}.shape[{i}]"
            for n, shape in self.arrays.items()
            for i, one in enumerate(shape)
            if one == size
        ]
        if ways:
            return self.draw.choice(ways)
        for op in "+*":
            left, found, right = size.partition(op)
            if found:
                return f"({self.size(left)} {op} {self.size(right)})"
        raise LookupError(size)

    def inner(self, arrays: dict[str, Shape]) -> Body:
        """The body of a nested function, which sees what is around it."""
        if self.depth == MAX_DEPTH:
            raise LookupError
        return Body(
            self.draw,
            {**self.arrays, **arrays},
            [],
            self.sizes,
            self.count,
            self.depth + 1,
        )


def added(a: str, b: str) -> str | None:
    if a.isdigit() and b.isdigit():
        return str(int(a) + int(b))
    return f"{a}+{b}" if not set("+*") & set(a + b) else None


def multiplied(a: str, b: str) -> str | None:
    if a.isdigit() and b.isdigit():
        return str(int(a) * int(b)) if int(a) * int(b) < 100 else None
    return f"{a}*{b}" if not set("+*") & set(a + b) else None


Statement = Callable[[Body], bool]
STATEMENTS: list[tuple[int, Statement]] = []


def statement(weight: int) -> Callable[[Statement], Statement]:
    def register(func: Statement) -> Statement:
        STATEMENTS.append((weight, func))
        return func

    return register


def extend(body: Body, count: int) -> None:
    """Add that many statements that apply."""
    weights, functions = zip(*STATEMENTS, strict=True)
    made = tries = 0
    while made < count and tries < 40 * count:
        tries += 1
        lines = len(body.lines)
        try:
            made += body.draw.choices(functions, weights)[0](body)
        except LookupError:
            del body.lines[lines:]


def _one(body: Body, least: int = 0, most: int = MAX_RANK) -> tuple[str, Shape]:
    name = body.pick(lambda shape: least <= len(shape) <= most)
    if name is None:
        raise LookupError
    return name, body.arrays[name]


def _axis(body: Body, shape: Shape) -> tuple[int, int]:
    """An axis, and a way to write it."""
    i = body.draw.randrange(len(shape))
    return i, body.draw.choice((i, i - len(shape)))


def _without(shape: Shape, i: int) -> Shape:
    return (*shape[:i], *shape[i + 1 :])


@statement(3)
def unary(body: Body) -> bool:
    x, shape = _one(body)
    form = body.draw.choice(
        (
            "jnp.tanh({})",
            "jax.nn.relu({})",
            "{} * 2.0",
            "-{}",
            "jnp.exp({}) + 1",
            "{} ** 2",
        )
    )
    body.let(form.format(x), shape)
    return True


@statement(4)
def binary(body: Body) -> bool:
    """Equal shapes, or the end of one."""
    x, shape = _one(body)
    y = body.pick(
        lambda other: (
            len(other) <= len(shape) and shape[len(shape) - len(other) :] == other
        )
    )
    assert y is not None
    a, b = body.draw.sample((x, y), 2)
    body.let(
        body.draw.choice(
            (
                f"{a} + {b}",
                f"{a} * {b}",
                f"jnp.maximum({a}, {b})",
                f"jnp.where({a} > 0, {a}, {b})",
            )
        ),
        shape,
    )
    return True


@statement(3)
def reduce(body: Body) -> bool:
    x, shape = _one(body, 1)
    i, axis = _axis(body, shape)
    op = body.draw.choice(("sum", "mean", "max", "std"))
    if body.draw.random() < 0.4:
        code = body.draw.choice(
            (
                f"{x} - {x}.{op}({axis}, keepdims=True)",
                f"{x} / (1 + jnp.{op}({x}, axis={axis}, keepdims=True))",
            )
        )
        body.let(code, shape)
    else:
        body.let(
            body.draw.choice((f"{x}.{op}(axis={axis})", f"jnp.{op}({x}, {axis})")),
            _without(shape, i),
        )
    return True


@statement(2)
def centred(body: Body) -> bool:
    """A reduction whose dimension is put back by None."""
    x, shape = _one(body, 2)
    i, axis = _axis(body, shape)
    index = ", ".join("None" if j == i else ":" for j in range(len(shape)))
    body.let(f"{x} - {x}.mean({axis})[{index}]", shape)
    return True


@statement(2)
def transpose(body: Body) -> bool:
    x, shape = _one(body, 2)
    order = list(range(len(shape)))
    body.draw.shuffle(order)
    new = tuple(shape[i] for i in order)
    ways = [
        (f"{x}.transpose({', '.join(map(str, order))})", new),
        (f"jnp.transpose({x}, {tuple(order)})", new),
        (f"{x}.T", shape[::-1]),
    ]
    i, j = body.draw.sample(range(len(shape)), 2)
    swapped = list(shape)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    ways.append((f"jnp.swapaxes({x}, {i}, {j - len(shape)})", tuple(swapped)))
    moved = list(shape)
    moved.insert(j, moved.pop(i))
    ways.append((f"jnp.moveaxis({x}, {i}, {j})", tuple(moved)))
    body.let(*body.draw.choice(ways))
    return True


@statement(5)
def matmul(body: Body) -> bool:
    x, shape = _one(body, 1, 3)
    w = body.pick(lambda other: len(other) == 2 and other[0] == shape[-1])
    if w is None or body.draw.random() < 0.3:
        out = body.draw.choice((*NUMBERS, *shape))
        w = body.let(
            body.draw.choice(("jnp.ones({})", "jnp.zeros(shape={})")).format(
                f"({body.size(shape[-1])}, {body.size(out)})"
            ),
            (shape[-1], out),
        )
    body.let(
        body.draw.choice(("{} @ {}", "jnp.dot({}, {})", "jnp.matmul({}, {})")).format(
            x, w
        ),
        (*shape[:-1], body.arrays[w][1]),
    )
    return True


@statement(4)
def einsum(body: Body) -> bool:
    x, first = _one(body, 1)
    y = body.pick(lambda other: bool(set(other) & set(first)))
    assert y is not None
    second = body.arrays[y]
    letters: dict[str, str] = {}

    def spelled(shape: Shape) -> str | None:
        found = [
            letters.setdefault(size, "abcdefghijkl"[len(letters)]) for size in shape
        ]
        return "".join(found) if len(set(found)) == len(found) else None

    a, b = spelled(first), spelled(second)
    if a is None or b is None:
        return False
    kept = [size for size in letters if body.draw.random() < 0.6][:MAX_RANK]
    body.draw.shuffle(kept)
    out = "".join(letters[size] for size in kept)
    body.let(f"jnp.einsum('{a},{b}->{out}', {x}, {y})", tuple(kept))
    return True


@statement(3)
def merge(body: Body) -> bool:
    """A reshape that merges two dimensions, and back again."""
    x, shape = _one(body, 2)
    i = body.draw.randrange(len(shape) - 1)
    size = multiplied(shape[i], shape[i + 1])
    if size is None:
        return False
    parts = [body.size(one) for one in shape]
    merged = [*parts[:i], f"{parts[i]} * {parts[i + 1]}", *parts[i + 2 :]]
    open_ = body.draw.randrange(len(merged))
    if body.draw.random() < 0.5:
        merged[open_] = "-1"
    y = body.let(
        f"{x}.reshape({', '.join(merged)})", (*shape[:i], size, *shape[i + 2 :])
    )
    if body.draw.random() < 0.4:
        body.let(
            body.draw.choice(
                (f"{y}.reshape({x}.shape)", f"jnp.reshape({y}, ({', '.join(parts)}))")
            ),
            shape,
        )
    return True


@statement(2)
def split_heads(body: Body) -> bool:
    """A reshape that takes a dimension of even size apart."""
    x, shape = _one(body, 1, 3)
    places = [
        i
        for i, size in enumerate(shape)
        if size.isdigit() and int(size) % 2 == 0 and int(size) > 2
    ]
    if not places:
        return False
    i = body.draw.choice(places)
    half = str(int(shape[i]) // 2)
    parts = [body.size(one) for one in shape]
    parts[i : i + 1] = body.draw.choice(
        (["2", half], ["2", "-1"], ["-1", half], [f"{x}.shape[{i}] // {half}", half])
    )
    body.let(
        f"{x}.reshape({', '.join(parts)})", (*shape[:i], "2", half, *shape[i + 1 :])
    )
    return True


@statement(2)
def expand(body: Body) -> bool:
    x, shape = _one(body, 0, 3)
    i = body.draw.randint(0, len(shape))
    index = ", ".join([":"] * i + ["None"] + [":"] * (len(shape) - i))
    new = (*shape[:i], "1", *shape[i:])
    y = body.let(body.draw.choice((f"jnp.expand_dims({x}, {i})", f"{x}[{index}]")), new)
    if body.draw.random() < 0.5:
        body.let(f"jnp.squeeze({y}, axis={i})", shape)
    return True


@statement(3)
def index(body: Body) -> bool:
    x, shape = _one(body, 1)
    i = body.draw.randrange(len(shape))
    before = [":"] * i
    size = shape[i]
    kind = body.draw.randrange(4)
    if kind == 0:
        body.let(
            f"{x}[{', '.join([*before, body.draw.choice(('0', '-1'))])}]",
            _without(shape, i),
        )
    elif kind == 1 and size.isdigit() and int(size) > 2:
        k = body.draw.randrange(1, int(size))
        piece = body.draw.choice(
            (
                (f":{k}", k),
                (f"{k}:", int(size) - k),
                (f":-{k}", int(size) - k),
                ("::2", (int(size) + 1) // 2),
            )
        )
        body.let(
            f"{x}[{', '.join([*before, piece[0]])}]",
            (*shape[:i], str(piece[1]), *shape[i + 1 :]),
        )
    elif kind == 2:
        y = body.pick(lambda other: len(other) == 1)
        if y is None:
            return False
        ids = body.let(f"jnp.argsort({y})", body.arrays[y])
        body.let(
            f"jnp.take({x}, {ids} % {x}.shape[{i}], axis={i})",
            (*shape[:i], body.arrays[y][0], *shape[i + 1 :]),
        )
        del body.arrays[ids]
    else:
        body.let(f"{x}[{', '.join([*before, '::-1'])}]", shape)
    return True


@statement(3)
def joined(body: Body) -> bool:
    x, shape = _one(body, 1, 3)
    i, axis = _axis(body, shape)
    y = body.pick(
        lambda other: (
            len(other) == len(shape) and _without(other, i) == _without(shape, i)
        )
    )
    assert y is not None
    if body.draw.random() < 0.5:
        size = added(shape[i], body.arrays[y][i])
        if size is None:
            return False
        body.let(
            f"jnp.concatenate([{x}, {y}], axis={axis})",
            (*shape[:i], size, *shape[i + 1 :]),
        )
    else:
        same = body.pick(lambda other: other == shape)
        body.let(f"jnp.stack([{x}, {same}, {x}], {i})", (*shape[:i], "3", *shape[i:]))
    return True


@statement(2)
def halves(body: Body) -> bool:
    x, shape = _one(body, 1)
    places = [
        i for i, size in enumerate(shape) if size.isdigit() and int(size) % 2 == 0
    ]
    if not places:
        return False
    i = body.draw.choice(places)
    a, b = body.fresh(), body.fresh()
    body.lines.append(
        f"{a}, {b} = jnp.split({x}, 2, axis={body.draw.choice((i, i - len(shape)))})"
    )
    body.arrays[a] = body.arrays[b] = (
        *shape[:i],
        str(int(shape[i]) // 2),
        *shape[i + 1 :],
    )
    return True


@statement(3)
def unpacked(body: Body) -> bool:
    """Sizes by name."""
    x, shape = _one(body, 1)
    names = [body.fresh("n") for _ in shape]
    form = body.draw.choice(
        ("{} = {}.shape", "({}) = {}.shape", "[{}] = jnp.shape({})")
    )
    body.lines.append(
        form.format(", ".join(names) + ("," if len(names) == 1 else ""), x)
    )
    body.sizes = {**body.sizes, **dict(zip(shape, names, strict=True))}
    return True


@statement(2)
def created(body: Body) -> bool:
    _, shape = _one(body, 1)
    picked = tuple(body.draw.sample(shape, body.draw.randint(1, len(shape))))
    sizes = ", ".join(map(body.size, picked))
    ways = [
        (f"jnp.full(({sizes},), 0.5)", picked),
        (f"jnp.linspace(0, 1, {body.size(picked[0])})", picked[:1]),
    ]
    ways += [
        (
            f"jax.nn.one_hot(jnp.arange({body.size(picked[0])}), {body.size(picked[-1])})",
            (picked[0], picked[-1]),
        )
    ]
    ways += [(f"jnp.eye({body.size(picked[0])})", (picked[0], picked[0]))]
    ways += [
        (f"jnp.broadcast_to(0.5, ({sizes},))", picked),
        (f"jax.random.normal(jax.random.key(0), ({sizes},))", picked),
    ]
    body.let(*body.draw.choice(ways))
    return True
