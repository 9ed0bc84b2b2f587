"""The declaration of a primitive, and its application to arrays: every reading of it is made here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from shardtypes.lang import dtypes
from shardtypes.lang.frozen import frozen
from shardtypes.semantics import work
from shardtypes.semantics.array import (
    Array,
    Arrays,
    Dim,
    Node,
    NoGradient,
    Origin,
    Origins,
    Params,
    Shape,
    SizesDiffer,
    UnknownRank,
    Varying,
)
from shardtypes.semantics.comparison import (
    are_names_known,
    either,
    require_equal,
)
from shardtypes.semantics.letters import Factors, Letters
from shardtypes.semantics.outline import Outline, Outlines
from shardtypes.semantics.propagation import propagated
from shardtypes.semantics.relation import (
    NOTHING_KNOWN,
    SAME,
    Relation,
    Relations,
    axes_of,
)
from shardtypes.semantics.simulated import on_devices
from shardtypes.semantics.telling import Telling
from shardtypes.semantics.values import Values

if TYPE_CHECKING:
    from shardtypes.semantics.simulated import Numbers

LetterRule: TypeAlias = Callable[[Arrays, Params], Letters]
ShapeRule: TypeAlias = Callable[
    [Arrays, Params, "Letters | None"], Sequence[tuple[Dim, ...]]
]
DtypeRule: TypeAlias = Callable[[Arrays, Params], Sequence["str | None"]]
TypedBy: TypeAlias = Callable[[Arrays, int], Arrays]
"""The operands that the dtype of a result, given by its number, is taken from: it is weak where theirs are."""
Vary: TypeAlias = Callable[[Varying, Params], Varying]
Relate: TypeAlias = Callable[[Sequence[Relations], Arrays, Params], Sequence[Relations]]
Own: TypeAlias = Callable[[Arrays, Params], frozenset[str]]
Sends: TypeAlias = Callable[[Any, Any, Any], Any]
"""The bytes that one device sends: takes what it holds of the operand in bytes, the number of devices that talk with
each other, and that number less one; numbers or formulas (``shardtypes.semantics.cost``)."""
ValueRule: TypeAlias = Values | Callable[[Params], Values]
Evaluation: TypeAlias = "Callable[..., Numbers | Sequence[Numbers]]"
Pull: TypeAlias = Callable[[Array, Arrays, Arrays, Params], Sequence["Array | None"]]
"""Takes the cotangent of the result, the operands, the results and the parameters; gives those of the operands."""
PullSeveral: TypeAlias = Callable[
    [Sequence["Array | None"], Arrays, Arrays, Params],
    Sequence["Array | None"],
]
"""The same for several results, of which some may have no cotangent."""


@frozen
class Primitive:
    """One operation. Called with arrays and keyword parameters it gives an array."""

    name: str
    letters: LetterRule
    values: ValueRule
    shape: ShapeRule
    dtype: DtypeRule
    typed_by: TypedBy
    evaluate: Evaluation
    stacked: Evaluation | None
    pull: Pull | PullSeveral | None
    results: int | Callable[[Params], int]
    relate: Relate | None
    simulate: Callable[..., Any] | None
    vary: Vary | None
    own: Own
    sends: Sends | None = None
    broadcasts: bool = False

    @property
    def several(self) -> bool:
        """Whether it gives several arrays."""
        return isinstance(self, SeveralPrimitive)

    def __call__(self, *operands: Array, **params: Any) -> Array:
        return apply(self, operands, params)[0]


class SeveralPrimitive(Primitive):
    """An operation that gives several arrays."""

    __slots__ = ()

    def __call__(self, *operands: Array, **params: Any) -> tuple[Array, ...]:  # type: ignore[override]  # as it says
        return apply(self, operands, params)


_primitives: dict[str, Primitive] = {}
PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(_primitives)


def declare(
    name: str,
    *,
    letters: LetterRule,
    values: ValueRule,
    evaluate: Evaluation,
    stacked: Evaluation | None = None,
    shape: ShapeRule | None = None,
    dtype: DtypeRule | None = None,
    typed_by: TypedBy | None = None,
    pull: Pull | None = None,
    relate: Relate | None = None,
    simulate: Callable[..., Any] | None = None,
    vary: Vary | None = None,
    own: Own | None = None,
    sends: Sends | None = None,
    broadcasts: bool = False,
) -> Primitive:
    """Declare a primitive. Shapes follow from the letters where no rule is given, the dtype is that of the first
    operand; it is weak where those of all operands, or of those that it is ``typed_by``, are. ``relate``, ``simulate``
    and ``vary`` are for collectives, which are more than a function of each device's part: the relations of the
    results, their numbers, and the mesh axes that their types vary over. ``own`` tells for which axes a result is meant
    to be each device's own, ``sends`` what one device sends. ``stacked`` evaluates for all devices at once: all its
    operands and its result have one dimension more in front. ``broadcasts`` tells that its operands are broadcast.
    """
    shape = shape or shape_of_letters
    dtype = dtype or dtype_of_first
    return _kept(
        Primitive(
            name,
            letters,
            values,
            shape,
            dtype,
            typed_by or _by_all,
            evaluate,
            stacked,
            pull,
            1,
            relate,
            simulate,
            vary,
            own or _nobodys,
            sends,
            broadcasts,
        )
    )


def _by_all(operands: Arrays, result: int) -> Arrays:
    return operands


def by_none(operands: Arrays, result: int) -> Arrays:
    """For ``typed_by``: the dtype is the primitive's own, and never weak."""
    return ()


