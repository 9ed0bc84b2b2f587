"""Functions that reorder, add, drop, lengthen or cut dimensions, and those of matrices, against JAX."""

from __future__ import annotations

import math

import jax
from hypothesis import strategies as st

from tests.ops.strategies import arrays, axes, axis_or_axes, positive, shapes
from tests.ops.tables import case, family, optional

JNP, LAX = "jax.numpy", "jax.lax"


@st.composite
def reshapes(draw):
    x = draw(arrays(positive))
    total = math.prod(x.shape)
    target = []
    while total > 1 and len(target) < 4:
        factor = draw(
            st.sampled_from([n for n in range(1, total + 1) if total % n == 0])
        )
        target.append(factor)
        total //= factor
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    else:
        target.append(total)
    if draw(st.integers(0, 3)) == 0:
        target[draw(st.integers(0, len(target) - 1))] = draw(st.integers(-2, 5))
    return [x, tuple(target)], {}


@st.composite
def in_dim(draw):
    """Shapes and positions that mostly fit."""
    target = draw(positive)
    where = sorted(
        draw(st.sets(st.integers(0, max(len(target) - 1, 0)), max_size=len(target)))
    )
    shape = [draw(st.sampled_from((target[i], target[i], 1, 3))) for i in where]
    if not draw(st.integers(0, 9)):
        where = draw(st.lists(st.integers(-1, 4), max_size=3))
    return [draw(arrays(st.just(tuple(shape)))), target, tuple(where)], {}


def counted(x, sizes, dimensions=None):
    """Tracing alone does not count the elements: the compiler does."""
    if min(sizes, default=0) >= 0 and math.prod(x.shape) != math.prod(sizes):
        raise TypeError("sizes differ")
    return jax.lax.reshape(x, sizes, dimensions)


permutations = shapes.flatmap(
    lambda shape: st.tuples(arrays(st.just(shape)), st.permutations(range(len(shape))))
)
pairs = st.tuples(st.integers(0, 2), st.integers(0, 2))
several = st.lists(axes, max_size=3).map(tuple)
square = st.lists(st.sampled_from((2, 3, 3, 4, 1, 0)), min_size=1, max_size=4).map(
    tuple
)

test_rearranging = family(
    case("jax.Array", "reshape", drawn=reshapes().map(lambda drawn: ([drawn[0][0], *drawn[0][1]], {})),
         function=lambda x, *sizes: x.reshape(*sizes), times=3),
    case("jax.Array", "reshape", drawn=reshapes(), function=lambda x, *sizes: x.reshape(*sizes)),
    case("jax.Array", "transpose", arrays(), optional(st.one_of(st.none(), several)),
         function=lambda x, *axes: x.transpose(*axes)),
    case("jax.Array", "transpose", drawn=permutations.map(lambda pair: ([pair[0], *pair[1]], {})),
         function=lambda x, *axes: x.transpose(*axes)),
    case("jax.Array", "flatten", arrays(), function=lambda x: x.flatten()),
    case("jax.Array", "ravel", arrays(), function=lambda x: x.ravel()),
    case(LAX, "reshape", drawn=reshapes(), function=counted),
    case(LAX, "reshape", drawn=permutations.map(
        lambda pair: ([pair[0], (math.prod(pair[0].shape),)], {"dimensions": tuple(pair[1])})), function=counted),
    case(JNP, "reshape", drawn=reshapes()),
    case(JNP, "reshape", arrays(), shapes),
    case(JNP, "transpose", arrays(), st.one_of(st.none(), st.lists(axes, max_size=4).map(tuple))),
    case(JNP, "transpose permute_dims", drawn=permutations.map(lambda pair: ([pair[0], tuple(pair[1])], {}))),
    case(LAX, "transpose", drawn=permutations.map(lambda pair: ([pair[0], tuple(pair[1])], {}))),
    case(JNP, "swapaxes moveaxis", arrays(), axes, axes),
    case(JNP, "moveaxis", arrays(), several, several),
    case(JNP, "rollaxis", arrays(), axes, optional(axes)),
    case(JNP, "rot90", arrays(), optional(st.integers(-2, 3)), axes=optional(st.tuples(axes, axes))),
    case(LAX, "rev", arrays(), several),
    case(JNP, "squeeze flip", arrays(), axis_or_axes),
    case(LAX, "squeeze", arrays(), several),
    case(JNP, "expand_dims", arrays(), st.one_of(axes, several)),
    case(LAX, "expand_dims", arrays(), several),
    case(JNP, "broadcast_to", arrays(), shapes),
    case(LAX, "broadcast", arrays(), shapes),
    case(LAX, "broadcast_in_dim", drawn=in_dim()),
    case(LAX, "broadcast_to_rank", arrays(), st.integers(0, 5)),
    case(JNP, "ravel flipud fliplr matrix_transpose atleast_1d atleast_2d atleast_3d", arrays()),
    case(JNP, "broadcast_arrays", arrays(), arrays()),
    case(JNP, "roll", arrays(), st.integers(-3, 3), axis=st.one_of(st.none(), axes)),
    case(JNP, "tile", arrays(), st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=4).map(tuple))),
    case(JNP, "repeat", arrays(), st.integers(0, 3), axis=st.one_of(st.none(), axes)),
    case(JNP, "split array_split", arrays(),
         st.one_of(st.integers(1, 4), st.lists(st.integers(-3, 5), max_size=3).map(tuple)), axes),
    case(JNP, "hsplit vsplit dsplit", arrays(), st.integers(1, 3)),
    case(JNP, "unstack", arrays(), axis=optional(axes)),
    case(JNP, "pad", arrays(), st.one_of(st.integers(0, 2), st.lists(pairs, max_size=3))),
    case(JNP, "tril triu", arrays(), optional(st.integers(-2, 2))),
    case(JNP, "diag", arrays(), optional(st.integers(-2, 2))),
    case(JNP, "diagonal", arrays(square), optional(st.integers(-3, 3)), axis1=optional(axes), axis2=optional(axes)),
    case(JNP, "trace", arrays(square), optional(st.integers(-1, 1)), axis1=optional(axes), axis2=optional(axes)),
    case(JNP + ".linalg", "diagonal trace", arrays(square), offset=optional(st.integers(-1, 1))),
    case(JNP, "diagflat", arrays(), optional(st.integers(-2, 2))),
    case(JNP, "kron", arrays(), arrays()),
    case(JNP, "tril_indices triu_indices", st.integers(0, 5), optional(st.integers(-3, 3)),
         m=optional(st.integers(0, 5))),
    case(JNP, "tril_indices_from triu_indices_from", arrays(square), optional(st.integers(-3, 3))),
    case(JNP, "diag_indices", st.integers(0, 4), optional(st.integers(1, 3))),
    case(JNP, "vander", arrays(square), optional(st.integers(0, 4))),
    case(JNP, "fill_diagonal", arrays(square), st.just(0.0), inplace=st.just(False)),
    case(JNP, "indices", shapes),
    case(JNP, "hamming hanning bartlett blackman", st.integers(0, 4)),
    case(JNP, "copy", arrays()),
    case(JNP, "unravel_index", arrays(dtypes=("int32", "uint8")), positive),
)  # fmt: skip
