"""Which names the text of a body changes in place: lists that grow, dicts and arrays whose items are set."""

from __future__ import annotations

from shardlint import ir
from shardlint.walking import walk

#: Methods that change a list, a dict or a set.
MUTATORS = frozenset(
    """append extend insert remove pop clear sort reverse update setdefault popitem __setitem__ add discard appendleft
    popleft extendleft rotate""".split()
)


def mutated_names(body: tuple[ir.Node, ...]) -> set[str]:
    """The names of what a body certainly, or possibly, changes in place itself."""
    found: set[str] = set()
    for node in walk(body):
        match node:
            case ir.Call(func=ir.Attr(obj=ir.Name(id=name), name=method)) if method in MUTATORS:
                found.add(name)
            case ir.Assign(targets=targets):
                stored = [t for t in targets if isinstance(t, (ir.Subscript, ir.Attr))]
                found |= {t.obj.id for t in stored if isinstance(t.obj, ir.Name)}
            case (
                ir.AugAssign(target=ir.Subscript(obj=ir.Name(id=name)))
                | ir.AugAssign(target=ir.Attr(obj=ir.Name(id=name)))
                | ir.AugAssign(target=ir.Name(id=name))
            ):
                found.add(name)
            case ir.Delete(targets=targets):
                found |= {t.obj.id for t in targets if isinstance(t, ir.Subscript) and isinstance(t.obj, ir.Name)}
            case _:
                pass
    return found


def changed_by_functions(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The names of a module that its functions, methods included, change in place: what they hold may be anything by
    the time that they are used."""
    found: set[str] = set()
    for node in ir.statements(body, True):
        if isinstance(node, ir.Function):
            found |= mutated_names(node.body) - _own_names(node)
    return frozenset(found)


def _own_names(node: ir.Function) -> set[str]:
    """The names that a function binds itself, those of the functions inside aside."""
    found = {param.name for param in node.params}
    for one in ir.statements(node.body):
        match one:
            case ir.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ir.Name)}
            case ir.AnnAssign(target=ir.Name(id=name)) | ir.AugAssign(target=ir.Name(id=name)):
                found.add(name)
            case ir.For(target=ir.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found
