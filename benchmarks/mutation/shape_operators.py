"""Mutation operators of shapes and dtypes: the slips that people make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from benchmarks.mutation.edits import (
    Edit,
    File,
    Scope,
    dotted,
    elements,
    is_method,
    keyword,
    last_name,
    operator,
    positional,
    replace,
    strings,
    swap,
)

# --- contractions ---------------------------------------------------------------------------------------------------


@operator("shape", cst.Call)
def einsum(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Two letters of a term change places, one letter becomes another, or two operands change places."""
    if (
        last_name(node) != "einsum"
        or not node.args
        or not isinstance(node.args[0].value, cst.SimpleString)
    ):
        return
    spec = node.args[0].value
    for changed in _respelled(spec.raw_value):
        yield replace("einsum letters", file, spec, spec.quote + changed + spec.quote)
    operands = positional(node)[1:]
    for left, right in itertools.pairwise(operands):
        yield swap("einsum operands", file, left.value, right.value)


def _respelled(spec: str) -> Iterator[str]:
    letters = sorted(set(re.findall(r"[A-Za-z]", spec)))
    terms = list(re.finditer(r"[A-Za-z]+", spec))
    for term in terms:
        word, start = term.group(), term.start()
        for i in range(len(word)):
            if i + 1 < len(word) and word[i] != word[i + 1]:
                yield (
                    spec[:start]
                    + word[:i]
                    + word[i + 1]
                    + word[i]
                    + word[i + 2 :]
                    + spec[term.end() :]
                )
            for letter in letters:
                if letter not in word:
                    yield spec[: start + i] + letter + spec[start + i + 1 :]


@operator("shape", cst.BinaryOperation)
def matmul(node: cst.BinaryOperation, file: File, scope: Scope) -> Iterator[Edit]:
    """The operands of a matrix product change places, or one is transposed."""
    if isinstance(node.operator, cst.MatrixMultiply):
        if (
            not node.left.lpar
            and not node.right.lpar
            and not isinstance(node.left, cst.BinaryOperation)
        ):
            yield swap("matmul operands", file, node.left, node.right)
        for side in (node.left, node.right):
            if isinstance(side, (cst.Name, cst.Attribute)) and not file.text(
                side
            ).endswith(".T"):
                yield replace("add transpose", file, side, file.text(side) + ".T")


# --- transposes and reshapes ----------------------------------------------------------------------------------------


@operator("shape", cst.Attribute)
def drop_transpose(node: cst.Attribute, file: File, scope: Scope) -> Iterator[Edit]:
    """``x.T`` becomes ``x``."""
    if node.attr.value in {"T", "mT"}:
        yield replace("drop transpose", file, node, file.text(node.value))


