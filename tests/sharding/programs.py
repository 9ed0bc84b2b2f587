"""Small random programs in the manual view: their statements, what the engine says of them, what devices compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import einops
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from shardlint.engine import run
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.values import ArrayValue, Value

MESH = {"d": 2, "t": 4}
SIZES = {"B": 16, "M": 24, "F": 40}
PARAMETERS = {
    "x": "B/d M", "y": "B M/t", "w": "M F/t", "u": "F/t M", "m": "M/t/d", "z": "M", "q": "B/d/t F", "v": "M/d F",
    "k": "F M/t",
}  # fmt: skip

_ONE = [
    "jnp.tanh({a})", "-{a}", "{a} * 2.0", "{a} + 1.0", "jnp.exp({a} * 0.1)", "jnp.square({a})", "{a} ** 2", "{a}.T",
    "{a}[0]", "{a}[:, 0]", "{a}[1:3]", "{a}[..., :2]", "{a}[None]", "{a}[::-1]", "jnp.sum({a}, axis=0)",
    "jnp.sum({a}, axis=-1)", "jnp.sum({a})", "jnp.mean({a}, axis=-1, keepdims=True)", "jnp.mean({a}, axis=0)",
    "jnp.max({a}, axis=-1, keepdims=True)", "jnp.min({a}, axis=0)", "jnp.var({a}, axis=-1)",
    "jax.nn.softmax({a}, axis=-1)", "jax.nn.softmax({a}, axis=0)", "jnp.cumsum({a}, axis=0)",
    "jnp.cumsum({a}, axis=-1)", "{a}.reshape(-1)", "{a}.reshape({a}.shape[0] * {a}.shape[1])",
    "{a}.reshape({a}.shape[0], 2, -1)", "{a}.reshape(2, -1)", "jnp.expand_dims({a}, 1)", "jnp.flip({a}, axis=0)",
    "jnp.roll({a}, 1, axis=-1)", "jnp.stack([{a}, {a}])", "jnp.concatenate([{a}, {a}], axis=-1)",
    "jnp.concatenate([{a}, -{a}], axis=0)", "jnp.where({a} > 1.0, {a}, 0.0)", "jnp.sort({a}, axis=-1)",
    "{a}.astype(jnp.int32)", "jnp.argmax({a}, axis=-1)", "jnp.take({a}, jnp.array([0, 1]), axis=0)",
    "jnp.take({a}, jnp.array([0, 1]), axis=-1)", "lax.dynamic_slice_in_dim({a}, 0, 2, axis=0)",
    "{a}.at[0].set(1.0)", "{a}.at[:, 0].multiply(2.0)", "jnp.swapaxes({a}, 0, 1)", "jnp.moveaxis({a}, 0, -1)",
    "jnp.squeeze({a}[None], 0)", "jnp.split({a}, 2, axis=-1)[0]", "jnp.broadcast_to({a}, (2, *{a}.shape))",
    "jnp.zeros_like({a}) + {a}", "jax.nn.relu({a})", "jnp.logical_not({a} > 0.5)", "jnp.tril({a})", "{a} / 3.0",
    "jax.nn.one_hot({a}[0].astype(jnp.int32), 3)", "jnp.prod({a} * 0.1 + 0.9, axis=-1)", "jnp.abs({a})",
    "jax.nn.logsumexp({a}, axis=-1)", "jnp.linalg.norm({a}, axis=-1)", "jnp.maximum({a}, 0.5)",
    "jnp.einsum('ij->j', {a})", "jnp.einsum('ij->ji', {a})", "jnp.any({a} > 1.2, axis=0)",
    "einops.rearrange({a}, 'a b -> b a')", "einops.rearrange({a}, 'a (b c) -> a c b', c=2)",
    "einops.rearrange({a}, 'a b -> (a b)')", "einops.repeat({a}, 'a b -> a b c', c=2)",
    "einops.rearrange({a}, '(a c) b -> a c b', c=2)", "jnp.pad({a}, ((0, 0), (1, 0)))",
    "jnp.tile({a}, (1, 2))", "jnp.tile({a}, 2)", "jnp.tile({a}, (2, 1, 1))", "jnp.repeat({a}, 2, axis=0)",
    "jnp.repeat({a}, 2, axis=-1)", "jnp.repeat({a}, 2)", "jnp.roll({a}, 1, axis=0)", "jnp.roll({a}, 2)",
    "jnp.flip({a})", "jnp.cumprod({a} * 0.1 + 0.9, axis=0)", "jnp.argmin({a}, axis=0)", "jnp.argsort({a}, axis=-1)",
    "jnp.sort({a}, axis=0)", "lax.top_k({a}, 2)[0]", "lax.top_k({a}, 2)[1]", "lax.cumsum({a}, axis=1)",
    "lax.cummax({a}, axis=0)", "lax.sort({a}, dimension=0)", "jnp.diff({a}, axis=-1)", "jnp.trace({a})",
    "jnp.diagonal({a})", "jnp.median({a}, axis=0)", "jnp.average({a}, axis=0)", "jnp.clip({a}, 0.0, 1.0)",
    "jnp.std({a}, axis=0)", "jax.nn.log_softmax({a}, axis=0)", "jnp.count_nonzero({a} > 0.5, axis=0)",
    "lax.conv({a}[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), 'SAME')[0, 0]", "jnp.convolve({a}[0], jnp.ones(3))",
    "lax.scan(lambda c, r: (c + r, c * 2.0), jnp.zeros_like({a}[0]), {a})[0]",
    "lax.scan(lambda c, r: (c + r, c * 2.0), jnp.zeros_like({a}[0]), {a})[1]",
    "lax.scan(lambda c, r: (c, jnp.sum(r)), 0.0, {a})[1]", "lax.fori_loop(0, 3, lambda i, v: v * 0.5 + 1.0, {a})",
    "jax.vmap(jnp.tanh)({a})", "jax.vmap(jnp.sum)({a})", "jax.vmap(jnp.sum, in_axes=-1)({a})",
    "jax.vmap(lambda v: lax.psum(v, 'd'))({a})", "jax.vmap(lambda v: v - lax.pmean(v, 'i'), axis_name='i')({a})",
    "jax.vmap(lambda v: v * lax.axis_index('d'))({a})", "jax.vmap(jnp.flip, in_axes=1, out_axes=1)({a})",
    "{a}[jnp.array([1, 0])]", "{a}[:, jnp.array([0, 1])]", "{a}.at[jnp.array([0, 1])].add(1.0)",
    "lax.dynamic_update_slice_in_dim({a}, {a}[:1] * 2.0, 0, axis=0)", "lax.dynamic_slice({a}, (0, 0), (1, 2))",
    "jax.ops.segment_sum({a}, jnp.arange({a}.shape[0]) % 2, 2)", "jax.grad(lambda v: jnp.sum(v * v))({a})",
    "jax.value_and_grad(lambda v: jnp.mean(jnp.tanh(v)))({a})[0]", "jnp.linalg.norm({a})", "jnp.linalg.qr({a})[1]",
    "jnp.linalg.det({a} @ {a}.T)", "jnp.rot90({a})", "lax.rev({a}, (1,))", "jax.checkpoint(jnp.tanh)({a})",
]  # fmt: skip
_TWO = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1.5 + jnp.abs({b}))", "{a} @ {b}", "{a} @ {b}.T",
    "jnp.einsum('ij,jk->ik', {a}, {b})", "jnp.einsum('ij,kj->ik', {a}, {b})", "jnp.einsum('ij,ij->i', {a}, {b})",
    "jnp.einsum('ij,ij->', {a}, {b})", "jnp.einsum('ij,j->ij', {a}, {b})", "jnp.einsum('ij,j->i', {a}, {b})",
    "jnp.maximum({a}, {b})", "jnp.where({a} > {b}, {a}, {b})", "{a}[..., None] * {b}", "{a} + {b}[None]",
    "jnp.concatenate([{a}, {b}], axis=0)", "jnp.stack([{a}, {b}], axis=1)", "jnp.dot({a}, {b})",
    "jnp.take({a}, {b}.astype(jnp.int32) % 3, axis=-1)", "{a}.at[0].add({b}[0])", "jnp.outer({a}[0], {b}[0])",
    "jnp.zeros((4, 3)).at[{a}.astype(jnp.int32) % 4, {b}.astype(jnp.int32) % 3].add(1.0)",
    "jnp.take_along_axis({a}, {b}.astype(jnp.int32) % 2, axis=-1)", "jnp.vdot({a}, {b})", "jnp.minimum({a}, {b})",
    "jnp.tensordot({a}, {b}, 1)", "lax.dot_general({a}, {b}, (((1,), (0,)), ((), ())))", "jnp.inner({a}, {b})",
    "jnp.hstack([{a}, {b}])", "jnp.vstack([{a}, {b}])", "jnp.where({a} > 0.0, {b}, 0.0)",
    "jnp.einsum('ij,ik->jk', {a}, {b})", "{a}.at[:2].set({b}[:2])", "{a}.at[{b}[:, 0].astype(jnp.int32) % 2].add(1.0)",
    "jax.vmap(lambda v: v @ {b})({a})", "jax.vmap(lambda v: v * {b}, in_axes=1, out_axes=1)({a})",
    "jax.vmap(lambda v, w: v * w)({a}, {b})", "jax.vmap(jnp.dot, in_axes=(0, None))({a}, {b})",
    "lax.fori_loop(0, 3, lambda i, v: v + {b}, {a})", "lax.scan(lambda c, r: (c * 0.5 + r, c), {b}[0], {a})[0]",
    "lax.cond(True, lambda: {a}, lambda: {b})",
]  # fmt: skip
_COLLECTIVES = [
    "lax.psum({a}, '{i}')", "lax.psum({a}, '{i}')", "lax.psum({a}, ('d', 't'))", "lax.pmean({a}, '{i}')",
    "lax.pmax({a}, '{i}')", "lax.pmin({a}, ('t', 'd'))", "lax.all_gather({a}, '{i}', axis=0, tiled=True)",
    "lax.all_gather({a}, '{i}', axis=1, tiled=True)", "lax.all_gather({a}, '{i}')",
    "lax.all_gather({a}, ('t', 'd'), axis=0, tiled=True)", "lax.all_gather({a}, ('d', 't'), axis=0, tiled=True)",
    "lax.psum_scatter({a}, '{i}', scatter_dimension=0, tiled=True)",
    "lax.psum_scatter({a}, '{i}', scatter_dimension=1, tiled=True)",
    "lax.all_to_all({a}, '{i}', 0, 1, tiled=True)", "lax.all_to_all({a}, '{i}', 1, 0, tiled=True)",
    "lax.ppermute({a}, '{i}', [(n, (n + 1) % lax.axis_size('{i}')) for n in range(lax.axis_size('{i}'))])",
    "lax.pmax({a}, '{i}')", "lax.all_gather({a}, '{i}', axis=-1, tiled=True)", "lax.all_gather({a}, '{i}', axis=-1)",
    "lax.psum_scatter({a}[:4], 't')",
    "lax.psum_scatter({a}, ('d', 't'), scatter_dimension=0, tiled=True)",
    "lax.psum_scatter({a}, ('t', 'd'), scatter_dimension=1, tiled=True)",
    "lax.all_to_all({a}, ('d', 't'), 0, 1, tiled=True)", "lax.all_to_all({a}[:4], 't', 0, 0)",
    "lax.all_to_all({a}[:, :2], 'd', 1, 0)", "lax.pcast({a}, '{i}', to='varying')",
    "lax.pshuffle({a}, '{i}', list(range(lax.axis_size('{i}')))[::-1])",
    "lax.psum({a}, 't', axis_index_groups=[[0, 1], [2, 3]] if lax.axis_size('t') == 4 else None)",
    "lax.all_gather({a}, 't', axis_index_groups=[[0, 1], [2, 3]] if lax.axis_size('t') == 4 else None, tiled=True)",
    "lax.psum({a} / lax.axis_size('{i}'), '{i}')", "lax.pmean({a} * lax.axis_size('{i}'), '{i}')",
    "lax.pmean({a}, '{i}') * lax.axis_size('{i}')", "lax.psum({a}, '{i}') / lax.axis_size('{i}')",
    "lax.psum({a} + {b}, '{i}')", "lax.psum({a} * {b}, '{i}')", "lax.psum((({a}, {b})), '{i}')[0]",
    "{a} * lax.axis_index('{i}')",
    "jnp.where(lax.axis_index('{i}') == 0, {a}, 0.0)",
]  # fmt: skip
_TEMPLATES = (*_ONE, *_TWO, *_COLLECTIVES, *_COLLECTIVES)

_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_REFUSED = (
    TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, AssertionError, einops.EinopsError,
)  # fmt: skip
Statement = tuple[str, int, int, str]


@st.composite
def programs(draw: st.DrawFn) -> list[Statement]:
    """Templates with their operands, counted back from the newest variable."""
    operand = st.integers(0, 11)
    statement = st.tuples(st.sampled_from(_TEMPLATES), operand, operand, st.sampled_from(sorted(MESH)))
    return draw(st.lists(statement, min_size=2, max_size=7))


@dataclass
class Program:
    """One program: the statements that JAX accepts on eight devices, by variable."""

    statements: list[Statement]
    lines: dict[str, str] = field(default_factory=dict)

    def run(self, values: dict[str, Any]) -> dict[str, Any]:
        """All variables. On the first run statements that fail are dropped; later runs repeat what is left."""
        env = {"jnp": jnp, "jax": jax, "lax": lax, "einops": einops, **values}
        made = {}
        if self.lines:
            for name, text in self.lines.items():
                try:
                    made[name] = env[name] = eval(text, env)
                except (NameError, *_REFUSED):
                    continue  # sizes that agree by chance on eight devices do not on one
            return made
        for number, (template, i, k, axis) in enumerate(self.statements):
            names = [*reversed(made), *values]
            if template in _COLLECTIVES and env[names[i % len(names)]].dtype == bool:
                continue  # JAX traces what its compiler then refuses
            text = template.format(a=names[i % len(names)], b=names[k % len(names)], i=axis)
            try:
                value = eval(text, env)
            except _REFUSED:
                continue
            name = f"v{number}"
            made[name] = env[name] = value
            self.lines[name] = text
        return made

    def counts_devices(self, name: str) -> bool:
        """Whether a variable depends on the number of devices, so that one device computes another value."""
        text = self.lines.get(name, "")
        scaled = any(f"{sign} lax.axis_size" in text for sign in "*/")
        return scaled or any(self.counts_devices(other) for other in re.findall(r"\bv\d+\b", text))

    def source(self) -> str:
        params = ", ".join(f"{name}: f32['{spec}']" for name, spec in PARAMETERS.items())
        body = "".join(f"    {name} = {text}\n" for name, text in self.lines.items())
        return (
            "import einops\nimport jax\nimport jax.numpy as jnp\nfrom jax import lax\n"
            "from shardtypes import f32, typed_shard_map\n\n"
            f"@typed_shard_map\ndef f({params}):\n{body or '    pass'}\n"
        )


@dataclass(frozen=True)
class Settings:
    """What the engine reads of a configuration."""

    mesh: dict[str, int | None] = field(default_factory=lambda: dict(MESH))
    logical_rules: tuple[Any, ...] = ()


def opinion(program: Program) -> tuple[dict[str, Value], list[Event]]:
    """What the engine says of every variable, and what it reports."""
    module = lower(program.source().encode(), "m", "m.py").module
    analysis = run(Project({"m": module}), module, Settings())
    seen = {name: value for (_, name), (_, value) in sorted(analysis.it.seen.items()) if name in program.lines}
    return seen, analysis.found()


def mesh(d: int, t: int) -> Mesh:
    return Mesh(np.array(jax.devices()[: d * t]).reshape(d, t), ("d", "t"))


def spec(shape: str) -> P:
    entries = []
    for word in shape.split():
        axes = word.split("/")[1:]
        entries.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
    return P(*entries)


def arguments() -> dict[str, jax.Array]:
    random = np.random.default_rng(0)
    return {
        name: jnp.asarray(random.uniform(-1.0, 1.5, [SIZES[w.split("/")[0]] for w in shape.split()]), jnp.float32)
        for name, shape in PARAMETERS.items()
    }


def locals_of(
    programs: Sequence[Program], on: Mesh, check_vma: bool, evaluate: Callable[..., Any] | None = None
) -> list[dict[str, Any]]:
    """Every variable of every program on every device, its two leading dimensions the mesh's."""

    def body(*values: jax.Array) -> list[dict[str, jax.Array]]:
        named = dict(zip(PARAMETERS, values, strict=True))
        return [
            {name: jnp.asarray(value)[None, None] for name, value in program.run(named).items()}
            for program in programs
        ]

    mapped = jax.shard_map(
        body, mesh=on, in_specs=tuple(spec(shape) for shape in PARAMETERS.values()), out_specs=P("d", "t"),
        check_vma=check_vma,
    )  # fmt: skip
    given = tuple(arguments().values())
    if evaluate is None:
        return [dict(made) for made in jax.device_get(jax.jit(mapped, compiler_options=_QUICK)(*given))]
    result: list[dict[str, Any]] = evaluate(mapped, *given)
    return result