def by_first(operands: Arrays, result: int) -> Arrays:
    """For ``typed_by``: the others are indices, or what is written into it."""
    return operands[:1]


def by_rest(operands: Arrays, result: int) -> Arrays:
    """For ``typed_by``: the first one chooses among the others."""
    return operands[1:]


def by_same(operands: Arrays, result: int) -> Arrays:
    """For ``typed_by``: each result is that operand, moved."""
    return operands[result : result + 1]


def _nobodys(operands: Arrays, params: Params) -> frozenset[str]:
    return _NOTHING


def declare_several(
    name: str,
    *,
    results: int | Callable[[Params], int],
    letters: LetterRule,
    values: ValueRule,
    evaluate: Evaluation,
    dtype: DtypeRule,
    typed_by: TypedBy | None = None,
    shape: ShapeRule | None = None,
    pull: PullSeveral | None = None,
) -> SeveralPrimitive:
    """Declare a primitive that gives several arrays; ``results`` is their number."""
    shape = shape or shape_of_letters
    return _kept(
        SeveralPrimitive(
            name,
            letters,
            values,
            shape,
            dtype,
            typed_by or _by_all,
            evaluate,
            None,
            pull,
            results,
            None,
            None,
            None,
            _nobodys,
        )
    )


_P = TypeVar("_P", bound=Primitive)


def _kept(primitive: _P) -> _P:
    if primitive.name in _primitives:
        raise ValueError(f"{primitive.name} is declared twice")
    _primitives[primitive.name] = primitive
    return primitive


_tell_sent = Telling[[Primitive, Array, Params]]("shardtypes_telling_sent")
"""Each collective that sends something: what it is, of which array, with which parameters."""
telling_sent = _tell_sent.to
_tell_node = Telling[[Node]]("shardtypes_telling_nodes")
"""Each step that a derivative may go back through, as it is made."""
telling_nodes = _tell_node.to


