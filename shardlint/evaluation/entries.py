"""Functions that map over devices and can be called by themselves, with arguments made from their annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from shardlint.evaluation import meshes
from shardlint.evaluation.arguments import Maker, Sizes
from shardlint.evaluation.array_annotations import typed_shard_map
from shardlint.evaluation.comparison import (
    Allowance,
    Outcome,
    Program,
    numbers_of,
    observed,
    reason_of,
)
from shardlint.evaluation.errors import NotEvaluable, OutOfBudget
from shardlint.evaluation.mapping import NO_MESH, Region
from shardlint.evaluation.meshes import Mesh
from shardlint.evaluation.modules import Find, Module, World, Written, is_function
from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.unmade import Guess
from shardtypes.lang import ShapeSyntaxError, parse
from shardtypes.semantics.array import NotConcrete, SizesDiffer
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.trees import flatten

COLLECTIVES = collectives("combines", "exchanges") | {"axis_index"}
MAPPINGS = frozenset({"shard_map", "smap", "pmap", "typed_shard_map", "filter_pmap"})
_SPECS = frozenset({"P", "PartitionSpec"})
_AXIS_SIZE = 2
MOST_RUNS = 16  # of one function, if each takes all its steps
_MOST_AXES = 3
_NO_GUESS = Guess()
# arguments without annotation of which each two may have fewer dimensions than the others
_MOST_OF_RANKS = 6
# arguments without annotation that are tried as integers, one after another
MOST_GUESSED = 4


@dataclass(frozen=True)
class Entry:
    """A function of a module, and how its arguments are made.

    ``on_mesh`` puts a mesh in force: the module's own, or one of ``axes``. A ``helper`` of mapped functions is mapped
    by its annotations. Arguments without annotation are made by ``guess``; ``guessed`` collects their names. Names in
    annotations have these ``sizes``, others are chosen.
    """

    module: str
    function: str
    axes: tuple[str, ...]
    unit: int
    distinct: bool
    on_mesh: bool
    positive: bool = False
    helper: bool = False
    guess: Guess = _NO_GUESS
    guessed: list[str] = field(default_factory=list, compare=False)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def load(self, world: World) -> Module:
        """Its module."""
        module = world.module(self.module)
        if module is None:
            raise NotEvaluable(f"{self.module} is not found")
        return module

    def __call__(self, world: World) -> dict[str, int]:
        """Call it; gives the sizes that stand for the names in its annotations."""
        module = self.load(world)
        sizes = Sizes(self.unit, self.distinct)
        sizes.update(self.sizes)
        maker = self._maker(world, sizes)
        function = self._function(world, maker)
        if self.helper:
            function = typed_shard_map(
                function, mesh=self._mesh(world, module), check_vma=False
            )
        regions: list[Region] = []
        with (
            self._mesh(world, module) if self.on_mesh else nullcontext(),
            observed(regions, None),
        ):
            positional, named = maker.arguments(function)
            answer = function(*positional, **named)
            if is_function(answer) and not regions:
                positional, named = maker.arguments(answer)
                answer(*positional, **named)
        return dict(sizes)

    def refusal(self, world: World) -> str:
        """Why no arguments can be made for it; empty where they can."""
        made = meshes.machine().made
        before = len(made)
        try:
            maker = self._maker(world, Sizes(self.unit, self.distinct))
            maker.arguments(self._function(world, maker))
        except OutOfBudget:
            raise
        except (NotEvaluable, NotConcrete, Exception) as error:  # noqa: BLE001 - whatever the program raises
            return reason_of(error)
        finally:
            del made[before:]
        return ""

    def _function(self, world: World, maker: Maker) -> Any:
        """The function; of a method ``Class.method`` that of an object which is made."""
        owner, _, name = self.function.rpartition(".")
        member = world.member(self.load(world), owner or name)
        return maker.method(member, name) if owner else member

    def _maker(self, world: World, sizes: Sizes) -> Maker:
        module = self.load(world)
        return Maker(
            sizes,
            self.positive,
            lambda: self._mesh(world, module),
            self.guess,
            self.guessed,
        )

    def _mesh(self, world: World, module: Module) -> Mesh:
        """The mesh that the module makes, or else one of two devices along each axis that it names."""
        own = meshes.machine().made
        if own:
            return Mesh(
                tuple(map(int, own[-1].sizes)), own[-1].axis_names, own[-1].axis_types
            )
        if not 0 < len(self.axes) <= _MOST_AXES:
            raise NotEvaluable("a mesh whose axes are not known")
        return meshes.made(
            [
                self._axis_size(world, module, number)
                for number in range(len(self.axes))
            ],
            self.axes,
        )

    def _axis_size(self, world: World, module: Module, number: int) -> Written:
        """The size of an axis, as if it were written in the module."""
        where = (module.path, (0, number, 0, number))
        world.met[where] = _AXIS_SIZE
        return Written(world.literals.get(where, _AXIS_SIZE), where)


@dataclass(frozen=True)
class Trial:
    """An entry that runs."""

    entry: Entry
    program: Program
    declared: Outcome

    @property
    def sizes(self) -> Mapping[str, int]:
        """What stands for the names in its annotations."""
        found: Mapping[str, int] = self.declared.answer
        return found


def trials(
    find: Find,
    module: str,
    source: str,
    functions: Sequence[str],
    steps: int,
    most: int,
) -> Iterator[tuple[str, Trial | str]]:
    """For each function the first way to call it that works, or why there is none. A run takes so many ``steps``, and
    all runs of all of them together at ``most`` so many."""
    allowance = Allowance(most)
    for function, ways in _callable(find, module, source, functions, steps).items():
        yield (
            function,
            ways if isinstance(ways, str) else _first(find, ways, steps, allowance),
        )


def _callable(
    find: Find, module: str, source: str, functions: Sequence[str], steps: int
) -> Mapping[str, Sequence[Entry] | str]:
    """The ways to call each function for which arguments can be made, or why there are none. The module is run once
    for all of them."""
    if not functions:
        return {}
    axes = tuple(axis_names(source))
    manual = helpers(source)

    def ways(world: World) -> dict[str, Sequence[Entry] | str]:
        world.module(module)
        sizes = [int(size) for mesh in meshes.machine().made for size in mesh.sizes]
        # so that each device has at least two of everything
        unit = 2 * max(sizes, default=_AXIS_SIZE)
        entries = {
            function: Entry(
                module, function, axes, unit, True, False, helper=function in manual
            )
            for function in functions
        }
        return {function: _ways(entry, world) for function, entry in entries.items()}

    outcome = Program(find, ways, steps).run(DEVICES)
    if outcome.reason:
        return dict.fromkeys(functions, outcome.reason)
    found: dict[str, Sequence[Entry] | str] = outcome.answer
    return found


def _ways(first: Entry, world: World) -> Sequence[Entry] | str:
    """The ways to call a function for which arguments can be made, or why the first of them has none."""
    entries = [first, replace(first, distinct=False)]
    refusals = [entry.refusal(world) for entry in entries]
    if all(refusals):
        return refusals[0]
    kept = [
        entry for entry, refusal in zip(entries, refusals, strict=True) if not refusal
    ]
    return [
        replace(entry, on_mesh=on_mesh) for entry in kept for on_mesh in (False, True)
    ]


def _first(
    find: Find, ways: Sequence[Entry], steps: int, allowance: Allowance
) -> Trial | str:
    """The first way to call a function that works, or why the first of them does not."""
    reasons: list[str] = []
    for way in ways:
        for guess in _guesses(way, reasons):
            entry = replace(way, guess=guess)
            program = Program(
                find, entry, steps, entry.load, Allowance(MOST_RUNS * steps, allowance)
            )
            outcome = program.run(DEVICES)
            if outcome.regions and not outcome.reason:
                return _finite(Trial(entry, program, outcome))
            reasons.append(outcome.reason or "it maps nothing over devices")
    # one of the ways has no mesh
    others = [reason for reason in reasons if reason != NO_MESH]
    return (others or reasons)[0]


def _guesses(entry: Entry, reasons: Sequence[str]) -> Iterator[Guess]:
    """What arguments without annotation may be; one guess if there are none. ``reasons`` grows with each that fails."""
    yield _NO_GUESS
    names = list(dict.fromkeys(entry.guessed))
    if not names:
        return
    yield Guess(rank=1)
    yield Guess(rank=3)
    if any(reason.startswith(SizesDiffer.__name__) for reason in reasons):
        yield from _with_biases(entry)
    yield from (Guess(whole=name) for name in names[:MOST_GUESSED])
    for name in names[:MOST_GUESSED]:  # labels
        yield Guess(whole=name, as_specs=frozenset({name}))


def _with_biases(entry: Entry) -> Iterator[Guess]:
    """Guesses for a function in which sizes differ: some arguments are biases, or parameters with biases in them."""
    names = list(dict.fromkeys(entry.guessed))[:_MOST_OF_RANKS]
    if len(names) < 2:
        return
    for batch in (names[0], names[-1]):
        yield Guess(as_specs=frozenset(names) - {batch})
    for count in (1, 2):
        for chosen in combinations(names, count):
            yield Guess(as_specs=frozenset(chosen))


def _finite(tried: Trial) -> Trial:
    """The same with positive numbers where others have no result, as logarithms and quantiles do."""
    if all(map(_is_finite, tried.declared.regions)):
        return tried
    entry = replace(tried.entry, positive=True)
    program = replace(tried.program, entry=entry, before=entry.load)
    outcome = program.run(DEVICES)
    return (
        Trial(entry, program, outcome)
        if outcome.regions and not outcome.reason
        else tried
    )


def _is_finite(region: Region) -> bool:
    """Whether the results of a call are numbers."""
    leaves, _ = flatten(region.results)
    for numbers in map(numbers_of, leaves):
        if numbers is None or numbers.dtype.kind not in "fc":
            continue
        if not np.isfinite(numbers).all():
            return False
    return True


@lru_cache(maxsize=64)
def mapping_functions(source: str) -> tuple[str, ...]:
    """The functions at the top of a module, and methods of its classes as ``Class.method``, that map over devices,
    themselves or through others of the module.

    Raises SyntaxError or RecursionError for a module that this Python does not read.
    """
    made = [
        (name, statement)
        for statement in ast.parse(source).body
        for name in _bound(statement)
    ]
    reaching = _reaching(made)
    makers = MAPPINGS | {name for name, statement in made if _is_maker(statement)}
    mapping = {
        name
        for name, statement in made
        if name in reaching and _is_function(statement, makers)
    }
    found: list[str] = []
    for name, statement in made:
        if name in mapping or name in helpers(source):
            found.append(name)
        elif isinstance(statement, ast.ClassDef):
            found += [f"{name}.{method}" for method in _methods(statement, reaching)]
    return tuple(found)


def _methods(statement: ast.ClassDef, reaching: frozenset[str]) -> Iterator[str]:
    """The methods of a class that map over devices: those by which it is made and compared are none."""
    if statement.name.startswith("Test"):
        return
    for part in statement.body:
        if not isinstance(part, ast.FunctionDef) or part.name.startswith("test_"):
            continue
        is_special = part.name.startswith("__") and part.name != "__call__"
        if not is_special and _names(part) & reaching:
            yield part.name


@lru_cache(maxsize=64)
def is_script(source: str, imported: frozenset[str] = frozenset()) -> bool:
    """Whether a module maps functions and calls what it maps as soon as it is run, outside of all functions. Of what is
    ``imported`` from the rest of the program, these functions map.

    Raises SyntaxError or RecursionError for a module that this Python does not read.
    """
    body = ast.parse(source).body
    made = [(name, statement) for statement in body for name in _bound(statement)]
    reaching = _reaching(made, imported)
    makers = MAPPINGS | {name for name, statement in made if _is_maker(statement)}
    return any(
        isinstance(part, ast.Call) and _calls(part.func, reaching, makers)
        for statement in body
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        for part in ast.walk(statement)
    )


def _calls(called: ast.expr, reaching: frozenset[str], makers: frozenset[str]) -> bool:
    """Whether a call of this is one of a mapped function, or of what calls one; ``makers`` only make them."""
    is_named = isinstance(called, (ast.Name, ast.Attribute))
    return bool(_names(called) & (reaching - makers if is_named else reaching))


@lru_cache(maxsize=64)
def imports(source: str) -> tuple[tuple[str, str, str], ...]:
    """What ``from module import name`` at the top of a module binds: the name there, the module with the dots before
    it, and the name here."""
    return tuple(
        (alias.name, "." * one.level + (one.module or ""), alias.asname or alias.name)
        for one in ast.parse(source).body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    )


def _reaching(
    made: Sequence[tuple[str, ast.stmt]], imported: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The names of what maps functions over devices, themselves or through others of the module."""
    used = {name: _names(statement) for name, statement in made}
    reaching = set(MAPPINGS | imported)
    more = reaching
    while more:
        more = {name for name, names in used.items() if names & reaching} - reaching
        reaching |= more
    return frozenset(reaching)


