"""The intermediate form of one Python file: plain frozen nodes that pickle, and know where they came from.

Every node carries ``at``, its number in lowering order. Lowering is deterministic, so a cached form needs no
syntax tree: when a file has a finding it is parsed and lowered once more, and ``at`` selects the libcst node whose
position is wanted (see ``shardlint.positions``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import TypeAlias

from shardtypes.lang.frozen import frozen


@frozen
class Node:
    """Anything that has a place in a file. ``at`` is -1 for nodes made up by the lowering."""

    at: int

    def __reduce__(self) -> tuple[type[Node], tuple[object, ...]]:
        # What dataclasses do for slots looks up the fields of every single object; cached forms hold thousands.
        cls = type(self)
        read = _READERS.get(cls) or _READERS.setdefault(cls, _reader(cls))
        return cls, read(self)


_READERS: dict[type[Node], Callable[[object], tuple[object, ...]]] = {}


def _reader(cls: type[Node]) -> Callable[[object], tuple[object, ...]]:
    names = [f.name for f in fields(cls)]
    if len(names) == 1:
        return lambda node: (getattr(node, names[0]),)
    return attrgetter(*names)


_NUMBERS: list[int] = []


def shared_number(number: int) -> int:
    """The same object for the same number: a project has millions of nodes, with the same numbers in each file. Their
    names are interned for the same reason; together that is a third of what the forms take."""
    while len(_NUMBERS) <= number:
        _NUMBERS.append(len(_NUMBERS))
    return _NUMBERS[number]


# --- expressions -----------------------------------------------------------------------------------------------


@frozen
class Name(Node):
    id: str


@frozen
class Const(Node):
    """A literal: int, float, complex, str, bytes, bool, None or Ellipsis. Adjacent strings are joined."""

    value: object


@frozen
class Attr(Node):
    obj: Expr
    name: str


@frozen
class Arg(Node):
    """One call argument: ``keyword`` is None for a positional one; ``star`` is '', '*' or '**'."""

    value: Expr
    keyword: str | None = None
    star: str = ""


@frozen
class Call(Node):
    func: Expr
    args: tuple[Arg, ...]


@frozen
class Subscript(Node):
    """``obj[index]``; several indices arrive as one Sequence of kind tuple."""

    obj: Expr
    index: Expr


@frozen
class Slice(Node):
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@frozen
class Star(Node):
    value: Expr


@frozen
class Sequence(Node):
    """A tuple, list or set display."""

    kind: str
    items: tuple[Expr, ...]


@frozen
class Dict(Node):
    """A dict display; the key of ``**other`` is None."""

    items: tuple[tuple[Expr | None, Expr], ...]


@frozen
class Binary(Node):
    """``op`` is the operator's text: ``+ - * / // % ** @ & | ^ << >>``."""

    op: str
    left: Expr
    right: Expr


@frozen
class Unary(Node):
    """``op`` is ``- + ~ not``."""

    op: str
    value: Expr


@frozen
class Compare(Node):
    """``left op0 right0 op1 right1 …``; ops are ``== != < <= > >= in 'not in' is 'is not'``."""

    left: Expr
    rest: tuple[tuple[str, Expr], ...]


@frozen
class Bool(Node):
    """``op`` is ``and`` or ``or``."""

    op: str
    values: tuple[Expr, ...]


@frozen
class IfExp(Node):
    test: Expr
    body: Expr
    orelse: Expr


@frozen
class Walrus(Node):
    target: str
    value: Expr


@frozen
class Lambda(Node):
    params: tuple[Param, ...]
    body: Expr


@frozen
class Generator(Node):
    """``for target in iter if conditions…`` of a comprehension."""

    target: Expr
    iter: Expr
    conditions: tuple[Expr, ...]


@frozen
class Comprehension(Node):
    """``kind`` is list, set, generator or dict; ``key`` is given for a dict only."""

    kind: str
    element: Expr
    generators: tuple[Generator, ...]
    key: Expr | None = None


@frozen
class Format(Node):
    """An f-string: constant strings, and the expressions between them."""

    parts: tuple[Expr, ...]


@frozen
class Opaque(Node):
    """An expression without a value here (await, yield); its parts are still evaluated."""

    what: str
    parts: tuple[Expr, ...] = ()


Expr: TypeAlias = (
    Name
    | Const
    | Attr
    | Call
    | Subscript
    | Slice
    | Star
    | Sequence
    | Dict
    | Binary
    | Unary
    | Compare
    | Bool
    | IfExp
    | Walrus
    | Lambda
    | Comprehension
    | Format
    | Opaque
)


# --- statements ------------------------------------------------------------------------------------------------


@frozen
class Param(Node):
    """``kind`` is positional-only, positional, keyword-only, ``*`` or ``**``."""

    name: str
    kind: str = "positional"
    annotation: Expr | None = None
    default: Expr | None = None


