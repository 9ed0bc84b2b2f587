"""The ledger: each wrong value raises an alarm or is counted with a reason, each right one passes in silence.

A case is a callable, a container for the arrays in what it is declared to take or to return, a transformation of JAX
around it, a mesh, and a way in which one of the arrays is wrong (or none). Its module is written out and loaded through
one of the ways to check functions, with the general checks or with checkers that are generated from the first call on;
these have to say and to count what the general checks do. ``python -m tests.runtime.ledger 2000`` judges that many
random cases and groups what fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import random
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from typeguard import TypeCheckError

import shardtypes as st
from shardtypes import _stats, switches
from tests.support import force_devices

# --- what a module says ----------------------------------------------------------------------------------------------

CLASSES = """
import dataclasses
import typing
import attrs
import chex
import equinox
import flax.struct
import jax
from shardtypes import Array, f32, pytree_dataclass

@pytree_dataclass
class Ours:
    a: {array}
    b: {array}

@flax.struct.dataclass
class Flax:
    a: {array}
    b: {array}

@chex.dataclass
class Chex:
    a: {array}
    b: {array}

class Equinox(equinox.Module):
    a: {array}
    b: {array}

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    a: {array}
    b: {array}

@dataclasses.dataclass
class Plain:
    a: {array}
    b: {array}

@attrs.define
class Attrs:
    a: {array}
    b: {array}

class Named(typing.NamedTuple):
    a: {array}
    b: {array}

class Typed(typing.TypedDict):
    a: {array}
    b: {array}

@flax.struct.dataclass
class More(Flax):
    c: {array}

@pytree_dataclass
class Deep:
    a: list[{array}]
    b: dict[str, Ours]
    c: typing.Optional[Flax] = None

Nest = typing.Union[{array}, "list[Nest]", dict[str, "Nest"]]

T = typing.TypeVar("T")

@flax.struct.dataclass
class Of(typing.Generic[T]):
    a: T
    b: T

@flax.struct.dataclass
class OfArrays(Of[{array}]):
    pass
