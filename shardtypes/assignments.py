"""Source with checks of what is assigned to annotated variables of functions.

Each assignment to a variable that the function annotates is checked: ``h: f32['B M'] = x``, ``h = y``, ``h += y``,
``h, k = y, z``, ``(h := y)``, ``for h in ys``, ``with y as h``, ``self.q: f32['M'] = x``. Parameters may be assigned
anew, as programs do when they reshape or cast an argument; ``reassigned_parameters`` names those.
"""

from __future__ import annotations

import ast
import copy
import dis
import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, TypeVar, cast

N = TypeVar("N", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scoped = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

# The name under which instrumented code reaches the module ``shardtypes.hooked``.
HOOKED = "__shardtypes_hooked__"


def has_annotated_assignments(function: Function) -> bool:
    """Whether a function annotates variables, in its own body."""
    return any(isinstance(node, ast.AnnAssign) for node in own_nodes(function.body))


def check_assignments(function: Function, path: str) -> bool:
    """Add the checks to a function's own body, in place; ``path`` is its name in messages. Whether there are any."""
    annotations = _annotations(function)
    if not annotations:
        return False
    function.body = _Rewriter(path, function, annotations).statements(function.body)
    return True


def check_module_variable(node: ast.AnnAssign) -> None:
    """Add the check to an annotated assignment of a module, in place."""
    if node.value is not None:
        thunk = ast.Lambda(_no_arguments(), node.annotation)
        node.value = _call("module_variable", [node.value, ast.Constant(ast.unparse(node.target)), thunk], node.value)


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below some statements, without those inside functions and classes defined there."""
    for node in body:
        yield node
        if not isinstance(node, Scoped):
            yield from own_nodes([*ast.iter_child_nodes(node)])


def _annotations(function: Function) -> dict[str, list[ast.expr]]:
    """The different annotations of each variable (``h``, ``self.q``, ``parts[0]``) that a function annotates."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_nodes(function.body):
        if isinstance(node, ast.AnnAssign):
            several = found.setdefault(ast.unparse(node.target), [])
            if all(ast.dump(node.annotation) != ast.dump(other) for other in several):
                several.append(node.annotation)
    return found


def parameter_names(function: Function) -> set[str]:
    """The names of all parameters."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in every if argument is not None}


def _is_alias(annotations: Sequence[ast.expr]) -> bool:
    """Whether a variable holds a type, as its annotation says: ``F: TypeAlias = f32``."""
    return any(re.match(r"(\w+\.)*(TypeAlias|[Tt]ype)\b", ast.unparse(annotation)) for annotation in annotations)


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
    """Puts checks at the assignments of one function, and of nothing that is defined in it."""

    def __init__(self, path: str, function: Function, annotations: dict[str, list[ast.expr]]) -> None:
        self._path = path
        self._annotations = annotations
        self._parameters = parameter_names(function)
        # Names that mean a variable inside of the function, and a type outside of it, as in ``key: key['']``.
        self._shadowed = self._parameters | {name for name in annotations if not _is_alias(annotations[name])}

    def statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            made += result if isinstance(result, list) else [result]
        return made

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, Scoped) else super().visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None:
            node.value = self._checked(node.value, ast.unparse(node.target), node.annotation)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        plain = [target for target in node.targets if not isinstance(target, (ast.Tuple, ast.List, ast.Starred))]
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
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        node.body = [*self._afterwards(targets, node), *node.body]
        return cast(ast.AST, node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        bound = [getattr(part, field, None) for part in ast.walk(node.pattern) for field in ("name", "rest")]
        targets = [ast.Name(name, ast.Load()) for name in bound if isinstance(name, str)]
        node.body = [*self._afterwards(targets, node.body[0]), *node.body]
        return node

    visit_AsyncFor = visit_For
    visit_AsyncWith = visit_With

    def _rechecked(self, value: ast.expr, target: ast.expr) -> ast.expr:
        """The value of an assignment that has no annotation of its own, checked if its variable has one."""
        name = ast.unparse(target)
        annotations = self._annotations.get(name)
        if annotations is None:
            return value
        if len(annotations) > 1 or name in self._parameters:
            return self._left_out(value, name)
        return self._checked(value, name, annotations[0])

    def _afterwards(self, targets: Sequence[ast.expr], at: ast.stmt) -> list[ast.stmt]:
        """Statements that check the variables bound by ``at``."""
        made: list[ast.stmt] = []
        for target in (part for whole in targets for part in _targets(whole)):
            loaded = ast.parse(ast.unparse(target), mode="eval").body
            checked = self._rechecked(loaded, target)
            if checked is not loaded:
                made.append(_located(ast.Expr(checked), at))
        return made

    def _checked(self, value: ast.expr, name: str, annotation: ast.expr) -> ast.expr:
        """``__shardtypes_hooked__.local(value, name, path, lambda: annotation)``."""
        thunk = ast.Lambda(_no_arguments(), self._outside(annotation))
        return _call("local", [value, ast.Constant(name), ast.Constant(self._path), thunk], value)

    def _left_out(self, value: ast.expr, name: str) -> ast.expr:
        return _call("undecided", [value, ast.Constant(name), ast.Constant(self._path)], value)

    def _outside(self, annotation: ast.expr) -> ast.expr:
        """The annotation with the names of annotated variables looked up outside of the function."""
        shadowed = self._shadowed

        class Outside(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                if node.id not in shadowed:
                    return node
                call = ast.Call(ast.Name("globals", ast.Load()), [], [])
                return _located(ast.Subscript(call, ast.Constant(node.id), ast.Load()), node)

        return cast(ast.expr, Outside().visit(copy.deepcopy(annotation)))


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(name: str, arguments: list[ast.expr], at: ast.AST) -> ast.Call:
    made = ast.Call(ast.Attribute(ast.Name(HOOKED, ast.Load()), name, ast.Load()), arguments, [])
    return _located(made, at)


def _located(node: N, at: ast.AST) -> N:
    """The node and what is new below it, on the line of another one."""
    return ast.fix_missing_locations(ast.copy_location(node, at))


# The instructions that store into variables of the function; those for two of them have two numbers in an argument.
_STORES = {dis.opmap[name] for name in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_MAYBE_NULL") if name in dis.opmap}
_FIRST_OF_TWO = dis.opmap.get("STORE_FAST_LOAD_FAST")
_TWO = dis.opmap.get("STORE_FAST_STORE_FAST")


def reassigned_parameters(code: CodeType) -> tuple[str, ...]:
    """The parameters that a function assigns to in its own body."""
    count = code.co_argcount + code.co_kwonlyargcount
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
    return tuple(name for index, name in enumerate(code.co_varnames[:count]) if index in stored)
