"""Random programs of primitives and collectives over one or two mesh axes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

Op = Callable[..., Any]


@dataclass
class Program:
    """``steps`` are (operation, operands among the values so far, random numbers); those in ``skipped`` do not fit the
    shapes."""

    seed: int
    sizes: dict[str, int]
    shapes: list[tuple[int, ...]]
    specs: list[PartitionSpec]
    steps: list[tuple[str, tuple[int, ...], int]]
    gradient: bool = False
    skipped: set[int] = field(default_factory=set)
    settled: bool = False

    def body(self, *inputs: Any) -> list[Any]:
        """On a device: all values, in order."""
        values = list(inputs)
        for number, (name, operands, seed) in enumerate(self.steps):
            if number in self.skipped:
                continue
            rng = random.Random(seed)
            given = [values[i % len(values)] for i in operands]
            try:
                found = OPS[name](rng, tuple(self.sizes), *given)
            except Exception:
                if self.settled:
                    raise
                self.skipped.add(number)
                continue
            values.append(found)
        self.settled = True
        return [jnp.asarray(value, jnp.float32) for value in values[len(inputs) :]]

    def run(self, *inputs: Any) -> list[Any]:
        """All values of all devices, one device after another."""

        def on_device(*parts: Any) -> list[Any]:
            return [value[None] for value in self._results(*parts)]

        axes = tuple(self.sizes)
        mapped = jax.shard_map(
            on_device,
            mesh=self.mesh,
            in_specs=tuple(self.specs),
            out_specs=PartitionSpec(axes),
            check_vma=False,
        )
        return list(mapped(*inputs))

    def _results(self, *parts: Any) -> list[Any]:
        if not self.gradient:
            return self.body(*parts)

        def loss(*given: Any) -> Any:
            return sum(jnp.sum(value) for value in self.body(*given)[-2:])

        return [
            *self.body(*parts),
            *jax.grad(loss, argnums=tuple(range(len(parts))))(*parts),
        ]

    mesh: Any = None

    def __str__(self) -> str:
        steps = [
            f"{n}{o}" for i, (n, o, _) in enumerate(self.steps) if i not in self.skipped
        ]
        return f"seed {self.seed} {self.sizes} {self.shapes} {self.specs} {'grad ' if self.gradient else ''}{steps}"


def drawn(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    sizes = rng.choice(
        [{"t": 2}, {"t": 4}, {"d": 2, "t": 2}, {"d": 2, "t": 4}, {"d": 4, "t": 2}]
    )
    shapes, specs = [], []
    for _ in range(rng.randint(1, 3)):
        shape = tuple(rng.choice([8, 8, 8, 16]) for _ in range(rng.randint(1, 3)))
        places: list[list[str]] = [[] for _ in shape]
        for axis in rng.sample(list(sizes), len(sizes)):
            if rng.random() < 0.6:
                places[rng.randrange(len(shape))].append(axis)
        shapes.append(shape)
        specs.append(PartitionSpec(*(tuple(place) or None for place in places)))
    names = rng.choices(
        list(OPS), [WEIGHTS.get(name, 1) for name in OPS], k=rng.randint(3, 9)
    )
    count = len(shapes)
    steps = []
    for number, name in enumerate(names):
        # Most operations take the latest values, so that programs are deep.
        latest = count + number - 1
        operands = tuple(
            latest if rng.random() < 0.6 else rng.randrange(64) for _ in range(2)
        )
        steps.append((name, operands, rng.randrange(1 << 30)))
    mesh = AbstractMesh(
        tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes)
    )
    return Program(seed, sizes, shapes, specs, steps, rng.random() < 0.25, mesh=mesh)


def _axis(rng: random.Random, axes: tuple[str, ...]) -> Any:
    return (
        rng.choice([*axes, rng.choice(axes), axes, tuple(reversed(axes))])
        if len(axes) > 1
        else axes[0]
    )


def _dim(rng: random.Random, x: Any) -> int:
    if not x.ndim:
        raise ValueError
    return rng.randrange(x.ndim)


def _scan(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    how = rng.randrange(4)
    axis = _axis(rng, axes)

    def round_(carry: Any, row: Any) -> Any:
        if how == 0:
            carry = carry + row
        elif how == 1:
            carry = jnp.tanh(carry * row)
        elif how == 2:
            carry = carry + lax.psum(row, axis)
        else:
            carry = lax.pmean(carry, axis) + row
        return carry, carry * 2.0

    start = jnp.zeros(x.shape[1:]) if rng.random() < 0.5 else x[0]
    return rng.choice(lax.scan(round_, start, x))


def _while(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    axis = _axis(rng, axes)
    uses = rng.random() < 0.5
    return lax.fori_loop(
        0, 3, lambda i, z: z * 0.5 + (lax.psum(z, axis) if uses else x), x
    )


def _reshape(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    how = rng.randrange(4)
    if how == 0:
        return x.reshape(-1)
    dim = _dim(rng, x)
    if how == 1:
        return x.reshape(
            *x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :]
        )
    if how == 2:
        return x.reshape(*x.shape[:dim], 2, x.shape[dim] // 2, *x.shape[dim + 1 :])
    return x.reshape(*x.shape[:dim], x.shape[dim] // 2, 2, *x.shape[dim + 1 :])


def _dot(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    pairs = [
        (i, j) for i in range(x.ndim) for j in range(y.ndim) if x.shape[i] == y.shape[j]
    ]
    i, j = rng.choice(pairs)
    batch = [(a, b) for a, b in pairs if a != i and b != j]
    numbers: Any = (((i,), (j,)), ((), ()))
    if batch and rng.random() < 0.4:
        a, b = rng.choice(batch)
        numbers = (((i,), (j,)), ((a,), (b,)))
    found = lax.dot_general(x, y, numbers)
    return found if found.ndim <= 3 else found.sum(-1)


def _two(function: Op) -> Op:
    def op(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
        found = function(x, y)
        if found.ndim > 3:
            raise ValueError
        return found

    return op


def _one(function: Op) -> Op:
    return lambda rng, axes, x, y: function(x)


def _along(function: Op) -> Op:
    return lambda rng, axes, x, y: function(x, _dim(rng, x))


def _over(function: Op) -> Op:
    return lambda rng, axes, x, y: function(x, _axis(rng, axes))


def _place(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """A slice of what the device has, at a place of its own."""
    axis, dim = _axis(rng, axes), _dim(rng, x)
    size = x.shape[dim] // lax.axis_size(axis)
    return lax.dynamic_slice_in_dim(x, lax.axis_index(axis) * size, size, dim)


def _lookup(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Rows of a sharded table, masked; sometimes wrongly."""
    axis = rng.choice(axes)
    ids = (jnp.abs(y.reshape(-1)[:4]) * 7).astype(jnp.int32) % 16
    rows = x.shape[0]
    local = ids - lax.axis_index(axis) * rows
    inside = (local >= 0) & (local < rows)
    if rng.random() < 0.2:
        inside = (local > 0) & (local < rows)
    found = x[jnp.where(inside, local, 0)]
    mask = inside.reshape(inside.shape + (1,) * (found.ndim - 1))
    if rng.random() < 0.15:
        return found
    return jnp.where(mask, found, 0.0)