@lru_cache(maxsize=64)
def without_arguments(source: str) -> frozenset[str]:
    """The functions at the top of a module that take no arguments, as ``main`` does."""
    functions = [
        statement
        for statement in ast.parse(source).body
        if isinstance(statement, ast.FunctionDef)
    ]
    return frozenset(
        one.name for one in functions if not one.args.args and not one.args.kwonlyargs
    )


@lru_cache(maxsize=64)
def helpers(source: str) -> frozenset[str]:
    """The functions at the top of a module that mapped functions call: they use collectives, map nothing themselves,
    and say in annotations how their arguments are sharded."""
    functions = [
        statement
        for statement in ast.parse(source).body
        if isinstance(statement, ast.FunctionDef)
    ]
    manual = [
        one
        for one in functions
        if _names(one) & COLLECTIVES and not _names(one) & MAPPINGS
    ]
    return frozenset(
        one.name for one in manual if one.returns is not None and _is_sharded(one.args)
    )


def _is_sharded(parameters: ast.arguments) -> bool:
    """Whether annotations of parameters name mesh axes."""
    annotations = [
        one.annotation
        for one in (*parameters.args, *parameters.kwonlyargs)
        if one.annotation is not None
    ]
    subscripts = [
        part
        for one in annotations
        for part in ast.walk(one)
        if isinstance(part, ast.Subscript)
    ]
    return any(
        _axes_in(one.slice.value)
        for one in subscripts
        if isinstance(one.slice, ast.Constant)
    )