@frozen
class Function(Node):
    """A ``def``. ``name_at`` is the number of the name's own node, where findings about the signature go."""

    name: str
    params: tuple[Param, ...]
    returns: Expr | None
    decorators: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    name_at: int
    is_async: bool = False
    is_generator: bool = False


@frozen
class Class(Node):
    name: str
    bases: tuple[Arg, ...]
    decorators: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    name_at: int


@frozen
class Assign(Node):
    """``targets[0] = targets[1] = value``; a target is a Name, Attr, Subscript, Star or Sequence."""

    targets: tuple[Expr, ...]
    value: Expr


@frozen
class AnnAssign(Node):
    target: Expr
    annotation: Expr
    value: Expr | None


@frozen
class AugAssign(Node):
    op: str
    target: Expr
    value: Expr


@frozen
class ExprStmt(Node):
    value: Expr


@frozen
class Return(Node):
    value: Expr | None


@frozen
class If(Node):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@frozen
class For(Node):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@frozen
class While(Node):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@frozen
class With(Node):
    items: tuple[tuple[Expr, Expr | None], ...]
    body: tuple[Stmt, ...]


@frozen
class Try(Node):
    """``caught`` are the exceptions of each handler; None for one that takes any."""

    body: tuple[Stmt, ...]
    caught: tuple[Expr | None, ...]
    handlers: tuple[tuple[Stmt, ...], ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@frozen
class ValuePattern(Node):
    """A literal or a dotted name: what is equal to it matches."""

    value: Expr


@frozen
class CapturePattern(Node):
    """A name, ``_`` (then ``name`` is empty), or ``pattern as name``; ``star`` for the rest of a sequence."""

    name: str
    pattern: Pattern | None = None
    star: bool = False


@frozen
class SequencePattern(Node):
    items: tuple[Pattern, ...]


@frozen
class MappingPattern(Node):
    items: tuple[tuple[Expr, Pattern], ...]
    rest: str = ""


@frozen
class ClassPattern(Node):
    cls: Expr
    positional: tuple[Pattern, ...]
    named: tuple[tuple[str, Pattern], ...]


@frozen
class OrPattern(Node):
    options: tuple[Pattern, ...]


Pattern: TypeAlias = (
    ValuePattern
    | CapturePattern
    | SequencePattern
    | MappingPattern
    | ClassPattern
    | OrPattern
)


@frozen
class Case(Node):
    pattern: Pattern
    guard: Expr | None
    body: tuple[Stmt, ...]


@frozen
class Match(Node):
    subject: Expr
    cases: tuple[Case, ...]


@frozen
class Assert(Node):
    test: Expr


@frozen
class Raise(Node):
    value: Expr | None


@frozen
class Jump(Node):
    """``what`` is break or continue."""

    what: str


@frozen
class Delete(Node):
    targets: tuple[Expr, ...]


@frozen
class Declare(Node):
    """``global`` and ``nonlocal``."""

    what: str
    names: tuple[str, ...]


@frozen
class Import(Node):
    """``import module as name``: ``name`` is what gets bound, ``module`` the dotted name it is bound to."""

    bindings: tuple[tuple[str, str], ...]


@frozen
class ImportFrom(Node):
    """``from module import name as bound``; ``level`` counts leading dots; ``names`` is None for ``*``."""

    module: str
    level: int
    names: tuple[tuple[str, str], ...] | None


Stmt: TypeAlias = (
    Function
    | Class
    | Assign
    | AnnAssign
    | AugAssign
    | ExprStmt
    | Return
    | If
    | For
    | While
    | With
    | Try
    | Match
    | Assert
    | Raise
    | Jump
    | Delete
    | Declare
    | Import
    | ImportFrom
)


@frozen
class Module:
    """One file: ``name`` is its dotted module name, ``is_package`` says whether it is an ``__init__``."""

    name: str
    path: str
    is_package: bool
    body: tuple[Stmt, ...]
    suppressions: tuple[Suppression, ...] = ()


@frozen
class Suppression:
    """``# shardlint: ignore[ST301] reason``: 1-based ``line``; ``covers`` is the line that it silences."""

    line: int
    column: int
    end_column: int
    covers: int
    codes: tuple[str, ...]
    reason: str


def statements(
    body: tuple[Stmt, ...], inside_definitions: bool = False
) -> Iterator[Stmt]:
    """Every statement of a body in order, those in the blocks of other statements included; what functions and classes
    hold only if asked for."""
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        blocks: tuple[tuple[Stmt, ...], ...] = ()
        match node:
            case Function(body=inner) | Class(body=inner) if inside_definitions:
                blocks = (inner,)
            case With(body=inner):
                blocks = (inner,)
            case (
                If(body=first, orelse=second)
                | For(body=first, orelse=second)
                | While(body=first, orelse=second)
            ):
                blocks = (first, second)
            case Try(body=first, handlers=handlers, orelse=orelse, final=final):
                blocks = (first, *handlers, orelse, final)
            case Match(cases=cases):
                blocks = tuple(case.body for case in cases)
            case _:
                pass
        for block in reversed(blocks):
            pending += reversed(block)
