"""What a whole project does with its classes: who inherits from whom, and which attributes are written where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shardlint import ir
from shardlint.engine.strings import walk
from shardlint.engine.trees import is_tree
from shardlint.values import ClassValue

#: Methods that make an instance: what they write is there before anything else looks.
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "setup", "__new__"})


class _EveryName(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME = _EveryName()


class ClassIndex:
    """One look at all modules; classes are told apart by name, so two of one name count as one."""

    def __init__(self, modules: Iterable[ir.Module]) -> None:
        self._below: dict[str, list[ir.Class]] = {}
        self._written: set[str] = set()
        self._own: dict[str, set[str]] = {}
        self._any_written = False  # somewhere attributes are written whose names are not known
        self._registered: set[str] = set()
        self._names: dict[str, frozenset[str]] = {}
        for module in modules:
            self._module(module)

    def _module(self, module: ir.Module) -> None:
        for node in walk(module.body):
            match node:
                case ir.Class():
                    for base in node.bases:
                        self._below.setdefault(_last(base.value), []).append(node)
                    self._class(node)
                case ir.Assign(targets=targets):
                    for target in targets:
                        self._note(target)
                case ir.AugAssign(target=target) | ir.AnnAssign(target=target):
                    self._note(target)
                case ir.Delete(targets=targets):
                    for target in targets:
                        self._note(target)
                case ir.Call(func=func, args=args) if "register" in _last(func):
                    self._registered.update(_last(arg.value) for arg in args)
                case ir.Call(func=ir.Attr(name="__setattr__") | ir.Name(id="setattr"), args=args) if len(args) > 1:
                    name = args[1].value
                    if isinstance(name, ir.Const) and isinstance(name.value, str):
                        self._written.add(name.value)
                    else:
                        self._any_written = True
                case ir.Call(func=ir.Attr(obj=ir.Attr(name="__dict__") | ir.Call(func=ir.Name(id="vars")))):
                    self._any_written = True
                case _:
                    pass

    def _note(self, target: ir.Expr) -> None:
        for attr in _attributes(target):
            if not (isinstance(attr.obj, ir.Name) and attr.obj.id == "self"):
                self._written.add(attr.name)

    def _class(self, node: ir.Class) -> None:
        own = self._own.setdefault(node.name, set())
        for method in node.body:
            if isinstance(method, ir.Function) and method.name not in CONSTRUCTORS:
                own |= self_writes(method)

    def subclasses(self, name: str) -> list[ir.Class]:
        """All classes below one of that name."""
        found: dict[int, ir.Class] = {}  # by identity: comparing two definitions compares all that is in them
        pending = [name]
        while pending:
            for node in self._below.get(pending.pop(), []):
                if id(node) not in found:
                    found[id(node)] = node
                    pending.append(node.name)
        return list(found.values())

    def volatile(self, cls: ClassValue) -> frozenset[str]:
        """Attributes of instances that something other than a constructor writes."""
        if self._any_written and not is_tree(cls):
            return EVERY_NAME
        found = set(self._written)
        for node in (*_line(cls), *self.subclasses(cls.name)):
            found |= self._own.get(node.name, set())
        return frozenset(found)

    def overridden(self, cls: ClassValue) -> frozenset[str]:
        """Names that some class below this one defines again."""
        found = self._names.get(cls.name)
        if found is None:
            names: set[str] = set()
            for node in self.subclasses(cls.name):
                names.update(_defined(node))
            found = self._names[cls.name] = frozenset(names)
        return found

    def is_plain(self, cls: ClassValue) -> bool:
        """Whether JAX certainly knows nothing of the class: it is not registered as a tree, nor is anything below."""
        if is_tree(cls) or self.subclasses(cls.name) or cls.name in self._registered:
            return False
        if any(not isinstance(base, ClassValue) or not self.is_plain_base(base) for base in cls.bases):
            return False
        return all(_last(d.func if isinstance(d, ir.Call) else d) == "dataclass" for d in cls.node.decorators)

    def is_plain_base(self, cls: ClassValue) -> bool:
        return not is_tree(cls) and cls.name not in self._registered and not cls.bases and not cls.node.decorators


def self_writes(method: ir.Function) -> set[str]:
    """The attributes of its first parameter that a method assigns."""
    if not method.params:
        return set()
    first = method.params[0].name
    found: set[str] = set()
    for node in walk(method.body):
        match node:
            case ir.Assign(targets=targets) | ir.Delete(targets=targets):
                written = [attr for target in targets for attr in _attributes(target)]
            case ir.AugAssign(target=target) | ir.AnnAssign(target=target) | ir.For(target=target):
                written = list(_attributes(target))
            case _:
                continue
        found |= {attr.name for attr in written if isinstance(attr.obj, ir.Name) and attr.obj.id == first}
    return found


def _attributes(target: ir.Expr) -> Iterator[ir.Attr]:
    """The attributes that an assignment target writes, into an item of one included."""
    match target:
        case ir.Attr():
            yield target
        case ir.Subscript(obj=obj) | ir.Star(value=obj):
            yield from _attributes(obj)
        case ir.Sequence(items=items):
            for item in items:
                yield from _attributes(item)
        case _:
            pass


def _defined(node: ir.Class) -> Iterator[str]:
    for item in node.body:
        match item:
            case ir.Function(name=name):
                yield name
                if name in CONSTRUCTORS:
                    yield from self_writes(item)
            case ir.Assign(targets=targets):
                yield from (t.id for t in targets if isinstance(t, ir.Name))
            case ir.AnnAssign(target=ir.Name(id=name)):
                yield name
            case _:
                pass


def _line(cls: ClassValue) -> Iterator[ir.Class]:
    yield cls.node
    for base in cls.bases:
        if isinstance(base, ClassValue) and base is not cls:
            yield from _line(base)


def _last(expr: ir.Expr) -> str:
    if isinstance(expr, ir.Subscript):
        return _last(expr.obj)
    return expr.id if isinstance(expr, ir.Name) else expr.name if isinstance(expr, ir.Attr) else ""
