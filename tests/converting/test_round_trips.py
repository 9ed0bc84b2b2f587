"""Generated programs: each form from each other one, in any order, is the text of that form; they run and mean the
same."""

from __future__ import annotations

import ast
import types
import typing
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint.converting.files import convert
from shardtypes.dtypes import ArrayType

pytestmark = pytest.mark.once

FORMS = ("short", "array", "annotated")
DTYPES = ("f32", "bf16", "i32", "key", "f8_e4m3", "anydtype")
SHAPES = ("", "B", "B/d M", "2*B L/t", "... M", "B M {U:t}")

Wrapped = st.sampled_from(
    (
        "{}",
        "{} | None",
        "tuple[{}, ...]",
        "dict[str, {}]",
        "list[tuple[{}, int]]",
        "Optional[{}]",
        "Callable[[{}], int]",
    )
)


@st.composite
def written(draw: st.DrawFn) -> str:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from(SHAPES))
    is_quoted = draw(st.booleans())
    inner, outer = draw(st.sampled_from((("'", '"'), ('"', "'"))))
    blank = draw(st.sampled_from(("", "", " ")))
    text = draw(Wrapped).format(f"{dtype}[{blank}{inner}{shape}{inner}{blank}]")
    return f"{outer}{text}{outer}" if is_quoted else text


@st.composite
def programs(draw: st.DrawFn) -> str:
    first, second, third, fourth = (draw(written()) for _ in range(4))
    used = sorted(one for one in DTYPES if f"{one}[" in first + second + third + fourth)
    heads = [
        "from collections.abc import Callable\nfrom typing import Optional\n\n",
        draw(st.sampled_from(("", "import jax\n"))),
        draw(st.sampled_from(("import numpy as np\n", ""))),
        f"from shardtypes import {', '.join(used)}\n\n\n",
    ]
    if draw(st.booleans()):
        heads.insert(0, "from __future__ import annotations\n\n")
    use = "jax.jit(g)\n" if "import jax\n" in heads else ""
    body = (
        f"class C:\n    é: {first}; x: {second}\n\n\n"
        f"def g(x: {third}, *, y=None) -> {fourth}:\n"
        f"    z: {first} = x  # {second}\n    return x\n\n\n{use}"
    )
    return "".join(heads) + body


def hints(text: str) -> list[dict[str, Any]]:
    """What the annotations are at run time, without what ``Annotated`` adds."""
    space: dict[str, Any] = {}
    exec(compile(text, "made.py", "exec", dont_inherit=True), space)
    return [
        {
            name: repr(_plain(hint))
            for name, hint in typing.get_type_hints(
                space[one], space, include_extras=True
            ).items()
        }
        for one in "Cg"
    ]


def _plain(hint: Any) -> Any:
    if typing.get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if isinstance(hint, list):
        return [_plain(one) for one in hint]
    parts = typing.get_args(hint)
    if not parts or isinstance(hint, ArrayType):
        return hint
    origin = typing.get_origin(hint)
    name = "union" if origin in (types.UnionType, typing.Union) else origin
    return name, [_plain(one) for one in parts]


@given(programs(), st.lists(st.sampled_from(FORMS), min_size=2, max_size=4))
def test_any_way_to_a_form_gives_one_text(text: str, way: list[str]) -> None:
    direct = {form: convert(text, form) for form in FORMS}
    assert direct["short"].text == text
    current = text
    for form in way:
        made = convert(current, form)
        assert not made.refusals
        assert made.text == direct[form].text
        current = made.text


@given(programs())
def test_each_form_is_complete_and_means_the_same(text: str) -> None:
    wanted = hints(text)
    for form in ("array", "annotated"):
        made = convert(text, form)
        assert hints(made.text) == wanted
        again = convert(made.text, form)
        assert (again.text, again.count) == (made.text, 0)
        names = {
            alias.asname or alias.name
            for node in ast.walk(ast.parse(made.text))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        assert ("Annotated" in names) == (form == "annotated")
