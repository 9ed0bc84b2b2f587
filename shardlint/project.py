"""All modules of a run, and what a name means across them: imports, aliases, re-exports, relative and star imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias, TypeVar

from shardlint import ir
from shardlint.made_axes import MadeAxes
from shardlint.outline import Outline, outline
from shardlint.star_exports import STAR_EXPORTS
from shardtypes.lang.frozen import frozen

T = TypeVar("T")
Fact: TypeAlias = tuple[str, str]
"""Something that can be asked of a project: what kind of thing, and about which name."""
#: Notes on a whole project: what it does with its classes, the lists of logical rules that it puts in force, and what
#: its modules call of others in code that is mapped over devices, which of them may call some of one there, what of
#: that is imported from modules of which there is no file, the axes that they make, the functions that they run with
#: other axis types, what they change of modules, and which of them import which.
CLASSES, RULES, MAPPED, MAPPING, FROM_NOWHERE, AXES, SWITCHED, CHANGES, IMPORTERS = (
    "classes",
    "rules",
    "mapped",
    "importers that map",
    "mapped from nowhere",
    "axes",
    "switched",
    "changes",
    "importers",
)


@frozen
class Definition:
    """A name defined in the project: the module, and the statement that binds it (the last one at module level)."""

    module: str
    node: ir.Function | ir.Class | ir.Assign | ir.AnnAssign | ir.Stmt
    name: str


@frozen
class External:
    """A name from outside the project, by its qualified name: ``jax.numpy.sum``."""

    qualname: str


@frozen
class ModuleRef:
    """A module of the project itself."""

    name: str


Target = Definition | External | ModuleRef


class _Recorded(Mapping[str, ir.Module]):
    """Modules that note what is asked of them."""

    def __init__(self, modules: Mapping[str, ir.Module], read: set[Fact]) -> None:
        self.unrecorded = modules
        self._read = read

    def __getitem__(self, name: str) -> ir.Module:
        self._read.add(("module", name))
        return self.unrecorded[name]

    def __contains__(self, name: object) -> bool:
        self._read.add(("exists", str(name)))
        return name in self.unrecorded

    def __iter__(self) -> Iterator[str]:
        self._read.add(("names", ""))
        return iter(self.unrecorded)

    def __len__(self) -> int:
        return len(self.unrecorded)


@dataclass(slots=True)
class Project:
    """The modules by dotted name. ``lookup`` answers what a module-level name means.

    ``links`` says for an importing module which module an absolute name is there, where that is another one than the
    module of that name: two folders of scripts may each have their own ``common.py``. ``complete`` tells whether these
    are all modules there are: a run over some files does not see what the others set up. ``outlines`` and ``keys``
    (what each file's content is told by) may be given where they are known; else the modules are read for them.

    ``made_axes`` gives the meshes, and other axes, that the code itself makes. ``read`` collects every fact that was
    asked for: while all of them stay the same, an analysis gives the same answer.
    """

    modules: Mapping[str, ir.Module]
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    complete: bool = True
    outlines: Mapping[str, Outline] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    made_axes: Callable[[], MadeAxes] = MadeAxes
    read: set[Fact] = field(default_factory=set)
    #: What was found out about the whole project once, by what it is about.
    notes: dict[str, object] = field(default_factory=dict)
    _read_for: dict[str, frozenset[Fact]] = field(default_factory=dict)
    _made: dict[str, Outline] = field(default_factory=dict)
    _tables: dict[str, dict[str, ir.Stmt]] = field(default_factory=dict)
    _stars: dict[str, list[str]] = field(default_factory=dict)
    _packages: set[str] = field(default_factory=set)
    _globals: dict[str, frozenset[str]] = field(default_factory=dict)
    _recorded: _Recorded = field(init=False)

    def __post_init__(self) -> None:
        for name in self.modules:
            parts = name.split(".")
            self._packages.update(".".join(parts[:i]) for i in range(1, len(parts)))
        self.modules = self._recorded = _Recorded(self.modules, self.read)

    def module(self, name: str) -> ir.Module | None:
        """The module of that dotted name."""
        return self.modules.get(name)

    def fact(self, kind: str, name: str) -> str:
        """What is so at present, for a fact of this project alone."""
        match kind:
            case "module":
                return self.keys.get(name, "")
            case "exists":
                return str(name in self._recorded.unrecorded)
            case "names":
                return repr(list(self._recorded.unrecorded))
            case "package":
                return str(name in self._packages)
            case "some outline":
                return str(
                    any(
                        getattr(self._outline(one), name)
                        for one in self._recorded.unrecorded
                    )
                )
            case "links":
                return repr(sorted(self.links.get(name, {}).items()))
            case _:
                raise LookupError(f"{kind} is no fact of a project alone")

    def note(
        self,
        name: str,
        make: Callable[[], T],
        meanwhile: T | None = None,
        keeps: bool = False,
    ) -> T:
        """Something about the whole project, made once; ``meanwhile`` is for those who ask while it is being made. Who
        reads a note depends on what it says, not on how it is made, except for one that ``keeps`` what it has read:
        its readers depend on that."""
        if not keeps:
            self.read.add(("note", name))
        if name not in self.notes:
            self.notes[name] = meanwhile
            before = set(self.read)
            self.read.clear()
            try:
                self.notes[name] = make()
                self._read_for[name] = frozenset(self.read if keeps else ())
            except BaseException:
                del self.notes[name]  # whoever starts anew makes it anew
                raise
            finally:
                self.read.clear()
                self.read.update(before)
        self.read.update(self._read_for.get(name, ()))
        return self.notes[name]  # type: ignore[return-value]  # what ``make`` gave for this name

    def some_outline(self, has: str) -> bool:
        """Whether the outline of some module has a property, given by its name."""
        self.read.add(("some outline", has))
        return self.fact("some outline", has) == "True"

    def outline(self, name: str) -> Outline:
        """The outline of a module."""
        self.read.add(("module", name))
        return self._outline(name)

    def _outline(self, name: str) -> Outline:
        given = self.outlines.get(name)
        if given is not None:
            return given
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = outline(self._recorded.unrecorded[name])
        return made

    def lookup(self, module: str, name: str) -> Target | None:
        """What ``name`` means at module level of ``module``; None if nothing there binds it."""
        return self._lookup(module, name, set())

    def own_outlines(self) -> Iterator[Outline]:
        """The outlines of the modules that are no part of a library known by its models."""
        return (self.outline(name) for name in self.modules if not is_library(name))

    def names(self, module: str) -> Iterator[str]:
        """All names that a module binds itself."""
        yield from self._table(module)

    def assigned_by_functions(self, module: str) -> frozenset[str]:
        """Names that some function of a module declares ``global``: their module-level value may change at any time."""
        known = self._globals.get(module)
        if known is None:
            nodes = ir.statements(self.modules[module].body, True)
            declared = (
                node
                for node in nodes
                if isinstance(node, ir.Declare) and node.what == "global"
            )
            known = self._globals[module] = frozenset(
                name for node in declared for name in node.names
            )
        return known

    def source(self, module: str, text: str) -> str:
        """The module that an import statement of ``module`` means by a name, dots before it where it is relative."""
        name = text.lstrip(".")
        return self._linked(
            module,
            self._absolute(
                module, ir.ImportFrom(-1, name, len(text) - len(name), None)
            ),
        )

    def _lookup(
        self, module: str, name: str, seen: set[tuple[str, str]]
    ) -> Target | None:
        if (module, name) in seen:
            return None
        seen.add((module, name))
        node = self._table(module).get(name)
        if isinstance(node, ir.Import):
            return self._dotted(module, dict(node.bindings)[name])
        if isinstance(node, ir.ImportFrom):
            original = next(n for n, bound in node.names or () if bound == name)
            source = self._absolute(module, node)
            linked = self._linked(module, source)
            found = (
                None
                if linked not in self.modules
                else self.member(linked, original, seen)
            )
            found = (
                self._linked_member(module, source, original)
                if found is None
                else found
            )
            return self.member(linked, original, seen) if found is None else found
        if node is not None:
            return Definition(module, node, name)
        for source in reversed(self._stars[module]):
            if source in self.modules and not is_library(source):
                found = (
                    self._lookup(source, name, seen)
                    if not name.startswith("_")
                    else None
                )
                if found is not None:
                    return found
            elif not name.startswith("_") and name in STAR_EXPORTS.get(source, ()):
                return External(canonical(f"{source}.{name}"))
        return self._below(module, name)

    def _below(self, module: str, name: str) -> ModuleRef | None:
        """A module of a package, or a folder of modules."""
        below = f"{module}.{name}"
        self.read.add(("package", below))
        return (
            ModuleRef(below)
            if below in self.modules or below in self._packages
            else None
        )

    def member(
        self, source: str, name: str, seen: set[tuple[str, str]] | None = None
    ) -> Target | None:
        """What ``from source import name`` binds."""
        if source in self.modules and not is_library(source):
            return self._lookup(source, name, set() if seen is None else seen)
        below = self._below(source, name) if not is_library(source) else None
        if below is not None:
            return below
        return External(canonical(f"{source}.{name}"))

    def _dotted(self, module: str, name: str) -> Target:
        name = self._linked(module, name)
        self.read.add(("package", name))
        if not is_library(name) and (name in self.modules or name in self._packages):
            return ModuleRef(name)
        return External(canonical(name))

    def _linked(self, module: str, name: str) -> str:
        self.read.add(("links", module))
        return self.links.get(module, {}).get(name, name)

    def _linked_member(self, module: str, source: str, name: str) -> Target | None:
        """``from source import name`` where ``source`` binds no ``name``: a module below it."""
        below = self._linked(module, f"{source}.{name}")
        self.read.add(("package", below))
        return (
            ModuleRef(below)
            if below in self.modules or below in self._packages
            else None
        )

    def _absolute(self, module: str, node: ir.ImportFrom) -> str:
        if not node.level:
            return node.module
        here = self.modules[module]
        parts = module.split(".")
        package = parts if here.is_package else parts[:-1]
        base = package[: len(package) - (node.level - 1)]
        return ".".join([*base, *([node.module] if node.module else [])])

    def _table(self, module: str) -> dict[str, ir.Stmt]:
        self.read |= {("module", module), ("links", module)}
        table = self._tables.get(module)
        if table is None:
            stars: list[str] = []
            table = {}
            self._tables[module], self._stars[module] = table, stars
            try:
                if module in self.modules:
                    self._collect(module, self.modules[module].body, table, stars)
            except BaseException:
                del self._tables[module], self._stars[module]
                raise
        return table

    def _collect(
        self,
        module: str,
        body: tuple[ir.Stmt, ...],
        table: dict[str, ir.Stmt],
        stars: list[str],
    ) -> None:
        for node in body:
            match node:
                case ir.Function(name=name) | ir.Class(name=name):
                    table[name] = node
                case ir.Assign(targets=targets):
                    for target in targets:
                        table.update((n, node) for n in _names(target))
                case (
                    ir.AnnAssign(target=ir.Name(id=name))
                    | ir.AugAssign(target=ir.Name(id=name))
                ):
                    table[name] = node
                case ir.Import(bindings=bindings):
                    table.update((bound, node) for bound, _ in bindings)
                case ir.ImportFrom(names=None):
                    stars.append(self._linked(module, self._absolute(module, node)))
                case ir.ImportFrom(names=names):
                    table.update((bound, node) for _, bound in names or ())
                case ir.If(test=test, body=first, orelse=second):
                    bodies: tuple[dict[str, ir.Stmt], dict[str, ir.Stmt]] = ({}, {})
                    self._collect(module, second, bodies[0], stars)
                    self._collect(module, first, bodies[1], stars)
                    either = {**bodies[0], **bodies[1]}
                    if not _for_checkers(test):
                        for name in bodies[0].keys() & bodies[1].keys():
                            if isinstance(bodies[0][name], ir.Assign) or isinstance(
                                bodies[1][name], ir.Assign
                            ):
                                del either[name]  # one or the other
                                table.pop(name, None)
                    table.update(either)
                case ir.Try(body=first, handlers=handlers, orelse=orelse, final=final):
                    for handler in handlers:
                        self._collect(module, handler, table, stars)
                    for part in (first, orelse, final):
                        self._collect(module, part, table, stars)
                case ir.With(body=inner) | ir.For(body=inner) | ir.While(body=inner):
                    self._collect(module, inner, table, stars)
                case _:
                    pass


def _for_checkers(test: ir.Expr) -> bool:
    """``if TYPE_CHECKING:``: what the branch says is what readers are to know."""
    name = (
        test.id
        if isinstance(test, ir.Name)
        else test.name
        if isinstance(test, ir.Attr)
        else ""
    )
    return name == "TYPE_CHECKING"


def _names(target: ir.Expr) -> Iterator[str]:
    if isinstance(target, ir.Name):
        yield target.id
    elif isinstance(target, ir.Sequence):
        for item in target.items:
            yield from _names(item)
    elif isinstance(target, ir.Star):
        yield from _names(target.value)


def is_library(name: str) -> bool:
    """Libraries are known by their models, even where their own sources are among the files that are checked."""
    return name.partition(".")[0] in _LIBRARIES or f".{name}.".endswith(_ORIGINAL)


@lru_cache(maxsize=4096)
def canonical(qualname: str) -> str:
    """One name for each thing that libraries export under several."""
    _, original, last = f".{qualname}".rpartition(_ORIGINAL)
    if original and "." not in last:
        return f"shardlib.shardtypes.{last}"
    for prefix, full in _PREFIXES:
        if qualname == prefix or qualname.startswith(prefix + "."):
            return full + qualname[len(prefix) :]
    return qualname


_PREFIXES = (
    ("jax.experimental.shard_map.shard_map", "jax.shard_map"),
    ("equinox.filter_shard_map", "jax.shard_map"),
    ("equinox.filter_shard", "jax.lax.with_sharding_constraint"),
    ("jax.experimental.pjit.pjit", "jax.jit"),
    ("jax.interpreters.pxla.PartitionSpec", "jax.sharding.PartitionSpec"),
    ("jax.experimental.PartitionSpec", "jax.sharding.PartitionSpec"),
    ("jax.P", "jax.sharding.PartitionSpec"),
    ("jax.NamedSharding", "jax.sharding.NamedSharding"),
    (
        "jax.experimental.pjit.with_sharding_constraint",
        "jax.lax.with_sharding_constraint",
    ),
    ("jax.remat", "jax.checkpoint"),
    ("jax.ad_checkpoint.checkpoint", "jax.checkpoint"),
    ("jax.tree_util.tree_map", "jax.tree.map"),
    ("jax.tree_map", "jax.tree.map"),
    ("typing.reveal_type", "builtins.reveal_type"),
    ("typing_extensions.reveal_type", "builtins.reveal_type"),
    ("jax._src", "jax"),
    ("flax.linen.initializers", "jax.nn.initializers"),
    ("flax.nnx.initializers", "jax.nn.initializers"),
    *(
        (f"flax.linen.{name}", f"jax.nn.initializers.{name}")
        for name in ("zeros", "ones", "zeros_init", "ones_init")
    ),
    ("flax.linen.normalize", "jax.nn.standardize"),
    ("flax.linen.tanh", "jax.numpy.tanh"),
    ("flax.nnx.tanh", "jax.numpy.tanh"),
    *(
        (f"flax.{part}.{name}", f"jax.nn.{name}")
        for part in ("linen", "nnx")
        for name in (
            "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax logsumexp"
            " one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus standardize swish"
        ).split()
    ),
)
#: The annotations that this package grew from: programs carry their sources along, in a package of any name.
_ORIGINAL = ".shardlib.shardtypes."
_LIBRARIES = frozenset(
    {
        "shardtypes",
        "jax",
        "numpy",
        "jaxtyping",
        "einops",
        "flax",
        "equinox",
        "typeguard",
        "beartype",
    }
)
