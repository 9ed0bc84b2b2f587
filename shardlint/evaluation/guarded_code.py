"""The program's code with guards in it: attributes, calls, operators, loops and imports go through functions of ours.

Nothing else is changed, so that Python itself does the rest: scopes, closures, classes, generators, pattern matching.
Annotations stay text.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.plain_numbers import plain_numbers
from shardlint.syntax import OPERATORS

_Made = TypeVar("_Made", bound=ast.AST)
#: Attributes that lead from an object to the interpreter that runs it.
_FRAMES = frozenset(
    """gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await tb_frame tb_next
    f_back f_builtins f_code f_globals f_locals f_trace co_code co_consts func_globals func_code func_closure
    mro""".split()
)
#: The only names with two underscores that programs may read of objects.
_SPECIAL = frozenset(
    """__name__ __doc__ __class__ __init__ __post_init__ __call__ __len__ __getitem__ __setitem__ __iter__ __next__
    __enter__ __exit__ __eq__ __hash__ __repr__ __str__ __add__ __sub__ __mul__ __contains__ __version__ __new__
    __setattr__ __init_subclass__ __dataclass_fields__ __annotations__ __qualname__ __module__ __dict__
    __jax_array__ __wrapped__""".split()
)
ATTRIBUTE, SET, CALL, ITEM, OPERATOR, TICK = (
    "_attr_",
    "_set_",
    "_call_",
    "_item_",
    "_op_",
    "_tick_",
)
IMPORT, STAR, LITERAL = "_import_", "_star_", "_lit_"
COMPARISON = "_compared_"
ASYNCHRONOUS = "_asynchronous_"
PLACES = "__shardlint_places__"
"""The attribute by which a class of the program knows where its annotations stand."""
LARGEST = 4096
"""Numbers up to this one may stand for a number of devices."""
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def is_closed(name: str) -> bool:
    """Whether no program may reach for an attribute of that name."""
    return name in _FRAMES or (name.startswith("__") and name not in _SPECIAL)


_DEVICES = frozenset(
    """devices local_devices device_count local_device_count sharding is_equivalent_to is_fully_replicated
    is_fully_addressable addressable_shards""".split()
)


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Guards(ast.NodeTransformer):
    """Puts the guards in. Every call and operator gets its place, ``(line, column, end line, end column)``."""

    def __init__(self) -> None:
        self._plain = set[int]()

    def visit(self, node: ast.AST) -> Any:
        self._plain.update(map(id, plain_numbers(node)))
        return super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if is_closed(node.attr):
            raise NotEvaluable(f"the attribute {node.attr}")
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node  # stores go through the setter that _Stores makes of them
        return self._call(ATTRIBUTE, [node.value, ast.Constant(node.attr)], node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """What a program demands of the machine that it runs on, and of where its arrays are there, does not keep it
        from running on another one."""
        if any(_name_of(part) in _DEVICES for part in ast.walk(node.test)):
            return _at(node, ast.Pass())
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
        ):
            return node  # finds its class by the frame that calls it
        return self._call(
            CALL, [_place(node), node.func, *node.args], node, node.keywords
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return (
            self._call(ITEM, [_place(node), node], node)
            if isinstance(node.ctx, ast.Load)
            else node
        )

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A number that may stand for a number of devices knows where it is written."""
        if type(node.value) is not int or not 1 < node.value <= LARGEST:
            return node
        if id(node) in self._plain:
            return node
        return self._call(LITERAL, [node, _place(node)], node)

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        node.values = [
            self.visit(part) if isinstance(part, ast.FormattedValue) else part
            for part in node.values
        ]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        operator = ast.Constant(OPERATORS[type(node.op)])
        return self._call(
            OPERATOR, [_place(node), operator, node.left, node.right], node
        )

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """One comparison; several in a row are truth values of Python."""
        self.generic_visit(node)
        name = _COMPARISONS.get(type(node.ops[0]))
        if name is None or len(node.ops) > 1:
            return node
        operands = [node.left, node.comparators[0]]
        return self._call(
            COMPARISON, [_place(node), ast.Constant(name), *operands], node
        )

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """``x += y`` as ``x = x + y`` with the operator's own in-place form."""
        self.generic_visit(node)
        operator = ast.Constant(OPERATORS[type(node.op)] + "=")
        target = node.target
        if isinstance(target, ast.Name):
            held: ast.expr = _at(target, ast.Name(target.id, ast.Load()))
            value = self._call(
                OPERATOR, [_place(node), operator, held, node.value], node
            )
            return _at(node, ast.Assign([target], value))
        if isinstance(target, ast.Attribute):
            held = self._call(
                ATTRIBUTE, [target.value, ast.Constant(target.attr)], node
            )
            value = self._call(
                OPERATOR, [_place(node), operator, held, node.value], node
            )
            return self._set(target, value, node)
        assert isinstance(target, ast.Subscript)
        held = _at(target, ast.Subscript(target.value, target.slice, ast.Load()))
        value = self._call(OPERATOR, [_place(node), operator, held, node.value], node)
        return _at(node, ast.Assign([target], value))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        return self._stored(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.AST]:
        if node.value is not None:
            node.value = self.visit(node.value)
        node.target = self.visit(node.target)
        if not isinstance(node.target, ast.Attribute):
            return node
        if node.value is None:
            return _at(node, ast.Pass())
        return self._set(node.target, node.value, node)

    def _stored(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        """``a.b = c = value``: what goes to attributes is written by the guard."""
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            return self._set(node.targets[0], node.value, node)
        attributes = [
            part
            for target in node.targets
            for part in ast.walk(target)
            if _is_stored(part)
        ]
        if not attributes:
            return node
        later: list[ast.AST] = []
        for number, part in enumerate(attributes):
            assert isinstance(part, ast.Attribute)
            name = f"_stored_{number}_"
            value = _at(node, ast.Name(name, ast.Load()))
            later.append(
                self._set(ast.Attribute(part.value, part.attr, part.ctx), value, node)
            )
            _become(part, ast.Name(name, ast.Store()), node)
        node.targets = [_Replaced().visit(target) for target in node.targets]
        return [node, *later]

    def _set(self, target: ast.Attribute, value: ast.expr, node: ast.AST) -> ast.AST:
        call = self._call(SET, [target.value, ast.Constant(target.attr), value], node)
        return _at(node, ast.Expr(call))

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        return self._ticking(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        return self._ticking(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Nothing here would run what it returns: it is refused where it is called."""
        parts = {name: getattr(node, name) for name in node._fields}
        parts["body"] = [_at(node, ast.Pass())]
        function = _at(node, ast.FunctionDef(**parts))
        self._function(function)
        function.body = [_at(node, ast.Expr(self._call(ASYNCHRONOUS, [], node)))]
        return function

    def _function(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None if node.returns is None else node.returns  # stays text
        node.body = [self.visit(statement) for statement in node.body]
        node.body = [
            part
            for one in node.body
            for part in (one if isinstance(one, list) else [one])
        ]
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [
            None if one is None else self.visit(one) for one in node.args.kw_defaults
        ]
        return self._ticking(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class remembers where its annotations stand."""
        places: list[ast.expr] = []
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                pair = [ast.Constant(one.target.id), _place(one.annotation)]
                places.append(ast.Tuple(pair, ast.Load()))
        self.generic_visit(node)
        if places:
            held = ast.Assign(
                [ast.Name(PLACES, ast.Store())], ast.Tuple(places, ast.Load())
            )
            node.body.append(ast.fix_missing_locations(_at(node, held)))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = self.visit(node.body)
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [
            None if one is None else self.visit(one) for one in node.args.kw_defaults
        ]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, self._call(TICK, [], node.iter))
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.AST]:
        found: list[ast.AST] = []
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            whole = alias.name if alias.asname else name
            value = self._call(
                IMPORT, [ast.Constant(whole), ast.Constant(None), ast.Constant(0)], node
            )
            found.append(
                _at(node, ast.Assign([_at(node, ast.Name(name, ast.Store()))], value))
            )
        return found

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.AST]:
        if node.module == "__future__":
            return _at(node, ast.Pass())
        found: list[ast.AST] = []
        for alias in node.names:
            parts = [
                ast.Constant(node.module or ""),
                ast.Constant(alias.name),
                ast.Constant(node.level),
            ]
            if alias.name == "*":
                call = self._call(STAR, [parts[0], parts[2]], node)
                found.append(_at(node, ast.Expr(call)))
                continue
            target = _at(node, ast.Name(alias.asname or alias.name, ast.Store()))
            found.append(
                _at(node, ast.Assign([target], self._call(IMPORT, list(parts), node)))
            )
        return found

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        if node.type is None:  # our own exceptions pass
            node.type = _at(node, ast.Name("Exception", ast.Load()))
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        if any(name.startswith("_") for name in node.kwd_attrs):
            raise NotEvaluable("a pattern over hidden attributes")
        return self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        if any(isinstance(target, ast.Attribute) for target in node.targets):
            raise NotEvaluable("an attribute that is deleted")
        return self.generic_visit(node)

    def _ticking(self, node: ast.For | ast.While | ast.FunctionDef) -> ast.AST:
        first = node.body[0]
        at = 0
        if not isinstance(node, (ast.For, ast.While)) and isinstance(first, ast.Expr):
            at = int(isinstance(first.value, ast.Constant))
        tick = _at(node, ast.Expr(self._call(TICK, [], node)))
        node.body.insert(at, tick)
        return node

    def _call(
        self,
        name: str,
        args: list[ast.expr],
        node: ast.AST,
        keywords: Sequence[ast.keyword] = (),
    ) -> ast.expr:
        call = ast.Call(_at(node, ast.Name(name, ast.Load())), args, list(keywords))
        for part in args:
            if not hasattr(part, "lineno"):
                _at(node, part)
        return _at(node, call)


