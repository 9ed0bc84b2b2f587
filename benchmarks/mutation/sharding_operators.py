"""Mutation operators of shardings: collectives, their axes and dimensions, specs, annotated axes and logical rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import libcst as cst

from benchmarks.mutation.edits import (
    Edit,
    File,
    Scope,
    elements,
    last_name,
    operator,
    positional,
    replace,
)
from benchmarks.mutation.edits import swap as swapped

_COLLECTIVES = frozenset(
    {
        "psum",
        "pmean",
        "pmax",
        "pmin",
        "all_gather",
        "psum_scatter",
        "all_to_all",
        "ppermute",
    }
)
_OTHER = {"psum": "pmean", "pmean": "psum", "pmax": "psum", "pmin": "pmax"}
_REDUCING = frozenset({"psum", "pmean", "psum_scatter"})
_NONLINEAR = frozenset(
    "relu gelu silu sigmoid tanh exp log sqrt rsqrt square softmax log_softmax logsumexp standardize rms_norm".split()
)
_NUMBERS = frozenset({"axis", "scatter_dimension", "split_axis", "concat_axis"})


def _value(call: cst.Call) -> cst.BaseExpression | None:
    """What a collective works on: the first argument, or the second after a spec string."""
    given = [a.value for a in positional(call)]
    if given and isinstance(given[0], cst.SimpleString):
        given = given[1:]
    return given[0] if given else None


@operator("sharding", cst.Call)
def collective(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """A collective is left out, applied twice, or replaced by another."""
    name = last_name(node)
    value = _value(node)
    if name not in _COLLECTIVES or value is None:
        return
    yield replace("drop collective", file, node, f"({file.text(value)})")
    if name != "ppermute":
        yield replace(
            "duplicate collective",
            file,
            node,
            _around(file, node, value, file.text(node)),
        )
    if name in _OTHER and isinstance(node.func, cst.Attribute):
        yield replace("another collective", file, node.func.attr, _OTHER[name])


def _around(file: File, call: cst.Call, value: cst.BaseExpression, inner: str) -> str:
    """The text of a collective that works on ``inner`` instead."""
    start = file.span(call)[0]
    first, last = file.span(value)
    return file.text(call)[: first - start] + inner + file.text(call)[last - start :]


@operator("sharding", cst.Call)
def norm(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """A non-linear function comes before the reduction whose result it takes."""
    given = positional(node)
    inner = given[0].value if given and last_name(node) in _NONLINEAR else None
    value = (
        _value(inner)
        if isinstance(inner, cst.Call) and last_name(inner) in _REDUCING
        else None
    )
    if isinstance(inner, cst.Call) and value is not None:
        start, _ = file.span(node)
        first, last = file.span(inner)
        before, after = (
            file.text(node)[: first - start],
            file.text(node)[last - start :],
        )
        moved = _around(file, inner, value, before + file.text(value) + after)
        yield replace("norm before reduction", file, node, moved)


@operator("sharding", cst.BinaryOperation)
def addend(node: cst.BinaryOperation, file: File, scope: Scope) -> Iterator[Edit]:
    """What is added to the result of a reduction is added before it."""
    if not isinstance(node.operator, cst.Add):
        return
    for call, other in ((node.left, node.right), (node.right, node.left)):
        value = (
            _value(call)
            if isinstance(call, cst.Call) and last_name(call) in _REDUCING
            else None
        )
        if (
            isinstance(call, cst.Call)
            and value is not None
            and not isinstance(other, cst.Float)
        ):
            moved = _around(
                file, call, value, f"{file.text(value)} + {file.text(other)}"
            )
            yield replace("addend before reduction", file, node, moved)


@operator("sharding", cst.Call)
def axis_name(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """A collective goes over another axis, or over one of several only."""
    if last_name(node) not in _COLLECTIVES | {"axis_index", "axis_size"}:
        return
    for argument in node.args:
        for part in elements(argument.value) or [argument.value]:
            if isinstance(part, cst.SimpleString) and re.fullmatch(
                r"\w", part.raw_value
            ):
                other = {"d": "t", "t": "d"}.get(part.raw_value)
                if other is not None:
                    yield replace(
                        "wrong axis name", file, part, part.quote + other + part.quote
                    )
        several = elements(argument.value)
        if len(several) > 1 and all(isinstance(p, cst.SimpleString) for p in several):
            yield replace(
                "wrong axis name", file, argument.value, file.text(several[0])
            )


@operator("sharding", cst.Arg)
def dimension(node: cst.Arg, file: File, scope: Scope) -> Iterator[Edit]:
    """Another dimension of a collective or of a reduction."""
    if node.keyword is None or node.keyword.value not in _NUMBERS:
        return
    text = file.text(node.value)
    if re.fullmatch(r"-?\d", text):
        name = (
            "wrong dimension"
            if node.keyword.value != "axis"
            else "neighbouring dimension"
        )
        number = int(text)
        yield replace(
            name, file, node.value, str(number + 1 if number not in (-1,) else -2)
        )


@operator("sharding", cst.Call)
def spec(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Two entries of a PartitionSpec change places, or one is left open."""
    if last_name(node) not in {"P", "PartitionSpec"}:
        return
    given = positional(node)
    for left, right in itertools.pairwise(given):
        yield swapped("swap spec entries", file, left.value, right.value)
    for argument in given:
        if file.text(argument.value) != "None":
            yield replace("drop spec entry", file, argument.value, "None")