def apply(primitive: Primitive, operands: Arrays, params: Params) -> tuple[Array, ...]:
    """All that is known of the results of a primitive."""
    if primitive.sends is not None:
        _tell_sent(primitive, operands[0], params)
    outlines = _outlines.get()
    is_computed = outlines is not None and all(
        operand.value is not None for operand in operands
    )
    if outlines is not None and is_computed:
        outlined = partial(_outline_of_numbers, primitive, operands, params)
        outline = outlines.of(primitive.name, operands, params, outlined)
    else:
        outline = _outline(primitive, operands, params)
    count = len(outline.shapes)
    if is_computed and not outline.is_large:
        products = outline.products * _devices(operands)
        work.tell(work.OF_PRIMITIVE + products // work.PRODUCTS)
        values = _values(primitive, operands, params, count)
    else:
        values = [None] * count
    varying = _varying(primitive, operands, params)
    own = _united(operand.own for operand in operands) | primitive.own(operands, params)
    sources = _united(operand.sources for operand in operands)
    origins = _origins(operands, outline.letters, count)
    results = [
        Array(
            outline.shapes[i],
            outline.dtypes[i],
            outline.weak[i],
            outline.relations[i],
            values[i],
            None,
            0,
            varying,
            own,
            sources,
            origins[i],
        )
        for i in range(count)
    ]
    if any(operand.node is not None for operand in operands):
        results = _recorded(primitive, operands, params, results)
    return tuple(results)


def _outline(primitive: Primitive, operands: Arrays, params: Params) -> Outline:
    """What is known of the results but for their numbers."""
    if isinstance(primitive.results, int):
        count = primitive.results
    else:
        count = primitive.results(params)
    letters = _letters(primitive, operands, params)
    if are_names_known() and letters is not None and not primitive.broadcasts:
        for a, b in _sizes_of_letters(operands, letters):
            require_equal(a, b)
    shapes = _shapes(primitive, operands, params, letters, count)
    kinds = primitive.dtype(operands, params)
    return Outline(
        letters,
        shapes,
        kinds,
        [_is_weak(primitive, operands, kinds, i) for i in range(count)],
        _relations(primitive, operands, params, letters, count),
        any(_entries(shape) > MOST for shape in shapes),
        _products(operands, letters, shapes[0]) if count == 1 else 0,
    )


def _products(operands: Arrays, letters: Letters | None, shape: Shape | None) -> int:
    """How many numbers of two operands are multiplied: as many as the result has entries, for each entry of the second
    operand that is added up into one."""
    if letters is None or len(operands) != 2:
        return 0
    sizes: dict[Factors, int] = {}
    first, second = letters.results[0], letters.operands[1]
    for dims, factors in ((shape, first), (operands[1].shape, second)):
        for size, of_dim in zip(dims or (), factors, strict=False):
            if isinstance(size, int) and of_dim:
                sizes[of_dim] = int(size)
    return math.prod(sizes.values())


def _devices(operands: Arrays) -> int:
    """On how many devices a primitive is computed: where all hold the same it is once for all."""
    counts = [
        math.prod(size for _, size in operand.value.axes)
        for operand in operands
        if operand.value is not None
    ]
    return max(counts, default=1)


def _outline_of_numbers(
    primitive: Primitive, operands: Arrays, params: Params
) -> Outline:
    """The same where numbers are computed. Raises SizesDiffer for operands that do not go together."""
    outline = _outline(primitive, operands, params)
    if outline.letters is not None:
        _refuse_different_sizes(primitive, operands, outline.letters)
    return outline


_T = TypeVar("_T")


def _united(sets: Iterable[frozenset[_T]]) -> frozenset[_T]:
    found = [one for one in sets if one]
    if found:
        return found[0].union(*found[1:])
    return _NOTHING


_NOTHING: frozenset[Any] = frozenset()


def _origins(
    operands: Arrays, letters: Letters | None, count: int
) -> Sequence[Origins | None]:
    """The dimensions of arguments that each dimension of each result is: those of all operands that have its letter."""
    if letters is None or not any(operand.origins for operand in operands):
        return [None] * count
    found: dict[str, frozenset[Origin] | None] = {}
    for operand, dims in zip(operands, letters.operands, strict=True):
        for origin, dim in zip(operand.origins or (), dims, strict=False):
            letter = _only_letter(dim)
            found[letter] = _either(found.get(letter, _NOTHING), origin)
    found[_SEVERAL] = None
    results: list[Origins] = []
    for dims in letters.results:
        of_dims = map(_only_letter, dims)
        results.append(tuple(map(found.get, of_dims)))
    return results


_SEVERAL = ""


def _only_letter(dim: Factors) -> str:
    """The letter of a dimension that has one alone."""
    if len(dim) == 1:
        return dim[0]
    return _SEVERAL


def _either(
    one: frozenset[Origin] | None, other: frozenset[Origin] | None
) -> frozenset[Origin] | None:
    if one is None or other is None:
        return None
    return one | other


def _letters(primitive: Primitive, operands: Arrays, params: Params) -> Letters | None:
    try:
        return primitive.letters(operands, params)
    except UnknownRank:
        return None


def _shapes(
    primitive: Primitive,
    operands: Arrays,
    params: Params,
    letters: Letters | None,
    count: int,
) -> Sequence[Shape | None]:
    try:
        return primitive.shape(operands, params, letters)
    except UnknownRank:
        return [None] * count


def _is_weak(
    primitive: Primitive, operands: Arrays, kinds: Sequence[str | None], result: int
) -> bool:
    """Whether the dtype of a result gives way to others."""
    if kinds[result] == "bool":
        return False
    types = primitive.typed_by(operands, result)
    if not types:
        return False
    return all(operand.weak for operand in types)


def _varying(primitive: Primitive, operands: Arrays, params: Params) -> Varying | None:
    """The axes that a result varies over under ``check_vma=True``: those of any operand, as the others are cast."""
    known = [operand.varying for operand in operands if operand.varying is not None]
    if not known:
        return None
    union = Varying().union(*known)
    if primitive.vary is None:
        return union
    return primitive.vary(union, params)


def _relations(
    primitive: Primitive,
    operands: Arrays,
    params: Params,
    letters: Letters | None,
    count: int,
) -> Sequence[Relations | None]:
    if all(operand.relations is None for operand in operands):
        return [None] * count
    given = [
        _REPLICATED if operand.relations is None else operand.relations
        for operand in operands
    ]
    if primitive.relate is not None:
        return primitive.relate(given, operands, params)
    if isinstance(primitive.values, Values):
        values = primitive.values
    else:
        values = primitive.values(params)
    found: list[dict[str, Relation]] = [{} for _ in range(count)]
    for axis in axes_of(given):
        over = propagated(
            [relations[axis] for relations in given], letters, values, axis, count
        )
        for kept, relation in zip(found, over, strict=True):
            kept[axis] = relation
    if all(relations.otherwise == SAME for relations in given):
        rest = SAME
    else:
        rest = NOTHING_KNOWN.otherwise
    return [Relations.of(kept, rest) for kept in found]


_REPLICATED = Relations()

_outlines: ContextVar[Outlines | None] = ContextVar("shardtypes_outlines", default=None)


@contextmanager
def evaluation() -> Iterator[None]:
    """Compute with numbers in the block, wherever all operands have them."""
    token = _outlines.set(Outlines())
    try:
        yield
    finally:
        _outlines.reset(token)


def evaluating() -> bool:
    """Whether numbers are computed."""
    return _outlines.get() is not None


def _sizes_of_letters(operands: Arrays, letters: Letters) -> Iterator[tuple[Dim, Dim]]:
    """The pairs of sizes that one letter has."""
    first: dict[str, Dim] = {}
    for operand, dims in zip(operands, letters.operands, strict=True):
        for size, factors in zip(operand.dims, dims, strict=True):
            if len(factors) != 1:
                continue
            letter = factors[0]
            if letter in first:
                yield first[letter], size
            else:
                first[letter] = size


MOST = 10_000_000
"""Arrays of more entries are not computed."""


def _values(
    primitive: Primitive,
    operands: Arrays,
    params: Params,
    count: int,
) -> Sequence[Any]:
    """The numbers of the results, all operands having theirs."""
    values: list[Any] = [operand.value for operand in operands]
    if primitive.simulate is not None:
        found: Any = primitive.simulate(*values, **params)
        return found if primitive.several else [found]

    def evaluate(*numbers: Any) -> Sequence[Any]:
        result = primitive.evaluate(*numbers, **params)
        return result if primitive.several else [result]  # type: ignore[return-value]  # one array

    if primitive.stacked is None:
        return on_devices(evaluate, values, count)
    return on_devices(evaluate, values, count, partial(primitive.stacked, **params))


def _refuse_different_sizes(
    primitive: Primitive, operands: Arrays, letters: Letters
) -> None:
    """Raises SizesDiffer where a letter has two sizes."""
    for other, size in _sizes_of_letters(operands, letters):
        if isinstance(other, int) and isinstance(size, int) and other != size:
            shapes = " and ".join(str(tuple(map(_plain, one.dims))) for one in operands)
            raise SizesDiffer(
                f"{primitive.name} of arrays of shapes {shapes}: {other} is not {size}"
            )


def _plain(size: Dim) -> Any:
    """A size as it is shown."""
    if isinstance(size, int):
        return int(size)
    return size


def _entries(shape: Shape | None) -> int:
    return math.prod(int(size) for size in shape or () if isinstance(size, int))


def _recorded(
    primitive: Primitive,
    operands: Arrays,
    params: Params,
    results: Arrays,
) -> list[Array]:
    """The results, which remember how they were computed."""
    node = _node(primitive, operands, params, results)
    _tell_node(node)
    return _computed_by(node, results)


def _node(
    primitive: Primitive, operands: Arrays, params: Params, results: Arrays
) -> Node:
    back = partial(_taken_back, primitive, operands, params, results)
    return Node(tuple(operands), back, len(results))


def _computed_by(node: Node, results: Arrays) -> list[Array]:
    return [
        result.computed_by(node, i) if _is_smooth(result) else result
        for i, result in enumerate(results)
    ]


def _taken_back(
    primitive: Primitive,
    operands: Arrays,
    params: Params,
    results: Arrays,
    cotangents: Sequence[Array | None],
) -> Sequence[Array | None]:
    """The cotangents of the operands. A derivative of these goes on through the results as well (``exp`` is its own
    slope), by a node like theirs: a node that held itself would not be freed when nobody asks for it any more."""
    if primitive.pull is None:
        raise NoGradient(primitive.name)
    if primitive.several:
        given: Any = cotangents
    else:
        given = cotangents[0]
    again = _node(primitive, operands, params, results)
    return primitive.pull(given, operands, _computed_by(again, results), params)


def _is_smooth(array: Array) -> bool:
    """Whether an array may have a cotangent: integers and booleans have none."""
    return array.dtype is None or bool(
        dtypes.is_kind(array.dtype, "floating", "complex")
    )


def shape_of_letters(
    operands: Arrays, params: Params, letters: Letters | None
) -> Sequence[Shape]:
    """Each letter has the size of the dimension of which it is the only factor."""
    if letters is None:
        raise UnknownRank
    sizes: dict[str, Dim] = {}
    for operand, dims in zip(operands, letters.operands, strict=True):
        for size, factors in zip(operand.dims, dims, strict=True):
            if len(factors) != 1:
                continue
            letter = factors[0]
            if letter in sizes:
                size = either(sizes[letter], size)
            sizes[letter] = size
    return [
        tuple(_size(factors, sizes) for factors in dims) for dims in letters.results
    ]


def _size(factors: Sequence[str], sizes: Mapping[str, Dim]) -> Dim:
    total: Dim = 1
    for letter in factors:
        size = sizes.get(letter)
        if size is None or total is None:
            return None
        total = total * size
    return total


def dtype_of_first(operands: Arrays, params: Params) -> Sequence[str | None]:
    return [operands[0].dtype]
