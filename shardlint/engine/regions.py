"""The functions of one analysis that run in the manual view, and what runs them there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from shardlint import ir
from shardlint.ops.sharding.view import View
from shardlint.project import Definition, Project
from shardlint.values import FunctionValue, Value
from shardlint.walking import walk


@dataclass(frozen=True, slots=True)
class Region:
    """What runs a function on every device. ``entries`` are specs (or mapped axes) of its arguments and ``results``
    that of its result; both None where annotations say it. ``mapped`` is the axis that ``pmap`` maps over; ``own`` are
    the axes that it makes manual, where others are so already (None: all). ``names`` are the parameters that get the
    entries, in order, and ``given`` the values of others."""

    view: View
    typed: bool = False
    entries: Value | None = None
    results: Value | None = None
    mapped: str | None = None
    own: frozenset[str] | None = None
    names: tuple[str, ...] = ()
    given: tuple[tuple[str, Value], ...] = ()


@dataclass(slots=True)
class Regions:
    """What the analysis of the module ``target`` found to be manual: ``waiting`` are functions still to be checked in a
    view, ``elsewhere`` the views in which those of other modules are called, by definition."""

    project: Project
    target: str
    waiting: list[tuple[FunctionValue, View, Region | None]] = field(
        default_factory=list
    )
    bare: dict[int, tuple[FunctionValue, View, Region] | None] = field(
        default_factory=dict
    )
    done: set[object] = field(default_factory=set)
    elsewhere: dict[int, dict[View, None]] = field(default_factory=dict)
    _axis_names: dict[tuple[str, frozenset[str]], frozenset[str]] = field(
        default_factory=dict
    )

    def add(
        self,
        func: FunctionValue,
        view: View,
        region: Region | None = None,
        checked: bool = False,
    ) -> None:
        """Check the function in that view, once, unless it is being ``checked`` now. One without annotations is
        evaluated where it is called; if that is nowhere, by what the specs of its arguments say."""
        node = func.node
        key = (id(node), view.axes, region is not None)
        if func.module != self.target:
            self.elsewhere.setdefault(id(node), {})[view] = None
        if (
            key in self.done
            or func.module != self.target
            or isinstance(node, ir.Lambda)
            or node.name_at < 0  # nothing is known of it but its type
        ):
            return
        if region is None and (id(node), "region") in self.done:
            return
        if not checked and not any(
            param.annotation is not None for param in node.params
        ):
            if region is not None and (
                region.entries is not None or view.kind == "pmap"
            ):
                self.bare.setdefault(id(node), (func, view, region))
            return
        self.done |= {key, id(node)}
        if region is not None:
            self.done.add((id(node), "region"))
        if not checked:
            self.waiting.append((func, view, region))

    def called(self, func: Value) -> None:
        """The function was evaluated for a call."""
        if isinstance(func, FunctionValue):
            self.bare[id(func.node)] = None

    def extend(self) -> bool:
        """Let functions wait that have no annotations, and that nothing called; whether there are any."""
        found = [one for one in self.bare.values() if one is not None]
        self.bare = dict.fromkeys(self.bare)
        self.waiting += found
        return bool(found)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is found here of functions is forgotten again."""
        before = replace(
            self,
            waiting=[*self.waiting],
            bare={**self.bare},
            done={*self.done},
            elsewhere={**self.elsewhere},
        )
        try:
            yield
        finally:
            self.waiting, self.bare, self.done = (
                before.waiting,
                before.bare,
                before.done,
            )
            self.elsewhere = before.elsewhere

    def seen(self, node: ir.Function | ir.Lambda) -> bool:
        """Whether the function was checked in some manual view."""
        return id(node) in self.done

    def names_axis(self, axis: str, module: str, nested: bool = False) -> bool:
        """Whether some ``vmap`` of the module, or of the one that is analysed, may bind the axis; or some ``pmap``, for
        code that may be ``nested`` in one."""
        kinds = _VMAPS | _PMAPS if nested else _VMAPS
        found = self._mapped_in(module, kinds) | self._mapped_in(self.target, kinds)
        return axis in found or "" in found

    def _mapped_in(self, name: str, kinds: frozenset[str]) -> frozenset[str]:
        key = (name, kinds)
        if key not in self._axis_names:
            module = self.project.module(name)
            given = _mapped_names(module.body, kinds) if module is not None else ()
            self._axis_names[key] = frozenset(
                self._spelled(name, expr) for expr in given
            )
        return self._axis_names[key]

    def _spelled(self, module: str, expr: ir.Expr) -> str:
        """A name that is written out, or that of a constant; empty where it is not known."""
        if isinstance(expr, ir.Name) and expr.id.isupper():  # no parameter hides it
            found = self.project.lookup(module, expr.id)
            if isinstance(found, Definition) and isinstance(found.node, ir.Assign):
                expr = found.node.value
        return (
            expr.value
            if isinstance(expr, ir.Const) and isinstance(expr.value, str)
            else ""
        )


_VMAPS = frozenset({"vmap", "filter_vmap", "xmap"})
_PMAPS = frozenset({"pmap", "filter_pmap"})


def _mapped_names(
    body: tuple[ir.Stmt, ...], kinds: frozenset[str]
) -> Iterator[ir.Expr]:
    for node in walk(body):
        if isinstance(node, ir.Call):
            names = (n for n in walk(node) if isinstance(n, (ir.Attr, ir.Name)))
            called = {n.name if isinstance(n, ir.Attr) else n.id for n in names}
            if called & kinds:
                for arg in node.args:
                    if arg.keyword in ("axis_name", "spmd_axis_name"):
                        yield arg.value
