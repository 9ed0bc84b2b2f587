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
    own_nodes,
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
    is_declared_inside: bool = True  # else it is a parameter, whose value is checked where the function is called


def check_assignments(
    scope: Function | ast.ClassDef, path: str, around: Sequence[Scope]
) -> None:
    """Add the checks to a function's own body, in place; of a class, those of variables from around it.

    ``path`` is its name in messages.
    """
    variables = _variables_from_around(scope, around)
    if isinstance(scope, FUNCTIONS):
        variables.update(_parameters(scope))
        variables.update(_own_variables(scope))
    if variables or _assigns_attributes(scope.body):
        scope.body = _Rewriter(path, variables).statements(scope.body)
    if isinstance(scope, FUNCTIONS) and _are_assigned_inside(scope, around):
        _keep_table(scope, around)


def _assigns_attributes(body: Sequence[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        for node in own_nodes(body)
    )


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


def _parameters(function: Function) -> dict[str, _Variable]:
    """The annotated parameters: what is put into them."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    hidden = _hidden(function)
    return {
        argument.arg: _Variable(
            [argument.annotation], hidden, is_parameter=True, is_declared_inside=False
        )
        for argument in every
        if argument.annotation is not None
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


# The argument of a container's method that is put into it, and the methods that put in several.
_PUTTING = {"append": 0, "appendleft": 0, "add": 0, "insert": 1, "setdefault": 1}
_PUTTING_MANY = {"extend", "extendleft", "update"}


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
        if not isinstance(node, SCOPED):
            return super().visit(node)
        for part in _evaluated_outside(node):
            self.visit(part)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None:
            name = ast.unparse(node.target)
            variable = self._variables.get(name)
            if variable is not None and variable.is_declared_inside:
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
            if isinstance(target, ast.Subscript):
                node.value = self._put(node.value, target.value, target.slice)
        attributes = [t for t in plain if isinstance(t, ast.Attribute)]
        stored = [check for t in attributes for check in self._attribute(t, node)]
        return [node, *self._afterwards(taken_apart, node), *stored]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        return [node, *self._afterwards([node.target], node)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        at = _PUTTING.get(getattr(node.func, "attr", ""))
        if isinstance(node.func, ast.Attribute) and at is not None:
            given = node.args[at : at + 1]
            if given and not any(
                isinstance(a, ast.Starred) for a in node.args[: at + 1]
            ):
                node.args[at] = self._put(given[0], node.func.value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        function = getattr(node.value, "func", None)
        if isinstance(function, ast.Attribute) and function.attr in _PUTTING_MANY:
            return [node, *self._all_items(function.value, node)]
        return node

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
        checks = self._afterwards(targets, node.body[0])
        if node.guard is None:
            node.body = [*checks, *node.body]
        else:  # which sees what is bound, also where it is not followed
            first = [cast(ast.Expr, check).value for check in checks]
            node.guard = _last_of([*first, node.guard]) if first else node.guard
        return node

    visit_AsyncFor = visit_For
    visit_AsyncWith = visit_With

    def _rechecked(self, value: ast.expr, target: ast.expr) -> ast.expr:
        """The value of an assignment that has no annotation of its own, checked if its variable has one."""
        name = ast.unparse(target)
        variable = self._variables.get(name)
        if variable is None or not variable.is_declared_inside:
            return value
        if len(variable.annotations) > 1 or variable.is_parameter:
            return self._left_out(value, name, "which has several annotations")
        if _position(target) < _position(variable.annotations[0]):
            return self._left_out(value, name, "before it is annotated")
        return self._checked(value, name, variable.annotations[0], variable)

    def _put(
        self, value: ast.expr, held: ast.expr, at: ast.expr | None = None
    ) -> ast.expr:
        """A value that is put into what ``held`` stands for, checked if that is an annotated variable."""
        depth = 0
        while isinstance(held, ast.Subscript):
            held, depth = held.value, depth + 1
        variable = self._holder(held)
        if variable is None:
            return value
        is_open = (
            len(variable.annotations) > 1
            or variable.is_parameter
            or _position(held) < _position(variable.annotations[0])
        )
        if is_open or depth or isinstance(at, ast.Slice):
            return self._item("left_items", value, held, variable)
        check = "item" if variable.check == "local" else "item_alone"
        return self._item(check, value, held, variable)

    def _all_items(self, held: ast.expr, at: ast.stmt) -> list[ast.stmt]:
        """A statement that checks all that an annotated variable holds."""
        variable = self._holder(held)
        if variable is None:
            return []
        is_open = len(variable.annotations) > 1 or variable.is_parameter
        loaded = ast.parse(ast.unparse(held), mode="eval").body
        check = "left_items" if is_open else "items"
        return [_located(ast.Expr(self._item(check, loaded, held, variable)), at)]

    def _holder(self, held: ast.expr) -> _Variable | None:
        if not isinstance(held, (ast.Name, ast.Attribute)):
            return None
        return self._variables.get(ast.unparse(held))

    def _item(
        self, check: str, value: ast.expr, held: ast.expr, variable: _Variable
    ) -> ast.expr:
        where = [ast.Constant(ast.unparse(held)), ast.Constant(self._path)]
        annotation = _outside(variable.annotations[0], variable.hidden)
        thunk = ast.Lambda(_no_arguments(), annotation)
        return _call(check, [value, *where, thunk], value)

    def _afterwards(self, targets: Sequence[ast.expr], at: ast.stmt) -> list[ast.stmt]:
        """Statements that check the variables bound by ``at``."""
        made: list[ast.stmt] = []
        for target in (part for whole in targets for part in _targets(whole)):
            loaded = ast.parse(ast.unparse(target), mode="eval").body
            checked = self._rechecked(loaded, target)
            if checked is not loaded:
                made.append(_located(ast.Expr(checked), at))
            elif isinstance(target, ast.Subscript):
                made += self._all_items(target.value, at)
            elif isinstance(target, ast.Attribute):
                made += self._attribute(target, at)
        return made

    def _attribute(self, target: ast.Attribute, at: ast.stmt) -> list[ast.stmt]:
        """A statement that checks an attribute, if the class of its object annotates it."""
        owner = target.value
        if ast.unparse(target) in self._variables or not _is_path(owner):
            return []
        loaded = ast.parse(ast.unparse(owner), mode="eval").body
        check = _call("attribute", [loaded, ast.Constant(target.attr)], owner)
        return [_located(ast.Expr(check), at)]

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


def _is_path(node: ast.expr) -> bool:
    """Whether an expression can be evaluated once more: ``self``, ``state.params``, ``layers[0]``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            if not isinstance(node.slice, (ast.Constant, ast.Name)):
                return False
        node = node.value
    return isinstance(node, ast.Name)


def _evaluated_outside(node: ast.AST) -> Iterator[ast.expr]:
    """What of a function or class is evaluated where it is defined: decorators, defaults and bases."""
    yield from getattr(node, "decorator_list", ())
    if isinstance(node, ast.ClassDef):
        yield from node.bases
        yield from (keyword.value for keyword in node.keywords)
    elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
        yield from node.args.defaults
        yield from filter(None, node.args.kw_defaults)


def _last_of(expressions: list[ast.expr]) -> ast.expr:
    """An expression that evaluates several, and is the last one."""
    at = expressions[-1]
    several = ast.Tuple(expressions, ast.Load())
    return _located(ast.Subscript(several, ast.Constant(-1), ast.Load()), at)


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
