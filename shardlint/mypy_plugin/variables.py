"""The type of a variable's value.

mypy takes what the type of the first value and that of the latest have in common, and an array of unknown shape has
everything in common with any other: the first shape would come back. The latest value's own type is asked for here.
"""

from __future__ import annotations

from mypy.nodes import Expression, MemberExpr, NameExpr
from mypy.plugin import CheckerPluginInterface
from mypy.types import Type

from shardlint.mypy_plugin.bindings import SingleBindings
from shardlint.mypy_plugin.forms import has_array, without_shapes
from shardlint.mypy_plugin.scopes import enclosing_functions

_REMEMBERED = 4096


def recorded_type(api: CheckerPluginInterface, node: Expression) -> Type | None:
    """The type that mypy found last for an expression."""
    # TypeChecker has it, the plugin interface does not say so
    lookup = getattr(api, "lookup_type_or_none", None)
    found: Type | None = None if lookup is None else lookup(node)
    return found


class Variables:
    """Looks types of variables up in mypy's own record of assignments."""

    def __init__(self, bindings: SingleBindings) -> None:
        self.bindings = bindings
        self._then: dict[Expression, Type] = {}

    def note(self, node: Expression, typ: Type) -> None:
        """Remember the type of an expression's value where it stands: its variable may get another one later."""
        if len(self._then) >= _REMEMBERED:
            self._then.clear()
        self._then[node] = typ

    def type_then(
        self, api: CheckerPluginInterface, node: Expression, typ: Type
    ) -> Type:
        """The type of an expression's value where it stands, above the place that is being checked; its shape is left
        out where that is not known any more."""
        noted = self._then.get(node)
        if noted is not None:
            return noted
        rebound = isinstance(node, NameExpr) and self._is_rebound(node, api)
        return without_shapes(typ) if rebound else typ

    def _is_rebound(self, node: NameExpr, api: CheckerPluginInterface) -> bool:
        return node.node is not None and self.bindings.is_rebound(
            node.node, enclosing_functions(api)
        )

    def value_type(
        self, api: CheckerPluginInterface, node: Expression | None, typ: Type
    ) -> Type:
        """The type of an expression's value, where ``typ`` is what mypy takes for it."""
        if not isinstance(node, (NameExpr, MemberExpr)) or not has_array(typ):
            return typ
        # TypeChecker has it, the plugin interface does not say so
        binder = getattr(api, "binder", None)
        latest: Type | None = binder.get(node) if binder is not None else None
        if latest is not None:
            return latest
        if isinstance(node, NameExpr) and self.bindings.may_differ(
            node, enclosing_functions(api)
        ):
            return without_shapes(typ)
        return typ
