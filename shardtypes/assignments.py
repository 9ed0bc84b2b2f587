"""Source with checks of what is assigned to annotated variables.

From where a function annotates a variable, each assignment to it is checked: ``h: f32['B M'] = x``, ``h = y``,
``h += y``, ``h, k = y, z``, ``(h := y)``, ``for h in ys``, ``with y as h``, ``self.q: f32['M'] = x``; also by functions
inside of it that say ``nonlocal h``. Before that it may hold something else. It is the same for variables of a module,
and functions that say ``global``. Parameters may be assigned anew, as programs do when they reshape or cast one;
``reassigned_parameters`` names those.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar, cast

from shardtypes.variables import (
    FUNCTIONS,
    SCOPED,
    Function,
    Outer,
    Scope,
    annotations_of,
    inner_scopes,
    outer_variables,
    parameter_names,
    variables_assigned_inside,
)

N = TypeVar("N", bound=ast.AST)

# The name under which instrumented code reaches the module ``shardtypes.hooked``.
HOOKED = "__shardtypes_hooked__"


@dataclass(frozen=True)
class _Variable:
    """An annotated variable, as the code sees it that assigns to it."""

    annotations: Sequence[ast.expr]
    # what its annotation may name, and stands for something else there
    hidden: frozenset[str]
    check: str = "local"  # the function of the hooks that checks it
    # the variable that holds the table of the call which it belongs to, where that is another one
    table: str = ""
    is_parameter: bool = False


def check_assignments(
    scope: Function | ast.ClassDef, path: str, around: Sequence[Scope]
) -> None:
    """Add the checks to a function's own body, in place; of a class, those of variables from around it.

    ``path`` is its name in messages.
    """
    variables = _variables_from_around(scope, around)
    if isinstance(scope, FUNCTIONS):
        variables.update(_own_variables(scope))
    if variables:
        scope.body = _Rewriter(path, variables).statements(scope.body)
    if isinstance(scope, FUNCTIONS) and _are_assigned_inside(scope, around):
        _keep_table(scope, around)


def has_checks(node: ast.AST) -> bool:
    """Whether checks were added anywhere in a function."""
    return any(
        isinstance(part, ast.Name) and part.id == HOOKED for part in ast.walk(node)
    )


def check_assignments_inside(
    function: Function, path: str, around: Sequence[Scope]
) -> None:
    """Add the checks of a function's own variables to the functions inside of it, in place."""
    if not _are_assigned_inside(function, around):
        return
    for scope, outside in inner_scopes(function, around):
        found = _variables_from_around(scope, outside)
        own = {
            name: variable
            for name, variable in found.items()
            if variable.table == _table(len(around))
        }
        if own:
            names = [
                outer.name
                for outer in outside[len(around) + 1 :]
                if not isinstance(outer, ast.Module)
            ]
            scope.body = _Rewriter(
                ".".join([path, *names, scope.name]), own
            ).statements(scope.body)


def check_module_variables(module: ast.Module) -> None:
    """Add the checks to the assignments of a module, in place."""
    found = annotations_of(module.body)
    variables = {
        name: _Variable(several, frozenset(), "module_variable")
        for name, several in found.items()
    }
    module.body = _Rewriter("", variables).statements(module.body)


def _own_variables(function: Function) -> dict[str, _Variable]:
    found = annotations_of(function.body)
    parameters = parameter_names(function)
    hidden = _hidden(function)
    return {
        name: _Variable(several, hidden, is_parameter=name in parameters)
        for name, several in found.items()
    }


def _hidden(function: Function) -> frozenset[str]:
    """Names that mean a variable inside of a function, and a type outside of it, as in ``key: key['']``."""
    found = annotations_of(function.body)
    return frozenset(
        parameter_names(function)
        | {name for name in found if not _is_alias(found[name])}
    )


def _variables_from_around(
    scope: Scope, around: Sequence[Scope]
) -> dict[str, _Variable]:
    found: dict[str, _Variable] = {}
    for name, outer in outer_variables(scope, around).items():
        several = annotations_of(outer.owner.body).get(name)
        if several is not None:
            found[name] = _from_around(name, outer, several)
    return found