"""
if sys.version_info >= (3, 12):
    CLASSES += "type Tree = {array} | list[Tree] | dict[str, Tree]\n"


@dataclass(frozen=True)
class Container:
    """A type that holds arrays, as text, and how to make a value of it from so many."""

    type: str
    count: int
    make: Callable[[ModuleType, list[Any]], Any]
    tree: bool = True  # whether JAX takes it apart


def _record(name: str, tree: bool = True) -> Container:
    return Container(
        name,
        2,
        lambda module, items: getattr(module, name)(a=items[0], b=items[1]),
        tree,
    )


def _nested(items: list[Any]) -> Any:
    return {"k": [items[0], [items[1]]], "l": items[2]}


CONTAINERS = {
    "array": Container("{array}", 1, lambda _, items: items[0]),
    "list": Container("list[{array}]", 3, lambda _, items: items),
    "tuple": Container("tuple[{array}, {array}]", 2, lambda _, items: tuple(items)),
    "tuple of any length": Container(
        "tuple[{array}, ...]", 3, lambda _, items: tuple(items)
    ),
    "dict": Container(
        "dict[str, {array}]", 2, lambda _, items: dict(zip("ab", items, strict=True))
    ),
    "optional": Container("{array} | None", 1, lambda _, items: items[0]),
    "typing's optional": Container(
        "typing.Optional[{array}]", 1, lambda _, items: items[0]
    ),
    "union": Container("str | {array}", 1, lambda _, items: items[0]),
    "nested": Container(
        "dict[str, list[tuple[{array}, ...]]]",
        4,
        lambda _, items: {"k": [tuple(items[:1]), tuple(items[1:])]},
    ),
    "list of records": Container(
        "list[Flax]",
        4,
        lambda module, items: [module.Flax(*items[:2]), module.Flax(*items[2:])],
    ),
    "record of a subclass": Container(
        "Flax", 3, lambda module, items: module.More(*items)
    ),
    "optional record": Container(
        "typing.Optional[Ours]", 2, lambda module, items: module.Ours(*items)
    ),
    "deep": Container(
        "Deep",
        5,
        lambda module, items: module.Deep(
            a=items[:1], b={"k": module.Ours(*items[1:3])}, c=module.Flax(*items[3:])
        ),
    ),
    "holds itself": Container("Nest", 3, lambda _, items: _nested(items)),
    **(
        {"alias of itself": Container("Tree", 3, lambda _, items: _nested(items))}
        if sys.version_info >= (3, 12)
        else {}
    ),
    "generic record": Container(
        "Of[{array}]", 2, lambda module, items: module.Of(*items)
    ),
    "record of a generic one": Container(
        "OfArrays", 2, lambda module, items: module.OfArrays(*items)
    ),
    **{
        name: _record(name)
        for name in ("Ours", "Flax", "Chex", "Equinox", "Registered", "Named")
    },
    **{name: _record(name, tree=False) for name in ("Plain", "Attrs")},
    "Typed": Container(
        "Typed", 2, lambda _, items: dict(zip("ab", items, strict=True))
    ),
}

# What is declared where: {x} and {result} are annotations with their punctuation, {local} a statement.
CALLABLES = {
    "function": """
        {door}
        def f(x{x}, other: {other}){result}:
            {local}
            return x
        call = f
    """,
    "method": """
        class Model:
            {door}
            def f(self, x{x}, other: {other}){result}:
                {local}
                return x
        call = Model().f
    """,
    "class method": """
        class Model:
            @classmethod
            {door}
            def f(cls, x{x}, other: {other}){result}:
                {local}
                return x
        call = Model.f
    """,
    "static method": """
        class Model:
            @staticmethod
            {door}
            def f(x{x}, other: {other}){result}:
                {local}
                return x
        call = Model().f
    """,
    "callable object": """
        class Model:
            {door}
            def __call__(self, x{x}, other: {other}){result}:
                {local}
                return x
        call = Model()
    """,
    "class": """
        {door}
        class Model:
            def f(self, x{x}, other: {other}){result}:
                {local}
                return x
        call = Model().f
    """,
    "property": """
        class Model:
            @property
            {door}
            def f(self){result}:
                {local_of_self}
                return self.x
        def call(x, other):
            model = Model()
            model.x = x
            return model.f
    """,
    "nested": """
        def call(x, other):
            {door}
            def inner(x{x}, other: {other}){result}:
                {local}
                return x
            return inner(x, other)
    """,
    "partial": """
        {door}
        def f(x{x}, *, other: {other}){result}:
            {local}
            return x
        def call(x, other):
            return functools.partial(f, other=other)(x)
    """,
    "rest": """
        {door}
        def f(other: {other}, *xs{x}){result_of_rest}:
            {local_of_rest}
            return xs
        def call(x, other):
            return f(other, x)
    """,
    "keywords": """
        {door}
        def f(other: {other}, **xs{x}):
            return xs
        def call(x, other):
            return f(other, x=x)
    """,
    "coroutine": """
        {door}
        async def f(x{x}, other: {other}){result}:
            {local}
            return x
        def call(x, other):
            return asyncio.run(f(x, other))
    """,
    "generator": """
        {door}
        def f(x{x}, other: {other}){yields}:
            {local}
            yield x
        def call(x, other):
            return list(f(x, other))
    """,
    "async generator": """
        {door}
        async def f(x{x}, other: {other}){async_yields}:
            {local}
            yield x
        def call(x, other):
            async def every():
                return [part async for part in f(x, other)]
            return asyncio.run(every())
    """,
    "decorated": """
        def plainly(g):
            @functools.wraps(g)
            def run(*args):
                return g(*args)
            return run
        @plainly
        {door}
        def f(x{x}, other: {other}){result}:
            {local}
            return x
        call = f
    """,
}

# Which roles a callable has, where not all.
ROLES = {
    "property": ["result", "local", "inner", "global", "put", "attribute", "inside"],
    "keywords": ["parameter"],
    "rest": ["parameter"],
}
EVERY_ROLE = [
    "parameter", "result", "local", "inner", "global", "put", "attribute", "inside",
]  # fmt: skip

BEYOND_TYPEGUARD = ("inner", "global", "put", "attribute", "inside")

# What a function does that declares a variable of its own, or assigns to one from a function inside of it, or to one of
# its module; that fills a list, or an object; and that defines a function.
STATEMENTS = {
    "local": "y: {container} = {x}",
    "inner": "y: {container}\ndef inside():\n    nonlocal y\n    y = {x}\ninside()",
    "global": "global Y\nY = {x}",
    "put": "parts: list[{container}] = []\nparts.append({x})",
    "attribute": "holder = Holder()\nholder.held = {x}",
    "inside": "def inside() -> {container}:\n    return {x}\ninside()",
}

DOORS = {
    "hook": "",
    "typechecked": "@typechecked",
    "typeguard": "@typeguard.typechecked",
}

HEADER = """
import asyncio
import collections.abc
import functools
import typing
import typeguard
from shardtypes import f32, typechecked
from {classes} import *
"""


def source(case: Case, classes: str, checked: bool) -> str:
    """The module of a case; without its checks it is what JAX is asked about first."""
    container = CONTAINERS[case.container].type.replace("{array}", ARRAY[case.mesh])
    statement = STATEMENTS.get(case.role, "pass").replace("{container}", container)
    parts = {
        "x": f": {container}" if case.role == "parameter" else "",
        "result": f" -> {container}" if case.role == "result" else "",
        "yields": f" -> collections.abc.Iterator[{container}]"
        if case.role == "result"
        else "",
        "async_yields": f" -> collections.abc.AsyncIterator[{container}]"
        if case.role == "result"
        else "",
        "result_of_rest": "",
        "local": statement.replace("{x}", "x"),
        "local_of_self": statement.replace("{x}", "self.x"),
        "local_of_rest": "pass",
        "other": OTHER,
        "door": DOORS[case.door] if checked else "",
    }
    lines = (
        _filled(line, parts)
        for line in textwrap.dedent(CALLABLES[case.callable]).splitlines()
    )
    text = "\n".join(line for line in lines if line.strip())
    future = "from __future__ import annotations\n" if case.future else ""
    variable = f"Y: {container}\n" if case.role == "global" else ""
    if case.role == "attribute":
        variable = f"class Holder:\n    held: {container}\n"
    return future + HEADER.format(classes=classes) + variable + text + "\n"


def _filled(line: str, parts: Mapping[str, str]) -> str:
    """A line of a template, each line of what stands in it as far to the right."""
    margin = line[: len(line) - len(line.lstrip())]
    return textwrap.indent(line.strip().format(**parts), margin)


# --- values ----------------------------------------------------------------------------------------------------------

SHAPE = (8, 6, 4)
ARRAY = {"none": 'f32["B M 4"]', "auto": 'f32["B/d M 4"]', "explicit": 'f32["B/d M 4"]'}
OTHER = 'f32["M K"]'


@dataclass(frozen=True)
class Wrong:
    """One way for an array to be wrong: another dtype or shape, or another placement."""

    shape: tuple[int, ...] = SHAPE
    dtype: Any = jnp.float32
    spec: P = field(default_factory=lambda: P("d"))
    sharding: bool = False


WRONGS: dict[str, Wrong | None] = {
    "right": Wrong(),
    "dtype": Wrong(dtype=jnp.bfloat16),
    "rank": Wrong(shape=(*SHAPE, 1)),
    "lower rank": Wrong(shape=SHAPE[:2]),
    "size": Wrong(shape=(8, 6, 5)),
    "size against the other parameter": Wrong(shape=(8, 7, 4)),
    "another axis": Wrong(spec=P("t"), sharding=True),
    "another dimension": Wrong(spec=P(None, "d"), sharding=True),
    "one axis more": Wrong(spec=P("d", None, "t"), sharding=True),
    "replicated": Wrong(spec=P(), sharding=True),
    "pending": Wrong(spec=P("d", unreduced={"t"}), sharding=True),
    "type": None,
}


def mesh_of(kind: str) -> Mesh | None:
    if kind == "none":
        return None
    axis = AxisType.Auto if kind == "auto" else AxisType.Explicit
    return jax.make_mesh((2, 4), ("d", "t"), axis_types=(axis,) * 2)


def array(wrong: Wrong | None, mesh: Mesh | None, leading: int) -> Any:
    """An array that is wrong in this way, with a leading dimension for what maps over it."""
    if wrong is None:
        return "text"
    made = jnp.ones((leading, *wrong.shape) if leading else wrong.shape, wrong.dtype)
    if mesh is None:
        return made
    spec = (
        wrong.spec.update(partitions=(None, *entries(wrong.spec)))
        if leading
        else wrong.spec
    )
    if spec.unreduced:
        return jax.sharding.reshard(made, NamedSharding(mesh, spec))
    return jax.device_put(made, NamedSharding(mesh, spec))


def entries(spec: P) -> tuple[Any, ...]:
    return tuple(
        spec.update(unreduced=frozenset())
        if not hasattr(spec, "partitions")
        else spec.partitions
    )


# --- transformations -------------------------------------------------------------------------------------------------

Run = Callable[[Any, Any], Any]


def total(tree: Any) -> Any:
    """The sum of all arrays in a result, also of what JAX takes for a leaf."""
    found: Any = 0.0
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array):
            found = found + (
                leaf.astype(jnp.float32)
                if leaf.ndim == 0
                else leaf.astype(jnp.float32).sum()
            )
        elif dataclasses.is_dataclass(leaf) or hasattr(leaf, "__attrs_attrs__"):
            found = found + total([leaf.a, leaf.b])
    return found


def _custom_vjp(f: Run) -> Run:
    def run(x: Any, other: Any) -> Any:
        @jax.custom_vjp
        def g(x: Any) -> Any:
            return f(x, other)

        g.defvjp(
            lambda x: (g(x), x),
            lambda x, ct: (jax.tree.map(lambda leaf: leaf * ct.astype(leaf.dtype), x),),
        )
        return total(jax.grad(g)(x))

    return run


# Where the arrays lie that a case passes, for `shard_map`: tracers on Auto axes do not say it.
_specs: list[Any] = []


def _shard_map(f: Run) -> Run:
    def run(x: Any, other: Any) -> Any:
        mapped = jax.shard_map(
            lambda x, other: jnp.reshape(f(x, other), (1,)),
            in_specs=(_specs[-1], P()),
            out_specs=P(("d", "t")),
        )
        return mapped(x, other).sum()

    return run


TRANSFORMATIONS: dict[str, Callable[[Run], Run]] = {
    "none": lambda f: f,
    "jit": lambda f: jax.jit(lambda x, other: f(x, other)),
    "vmap": lambda f: lambda x, other: jax.vmap(f, in_axes=(0, None))(x, other).sum(),
    "grad": lambda f: lambda x, other: total(jax.grad(lambda x: f(x, other))(x)),
    "remat": lambda f: (
        lambda x, other: total(jax.grad(jax.checkpoint(lambda x: f(x, other)))(x))
    ),
    "custom_vjp": _custom_vjp,
    "scan": lambda f: (
        lambda x, other: jax.lax.scan(
            lambda c, _: (c + f(x, other), None), 0.0, None, length=2
        )[0]
    ),
    "scan over": lambda f: (
        lambda x, other: jax.lax.scan(lambda c, x: (c + f(x, other), None), 0.0, x)[0]
    ),
    "while": lambda f: (
        lambda x, other: jax.lax.fori_loop(0, 2, lambda _, c: c + f(x, other), 0.0)
    ),
    "cond": lambda f: (
        lambda x, other: jax.lax.cond(
            True, lambda x: f(x, other), lambda x: total(x), x
        )
    ),
    "shard_map": _shard_map,
    "pmap": lambda f: lambda x, other: jax.pmap(f, in_axes=(0, None))(x, other).sum(),
}

# Those that map over a leading dimension of this size.
LEADING = {"vmap": 3, "scan over": 3, "pmap": 8}

# What goes around what: outer first.
CHAINS = [
    *((name,) for name in TRANSFORMATIONS),
    *itertools.product(("jit",), [name for name in TRANSFORMATIONS if name not in ("none", "pmap")]),
    ("grad", "remat"), ("remat", "scan"), ("scan", "jit"), ("vmap", "jit"), ("vmap", "scan"), ("grad", "jit"),
    ("custom_vjp", "jit"), ("jit", "grad", "scan"), ("jit", "scan", "remat"), ("jit", "vmap", "cond"),
    ("jit", "shard_map", "scan"), ("jit", "shard_map", "jit"),
]  # fmt: skip


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    callable: str
    role: str
    container: str
    chain: tuple[str, ...]
    mesh: str
    wrong: str
    item: int
    door: str
    future: bool
    reused: bool  # called with right values first: JAX may use its trace again
    generated: bool  # checked by what is generated, from the first call on

    def __str__(self) -> str:
        parts = [
            f"{self.wrong} item {self.item} of {self.container}",
            f"{self.role} of a {self.callable}",
        ]
        parts += ["/".join(self.chain), f"mesh {self.mesh}", self.door]
        parts += ["future"] * self.future
        parts += ["after right values"] * self.reused
        parts += ["generated"] * self.generated
        return ", ".join(parts)


def is_possible(case: Case) -> bool:
    """Whether such a program can be written at all."""
    wrong = WRONGS[case.wrong]
    container = CONTAINERS[case.container]
    if case.role not in ROLES.get(case.callable, EVERY_ROLE):
        return False
    if case.role in BEYOND_TYPEGUARD and case.door == "typeguard":
        return False  # which looks at one function, and what it assigns to variables of its own
    if case.role in ("global", "attribute") and "against" in case.wrong:
        return False  # it names sizes of its own
    if case.role == "attribute" and wrong is not None and wrong.sharding:
        return False  # an object may be made first, and placed then
    if case.chain != ("none",) and (not container.tree or wrong is None):
        return False
    if case.wrong == "type" and case.container == "union":
        return False  # a text is one of its members
    if case.callable == "property" and "against" in case.wrong:
        return False
    if (case.container == "array" and case.item > 0) or case.item >= container.count:
        return False
    if "shard_map" in case.chain and case.reused:
        return False  # its specs are written in the program
    if case.mesh == "none":
        return "shard_map" not in case.chain and (wrong is None or not wrong.sharding)
    if "pmap" in case.chain or (case.wrong == "pending" and case.mesh != "explicit"):
        return False
    return case.callable != "class" or case.door != "hook"


def random_case(rng: random.Random) -> Case:
    """One of those that are possible, wrong ones more often than right ones."""
    while True:
        container = rng.choice(list(CONTAINERS))
        case = Case(
            callable=rng.choice(list(CALLABLES)),
            role=rng.choice(EVERY_ROLE),
            container=container,
            chain=rng.choice(CHAINS),
            mesh=rng.choice(["none", "auto", "explicit"]),
            wrong=rng.choice([*WRONGS, "right"]),
            item=rng.randrange(CONTAINERS[container].count),
            door=rng.choice(list(DOORS)),
            future=rng.random() < 0.3,
            reused=rng.random() < 0.3,
            generated=rng.random() < 0.5,
        )
        if is_possible(case):
            return case


@dataclass(frozen=True)
class Judgement:
    """``fault`` says what is wrong with the checks, empty if nothing is; None if JAX itself refuses the program."""

    fault: str | None
    alarm: str = ""
    reasons: frozenset[str] = frozenset()


_numbers = itertools.count()


def judge(case: Case, folder: Path) -> Judgement:
    """Run a case, and say whether its checks did what they promise, and the same in both ways to check functions."""
    found = _judge(case, folder)
    if found.fault is None or not case.generated:
        return found
    general = _judge(dataclasses.replace(case, generated=False), folder)
    if found == general:
        return found
    fault = f"generated differs from general: {found} is not {general}"
    return dataclasses.replace(found, fault=found.fault or fault)


@contextlib.contextmanager
def _generating(generated: bool) -> Iterator[None]:
    """Check functions by what is generated in the block, from their first call on; or in the general way."""
    before = switches.calls_before_generated
    switches.calls_before_generated = 0 if generated else sys.maxsize
    yield
    switches.calls_before_generated = before


def _judge(case: Case, folder: Path) -> Judgement:
    mesh = mesh_of(case.mesh)
    in_force = jax.set_mesh(mesh) if mesh is not None else contextlib.nullcontext()
    with in_force, _generating(case.generated):
        name = f"ledger_{next(_numbers)}"
        classes = _load(
            folder,
            f"{name}_classes",
            CLASSES.replace("{array}", ARRAY[case.mesh]),
            hooked=False,
        )
        try:
            bare = _load(
                folder,
                f"{name}_bare",
                source(case, classes.__name__, checked=False),
                hooked=False,
            )
            try:
                # JAX may refuse either one: where devices hold different values, say, carries do too
                _run(case, bare, classes, mesh, Wrong())
                _run(case, bare, classes, mesh, WRONGS[case.wrong])
            except Exception:  # noqa: BLE001 - whatever JAX says of the program without checks
                return Judgement(None)
            hooked = case.door == "hook"
            module = _load(
                folder,
                f"{name}_checked",
                source(case, classes.__name__, checked=True),
                hooked,
            )
            before = _reasons_of(case, module, classes, mesh, right=True)
            if isinstance(before, str):
                return Judgement(f"false alarm: {before}")
            if case.wrong == "right":
                return Judgement("", reasons=before)
            found = _reasons_of(case, module, classes, mesh, right=False)
            if isinstance(found, str):
                return Judgement("", alarm=found)
            wrong = WRONGS[case.wrong]
            said = found if wrong is not None and wrong.sharding else found - before
            return Judgement("" if said else "missed", reasons=frozenset(found))
        finally:
            for made in [made for made in sys.modules if made.startswith(f"{name}_")]:
                del sys.modules[made]


def _load(folder: Path, name: str, text: str, hooked: bool) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    with st.install_import_hook(name) if hooked else contextlib.nullcontext():
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))


def _run(
    case: Case,
    module: ModuleType,
    classes: ModuleType,
    mesh: Mesh | None,
    wrong: Wrong | None,
) -> None:
    transformed = module.__dict__.get("__transformed__")
    # one function for right and wrong values, as programs have it
    if transformed is None:
        transformed = lambda x, other: total(module.call(x, other))  # noqa: E731 - it is wrapped in what follows
        for name in reversed(case.chain):
            transformed = TRANSFORMATIONS[name](transformed)
        module.__dict__["__transformed__"] = transformed
    leading = [LEADING[name] for name in case.chain if name in LEADING]
    container = CONTAINERS[case.container]
    items = [
        array(wrong if at == case.item else Wrong(), mesh, sum(leading))
        for at in range(container.count)
    ]
    other = array(Wrong(shape=(6, 5), spec=P()), mesh, 0)
    value = container.make(classes, items)
    if "shard_map" in case.chain:
        _specs[:] = [jax.tree.map(lambda leaf: leaf.sharding.spec, value)]
    jax.block_until_ready(transformed(value, other))


def _reasons_of(
    case: Case, module: ModuleType, classes: ModuleType, mesh: Mesh | None, right: bool
) -> frozenset[str] | str:
    """The reasons that were counted, or the alarm."""
    if not right and not case.reused:
        module.__dict__.pop("__transformed__", None)
        jax.clear_caches()
    _stats.reset()
    try:
        _run(case, module, classes, mesh, Wrong() if right else WRONGS[case.wrong])
    except TypeCheckError as error:
        return str(error) or type(error).__name__
    return frozenset(_stats.snapshot()["not_possible"])


def main(count: int, seed: int) -> int:
    """Judge random cases; print one example of each kind of fault."""
    force_devices()
    rng = random.Random(seed)
    faults: dict[tuple[str, ...], list[tuple[Case, str]]] = {}
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            case = random_case(rng)
            found = judge(case, Path(folder))
            outcome = (
                "refused by JAX"
                if found.fault is None
                else "fault"
                if found.fault
                else "alarm"
                if found.alarm
                else ""
            )
            outcomes[outcome or ("silent" if not found.reasons else "counted")] += 1
            outcomes["in both ways"] += case.generated and found.fault is not None
            if found.fault:
                key = (
                    found.fault.split(":")[0],
                    case.door,
                    case.role,
                    case.wrong if "missed" in found.fault else "",
                )
                faults.setdefault(key, []).append((case, found.fault))
    print(dict(outcomes))
    for key, examples in sorted(faults.items()):
        case, fault = examples[0]
        print(f"\n{len(examples)} times {key}: {case}\n  {fault.splitlines()[0]}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(
        main(
            int(sys.argv[1]) if len(sys.argv) > 1 else 100,
            int(sys.argv[2]) if len(sys.argv) > 2 else 0,
        )
    )