def _at(node: ast.AST, made: _Made) -> _Made:
    """A new node, with the place of the one that it stands for. ``ast.copy_location`` takes several times as long."""
    place = made.__dict__
    place["lineno"], place["col_offset"] = node.lineno, node.col_offset  # type: ignore[attr-defined]  # of all nodes here
    place["end_lineno"], place["end_col_offset"] = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
    return made


def _place(node: ast.expr | ast.stmt) -> ast.expr:
    numbers = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return ast.Constant(numbers)  # type: ignore[arg-type]  # compiled as it is


def _is_stored(part: ast.AST) -> bool:
    return isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)


class _Replaced(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        replacement = getattr(node, "_replacement", None)
        return self.generic_visit(node) if replacement is None else replacement


def _become(part: ast.AST, replacement: ast.expr, node: ast.AST) -> None:
    part._replacement = _at(node, replacement)  # type: ignore[attr-defined]  # read by _Replaced


@dataclass(frozen=True)
class Statement:
    """A statement of a module, compiled by itself, with the names that it binds. ``runs_program`` is that of
    ``if __name__ == "__main__":``; one that ``defines`` is an import, a function or a class."""

    code: CodeType
    names: tuple[str, ...]
    runs_program: bool
    defines: bool


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


# every run of every program and function imports the same modules
@lru_cache(maxsize=512)
def statements(source: str, path: str) -> tuple[Statement, ...]:
    """The statements of a module.

    Raises SyntaxError, or NotEvaluable for code that reaches for the interpreter.
    """
    tree = ast.parse(source, path)
    found = []
    for statement in tree.body:
        names = tuple(sorted(_bound(statement)))
        runs_program = isinstance(statement, ast.If) and "__main__" in ast.unparse(
            statement.test
        )
        try:
            guarded = _Guards().visit(statement)
        except NotEvaluable:
            guarded = None
        body = guarded if isinstance(guarded, list) else [guarded]
        if guarded is None:
            body = list(ast.parse("_refuse_()").body)
        module = ast.Module(body, [])
        code = compile(
            module,
            path,
            "exec",
            __future__.annotations.compiler_flag,
            dont_inherit=True,
        )
        defines = isinstance(statement, _DEFINITIONS)
        found.append(Statement(code, names, runs_program, defines))
    return tuple(found)


def started(source: str) -> list[str]:
    """The functions of other modules that ``if __name__ == "__main__":`` calls, by their dotted names.

    Raises SyntaxError.
    """
    tree = ast.parse(source)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(
                {alias.asname or alias.name: alias.name for alias in node.names}
            )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.update(
                {
                    alias.asname or alias.name: f"{node.module}.{alias.name}"
                    for alias in node.names
                }
            )
    blocks = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
    ]
    calls = [
        part
        for block in blocks
        for part in ast.walk(block)
        if isinstance(part, ast.Call)
    ]
    found = []
    for call in calls:
        name = ast.unparse(call.func)
        first, _, rest = name.partition(".")
        if first in imported and name.replace(".", "").isidentifier():
            found.append(f"{imported[first]}.{rest}" if rest else imported[first])
    return found


def expression(tree: ast.Expression) -> ast.Expression:
    """An expression with guards in it. Raises NotEvaluable for one that reaches for the interpreter."""
    found: ast.Expression = _Guards().visit(tree)
    return found


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    names: set[str] = set()
    for part in ast.walk(statement):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.alias):
            names.add(part.asname or part.name.partition(".")[0])
    return names
