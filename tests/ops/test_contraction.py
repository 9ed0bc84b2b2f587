"""Contractions that a text or numbers describe, against JAX."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.oracle import agree
from tests.ops.strategies import COMMON, arrays
from tests.ops.tables import case, family

small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=3).map(tuple)


letters = st.text("abc", max_size=3)


@st.composite
def einsums(draw):
    """An equation and operands that mostly fit it."""
    count = draw(st.integers(1, 3))
    table = {letter: draw(st.integers(1, 3)) for letter in "abc"}
    terms, operands = [], []
    dots = draw(st.booleans())
    for _ in range(count):
        term = draw(letters)
        shape = [table[letter] for letter in term]
        if draw(st.integers(0, 9)) == 0 and shape:
            shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(1, 3))
        if draw(st.integers(0, 14)) == 0:
            shape = shape[1:]
        if dots and draw(st.booleans()):
            at = draw(st.integers(0, len(term)))
            extra = draw(st.sampled_from([(), (2,), (1,), (2, 2)]))
            shape[at:at] = extra
            term = term[:at] + "..." + term[at:]
        terms.append(term)
        operands.append(draw(arrays(st.just(tuple(shape)), COMMON)))
    text = ",".join(terms)
    if draw(st.booleans()):
        out = "".join(
            draw(
                st.lists(
                    st.sampled_from(sorted(set(text) & set("abc")) or ["a"]),
                    max_size=3,
                    unique=True,
                )
            )
        )
        text += "->" + ("..." if dots and draw(st.integers(0, 3)) else "") + out
    return [text, *operands], {}


@st.composite
def generals(draw):
    c1, c2, b1, b2 = (draw(st.integers(0, 2)) for _ in range(4))
    dimension_numbers = (
        ((c1,), (c2,)),
        ((b1,), (b2,)) if b1 != c1 and b2 != c2 else ((), ()),
    )
    return [draw(arrays(small)), draw(arrays(small)), dimension_numbers], {}


test_contraction = family(
    case("jax.numpy", "einsum", drawn=einsums(), times=6),
    case("jax.lax", "dot_general", drawn=generals(), times=3),
)


def test_three_operands_of_any_dtypes():
    """JAX refuses some mixtures, as it multiplies two of them first."""
    refused = 0
    for names in product(
        ("bool", "int32", "uint8", "float32", "bfloat16", "complex64"), repeat=3
    ):
        operands = [jax.ShapeDtypeStruct((3,), name) for name in names]
        refused += isinstance(
            agree("jax.numpy.einsum", jnp.einsum, ["i,i,i->i", *operands]), Exception
        )
    assert refused