def _from_around(name: str, outer: Outer, annotations: Sequence[ast.expr]) -> _Variable:
    if isinstance(outer.owner, ast.Module):
        return _Variable(annotations, outer.hidden, "module_variable")
    hidden = outer.hidden | _hidden(outer.owner)
    return _Variable(
        annotations,
        hidden,
        "outer",
        _table(outer.depth),
        name in parameter_names(outer.owner),
    )


def _table(depth: int) -> str:
    """The variable that holds the table of a call, by how many scopes are around its function."""
    return f"__shardtypes_table_{depth}__"


def _are_assigned_inside(function: Function, around: Sequence[Scope]) -> bool:
    """Whether functions inside of a function assign to a variable that it annotates."""
    return not variables_assigned_inside(function, around).isdisjoint(
        annotations_of(function.body)
    )


def _keep_table(function: Function, around: Sequence[Scope]) -> None:
    """Have a function keep the table of its call for the functions inside of it that assign to its variables."""
    first = function.body[0]
    has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    kept = ast.Assign(
        [ast.Name(_table(len(around)), ast.Store())], _call("table", [], first)
    )
    function.body.insert(int(has_text), _located(kept, first))


def _is_alias(annotations: Sequence[ast.expr]) -> bool:
    """Whether a variable holds a type, as its annotation says: ``F: TypeAlias = f32``."""
    return any(
        re.match(r"(\w+\.)*(TypeAlias|[Tt]ype)\b", ast.unparse(annotation))
        for annotation in annotations
    )