trace = partial(locals_of, evaluate=jax.eval_shape)


def assembled(value: ArrayValue, parts: np.ndarray) -> np.ndarray | None:
    """The array that the engine says the parts make up; None where it does not say. Raises AssertionError where
    devices that should agree do not."""
    assert value.dims is not None
    names = ["d", "t"]
    for axis in ("t", "d"):
        place = names.index(axis)
        if axis in (a for dim in value.dims for a in dim.axes or ()):
            continue
        if axis in (value.pending or ()):
            parts = parts.mean(place) if (axis, "mean") in value.marks else parts.sum(place)
        else:
            first = parts.take([0], place)
            assert np.allclose(parts, first, rtol=1e-4, atol=1e-4), f"devices along {axis} differ"
            parts = first.squeeze(place)
        names.remove(axis)
    order: list[int] = []
    shape: list[int] = []
    for k, dim in enumerate(value.dims):
        axes = dim.axes or ()
        order += [*(names.index(axis) for axis in axes), len(names) + k]
        shape.append(parts.shape[len(names) + k] * int(np.prod([MESH[axis] for axis in axes])))
    return parts.transpose(order).reshape(shape)


def reported_lines(program: Program, found: Sequence[Event]) -> list[tuple[str, str]]:
    """(variable, code) of every finding, by the line that it is on."""
    source = program.source()
    positions = Positions(source.encode(), "m.py")
    rows = source.splitlines()
    return [(rows[positions.place(e.at).line - 1].split(" = ")[0].strip(), e.code) for e in found]