@operator("sharding", cst.Arg)
def specs(node: cst.Arg, file: File, scope: Scope) -> Iterator[Edit]:
    """Two of several specs change places."""
    if node.keyword is not None and node.keyword.value in {
        "in_specs",
        "out_specs",
        "in_axes",
        "out_axes",
    }:
        for left, right in itertools.pairwise(elements(node.value)):
            yield swapped(f"swap {node.keyword.value}", file, left, right)


@operator("sharding", cst.SimpleString)
def axes_in_strings(node: cst.SimpleString, file: File, scope: Scope) -> Iterator[Edit]:
    """A dimension of a shape string or of a collective's spec loses an axis, or its neighbour gets it."""
    text = node.raw_value
    for found in re.finditer(
        r"(\w+)((?:/[A-Za-z]\w*)*)/([A-Za-z]\w*)(?= |$|,|\])", text
    ):
        without = text[: found.start(3) - 1] + text[found.end(3) :]
        yield replace(
            "drop annotated axis", file, node, node.quote + without + node.quote
        )
        after = re.match(r"( \w+)(?=[ ,]|$)", text[found.end(3) :])
        if after:
            end = found.end(3) + after.end()
            moved = (
                text[: found.start(3) - 1]
                + after.group()
                + "/"
                + found.group(3)
                + text[end:]
            )
            yield replace(
                "move annotated axis", file, node, node.quote + moved + node.quote
            )
    pending = re.search(r" ?\{U:[^}]*\}", text)
    if pending:
        yield replace(
            "drop pending",
            file,
            node,
            node.quote + text.replace(pending.group(), "") + node.quote,
        )


@operator("sharding", cst.Assign)
def rules(node: cst.Assign, file: File, scope: Scope) -> Iterator[Edit]:
    """A rule of a list of logical axes is left out, or names another mesh axis."""
    entries = elements(node.value)
    pairs = [elements(e) for e in entries]
    if not entries or not all(
        len(p) == 2 and isinstance(p[0], cst.SimpleString) for p in pairs
    ):
        return
    for entry, (name, where) in zip(entries, pairs, strict=True):
        if file.text(where) == "None":
            yield replace("another rule", file, where, '"t"')
        else:
            yield replace("another rule", file, where, "None")
            yield replace(
                "drop rule",
                file,
                entry,
                f'({file.text(name)[:-1]}_", {file.text(where)})',
            )


@operator("sharding", cst.Call)
def logical_names(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Two logical names change places."""
    if last_name(node) in {
        "with_logical_constraint",
        "with_logical_partitioning",
        "param_with_axes",
    }:
        for argument in node.args:
            names = elements(argument.value)
            for left, right in itertools.pairwise(names):
                if isinstance(left, cst.SimpleString) and isinstance(
                    right, cst.SimpleString
                ):
                    yield swapped("swap logical names", file, left, right)
