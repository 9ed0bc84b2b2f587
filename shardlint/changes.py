"""What the text of a body changes in place: lists that grow, dicts and arrays whose items are set, names of modules."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from shardlint import ir
from shardlint.walking import walk
from shardtypes.lang.frozen import frozen

#: Methods that change a list, a dict or a set.
MUTATORS = frozenset(
    """append extend insert remove pop clear sort reverse update setdefault popitem __setitem__ add discard appendleft
    popleft extendleft rotate""".split()
)
#: Functions that change their first argument in place.
_CHANGING = frozenset(
    "heappush heappop heapify heapreplace heappushpop shuffle insort insort_left insort_right".split()
)
#: The same, of the fixtures and modules that tests and others set something by: ``monkeypatch.setitem(FLAGS, …)``.
_CHANGING_METHODS = frozenset({"setitem", "delitem", "dict", "multiple"})
#: Functions that give an attribute, named in their second argument, of their first another value.
_SETTING = frozenset({"setattr", "delattr", "__setattr__", "object"})
#: Functions that may be given the dotted name of what they set.
_NAMING = _SETTING | _CHANGING_METHODS | {"patch"}
#: Parts of a path that are no names: a call, an item.
CALLED, ITEM = "()", "[]"
#: What they have is not changed by others, or nothing here looks at it.
_LEFT_ALONE = sys.stdlib_module_names | {
    "jax",
    "numpy",
    "scipy",
    "flax",
    "optax",
    "equinox",
    "einops",
    "torch",
}
_MOST_PATHS = 16  # that a name may stand for

Path: TypeAlias = tuple[str, ...]
"""How an expression reaches something: a name, then attributes, ``ITEM`` or ``CALLED``."""
Nodes: TypeAlias = tuple[ir.Node, ...]
"""The nodes of a body that tell what it changes: those that ``_telling`` gives."""


@frozen
class Change:
    """Something that code does to what it has by a name from elsewhere. ``source`` is the module, dots before it where
    it is relative, '' for the module of the code itself; ``path`` is what is reached from there.

    ``by`` says how: '' changes it in place, or gives it another value if ``sets``; ``name()`` gives it to a function of
    that name, ``.name`` keeps it in an attribute of that name.
    """

    source: str
    path: Path
    sets: bool = False
    by: str = ""


@frozen
class Changes:
    """What a file changes. ``attributes`` are the names of those that it changes in place, in whatever object;
    ``functions`` those of its functions, or classes, that change what they are given; ``keeping`` those that keep it in
    an attribute, with its name, or that give it to another function."""

    made: tuple[Change, ...] = ()
    attributes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    keeping: tuple[tuple[str, str], ...] = ()


def mutated_names(body: tuple[ir.Node, ...]) -> set[str]:
    """The names of what a body certainly, or possibly, changes in place itself, or something in it."""
    nodes = _telling(body)
    return {path[0] for path, _ in _changed_paths(nodes, _aliases(nodes))}


def changes(body: tuple[ir.Stmt, ...]) -> Changes:
    """One look at a whole file."""
    imported, stars = _imported(body)
    made: dict[Change, None] = {}
    attributes: set[str] = set()
    functions: set[str] = set()
    keeping: set[tuple[str, str]] = set()

    def note(path: Path, own: set[str], inside: bool, sets: bool, by: str) -> None:
        name = path[0]
        if name in own:
            return
        sources = [
            (source, (*parts, *path[1:])) for source, parts in imported.get(name, ())
        ]
        if name not in imported:
            sources = [(source, path) for source in stars]
            if inside:
                sources.append(("", path))
        for source, reached in sources:
            if reached:
                made[Change(source, reached, sets, by)] = None

    for function, name, scope in _scopes(body):
        nodes = _telling(scope)
        aliases = _aliases(nodes)
        own = _own_names(function) if function is not None else set()
        inside = function is not None
        first = (
            {param.name for param in function.params} if function is not None else set()
        )
        for path, sets in _changed_paths(nodes, aliases):
            attributes.update(part for part in path[1:] if part not in (CALLED, ITEM))
            note(path, own, inside, sets, "")
            if path[0] in first and len(path) == 1:
                functions.add(name)
        for path, by in _handed_on(nodes, aliases):
            note(path, own, inside, False, by)
            if path[0] in first:
                keeping.add((name, by))
        for source, reached in _named_in_texts(nodes):
            made[Change(source, reached, True)] = None
    return Changes(
        tuple(made),
        tuple(sorted(attributes)),
        tuple(sorted(functions)),
        tuple(sorted(keeping)),
    )


def returned_paths(node: ir.Function) -> Iterator[Path]:
    """What a function may give back of what it has from elsewhere."""
    aliases = _aliases(_telling(node.body))
    own = _own_names(node)
    for one in walk(node.body):
        if isinstance(one, ir.Return) and one.value is not None:
            yield from (
                path for path in _paths(one.value, aliases) if path[0] not in own
            )
        elif isinstance(one, ir.Opaque) and one.what == "yield":
            for part in one.parts:
                yield from (
                    path for path in _paths(part, aliases) if path[0] not in own
                )


def bound_paths(node: ir.Assign | ir.AnnAssign, name: str) -> list[Path]:
    """What a name may stand for, by the statement that binds it."""
    return _aliases(_telling((node,))).get(name, [])


_TELLING: frozenset[type[ir.Node]] = frozenset(
    {
        ir.AnnAssign,
        ir.Assign,
        ir.AugAssign,
        ir.Call,
        ir.Delete,
        ir.For,
        ir.Generator,
        ir.Walrus,
        ir.With,
    }
)


def _telling(body: tuple[ir.Node, ...]) -> Nodes:
    """The nodes of a body that bind, change or hand on something, in order."""
    return tuple(walk(body, _TELLING))


def _scopes(
    body: tuple[ir.Stmt, ...],
) -> Iterator[tuple[ir.Function | None, str, tuple[ir.Node, ...]]]:
    """What runs with the module, then each function with what runs in it; a constructor goes by the name of its
    class."""
    around = tuple(
        one
        for one in ir.statements(body)
        if not isinstance(one, (ir.Function, ir.Class))
    )
    classes = [one for one in ir.statements(body, True) if isinstance(one, ir.Class)]
    yield None, "", tuple(_without_blocks(around))
    constructors = {}
    for cls in classes:
        inner = tuple(
            one
            for one in ir.statements(cls.body)
            if not isinstance(one, (ir.Function, ir.Class))
        )
        yield None, "", (*cls.decorators, *_without_blocks(inner))
        for one in cls.body:
            if isinstance(one, ir.Function) and one.name in (
                "__init__",
                "__new__",
                "__post_init__",
            ):
                constructors[id(one)] = cls.name
    for one in ir.statements(body, True):
        if isinstance(one, ir.Function):
            yield None, "", one.decorators
            yield one, constructors.get(id(one), one.name), one.body


def _without_blocks(body: Iterable[ir.Stmt]) -> Iterator[ir.Node]:
    """Statements without those in their blocks, which ``ir.statements`` gives one by one."""
    for node in body:
        match node:
            case ir.If(test=test) | ir.While(test=test):
                yield test
            case ir.For():
                yield ir.For(node.at, node.target, node.iter, (), ())
            case ir.With(items=items):
                yield ir.With(node.at, items, ())
            case ir.Try() | ir.Match():
                pass
            case _:
                yield node


def _imported(
    body: tuple[ir.Stmt, ...],
) -> tuple[dict[str, list[tuple[str, Path]]], list[str]]:
    """What the names of a file are that it imports anywhere, and what it imports all names of."""
    found: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    stars = []
    for node in ir.statements(body, True):
        match node:
            case ir.Import(bindings=bindings):
                for bound, module in bindings:
                    found[bound] += [] if _is_left_alone(module) else [(module, ())]
            case ir.ImportFrom(module=module, level=level, names=None):
                stars += (
                    []
                    if _is_left_alone("." * level + module)
                    else ["." * level + module]
                )
            case ir.ImportFrom(module=module, level=level, names=names):
                for name, bound in names or ():
                    found[bound] += (
                        []
                        if _is_left_alone("." * level + module)
                        else [("." * level + module, (name,))]
                    )
            case _:
                pass
    return found, stars


def _is_left_alone(module: str) -> bool:
    return module.partition(".")[0] in _LEFT_ALONE


def _aliases(nodes: Nodes) -> dict[str, list[Path]]:
    """What the names of a body may stand for, by what it assigns to them."""
    found: dict[str, list[Path]] = defaultdict(list)
    for node in nodes:
        match node:
            case ir.Assign(targets=targets, value=value):
                for target in targets:
                    _bind(target, value, "", found)
            case ir.AnnAssign(target=target, value=value) if value is not None:
                _bind(target, value, "", found)
            case (
                ir.For(target=target, iter=value)
                | ir.Generator(target=target, iter=value)
            ):
                _bind(target, value, ITEM, found)
            case ir.With(items=items):
                for value, bound in items:
                    if bound is not None:
                        _bind(bound, value, "", found)
            case ir.Walrus(target=name, value=value):
                found[name] += _plain_paths(value)
            case _:
                pass
    return found


def _bind(
    target: ir.Expr, value: ir.Expr, step: str, found: dict[str, list[Path]]
) -> None:
    match target, value:
        case ir.Name(id=name), _:
            steps = (step,) if step else ()
            found[name] += [(*path, *steps) for path in _plain_paths(value)]
        case ir.Sequence(items=items), ir.Sequence(items=values) if (
            len(items) == len(values) and not step
        ):
            for one, held in zip(items, values, strict=True):
                _bind(one, held, "", found)
        case ir.Sequence(items=items), _:
            for one in items:
                _bind(one, value, ITEM, found)
        case ir.Star(value=inner), _:
            _bind(inner, value, ITEM, found)
        case _:
            pass


def _plain_paths(expr: ir.Expr) -> list[Path]:
    return list(_paths(expr, {}))


def _paths(expr: ir.Expr, aliases: dict[str, list[Path]]) -> Iterator[Path]:
    """How an expression may reach what it gives, by the names of a body and by what these stand for."""
    pending = _written(expr)
    seen: dict[Path, None] = {}
    while pending and len(seen) < _MOST_PATHS:
        path = pending.pop()
        if path not in seen and len(path) < _MOST_PATHS:
            seen[path] = None
            pending += [
                (*one, *path[1:])
                for one in islice(aliases.get(path[0], ()), _MOST_PATHS)
            ]
    yield from seen


def _written(expr: ir.Expr) -> list[Path]:
    match expr:
        case ir.Name(id=name):
            return [(name,)]
        case ir.Attr(obj=obj, name=name):
            return [(*path, name) for path in _written(obj)]
        case ir.Subscript(obj=obj):
            return [(*path, ITEM) for path in _written(obj)]
        case ir.Call(
            func=ir.Name(id="enumerate" | "reversed" | "iter" | "next" | "zip"),
            args=args,
        ):
            return [(*path, ITEM) for arg in args for path in _written(arg.value)]
        case ir.Call(func=func):
            return [(*path, CALLED) for path in _written(func)]
        case ir.IfExp(body=first, orelse=second):
            return [*_written(first), *_written(second)]
        case ir.Bool(values=values):
            return [path for value in values for path in _written(value)]
        case ir.Walrus(value=value) | ir.Star(value=value):
            return _written(value)
        case _:
            return []


def _changed_paths(
    nodes: Nodes, aliases: dict[str, list[Path]]
) -> Iterator[tuple[Path, bool]]:
    """What a body changes in place; or, then True, what attribute of something it gives another value."""
    for node in nodes:
        for expr, step in _changed(node):
            steps = (step,) if step else ()
            yield from (((*path, *steps), bool(step)) for path in _paths(expr, aliases))


def _changed(node: ir.Node) -> Iterator[tuple[ir.Expr, str]]:
    """The expressions that a node changes what they give, and the attribute that it sets."""
    match node:
        case ir.Call(func=ir.Attr(obj=obj, name=method)) if method in MUTATORS:
            yield obj, ""
        case ir.Assign(targets=targets) | ir.Delete(targets=targets):
            for target in targets:
                yield from _stored(target)
        case ir.AnnAssign(target=target) | ir.For(target=target):
            yield from _stored(target)
        case ir.With(items=items):
            for _, bound in items:
                if bound is not None:
                    yield from _stored(bound)
        case ir.AugAssign(target=ir.Name() as target):
            yield target, ""
        case ir.AugAssign(target=target):
            yield from _stored(target)
        case _:
            pass
    if isinstance(node, ir.Call) and node.args:
        name = _last_name(node.func)
        first = node.args[0].value
        attribute = _text(node.args[1].value) if len(node.args) > 1 else None
        if name in _CHANGING or (
            name in _CHANGING_METHODS and isinstance(node.func, ir.Attr)
        ):
            yield first, ""
        elif name in _SETTING:
            yield first, attribute or ITEM


def _stored(target: ir.Expr) -> Iterator[tuple[ir.Expr, str]]:
    match target:
        case ir.Attr(obj=obj, name=name):
            yield obj, name
        case ir.Subscript(obj=obj):
            yield obj, ""
        case ir.Star(value=inner):
            yield from _stored(inner)
        case ir.Sequence(items=items):
            for item in items:
                yield from _stored(item)
        case _:
            pass


def _handed_on(
    nodes: Nodes, aliases: dict[str, list[Path]]
) -> Iterator[tuple[Path, str]]:
    """What a body gives to functions, or keeps in attributes, as ``Change.by`` says it."""
    for node in nodes:
        match node:
            case ir.Call(func=func, args=args):
                name = _last_name(func)
                for arg in args:
                    if name:
                        yield from (
                            (path, f"{name}{CALLED}")
                            for path in _paths(arg.value, aliases)
                        )
                    if arg.keyword is not None:
                        yield from (
                            (path, f".{arg.keyword}")
                            for path in _paths(arg.value, aliases)
                        )
            case ir.Assign(targets=targets, value=value):
                for target in targets:
                    for _, attribute in _stored(target):
                        if attribute:
                            yield from (
                                (path, f".{attribute}")
                                for path in _paths(value, aliases)
                            )
            case _:
                pass


def _named_in_texts(nodes: Nodes) -> Iterator[tuple[str, Path]]:
    """What is set by its dotted name: ``patch("model.layers.WIDTH", 3)``."""
    for node in nodes:
        if isinstance(node, ir.Call) and node.args and _last_name(node.func) in _NAMING:
            parts = (_text(node.args[0].value) or "").split(".")
            if len(parts) > 1 and all(part.isidentifier() for part in parts):
                yield parts[0], tuple(parts[1:])


def _text(expr: ir.Expr) -> str | None:
    return (
        expr.value
        if isinstance(expr, ir.Const) and isinstance(expr.value, str)
        else None
    )


def _last_name(expr: ir.Expr) -> str:
    if isinstance(expr, ir.Name):
        return expr.id
    return expr.name if isinstance(expr, ir.Attr) else ""


def _own_names(node: ir.Function) -> set[str]:
    """The names that a function binds itself, those of the functions inside aside."""
    found = {param.name for param in node.params}
    for one in ir.statements(node.body):
        match one:
            case ir.Assign(targets=targets):
                found |= {
                    target.id for target in targets if isinstance(target, ir.Name)
                }
            case (
                ir.AnnAssign(target=ir.Name(id=name))
                | ir.AugAssign(target=ir.Name(id=name))
            ):
                found.add(name)
            case ir.For(target=ir.Name(id=name)):
                found.add(name)
            case _:
                pass
    declared = [one for one in ir.statements(node.body) if isinstance(one, ir.Declare)]
    return found - {
        name for one in declared if one.what == "global" for name in one.names
    }