def _targets(target: ast.expr) -> Iterator[ast.expr]:
    """The variables that a target binds: those of ``(a, *b), c`` are three."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _targets(item)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value)
    else:
        yield target


class _Rewriter(ast.NodeTransformer):
    """Puts checks at the assignments of one function or module, and of nothing that is defined in it."""

    def __init__(self, path: str, variables: Mapping[str, _Variable]) -> None:
        self._path = path
        self._variables = variables

    def statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            made += result if isinstance(result, list) else [result]
        return made

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, SCOPED) else super().visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None:
            name = ast.unparse(node.target)
            variable = self._variables.get(name)
            if variable is not None:
                node.value = self._checked(node.value, name, node.annotation, variable)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        plain = [
            target
            for target in node.targets
            if not isinstance(target, (ast.Tuple, ast.List, ast.Starred))
        ]
        taken_apart = [target for target in node.targets if target not in plain]
        for target in plain:
            node.value = self._rechecked(node.value, target)
        return [node, *self._afterwards(taken_apart, node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        return [node, *self._afterwards([node.target], node)]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = self._rechecked(node.value, node.target)
        return node

    def visit_For(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body = [*self._afterwards([node.target], node), *node.body]
        return cast(ast.AST, node)

    def visit_With(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        targets = [
            item.optional_vars for item in node.items if item.optional_vars is not None
        ]
        node.body = [*self._afterwards(targets, node), *node.body]
        return cast(ast.AST, node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        bound = [
            getattr(part, field, None)
            for part in ast.walk(node.pattern)
            for field in ("name", "rest")
        ]
        targets = [
            _located(ast.Name(name, ast.Load()), node.pattern)
            for name in bound
            if isinstance(name, str)
        ]
        node.body = [*self._afterwards(targets, node.body[0]), *node.body]
        return node

    visit_AsyncFor = visit_For
    visit_AsyncWith = visit_With

    def _rechecked(self, value: ast.expr, target: ast.expr) -> ast.expr:
        """The value of an assignment that has no annotation of its own, checked if its variable has one."""
        name = ast.unparse(target)
        variable = self._variables.get(name)
        if variable is None:
            return value
        if len(variable.annotations) > 1 or variable.is_parameter:
            return self._left_out(value, name, "which has several annotations")
        if _position(target) < _position(variable.annotations[0]):
            return self._left_out(value, name, "before it is annotated")
        return self._checked(value, name, variable.annotations[0], variable)

    def _afterwards(self, targets: Sequence[ast.expr], at: ast.stmt) -> list[ast.stmt]:
        """Statements that check the variables bound by ``at``."""
        made: list[ast.stmt] = []
        for target in (part for whole in targets for part in _targets(whole)):
            loaded = ast.parse(ast.unparse(target), mode="eval").body
            checked = self._rechecked(loaded, target)
            if checked is not loaded:
                made.append(_located(ast.Expr(checked), at))
        return made

    def _checked(
        self, value: ast.expr, name: str, annotation: ast.expr, variable: _Variable
    ) -> ast.expr:
        """``__shardtypes_hooked__.local(value, name, path, lambda: annotation)``; for a variable of a function around
        this one with what gives the table of its call."""
        where = [ast.Constant(name), ast.Constant(self._path)]
        thunk = ast.Lambda(_no_arguments(), _outside(annotation, variable.hidden))
        arguments = [value, *where, thunk]
        if variable.table:
            arguments.append(
                ast.Lambda(_no_arguments(), ast.Name(variable.table, ast.Load()))
            )
        return _call(variable.check, arguments, value)

    def _left_out(self, value: ast.expr, name: str, why: str) -> ast.expr:
        place = (
            f"{self._path}: variable {name!r}" if self._path else f"variable {name!r}"
        )
        return _call("undecided", [value, ast.Constant(f"{place}, {why}")], value)


def _outside(annotation: ast.expr, hidden: frozenset[str]) -> ast.expr:
    """The annotation with the names that something else hides looked up in the module."""

    class Outside(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in hidden:
                return node
            call = ast.Call(ast.Name("globals", ast.Load()), [], [])
            return _located(
                ast.Subscript(call, ast.Constant(node.id), ast.Load()), node
            )

    return cast(ast.expr, Outside().visit(copy.deepcopy(annotation)))


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _no_arguments() -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def _call(name: str, arguments: list[ast.expr], at: ast.AST) -> ast.Call:
    made = ast.Call(
        ast.Attribute(ast.Name(HOOKED, ast.Load()), name, ast.Load()), arguments, []
    )
    return _located(made, at)


def _located(node: N, at: ast.AST) -> N:
    """The node and what is new below it, on the line of another one."""
    return ast.fix_missing_locations(ast.copy_location(node, at))


# The instructions that store into variables of the function; those for two of them have two numbers in an argument.
_STORES = {
    dis.opmap[name]
    for name in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_MAYBE_NULL")
    if name in dis.opmap
}
_FIRST_OF_TWO = dis.opmap.get("STORE_FAST_LOAD_FAST")
_TWO = dis.opmap.get("STORE_FAST_STORE_FAST")


@functools.lru_cache(maxsize=1024)
def reassigned_parameters(code: CodeType) -> tuple[str, ...]:
    """The parameters that a function assigns to, or a function inside of it."""
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = code.co_varnames[:count]
    stored = _stored(code, frozenset(parameters))
    return tuple(name for name in parameters if name in stored)


def _stored(code: CodeType, names: frozenset[str]) -> frozenset[str]:
    """Those of these variables that are assigned to in a function, or in one inside of it that uses them."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    every = [*code.co_varnames, *cells, *code.co_freevars]
    stores = _stores(code)
    found = {name for index, name in enumerate(every) if index in stores} & names
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and names & {*inner.co_freevars}:
            found |= _stored(inner, names & {*inner.co_freevars})
    return frozenset(found)


def _stores(code: CodeType) -> set[int]:
    """The numbers of the variables that a function's own instructions store into."""
    stored: set[int] = set()
    instructions = code.co_code
    extended = False
    for at in range(0, len(instructions), 2):
        operation, argument = instructions[at], instructions[at + 1]
        if extended:  # a number above 255, or not of a variable
            pass
        elif operation in _STORES:
            stored.add(argument)
        elif operation == _FIRST_OF_TWO:
            stored.add(argument >> 4)
        elif operation == _TWO:
            stored |= {argument >> 4, argument & 15}
        extended = operation == dis.EXTENDED_ARG
    return stored
