"""``einops`` against the real functions."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.strategies import arrays
from tests.ops.tables import case, family

REARRANGE = [
    ("b l m -> b (l m)", {}),
    ("b (h k) m -> b h k m", {"h": 2}),
    ("b l (h k) -> h b l k", {"h": 3}),
    ("... m -> m ...", {}),
    ("b ... -> b (...)", {}),
    ("b l -> l b c", {}),
    ("b l m -> b l", {}),
    ("b (l m -> b l m", {}),
    ("b b -> b", {}),
    ("b 1 m -> b m", {}),
    ("b l -> b 1 l", {}),
    ("b (h k) -> b h k", {}),
    ("b l -> b l", {"l": 2}),
    ("b l -> l b", {"q": 2}),
]
REPEAT = [
    ("b l -> b l r", {"r": 3}),
    ("b l -> (b r) l", {"r": 2}),
    ("b l -> b l r", {}),
]
packings = st.sampled_from(["b * h", "* h", "b *", "*", "b h *", "b h", "b b *"])
REDUCE = [
    "b l m -> b m",
    "b (l p) m -> b l m",
    "b l m -> b 1 m",
    "b l m ->",
    "b l -> b c",
]
EINSUM = [
    "b l, l m -> b m",
    "b l, b m -> b l m",
    "b l, l b ->",
    "... l, l m -> ... m",
    "b l, l m -> b x",
]


def shaped(least, most, *sizes):
    shapes = st.lists(st.sampled_from(sizes), min_size=least, max_size=most).map(tuple)
    return arrays(shapes, ("float32", "float32", "int32"), weak=False)


@st.composite
def rearrangements(draw, patterns):
    pattern, lengths = draw(st.sampled_from(patterns))
    return [draw(shaped(1, 4, 1, 2, 3, 4, 6)), pattern], lengths


@st.composite
def reductions(draw):
    pattern = draw(st.sampled_from(REDUCE))
    return [
        draw(shaped(2, 3, 1, 2, 4)),
        pattern,
        draw(st.sampled_from(("sum", "mean", "max"))),
    ], ({"p": 2} if "p" in pattern else {})


test_einops = family(
    case("einops", "rearrange", drawn=rearrangements(REARRANGE), times=6),
    case("einops", "repeat", drawn=rearrangements(REPEAT), times=2),
    case("einops", "reduce", drawn=reductions(), times=4),
    case("einops", "einsum", shaped(1, 3, 1, 2, 3), shaped(2, 2, 2, 3), st.sampled_from(EINSUM), times=3),
    case("einops", "pack", st.lists(shaped(0, 4, 2, 2, 2, 3), min_size=1, max_size=3), packings, times=3),
    case("einops", "unpack", shaped(0, 4, 2, 2, 2, 3),
         st.lists(st.sampled_from(((), (2,), (1,), (2, 1), (3,))), min_size=1, max_size=3), packings, times=3),
)  # fmt: skip
