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
import jax.scipy.integrate
import jax.scipy.stats
import numpy as np
import optax
from hypothesis import strategies as st
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from shardlint.engine import run
from shardlint.events import Event
from shardlint.jax_version import NEWEST, Version
from shardlint.lower import lower
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.values import ArrayValue, Value
from tests.sharding.templates import COLLECTIVES, FROM_THE_END, ONE, PRELUDE, TWO

MESH = {"d": 2, "t": 4}
SIZES = {"B": 16, "M": 24, "F": 40}
PARAMETERS = {
    "x": "B/d M", "y": "B M/t", "w": "M F/t", "u": "F/t M", "m": "M/t/d", "z": "M", "q": "B/d/t F", "v": "M/d F",
    "k": "F M/t",
}  # fmt: skip

_NEW = tuple(int(part) for part in jax.__version__.split(".")[:2]) >= (0, 12)
_TEMPLATES = (*ONE, *TWO, *COLLECTIVES, *COLLECTIVES, *(FROM_THE_END if _NEW else ()))

_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
_REFUSED = (
    TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, AssertionError, AttributeError,
    einops.EinopsError, FutureWarning,
)  # fmt: skip
Statement = tuple[str, int, int, str]


@st.composite
def programs(draw: st.DrawFn) -> list[Statement]:
    """Templates with their operands, counted back from the newest variable."""
    operand = st.integers(0, 11)
    statement = st.tuples(
        st.sampled_from(_TEMPLATES), operand, operand, st.sampled_from(sorted(MESH))
    )
    return draw(st.lists(statement, min_size=2, max_size=7))


@dataclass
class Program:
    """One program: the statements that JAX accepts on eight devices, by variable."""

    statements: list[Statement]
    lines: dict[str, str] = field(default_factory=dict)

    def run(self, values: dict[str, Any]) -> dict[str, Any]:
        """All variables. On the first run statements that fail are dropped; later runs repeat what is left."""
        env: dict[str, Any] = {
            "jnp": jnp,
            "jax": jax,
            "lax": lax,
            "optax": optax,
            "einops": einops,
        }
        exec(PRELUDE, env)
        env |= values
        made = {}
        if self.lines:
            for name, text in self.lines.items():
                try:
                    made[name] = env[name] = eval(text, env)
                except (NameError, *_REFUSED):
                    # sizes that agree by chance on eight devices do not on one
                    continue
            return made
        for number, (template, i, k, axis) in enumerate(self.statements):
            names = [*reversed(made), *values]
            if template in COLLECTIVES and env[names[i % len(names)]].dtype == bool:
                continue  # JAX traces what its compiler then refuses
            text = template.format(
                a=names[i % len(names)], b=names[k % len(names)], i=axis
            )
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
        return self.mentions(name, ("* lax.axis_size", "/ lax.axis_size"))

    def mentions(self, name: str, words: Sequence[str]) -> bool:
        """Whether a variable is made by a statement with one of the words in it, or of a variable that is."""
        text = self.lines.get(name, "")
        others = re.findall(r"\bv\d+\b", text)
        return any(word in text for word in words) or any(
            self.mentions(other, words) for other in others
        )

    def source(self, bare: bool = False) -> str:
        """The program; a ``bare`` one has no annotations, only specs."""
        body = "".join(f"    {name} = {text}\n" for name, text in self.lines.items())
        if bare:
            specs = ", ".join(
                str(spec(shape)).replace("PartitionSpec", "P")
                for shape in PARAMETERS.values()
            )
            return (
                "import einops\nimport jax\nimport jax.numpy as jnp\nimport optax\nfrom jax import lax\n"
                f"from jax.sharding import PartitionSpec as P\n{PRELUDE}\n\n"
                f"def f({', '.join(PARAMETERS)}):\n{body or '    pass'}\n"
                "g = jax.shard_map(f, mesh=jax.make_mesh((2, 4), ('d', 't')), "
                f"in_specs=({specs}), out_specs=P(), check_vma=False)\n"
            )
        params = ", ".join(
            f"{name}: f32['{spec}']" for name, spec in PARAMETERS.items()
        )
        return (
            "import einops\nimport jax\nimport jax.numpy as jnp\nimport optax\nfrom jax import lax\n"
            "from shardtypes import f32, typed_shard_map\n"
            f"{PRELUDE}\n\n"
            f"@typed_shard_map\ndef f({params}):\n{body or '    pass'}\n"
        )