def _shifted(x: Any, axis: Any, by: int, round_trip: bool = True) -> Any:
    """What the device ``by`` places before has."""
    count = lax.axis_size(axis)
    pairs = [(i, i + by) for i in range(count)]
    kept = pairs if round_trip else [(i, j) for i, j in pairs if 0 <= j < count]
    return lax.ppermute(x, axis, [(i, j % count) for i, j in kept])


def _halo(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Each entry and its neighbours, those of other devices too; sometimes wrongly."""
    axis, dim = rng.choice(axes), _dim(rng, x)
    size, wrong = x.shape[dim], rng.random() < 0.2
    around = rng.random() < 0.5
    last = lax.slice_in_dim(x, size - 1, size, axis=dim)
    first = lax.slice_in_dim(x, 0, 1, axis=dim)
    before, after = (
        _shifted(last, axis, -1 if wrong else 1, around),
        _shifted(first, axis, -1, around),
    )
    padded = jnp.concatenate([before, x, after], dim)
    pieces = [lax.slice_in_dim(padded, k, k + size, axis=dim) for k in range(3)]
    return pieces[0] * 0.5 + pieces[1] * pieces[2]


def _ring(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """What each block of another array adds, as it comes round; sometimes a round is missing, or in another order."""
    axis = rng.choice(axes)
    count, me = lax.axis_size(axis), lax.axis_index(axis)
    by = rng.choice([1, 1, -1])
    rounds = count - (1 if rng.random() < 0.15 and count > 1 else 0)
    how = rng.choice(["sum", "softmax", "causal", "places", "largest"])
    rows, other = x.reshape(x.shape[0], -1), y.reshape(y.shape[0], -1)
    width = min(rows.shape[1], other.shape[1])
    rows, other = rows[:, :width], other[:, :width]

    def visit(carry: Any, step: Any) -> Any:
        block, peak, total, mixed = carry
        scores = rows @ block.T
        source = (me - by * step) % count
        columns = source * block.shape[0] + jnp.arange(block.shape[0])
        if how == "causal":
            mine = me * rows.shape[0] + jnp.arange(rows.shape[0])
            scores = jnp.where(mine[:, None] >= columns[None], scores, -1e9)
        if how == "places":
            scores = scores * columns.astype(jnp.float32)
        if how in ("sum", "places"):
            return (
                _shifted(block, axis, by),
                peak,
                total,
                mixed + scores @ block,
            ), None
        upper = jnp.maximum(peak, scores.max(1))
        if how == "largest":
            return (
                _shifted(block, axis, by),
                upper,
                total,
                mixed + upper[:, None],
            ), None
        weights, shrink = jnp.exp(scores - upper[:, None]), jnp.exp(peak - upper)
        total = total * shrink + weights.sum(1)
        return (
            _shifted(block, axis, by),
            upper,
            total,
            mixed * shrink[:, None] + weights @ block,
        ), None

    start = (
        other,
        jnp.full(rows.shape[:1], -1e9),
        jnp.zeros(rows.shape[:1]),
        jnp.zeros_like(rows),
    )
    (_, _, total, mixed), _ = lax.scan(visit, start, jnp.arange(rounds))
    return mixed / total[:, None] if how in ("softmax", "causal") else mixed


def _pipeline(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Stages on the devices of an axis, rows of ``x`` as micro-batches; sometimes a tick is missing."""
    axis = rng.choice(axes)
    count, me, parts = lax.axis_size(axis), lax.axis_index(axis), x.shape[0]
    ticks = parts + count - 1 - (1 if rng.random() < 0.15 and count > 1 else 0)
    weight = y.reshape(-1)[0]

    def tick(carry: Any, step: Any) -> Any:
        held, total = carry
        fed = jnp.where(me == 0, x[jnp.minimum(step, parts - 1)], held)
        made = jnp.tanh(fed * weight)
        done = (me == count - 1) & (step >= count - 1)
        total = total + jnp.where(done, made, 0.0)
        return (_shifted(made, axis, 1, False), total), None

    (_, total), _ = lax.scan(
        tick, (jnp.zeros_like(x[0]), jnp.zeros_like(x[0])), jnp.arange(ticks)
    )
    return lax.psum(total, axis) if rng.random() < 0.8 else total


def _prefix(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Running totals along a dimension that devices share; sometimes a device counts itself among the earlier ones."""
    axis, dim = rng.choice(axes), _dim(rng, x)
    local = jnp.cumsum(x, dim)
    size = x.shape[dim]
    totals = lax.all_gather(lax.slice_in_dim(local, size - 1, size, axis=dim), axis)
    numbers = jnp.arange(totals.shape[0])
    earlier = numbers < lax.axis_index(axis) + (1 if rng.random() < 0.2 else 0)
    mask = earlier.reshape(-1, *(1,) * x.ndim)
    return local + jnp.where(mask, totals, 0.0).sum(0)


def _placed(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Blocks written at places of the device's own, into what all devices then add up."""
    axis, dim = rng.choice(axes), _dim(rng, x)
    size = x.shape[dim]
    shape = [n * lax.axis_size(axis) if d == dim else n for d, n in enumerate(x.shape)]
    at = lax.axis_index(axis) * size + (1 if rng.random() < 0.1 else 0)
    whole = lax.dynamic_update_slice_in_dim(jnp.zeros(shape), x, at, dim)
    return lax.psum(whole, axis) if rng.random() < 0.7 else whole


def _handed_on(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """An exchange without tiles, and back; sometimes along another dimension."""
    axis, dim = rng.choice(axes), _dim(rng, x)
    count = lax.axis_size(axis)
    apart = x.reshape(*x.shape[:dim], count, x.shape[dim] // count, *x.shape[dim + 1 :])
    sent = jnp.tanh(lax.all_to_all(apart, axis, dim, 0))
    back = lax.all_to_all(sent, axis, 0, dim if rng.random() < 0.8 else 0)
    return back.reshape(x.shape)


def _bins(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """How often numbers fall into bins."""
    places = jnp.clip((x.reshape(-1) * 2.0 + 4.0).astype(jnp.int32), 0, 7)
    counts = (
        jnp.zeros((8,)).at[places].add(1.0 if rng.random() < 0.5 else x.reshape(-1))
    )
    return lax.psum(counts, rng.choice(axes)) if rng.random() < 0.7 else counts


def _own_numbers(rng: random.Random, axes: tuple[str, ...], x: Any, y: Any) -> Any:
    """Random numbers with a key for each device, or one for all."""
    key = jax.random.key(rng.randrange(3))
    if rng.random() < 0.5:
        key = jax.random.fold_in(key, lax.axis_index(rng.choice(axes)))
    return x * jax.random.bernoulli(key, 0.5, x.shape)


OPS: dict[str, Op] = {
    "tanh": _one(jnp.tanh),
    "exp": _one(lambda x: jnp.exp(-jnp.abs(x))),
    "scale": lambda rng, axes, x, y: x * rng.choice([2.0, 0.5, -1.0, 3.0]),
    "shift": lambda rng, axes, x, y: x + rng.choice([1.0, -0.5]),
    "abs": _one(jnp.abs),
    "square": _one(jnp.square),
    "root": _one(lambda x: jnp.sqrt(jnp.abs(x))),
    "inverse_root": _one(lambda x: lax.rsqrt(1.0 + x * x)),
    "relu": _one(jax.nn.relu),
    "sign": _one(jnp.sign),
    "floor": _one(lambda x: jnp.floor(x * 3.0)),
    "int": _one(lambda x: (x * 3.0).astype(jnp.int32).astype(jnp.float32)),
    "sum": _along(lambda x, dim: jnp.sum(x, dim)),
    "sum_kept": _along(
        lambda x, dim: jnp.sum(x, dim, keepdims=True) + jnp.zeros_like(x)
    ),
    "mean": _along(lambda x, dim: jnp.mean(x, dim)),
    "var": _along(lambda x, dim: jnp.var(x, dim)),
    "max": _along(lambda x, dim: jnp.max(x, dim)),
    "min": _along(lambda x, dim: jnp.min(x, dim)),
    "total": _one(jnp.sum),
    "average": _one(jnp.mean),
    "argmax": _along(lambda x, dim: jnp.argmax(x, dim).astype(jnp.float32)),
    "softmax": _along(lambda x, dim: jax.nn.softmax(x, dim)),
    "cumsum": _along(lambda x, dim: jnp.cumsum(x, dim)),
    "cummax": _along(lambda x, dim: lax.cummax(x, dim)),
    "sort": _along(lambda x, dim: jnp.sort(x, dim)),
    "top": _one(lambda x: lax.top_k(x, 2)[0]),
    "flip": _along(lambda x, dim: jnp.flip(x, dim)),
    "roll": _along(lambda x, dim: jnp.roll(x, 1, dim)),
    "transpose": _one(lambda x: x.T),
    "swap": _one(lambda x: jnp.swapaxes(x, 0, 1)),
    "reshape": _reshape,
    "halve": _along(lambda x, dim: lax.slice_in_dim(x, 0, x.shape[dim] // 2, axis=dim)),
    "second": _along(lambda x, dim: lax.index_in_dim(x, 1, dim, keepdims=False)),
    "strided": _along(lambda x, dim: lax.slice_in_dim(x, 0, x.shape[dim], 2, axis=dim)),
    "pad": _along(
        lambda x, dim: jnp.pad(
            x, [(1, 1) if i == dim else (0, 0) for i in range(x.ndim)]
        )
    ),
    "pad_ones": _along(
        lambda x, dim: jnp.pad(
            x,
            [(0, 2) if i == dim else (0, 0) for i in range(x.ndim)],
            constant_values=1,
        )
    ),
    "double": _along(lambda x, dim: jnp.concatenate([x, x], dim)),
    "with_zeros": _along(lambda x, dim: jnp.concatenate([x, jnp.zeros_like(x)], dim)),
    "repeat": lambda rng, axes, x, y: (
        jnp.broadcast_to(x[None], (rng.choice([2, 8]), *x.shape)) if x.ndim < 3 else x
    ),
    "by_size": _along(lambda x, dim: x / x.shape[dim]),
    "times_size": _along(lambda x, dim: x * x.shape[dim]),
    "by_root": _along(lambda x, dim: x / np.sqrt(x.shape[dim])),
    "by_devices": _over(lambda x, axis: x / lax.axis_size(axis)),
    "times_devices": _over(lambda x, axis: x * lax.axis_size(axis)),
    "positions": _along(
        lambda x, dim: x + lax.broadcasted_iota(jnp.float32, x.shape, dim)
    ),
    "own_positions": lambda rng, axes, x, y: (
        lambda axis, dim: (
            x
            + lax.broadcasted_iota(jnp.float32, x.shape, dim)
            + lax.axis_index(axis) * float(x.shape[dim])
        )
    )(_axis(rng, axes), _dim(rng, x)),
    "add_index": _over(lambda x, axis: x + lax.axis_index(axis)),
    "on_first": _over(lambda x, axis: jnp.where(lax.axis_index(axis) == 0, x, 0.0)),
    "on_last": _over(
        lambda x, axis: jnp.where(
            lax.axis_index(axis) == lax.axis_size(axis) - 1, x, 0.0
        )
    ),
    "by_index": _over(lambda x, axis: jnp.where(lax.axis_index(axis) > 0, x, x * 2)),
    "triangle": _one(lambda x: jnp.tril(x)),
    "ones": _one(lambda x: jnp.ones_like(x)),
    "zeros": _one(lambda x: jnp.zeros_like(x)),
    "zero_sum": _two(lambda x, y: jnp.zeros_like(x) + x),
    "psum": _over(lambda x, axis: lax.psum(x, axis)),
    "pmean": _over(lambda x, axis: lax.pmean(x, axis)),
    "pmax": _over(lambda x, axis: lax.pmax(lax.stop_gradient(x), axis)),
    "pmin": _over(lambda x, axis: lax.pmin(lax.stop_gradient(x), axis)),
    "all_gather": lambda rng, axes, x, y: lax.all_gather(
        x, _axis(rng, axes), axis=_dim(rng, x), tiled=True
    ),
    "gather_untiled": lambda rng, axes, x, y: lax.all_gather(x, _axis(rng, axes)).sum(
        0
    ),
    "psum_scatter": lambda rng, axes, x, y: lax.psum_scatter(
        x, _axis(rng, axes), scatter_dimension=_dim(rng, x), tiled=True
    ),
    "all_to_all": lambda rng, axes, x, y: lax.all_to_all(
        x, _axis(rng, axes), _dim(rng, x), _dim(rng, x), tiled=True
    ),
    "ring": lambda rng, axes, x, y: (
        lambda axis, n: lax.ppermute(x, axis, [(i, (i + 1) % n) for i in range(n)])
    )(axes[-1], lax.axis_size(axes[-1])),
    "add": _two(lambda x, y: x + y),
    "sub": _two(lambda x, y: x - y),
    "mul": _two(lambda x, y: x * y),
    "div": _two(lambda x, y: x / (1.0 + y * y)),
    "maximum": _two(jnp.maximum),
    "where": _two(lambda x, y: jnp.where(x > 0, x, y)),
    "where_zero": _two(lambda x, y: jnp.where(y > 0, x, 0.0)),
    "compare": _two(lambda x, y: (x > y).astype(jnp.float32)),
    "count": _along(lambda x, dim: jnp.sum(x > 0, dim).astype(jnp.float32)),
    "any": _along(lambda x, dim: jnp.any(x > 1.0, dim).astype(jnp.float32)),
    "all": _along(lambda x, dim: jnp.all(x > -1.0, dim).astype(jnp.float32)),
    "prod": _along(lambda x, dim: jnp.prod(x, dim)),
    "logsumexp": _along(lambda x, dim: jax.nn.logsumexp(x, dim)),
    "outer": _two(lambda x, y: x.reshape(-1)[:4, None] * y.reshape(-1)[None, :4]),
    "dot": _dot,
    "take": _two(
        lambda x, y: x[(jnp.abs(y.reshape(-1)[:4]) * 5).astype(jnp.int32) % x.shape[0]]
    ),
    "take_along": _along(
        lambda x, dim: jnp.take_along_axis(x, jnp.argsort(x, dim), dim)
    ),
    "one_hot": _two(
        lambda x, y: jax.nn.one_hot(
            (jnp.abs(x.reshape(-1)[:8]) * 5).astype(jnp.int32), 8
        )
    ),
    "scatter": _two(
        lambda x, y: (
            jnp.zeros((8, *y.shape[1:]))
            .at[(jnp.abs(x.reshape(-1)[: y.shape[0]]) * 5).astype(jnp.int32) % 8]
            .add(y)
        )
    ),
    "update": _two(lambda x, y: lax.dynamic_update_slice_in_dim(x, y, 0, 0)),
    "place": _place,
    "halo": _halo,
    "round": _ring,
    "pipeline": _pipeline,
    "prefix": _prefix,
    "placed": _placed,
    "handed_on": _handed_on,
    "bins": _bins,
    "own_numbers": _own_numbers,
    "one_hot_own": lambda rng, axes, x, y: (
        lambda axis: jax.nn.one_hot(
            (jnp.abs(x.reshape(-1)[:8]) * 5).astype(jnp.int32)
            - lax.axis_index(axis) * 4,
            rng.choice([4, 4, 3]),
        )
    )(rng.choice(axes)),
    "lookup": _lookup,
    "scan": _scan,
    "while": _while,
    "cond": lambda rng, axes, x, y: lax.cond(
        jnp.sum(y) > 0, lambda z: z * 2, lambda z: z + 1, x
    ),
    "remat": lambda rng, axes, x, y: jax.checkpoint(lambda z: jnp.tanh(z) * z)(x),
    "random": _one(lambda x: x + jax.random.normal(jax.random.key(0), x.shape)),
    "stop": _one(lax.stop_gradient),
}
WEIGHTS = {
    "psum": 5,
    "pmean": 3,
    "all_gather": 4,
    "psum_scatter": 4,
    "all_to_all": 4,
    "dot": 6,
    "add": 4,
    "mul": 3,
    "sum": 3,
    "reshape": 3,
    "lookup": 3,
    "scan": 2,
    "halo": 3,
    "round": 3,
    "pipeline": 2,
    "prefix": 3,
    "placed": 2,
    "handed_on": 2,
}
