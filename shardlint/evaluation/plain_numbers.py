"""Numbers in the text of a program that stand for no number of devices, whatever they are equal to: exponents, the
numbers of dimensions, factors of pi. Programs are full of twos."""

from __future__ import annotations

import ast
from collections.abc import Iterator

#: Parameters that name dimensions, whatever function takes them: ``axes`` or ``dims`` may be the sizes of a mesh.
_DIMENSIONS = frozenset(
    """axis axis1 axis2 in_axis out_axis in_axes out_axes batch_axis ndim ndmin split_axis concat_axis
    scatter_dimension""".split()
)
_OF_RANKS = (ast.Add, ast.Sub)
_OF_ANGLES = (ast.Mult, ast.Div)


def plain_numbers(node: ast.AST) -> Iterator[ast.expr]:
    """Those directly below a node of a syntax tree."""
    match node:
        case ast.BinOp(op=ast.Pow(), right=exponent):
            yield from _entries(exponent)
        case ast.BinOp(left=left, op=op, right=right):
            yield from _beside(left, op, right)
            yield from _beside(right, op, left)
        case ast.keyword(arg=name, value=value) if name in _DIMENSIONS:
            yield from _entries(value)
        case ast.Subscript(slice=index):
            yield from _entries(index)


def _beside(one: ast.expr, op: ast.operator, other: ast.expr) -> Iterator[ast.expr]:
    """A number beside a rank, or beside pi."""
    if not isinstance(other, ast.Attribute):
        return
    is_of_rank = isinstance(op, _OF_RANKS) and other.attr == "ndim"
    is_of_angle = isinstance(op, _OF_ANGLES) and other.attr == "pi"
    if is_of_rank or is_of_angle:
        yield one


def _entries(value: ast.expr) -> Iterator[ast.expr]:
    """A value, or the entries of a tuple or a list, without their signs."""
    entries = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    for one in entries:
        yield one.operand if isinstance(one, ast.UnaryOp) else one