@operator("shape", cst.Call)
def permutation(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """A transpose, swapaxes or moveaxis is dropped, or two of its dimensions change places."""
    name = last_name(node)
    if name not in {"transpose", "swapaxes", "moveaxis"}:
        return
    given = positional(node)
    if is_method(node):
        assert isinstance(node.func, cst.Attribute)
        array, axes = node.func.value, [a.value for a in given]
    elif given:
        array, axes = given[0].value, [a.value for a in given[1:]]
    else:
        return
    yield replace("drop transpose", file, node, file.text(array))
    numbers = elements(axes[0]) if len(axes) == 1 else axes
    if name == "transpose":
        for left, right in itertools.pairwise(numbers):
            yield swap("transpose order", file, left, right)
    else:
        for number in numbers:
            for changed in _other_numbers(file.text(number)):
                yield replace("transpose order", file, number, changed)


@operator("shape", cst.Call)
def reshape(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Two sizes of a reshape change places, one is left out, or a product loses a factor."""
    if last_name(node) not in {"reshape", "broadcast_to", "zeros", "ones", "full"}:
        return
    given = [a.value for a in positional(node)]
    if last_name(node) in {"reshape", "broadcast_to"} and not is_method(node):
        given = given[1:]
    sizes = (
        elements(given[0])
        if given and isinstance(given[0], (cst.Tuple, cst.List))
        else given
    )
    if not sizes or (last_name(node) not in {"reshape"} and sizes is given):
        return
    name = "reshape" if last_name(node) == "reshape" else "constructor shape"
    for left, right in itertools.pairwise(sizes):
        yield swap(name, file, left, right)
        yield Edit(name, file.span(left)[0], file.span(right)[1], file.text(right))
    for size in sizes:
        if isinstance(size, cst.BinaryOperation):
            yield replace(name, file, size, file.text(size.left))


# --- dimension arguments --------------------------------------------------------------------------------------------


def _other_numbers(text: str) -> list[str]:
    if not re.fullmatch(r"-?\d+", text):
        return []
    number = int(text)
    return [str(n) for n in (number - 1, number + 1) if (n < 0) == (number < 0)] + [
        str(-1 if number >= 0 else 0)
    ]


@operator("shape", cst.Arg)
def axis(node: cst.Arg, file: File, scope: Scope) -> Iterator[Edit]:
    """Another number for ``axis=`` and its kin, or one entry of several is left out."""
    if node.keyword is None or node.keyword.value not in {
        "axis",
        "axes",
        "dimension",
        "axis1",
        "axis2",
    }:
        return
    for number in elements(node.value) or [node.value]:
        for changed in _other_numbers(file.text(number)):
            yield replace("axis", file, number, changed)
    parts = elements(node.value)
    if len(parts) > 1:
        kept = ", ".join(file.text(p) for p in parts[1:])
        yield replace("axis", file, node.value, f"({kept},)")


@operator("shape", cst.Call)
def dropped_keywords(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """``axis=`` or ``keepdims=`` is forgotten."""
    for name in ("axis", "keepdims"):
        found = keyword(node, name)
        if (
            found is not None
            and len(node.args) > 1
            and last_name(node) not in {"take_along_axis"}
        ):
            index = node.args.index(found)
            if index > 0:
                yield Edit(
                    f"drop {name}",
                    file.span(node.args[index - 1])[1],
                    file.span(found)[1],
                    "",
                )
    reduces = last_name(node) in {
        "sum",
        "mean",
        "max",
        "min",
        "std",
        "var",
        "prod",
        "any",
        "all",
        "norm",
    }
    if (
        reduces
        and keyword(node, "axis") is not None
        and keyword(node, "keepdims") is None
    ):
        last = node.args[-1]
        yield replace("add keepdims", file, last, file.text(last) + ", keepdims=True")


@operator("shape", cst.Call)
def counts(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Another number of parts, repeats or classes."""
    if last_name(node) in {
        "split",
        "array_split",
        "repeat",
        "tile",
        "top_k",
        "one_hot",
    }:
        for argument in positional(node):
            if isinstance(argument.value, cst.Integer):
                yield replace(
                    "count", file, argument, str(int(argument.value.value) + 1)
                )


# --- calls ----------------------------------------------------------------------------------------------------------


@operator("shape", cst.Call)
def call_arguments(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """Two neighbouring arguments of a function of the program, or of a function of arrays, change places."""
    name = dotted(node.func)
    own = name in file.functions
    if own or name.split(".")[-1] in {
        "where",
        "matmul",
        "dot",
        "solve",
        "take",
        "take_along_axis",
        "tensordot",
    }:
        for left, right in itertools.pairwise(positional(node)):
            yield swap("call arguments", file, left.value, right.value)


@operator("shape", cst.Call)
def join(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """``concatenate`` for ``stack`` and the reverse."""
    other = {"concatenate": "stack", "stack": "concatenate"}.get(last_name(node))
    if other is not None and isinstance(node.func, cst.Attribute):
        yield replace("stack for concatenate", file, node.func.attr, other)


@operator("shape", cst.Arg)
def mapped_axes(node: cst.Arg, file: File, scope: Scope) -> Iterator[Edit]:
    """Another entry in ``in_axes`` or ``out_axes``, or one too few."""
    if node.keyword is None or node.keyword.value not in {"in_axes", "out_axes"}:
        return
    parts = elements(node.value)
    for entry in parts or [node.value]:
        text = file.text(entry)
        for changed in ("1", "None") if text == "0" else ("0",):
            yield replace("in_axes", file, entry, changed)
    if len(parts) > 1:
        yield replace(
            "in_axes",
            file,
            node.value,
            f"({', '.join(file.text(p) for p in parts[1:])},)",
        )


@operator("shape", cst.Call)
def carry(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """The initial carry of a loop has a dimension too many, one too few, or another dtype."""
    place = {"scan": 1, "fori_loop": 3, "while_loop": 2}.get(last_name(node))
    given = positional(node)
    if place is not None and len(given) > place:
        initial = given[place].value
        for part in elements(initial) or [initial]:
            text = file.text(part)
            text = (
                text
                if isinstance(part, (cst.Name, cst.Call, cst.Attribute, cst.Subscript))
                else f"({text})"
            )
            for change in ("[None]", "[0]", ".astype(jnp.bfloat16)"):
                yield replace("scan carry", file, part, text + change)


# --- indexing -------------------------------------------------------------------------------------------------------


@operator("shape", cst.Subscript)
def index(node: cst.Subscript, file: File, scope: Scope) -> Iterator[Edit]:
    """An indexing None is left out or moved; an index is dropped; a slice ends one earlier."""
    if file.text(node.value).endswith("shape"):
        return
    entries = list(node.slice)
    texts = [file.text(e.slice) for e in entries]
    for i, text in enumerate(texts):
        without = texts[:i] + texts[i + 1 :]
        base = file.text(node.value)
        rest = f"{base}[{', '.join(without)}]" if without else base
        if text == "None":
            yield replace("drop None", file, node, rest)
            if i + 1 < len(texts) and texts[i + 1] != "None":
                moved = [*without[: i + 1], "None", *without[i + 1 :]]
                yield replace("move None", file, node, f"{base}[{', '.join(moved)}]")
        elif text != ":":
            yield replace("drop index", file, node, rest)
    for entry in entries:
        part = entry.slice
        if isinstance(part, cst.Slice) and part.upper is not None and part.step is None:
            yield replace("slice", file, part.upper, f"{file.text(part.upper)} - 1")
        elif (
            isinstance(part, cst.Slice) and part.lower is not None and part.step is None
        ):
            yield replace("slice", file, part.lower, f"{file.text(part.lower)} + 1")


@operator("shape", cst.Subscript)
def size_index(node: cst.Subscript, file: File, scope: Scope) -> Iterator[Edit]:
    """``x.shape[1]`` for ``x.shape[0]``."""
    if file.text(node.value).endswith(".shape") and len(node.slice) == 1:
        for changed in _other_numbers(file.text(node.slice[0])):
            yield replace("size of another dimension", file, node.slice[0], changed)


@operator("shape", cst.AssignTarget)
def unpacking(node: cst.AssignTarget, file: File, scope: Scope) -> Iterator[Edit]:
    """Two names of an unpacking change places, or one is left out."""
    parts = elements(node.target)
    for left, right in itertools.pairwise(parts):
        yield swap("unpacking", file, left, right)
    if len(parts) > 1:
        yield Edit(
            "unpacking",
            file.span(parts[0])[0],
            file.span(parts[1])[1],
            file.text(parts[1]),
        )


# --- dtypes ---------------------------------------------------------------------------------------------------------


@operator("dtype", cst.Call)
def cast(node: cst.Call, file: File, scope: Scope) -> Iterator[Edit]:
    """A cast is left out, or goes to another dtype."""
    if last_name(node) == "astype" and is_method(node):
        assert isinstance(node.func, cst.Attribute)
        yield replace("drop cast", file, node, file.text(node.func.value))


@operator("dtype", cst.Attribute)
def dtype(node: cst.Attribute, file: File, scope: Scope) -> Iterator[Edit]:
    """Another dtype of JAX."""
    other = {
        "jnp.float32": "bfloat16",
        "jnp.bfloat16": "float32",
        "jnp.int32": "float32",
    }.get(dotted(node))
    if other is not None:
        yield replace("another dtype", file, node.attr, other)


_OTHER_DTYPES = {
    "f32": "bf16",
    "bf16": "f32",
    "i32": "f32",
    "bool_": "f32",
    "Float32": "Int32",
    "Int32": "Float32",
    "Bool": "Float",
    "Float": "Int",
    "Int": "Float",
}


@operator("dtype", cst.Annotation)
def annotated_dtype(node: cst.Annotation, file: File, scope: Scope) -> Iterator[Edit]:
    """An annotation promises another dtype, one that the file imports."""
    for subscript in _subscripts(node):
        other = _OTHER_DTYPES.get(dotted(subscript.value))
        if other is not None and re.search(
            rf"import .*\b{other}\b", file.source.decode()
        ):
            yield replace("annotated dtype", file, subscript.value, other)


def _subscripts(node: cst.CSTNode) -> Iterator[cst.Subscript]:
    if isinstance(node, cst.Subscript):
        yield node
    for child in node.children:
        yield from _subscripts(child)


# --- annotations ----------------------------------------------------------------------------------------------------


@operator("shape", cst.Annotation)
def annotation(node: cst.Annotation, file: File, scope: Scope) -> Iterator[Edit]:
    """One dimension of one annotation is renamed, dropped, or changes places with its neighbour."""
    for string in strings(node):
        words = string.raw_value.split()
        for changed in _other_shapes(words, scope.names):
            yield replace(
                "annotation",
                file,
                string,
                string.quote + " ".join(changed) + string.quote,
            )


def _other_shapes(words: list[str], names: Sequence[str]) -> Iterator[list[str]]:
    for i, word in enumerate(words):
        if word.startswith("{"):
            continue
        yield words[:i] + words[i + 1 :]
        if (
            i + 1 < len(words)
            and words[i + 1] != word
            and not words[i + 1].startswith("{")
        ):
            yield [*words[:i], words[i + 1], word, *words[i + 2 :]]
        for other in names:
            if other != word and re.fullmatch(r"[A-Za-z]\w*(/\w+)*", word):
                yield [*words[:i], other, *words[i + 1 :]]