def right_in_some_way(parts: np.ndarray, alone: np.ndarray) -> bool:
    """Whether the devices' values make up what one device computes, whichever way they are put together."""
    ways: list[str | int] = ["same", "sum", "mean", *range(alone.ndim)]
    for inner, outer in product(ways, repeat=2):
        for given in (parts, parts.swapaxes(0, 1)):
            rows = [_put_together(list(row), inner) for row in given]
            known = [row for row in rows if row is not None]
            whole = _put_together(known, outer) if len(known) == len(rows) else None
            if whole is not None and whole.shape == alone.shape and np.allclose(whole, alone, rtol=1e-4, atol=1e-4):
                return True
    return False


def _put_together(parts: list[np.ndarray], way: str | int) -> np.ndarray | None:
    if isinstance(way, int):
        return np.concatenate(parts, axis=way) if way < parts[0].ndim else None
    if way == "same":
        return parts[0] if all(np.allclose(one, parts[0], rtol=1e-4, atol=1e-4) for one in parts) else None
    total: np.ndarray = np.sum(parts, axis=0)
    return total if way == "sum" else total / len(parts)


def claims(value: Value) -> bool:
    """Whether the engine says of every axis what the value is."""
    if not isinstance(value, ArrayValue) or not value.manual or value.dims is None:
        return False
    if any(dim.axes is None for dim in value.dims) or any(axis in value.unclear for axis in MESH):
        return False
    return not value.varying and not any(mark in ("offset", "local") for _, mark in value.marks)
