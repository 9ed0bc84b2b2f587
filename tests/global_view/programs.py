"""Small random programs on meshes with explicit axes: what the engine says of every line, and what JAX's types say."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import einops
import jax
import jax.numpy as jnp
import jax.scipy.integrate
import jax.scipy.stats
import optax
from hypothesis import strategies as st
from jax import lax
from jax._src.core import ShardingTypeError  # JAX has no public name for these two
from jax._src.named_sharding import DuplicateSpecError
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlint.engine import run
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.ops.sharding.explicit import placed
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.values import ArrayValue, Value

#: The one axis that is left to the compiler, where a mesh has it.
AUTOMATIC = "a"
MESHES: list[dict[str, int]] = [
    {"d": 2, "t": 4}, {"d": 2, "t": 2, "s": 2}, {"t": 8}, {"d": 4, "t": 1}, {"d": 2, "t": 2, AUTOMATIC: 2},
]  # fmt: skip
SIZES = {"B": 104, "L": 88, "M": 136}
_WORDS = ["8", "16", "24", "32", "B", "L", "M", "M"]

ONE = [
    "jnp.tanh({a})", "-{a}", "{a} * 2.0", "{a} ** 2", "{a}.T", "{a}[0]", "{a}[:, 0]", "{a}[:8]", "{a}[:6]", "{a}[2:6]",
    "{a}[..., :4]", "{a}[None]", "{a}[:, None]", "jnp.sum({a}, axis=0)", "{a}.sum(-1)", "jnp.sum({a})",
    "jnp.mean({a}, axis=-1, keepdims=True)", "jnp.max({a}, axis=-1)", "jnp.argmax({a}, axis=0)",
    "jnp.var({a}, axis=-1)", "jax.nn.softmax({a}, axis=-1)", "jax.nn.logsumexp({a}, axis=-1)",
    "jnp.nancumsum({a}, axis=0)", "lax.cumlogsumexp({a}, axis=1)",
    "jnp.quantile({a}, 0.5, axis=-1)", "jnp.percentile({a}, 50.0, axis=0)",
    "jnp.cumsum({a}, axis=0)", "jnp.cumsum({a}, axis=-1)", "jnp.sort({a}, axis=-1)", "jnp.argsort({a}, axis=0)",
    "lax.top_k({a}, 2)[0]", "{a}.reshape(-1)", "jnp.ravel({a})", "{a}.reshape({a}.shape[0], 2, -1)",
    "{a}.reshape({a}.shape[0], -1, 4)", "{a}.reshape(2, -1)", "{a}.reshape(-1, 8)", "{a}.reshape({a}.shape[0], -1)",
    "{a}.reshape(-1, {a}.shape[-1])", "{a}.reshape(4, 2, -1)", "{a}[:, None].reshape({a}.shape)",
    "jnp.expand_dims({a}, 1)", "jnp.flip({a}, axis=0)", "jnp.roll({a}, 1, axis=-1)", "jnp.roll({a}, 4, axis=0)",
    "jnp.stack([{a}, {a}])", "jnp.concatenate([{a}, {a}], axis=-1)", "jnp.where({a} > 1.0, {a}, 0.0)",
    "{a}.astype(jnp.bfloat16)", "jnp.take({a}, jnp.array([0, 1]), axis=0)",
    "jnp.take({a}, jnp.array([0, 1]), axis=-1)", "{a}[jnp.array([0, 1])]", "{a}[:, jnp.array([0, 1])]",
    "lax.dynamic_slice_in_dim({a}, 0, 4, axis=0)", "{a}.at[0].set(False)", "{a}.at[:, 0].multiply(True)",
    "jnp.swapaxes({a}, 0, 1)", "jnp.moveaxis({a}, 0, -1)", "jnp.squeeze({a}[None], 0)",
    "jnp.split({a}, 2, axis=-1)[0]", "jnp.split({a}, 4)[1]", "jnp.broadcast_to({a}, (2, *{a}.shape))",
    "jax.nn.relu({a})", "{a} > 0.5", "jnp.tril({a})", "{a} / 3.0", "jax.nn.one_hot({a}.astype(jnp.int32), 5)",
    "jnp.prod({a}, axis=-1)", "jnp.linalg.norm({a}, axis=-1)", "jnp.maximum({a}, 0.5)", "jnp.clip({a}, 0.0, 1.0)",
    "jnp.einsum('ij->j', {a})", "jnp.einsum('ij->ji', {a})", "jnp.any({a} > 1.2, axis=0)",
    "einops.rearrange({a}, 'a b -> b a')", "jnp.pad({a}, ((0, 0), (1, 0)))", "jnp.pad({a}, ((8, 8), (0, 0)))",
    "jnp.tile({a}, (2, 1))", "jnp.tile({a}, (1, 2))", "jnp.zeros_like({a}) + {a}", "jnp.zeros((16, 32)) * {a}",
    "lax.stop_gradient({a})", "jax.sharding.reshard({a}, P('{i}'))", "jax.sharding.reshard({a}, P(None, '{i}'))",
    "jax.sharding.reshard({a}, P())", "lax.with_sharding_constraint({a}, P('{i}'))",
    "lax.with_sharding_constraint({a}, P(None, '{i}'))", "jnp.einsum('ij->ji', {a}, out_sharding=P('{i}'))",
    "lax.scan(lambda c, r: (c + r, r * 2.0), {a}[0], {a})[0]",
    "lax.scan(lambda c, r: (c + r, r * 2.0), {a}[0], {a})[1]",
    "lax.scan(lambda c, r: (c * 0.5, c.sum(0)), {a}, None, length=3)[1]", "lax.map(lambda r: r * 2.0, {a})",
    "lax.scan(lambda c, r: (jax.sharding.reshard(c, P('{i}')), None), {a}, None, length=3)[0]",
    "lax.fori_loop(0, 3, lambda i, c: c + {a}, {a})",
    "lax.fori_loop(0, 3, lambda i, c: jax.sharding.reshard(c, P()), {a})",
    "lax.while_loop(lambda c: c.sum() < 9.0, lambda c: c + 1.0, {a})",
    "lax.cond({a}.sum() > 9.0, lambda c: c, lambda c: jax.sharding.reshard(c, P('{i}')), {a})",
    "lax.cond({a}.sum() > 9.0, lambda c: c * 2.0, lambda c: -c, {a})",
    "jax.vmap(lambda r: r * 2.0)({a})", "jax.vmap(jnp.sum)({a})", "jax.vmap(lambda r: r[:8], in_axes=1)({a})",
    "jax.vmap(lambda r: r.sum(0), in_axes=1, out_axes=-1)({a}[..., None])",
    "jnp.sort({a}, axis=0)", "jnp.argsort({a}, axis=-1)", "jnp.flip({a}, axis=-1)", "jnp.flip({a})", "jnp.roll({a}, 1)",
    "jnp.cumprod({a}, axis=0)", "lax.cummax({a}, axis=1)", "lax.top_k({a}.T, 2)[1]", "lax.rev({a}, (0,))",
    "jnp.take_along_axis({a}, jnp.zeros((1, {a}.shape[1]), int), axis=0)", "{a}.at[jnp.array([0, 1])].add(1.0)",
    "{a}.at[:, jnp.array([0, 1])].set(1.0)", "{a}.at[jnp.array([0, 1])].get(out_sharding=P('{i}'))",
    "{a}[jnp.arange({a}.shape[0]), jnp.zeros({a}.shape[0], int)]", "jnp.median({a}, axis=0)", "jnp.diff({a}, axis=-1)",
    "{a}[jnp.arange({a}.shape[0])[:, None], jnp.array([0, 1])]", "{a}[::-1]", "{a}[:, ::2]",
    "lax.dynamic_index_in_dim({a}, 0, axis=1)", "lax.dynamic_update_slice_in_dim({a}, {a}[:, :1], 0, axis=1)",
    "{a}.reshape({a}.shape[0], -1, 4, out_sharding=P('{i}'))", "{a}.reshape(-1, out_sharding=P('{i}'))",
    "jnp.reshape({a}, (-1, 8), out_sharding=P(None, '{i}'))", "{a}.ravel(out_sharding=P('{i}'))",
    "jax.scipy.stats.norm.logpdf({a})", "jax.scipy.special.softmax({a}, axis=-1)",
    "jax.scipy.special.log_softmax({a}, axis=0)", "jax.scipy.special.xlogy({a}, 2.0)",
    "optax.losses.squared_error({a})", "lax.tile({a}, (1, 1))", "jax.scipy.integrate.trapezoid({a}, axis=0)",
    "jnp.zeros((16, 32), out_sharding=P('{i}'))", "{a} + {a}.sum(0)", "{a} - {a}.max(-1, keepdims=True)",
]  # fmt: skip
TWO = [
    "{a} + {b}", "{a} * {b}", "{a} - {b}", "{a} / {b}", "{a} @ {b}", "{a} @ {b}.T", "jnp.dot({a}, {b})",
    "jnp.einsum('ij,jk->ik', {a}, {b})", "jnp.einsum('ij,kj->ik', {a}, {b})", "jnp.einsum('ij,ij->i', {a}, {b})",
    "jnp.einsum('ij,ij->', {a}, {b})", "jnp.einsum('ij,j->ij', {a}, {b})", "jnp.einsum('ij,j->i', {a}, {b})",
    "jnp.einsum('ij,jk->ik', {a}, {b}, out_sharding=P('{i}'))", "jnp.einsum('bij,bjk->bik', {a}[None], {b}[None])",
    "jnp.maximum({a}, {b})", "jnp.where({a} > {b}, {a}, {b})", "{a}[..., None] * {b}", "{a} + {b}[None]",
    "jnp.concatenate([{a}, {b}], axis=0)", "jnp.concatenate([{a}, {b}], axis=-1)", "jnp.stack([{a}, {b}], axis=1)",
    "jnp.outer({a}[:, 0], {b}[0])", "lax.dynamic_update_slice({a}, {b}, (0, 0))", "{a} + {b}.sum(0)",
    "jnp.take({a}, {b}.astype(jnp.int32) % 3, axis=-1)", "{a}[{b}[:, 0].astype(jnp.int32)]", "jnp.add({a}, {b})",
    "jax.vmap(lambda r, s: r + s)({a}, {b})", "jax.vmap(lambda r, s: r * s.sum(), in_axes=(0, 1))({a}, {b})",
    "jax.vmap(lambda r: r + {b}.sum(0))({a})", "lax.scan(lambda c, r: (c + r, r), {a}.sum(0), {b})[0]",
    "lax.cond({a}.sum() > 9.0, lambda c, e: c, lambda c, e: e, {a}, {b})",
    "jnp.einsum('ji,jk->ik', {a}, {b}, out_sharding=P(unreduced={{'{i}'}}))",
    "jnp.dot({a}.T, {a}, out_sharding=P(unreduced={{'{i}'}}))",
    "jnp.dot({a}, {a}.T, out_sharding=P(unreduced={{'{i}'}}))",
    "jnp.take_along_axis({a}, {b}.astype(jnp.int32) % 3, axis=-1)", "{a}.at[{b}[:, 0].astype(jnp.int32)].add(1.0)",
    "{a}[jnp.arange({a}.shape[0]), {b}[:, 0].astype(jnp.int32)]", "{a}.at[:, {b}[0].astype(jnp.int32)].set(False)",
    "{a}.at[{b}[:, 0].astype(jnp.int32)].get(out_sharding=P('{i}'))", "jnp.searchsorted({a}[0], {b})",
    "jax.scipy.stats.norm.pdf({a}, {b})", "optax.losses.squared_error({a}, {b})",
    "{a} == {b}", "jnp.where({a} > 0, {b}, 0.0)", "jnp.minimum({a}, {b}[:1])",
]  # fmt: skip
_TEMPLATES = (*ONE, *TWO, *TWO)
_REFUSED = (
    TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, AssertionError, einops.EinopsError,
    ShardingTypeError, DuplicateSpecError,
)  # fmt: skip

Statement = tuple[str, int, int, int]


@dataclass
class Program:
    """One program: a mesh, annotated parameters, statements; and of each variable what JAX says."""

    mesh: dict[str, int]
    parameters: dict[str, str]
    statements: list[Statement]
    lines: dict[str, str] = field(default_factory=dict)
    specs: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sums: dict[str, frozenset[str]] = field(default_factory=dict)

    def source(self) -> str:
        params = ", ".join(
            f"{name}: f32['{shape}']" for name, shape in self.parameters.items()
        )
        body = "".join(f"    {name} = {text}\n" for name, text in self.lines.items())
        return (
            "import einops\nimport jax\nimport jax.numpy as jnp\nimport optax\nfrom jax import lax\n"
            "from jax.sharding import AxisType, PartitionSpec as P\nfrom shardtypes import f32\n"
            f"mesh = jax.make_mesh({tuple(self.mesh.values())}, {tuple(self.mesh)}, "
            f"axis_types=({', '.join(f'AxisType.{kind.name}' for kind in self.types())},))\njax.set_mesh(mesh)\n\n"
            f"def f({params}):\n{body or '    pass'}\n"
        )

    def types(self) -> tuple[AxisType, ...]:
        return tuple(
            AxisType.Auto if axis == AUTOMATIC else AxisType.Explicit
            for axis in self.mesh
        )

    def trace(self) -> None:
        """Ask JAX for the type of every variable. Statements whose shapes do not fit are left out."""
        mesh = AbstractMesh(
            tuple(self.mesh.values()), tuple(self.mesh), axis_types=self.types()
        )
        given = {name: _struct(shape, mesh) for name, shape in self.parameters.items()}
        self.shapes = {name: value.shape for name, value in given.items()}
        with jax.sharding.use_abstract_mesh(mesh), warnings.catch_warnings():
            # of casts and the like: the programs compute nothing sensible
            warnings.simplefilter("ignore")
            jax.eval_shape(self._body, given)

    def _body(self, given: dict[str, Any]) -> None:
        env = {
            "jnp": jnp,
            "jax": jax,
            "lax": lax,
            "optax": optax,
            "einops": einops,
            "P": P,
            **given,
        }
        for number, (template, i, k, axis) in enumerate(self.statements):
            names = [*reversed(self.specs), *given]
            chosen = [*self.mesh][axis % len(self.mesh)]
            text = template.format(
                a=names[i % len(names)], b=names[k % len(names)], i=chosen
            )
            if not _fits(text, env):
                continue
            name = f"v{number}"
            self.lines[name] = text
            try:
                value = eval(text, env)
            except _REFUSED as error:
                self.refused[name] = (str(error) or repr(error)).splitlines()[0]
                continue
            env[name] = value
            self.specs[name] = _entries(value)
            self.sums[name] = frozenset(jax.typeof(value).sharding.spec.unreduced)
            self.shapes[name] = value.shape

    def opinion(self) -> tuple[dict[str, Value], list[tuple[str, Event]]]:
        """What the engine says of every variable, and what it reports of which."""
        source = self.source()
        module = lower(source.encode(), "m", "m.py").module
        analysis = run(Project({"m": module}), module)
        seen = {
            name: value
            for (_, name), (_, value) in sorted(analysis.it.seen.items())
            if name in self.lines
        }
        positions = Positions(source.encode(), "m.py")
        rows = source.splitlines()
        return seen, [
            (rows[positions.place(e.at).line - 1].split(" = ")[0].strip(), e)
            for e in analysis.found()
        ]


def _struct(shape: str, mesh: AbstractMesh) -> jax.ShapeDtypeStruct:
    words = [word.split("/") for word in shape.split()]
    sizes = tuple(SIZES.get(word[0]) or int(word[0]) for word in words)
    # types tell of the others alone
    axes = [tuple(axis for axis in word[1:] if axis != AUTOMATIC) for word in words]
    spec = P(*(one[0] if len(one) == 1 else one or None for one in axes))
    return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=NamedSharding(mesh, spec))


def _fits(text: str, env: dict[str, Any]) -> bool:
    """Whether the shapes fit, whatever the sharding."""
    plain = {
        name: jax.ShapeDtypeStruct(value.shape, value.dtype)
        for name, value in env.items()
        if isinstance(value, jax.Array | jax.ShapeDtypeStruct)
    }
    modules = {name: value for name, value in env.items() if name not in plain}
    unplaced = text.replace("jax.sharding.reshard", "_first").replace(
        "lax.with_sharding_constraint", "_first"
    )
    for axis in ("d", "t", "s", AUTOMATIC):
        for asked in (f"'{axis}'", f"unreduced={{'{axis}'}}"):
            unplaced = unplaced.replace(f", out_sharding=P({asked})", "").replace(
                f"(out_sharding=P({asked}))", "()"
            )
    none = jax.sharding.AbstractMesh((), ())
    with jax.sharding.use_abstract_mesh(none):
        try:
            jax.eval_shape(
                lambda given: eval(
                    unplaced, {**modules, **given, "_first": lambda x, _: x}
                ),
                plain,
            )
        except _REFUSED:
            return False
    return True


def _entries(value: Any) -> tuple[tuple[str, ...], ...]:
    spec = jax.typeof(value).sharding.spec
    entries = [*spec.partitions, *[None] * (value.ndim - len(spec.partitions))]
    return tuple(
        () if e is None else (e,) if isinstance(e, str) else tuple(e) for e in entries
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A mesh, three or four parameters of rank 2 (one of rank 1), statements on what came before."""
    mesh = draw(st.sampled_from(MESHES))
    parameters = {}
    for name in ("x", "y", "w", "z"):
        words = []
        free = [*mesh]
        for _ in range(1 if name == "z" else 2):
            size = draw(st.sampled_from(_WORDS))
            axes = (
                draw(st.lists(st.sampled_from(free), unique=True, max_size=2))
                if free
                else []
            )
            axes = (
                axes if (SIZES.get(size) or int(size)) % _count(mesh, axes) == 0 else []
            )
            free = [axis for axis in free if axis not in axes]
            words.append("/".join([size, *axes]))
        parameters[name] = " ".join(words)
    if not any("/" in shape for shape in parameters.values()):
        parameters["x"] = f"16/{next(iter(mesh))} 32"
    operand = st.integers(0, 7)
    statement = st.tuples(
        st.sampled_from(_TEMPLATES), operand, operand, st.integers(0, 2)
    )
    return Program(mesh, parameters, draw(st.lists(statement, min_size=4, max_size=12)))


def _count(mesh: dict[str, int], axes: list[str]) -> int:
    count = 1
    for axis in axes:
        count *= mesh[axis]
    return count


def known(value: Value) -> bool:
    """Whether the engine says of every dimension how it is split."""
    if not isinstance(value, ArrayValue) or value.dims is None:
        return False
    return placed(value) and all(dim.axes is not None for dim in value.dims)