def _bound(statement: ast.stmt) -> Sequence[str]:
    """The names that a statement binds, as far as mapped functions may have them."""
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname for alias in statement.names if alias.asname]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return (statement.name,)
    if isinstance(statement, ast.Assign):
        return [
            part.id
            for target in statement.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name)
        ]
    return ()


def _is_maker(statement: ast.stmt) -> bool:
    """Whether a statement gives another name to what maps functions, perhaps with some of its arguments."""
    if isinstance(statement, ast.ImportFrom):
        return bool(_names(statement) & MAPPINGS)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(value, ast.Call) and "partial" in _names(value.func):
        value = value.args[0] if value.args else None
    is_name = isinstance(value, (ast.Name, ast.Attribute))
    return is_name and value is not None and bool(_names(value) & MAPPINGS)


def _is_function(statement: ast.stmt, makers: frozenset[str]) -> bool:
    """Whether a statement makes a function: defines it, or maps one."""
    if isinstance(statement, ast.FunctionDef):
        return not statement.name.startswith("test_")
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call)]
    return isinstance(statement, ast.Assign) and any(
        _names(call.func) & makers for call in calls
    )


def _names(node: ast.AST) -> set[str]:
    """All names in a piece of code, attributes among them."""
    parts = list(ast.walk(node))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    names |= {part.name for part in parts if isinstance(part, ast.alias)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}


@lru_cache(maxsize=64)
def axis_names(source: str) -> tuple[str, ...]:
    """The mesh axes that PartitionSpecs and annotations of a module name, in order."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _names(node.func) & _SPECS:
            constants = [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant)
            ]
            found.update({value: None for value in constants if isinstance(value, str)})
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.update(dict.fromkeys(_axes_in(node.slice.value)))
    return tuple(found)


def _axes_in(text: Any) -> list[str]:
    """The mesh axes in a shape string; of anything else, none."""
    if not isinstance(text, str) or "/" not in text:
        return []
    try:
        return [axis for dim in parse(text).dims for axis in dim.axes]
    except ShapeSyntaxError:
        return []