@dataclass(frozen=True)
class Settings:
    """What the engine reads of a configuration."""

    mesh: dict[str, int | None] = field(default_factory=lambda: dict(MESH))
    logical_rules: tuple[Any, ...] = ()
    explicit_axes: tuple[str, ...] = ()
    jax: Version = NEWEST


def opinion(
    program: Program, bare: bool = False
) -> tuple[dict[str, Value], list[Event]]:
    """What the engine says of every variable, and what it reports."""
    module = lower(program.source(bare).encode(), "m", "m.py").module
    analysis = run(Project({"m": module}), module, Settings())
    seen = {
        name: value
        for (_, name), (_, value) in sorted(analysis.it.seen.items())
        if name in program.lines
    }
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
        name: jnp.asarray(
            random.uniform(-1.0, 1.5, [SIZES[w.split("/")[0]] for w in shape.split()]),
            jnp.float32,
        )
        for name, shape in PARAMETERS.items()
    }


def locals_of(
    programs: Sequence[Program],
    on: Mesh,
    check_vma: bool,
    evaluate: Callable[..., Any] | None = None,
) -> list[dict[str, Any]]:
    """Every variable of every program on every device, its two leading dimensions the mesh's."""

    def body(*values: jax.Array) -> list[dict[str, jax.Array]]:
        named = dict(zip(PARAMETERS, values, strict=True))
        return [
            {
                name: jnp.asarray(value)[None, None]
                for name, value in program.run(named).items()
            }
            for program in programs
        ]

    mapped = jax.shard_map(
        body, mesh=on, in_specs=tuple(spec(shape) for shape in PARAMETERS.values()), out_specs=P("d", "t"),
        check_vma=check_vma,
    )  # fmt: skip
    given = tuple(arguments().values())
    if evaluate is None:
        return [
            dict(made)
            for made in jax.device_get(jax.jit(mapped, compiler_options=_QUICK)(*given))
        ]
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
            parts = (
                parts.mean(place) if (axis, "mean") in value.marks else parts.sum(place)
            )
        else:
            first = parts.take([0], place)
            assert np.allclose(parts, first, rtol=1e-4, atol=1e-4), (
                f"devices along {axis} differ"
            )
            parts = first.squeeze(place)
        names.remove(axis)
    order: list[int] = []
    shape: list[int] = []
    for k, dim in enumerate(value.dims):
        axes = dim.axes or ()
        order += [*(names.index(axis) for axis in axes), len(names) + k]
        shape.append(
            parts.shape[len(names) + k] * int(np.prod([MESH[axis] for axis in axes]))
        )
    return parts.transpose(order).reshape(shape)


def reported_lines(
    program: Program, found: Sequence[Event], bare: bool = False
) -> list[tuple[str, str]]:
    """(variable, code) of every finding, by the line that it is on."""
    source = program.source(bare)
    positions = Positions(source.encode(), "m.py")
    rows = source.splitlines()
    return [
        (rows[positions.place(e.at).line - 1].split(" = ")[0].strip(), e.code)
        for e in found
    ]


def right_in_some_way(parts: np.ndarray, alone: np.ndarray) -> bool:
    """Whether the devices' values make up what one device computes, whichever way they are put together."""
    ways: list[str | int] = ["same", "sum", "mean", *range(alone.ndim)]
    for inner, outer in product(ways, repeat=2):
        if {inner, outer} == {"sum", "mean"}:
            # four counted twice over two devices are as many as an average of eight
            continue
        for given in (parts, parts.swapaxes(0, 1)):
            rows = [_put_together(list(row), inner) for row in given]
            known = [row for row in rows if row is not None]
            whole = _put_together(known, outer) if len(known) == len(rows) else None
            if (
                whole is not None
                and whole.shape == alone.shape
                and np.allclose(whole, alone, rtol=1e-4, atol=1e-4)
            ):
                return True
    return False


def _put_together(parts: list[np.ndarray], way: str | int) -> np.ndarray | None:
    if isinstance(way, int):
        return np.concatenate(parts, axis=way) if way < parts[0].ndim else None
    if way == "same":
        return (
            parts[0]
            if all(np.allclose(one, parts[0], rtol=1e-4, atol=1e-4) for one in parts)
            else None
        )
    total: np.ndarray = np.sum(parts, axis=0)
    return total if way == "sum" else total / len(parts)


def claims(value: Value) -> bool:
    """Whether the engine says of every axis what the value is."""
    if not isinstance(value, ArrayValue) or not value.manual or value.dims is None:
        return False
    if any(dim.axes is None for dim in value.dims) or any(
        axis in value.unclear for axis in MESH
    ):
        return False
    return not value.varying and not any(
        mark in ("offset", "local") for _, mark in value.marks
    )
