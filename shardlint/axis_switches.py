"""Functions that may run with other axis types than the mesh in force has: those that a program gives to ``auto_axes``
or ``explicit_axes``, and what they call, wherever it is defined.

Functions are told apart by name alone, so too many count rather than too few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from shardlint import ir
from shardlint.outline import AXES_SWITCHES, last_name
from shardlint.project import Project
from shardlint.walking import walk

_NAMES: frozenset[type[ir.Node]] = frozenset({ir.Name, ir.Attr})


def switched(project: Project) -> frozenset[str]:
    """The names of all such functions of a project."""
    bodies: dict[str, set[str]] = defaultdict(set)
    found: set[str] = set()
    switching = [
        project.modules[name]
        for name in project.modules
        if project.outline(name).switches_axes
    ]
    if not switching:
        return frozenset()
    mentioned: dict[str, set[str]] = {}
    for name in project.modules:
        module = project.modules[name]
        mentioned[name] = _mentioned(module.body)
        for function in _functions(module):
            bodies[function.name] |= _mentioned(function.body)
    for module in switching:
        found |= _given(module, mentioned)
    waiting = list(found)
    while waiting:
        new = bodies.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return frozenset(found & bodies.keys())


def _given(module: ir.Module, mentioned: Mapping[str, set[str]]) -> set[str]:
    """The names that a module gives to a switch. ``mentioned`` are those that each module of the project mentions."""
    found: set[str] = set()
    known: set[int] = set()
    for function in _functions(module):
        for decorator in function.decorators:
            switches = [node.at for node in _switches((decorator,))]
            if switches:
                found.add(function.name)
                known.update(switches)
    for call in walk(module.body, frozenset({ir.Call})):
        assert isinstance(call, ir.Call)
        if last_name(call.func) in AXES_SWITCHES and call.args:
            found |= _mentioned((call.args[0].value,))
            known.add(call.func.at)
    if (
        any(node.at not in known for node in _switches(module.body))
        or _parameters(module) & found
    ):
        # under another name, or given a function that it is given itself: any that it or its users name
        found |= mentioned[module.name]
        own = {function.name for function in _functions(module)}
        for names in mentioned.values():
            if names & own:
                found |= names
    return found


def _switches(body: object) -> Iterator[ir.Name | ir.Attr]:
    for node in walk(body, _NAMES):
        if isinstance(node, (ir.Name, ir.Attr)) and last_name(node) in AXES_SWITCHES:
            yield node


def _parameters(module: ir.Module) -> set[str]:
    return {param.name for function in _functions(module) for param in function.params}


def _functions(module: ir.Module) -> Iterable[ir.Function]:
    return (
        node
        for node in walk(module.body, frozenset({ir.Function}))
        if isinstance(node, ir.Function)
    )


def _mentioned(body: object) -> set[str]:
    return {
        last_name(node)
        for node in walk(body, _NAMES)
        if isinstance(node, (ir.Name, ir.Attr))
    }
