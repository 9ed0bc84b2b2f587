"""Reading and writing entries at positions that are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.semantics.array import Array, Dim, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters
from shardtypes.semantics.primitive import Primitive, by_first, declare
from shardtypes.semantics.primitives.structure import plain, zeros_like
from shardtypes.semantics.values import Values

_READ = Values(
    jointly=frozenset({0}),
    controls=frozenset({1}),
    degrees=(1, None),
    monotone=(1, 0),
    moves=True,
)
_WRITTEN = Values(
    jointly=frozenset({0, 2}), controls=frozenset({1}), degrees=(1, None, 1)
)


def _along_letters(operands: Sequence[Array], params: Params) -> Letters:
    """The dimension of the positions is that of the result; the one that is read from is read at any place."""
    axis = params["axis"]
    own = list(plain("d", operands[0]))
    index = list(plain("d", operands[1]))
    index[axis] = ("i",)
    return Letters(
        (tuple(own), tuple(index)), (tuple(index),), window=frozenset(own[axis])
    )


def _index_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [operands[1].dims]


def _pull_take(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [
        add_along(zeros_like(operands[0]), operands[1], cotangent, axis=params["axis"]),
        None,
    ]


def _taken(x: Any, index: Any, *, axis: int) -> Any:
    return np.take_along_axis(x, index.astype(np.int64), axis=axis)


take_along: Primitive = declare(
    "take_along",
    letters=_along_letters,
    shape=_index_shape,
    values=_READ,
    evaluate=_taken,
    stacked=lambda *stacked, axis: _taken(*stacked, axis=axis + 1),
    typed_by=by_first,
    pull=_pull_take,
)


def _write_letters(operands: Sequence[Array], params: Params) -> Letters:
    axis = params["axis"]
    own = plain("d", operands[0])
    index = list(plain("d", operands[1]))
    index[axis] = ("i",)
    return Letters(
        (own, tuple(index), tuple(index)), (own,), window=frozenset((*own[axis], "i"))
    )


def _added(x: Any, index: Any, update: Any, *, axis: int) -> Any:
    out = np.array(x)
    places = list(np.indices(index.shape, sparse=True))
    places[axis] = index.astype(np.int64)
    np.add.at(out, tuple(places), update)
    return out


def _put(x: Any, index: Any, update: Any, *, axis: int) -> Any:
    out = np.array(x)
    np.put_along_axis(out, index.astype(np.int64), update, axis=axis)
    return out


def _pull_add(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [cotangent, None, take_along(cotangent, operands[1], axis=params["axis"])]


add_along: Primitive = declare(
    "add_along",
    letters=_write_letters,
    values=_WRITTEN,
    evaluate=_added,
    stacked=lambda *stacked, axis: _added(*stacked, axis=axis + 1),
    typed_by=by_first,
    pull=_pull_add,
)


def _pull_put(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    index, update, axis = operands[1], operands[2], params["axis"]
    kept = put_along(cotangent, index, zeros_like(update), axis=axis)
    return [kept, None, take_along(cotangent, index, axis=axis)]


put_along: Primitive = declare(
    "put_along",
    letters=_write_letters,
    values=_WRITTEN,
    evaluate=_put,
    stacked=lambda *stacked, axis: _put(*stacked, axis=axis + 1),
    typed_by=by_first,
    pull=_pull_put,
)


# --- NumPy's indexing ---------------------------------------------------------------------------------------------
#
# ``index`` is a tuple with an entry for each dimension of the array, and None for new ones: slices, ints, or the number
# of an operand that holds positions. Positions are in range by then.


def _positions(index: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        arrays[part[0]].astype(np.int64) if isinstance(part, tuple) else part
        for part in index
    )


def _basic_letters(
    operands: Sequence[Array], params: Params
) -> tuple[list[Any], list[Any], set[str]]:
    """Letters of the array and of the dimensions that plain slices leave, and those that are read at some places."""
    own: list[Any] = []
    result: list[Any] = []
    moved: set[str] = set()
    k = 0
    for part in params["index"]:
        if part is None:
            result.append(())
            continue
        letter = () if operands[0].dims[k] == 1 else (f"d{k}",)
        own.append(letter)
        if isinstance(part, slice) and part == slice(None):
            result.append(letter)
        else:
            moved.update(letter)
            if isinstance(part, slice):
                result.append((f"s{k}",))
        k += 1
    return own, result, moved


def _index_letters(operands: Sequence[Array], params: Params) -> Letters:
    own, result, moved = _basic_letters(operands, params)
    if len(operands) == 1:
        return Letters((tuple(own),), (tuple(result),), window=frozenset(moved))
    rank = max(operand.rank for operand in operands[1:])
    places = [(f"i{k}",) for k in range(rank)]
    index = [
        tuple(
            () if size == 1 else places[rank - operand.rank + k]
            for k, size in enumerate(operand.dims)
        )
        for operand in operands[1:]
    ]
    at = params["at"]
    result[at:at] = [
        place if any(place in dims for dims in index) else () for place in places
    ]
    return Letters((tuple(own), *index), (tuple(result),), window=frozenset(moved))


def _indexed_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [tuple(params["shape"])]


def _index_values(params: Params) -> Values:
    places = frozenset(
        part[0] + 1 for part in params["index"] if isinstance(part, tuple)
    )
    count = 1 + max(places, default=0)
    return Values(
        jointly=frozenset({0}),
        controls=places,
        monotone=(1,),
        degrees=(None,) * count,
        moves=True,
    )


def _read(
    x: Any, *arrays: Any, index: Sequence[Any], at: int, shape: Sequence[int]
) -> Any:
    return x[_positions(index, arrays)]


def _rank_of_places(arrays: Sequence[Any]) -> int:
    """The rank of the positions that are values, together; arrays have all devices in front."""
    return max((array.ndim - 1 for array in arrays), default=0)


def _positions_on_devices(
    index: Sequence[Any], arrays: Sequence[Any], count: int
) -> tuple[Any, ...]:
    """The positions of all devices together. What they lead to has the dimension of the devices and those of the
    positions that are values in front."""
    if not arrays:
        return (slice(None), *index)
    rank = _rank_of_places(arrays)
    aligned = [
        array.reshape(count, *(1,) * (rank + 1 - array.ndim), *array.shape[1:])
        for array in arrays
    ]
    devices = np.arange(count).reshape(count, *(1,) * rank)
    return (devices, *_positions(index, aligned))


def _read_on_devices(
    x: Any, *arrays: Any, index: Sequence[Any], at: int, shape: Sequence[int]
) -> Any:
    found = x[_positions_on_devices(index, arrays, len(x))]
    rank = _rank_of_places(arrays)
    front = range(1, 1 + rank)
    return np.moveaxis(found, front, range(1 + at, 1 + at + rank))


def _pull_read(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    rest = [None] * (len(operands) - 1)
    return [
        update(zeros_like(operands[0]), cotangent, *operands[1:], kind="add", **params),
        *rest,
    ]


indexed: Primitive = declare(
    "index",
    letters=_index_letters,
    shape=_indexed_shape,
    values=_index_values,
    evaluate=_read,
    stacked=_read_on_devices,
    typed_by=by_first,
    pull=_pull_read,
)


def _update_letters(operands: Sequence[Array], params: Params) -> Letters:
    inner = _index_letters([operands[0], *operands[2:]], params)
    own, *places = inner.operands
    (result,) = inner.results
    read = frozenset(letter for factors in result for letter in factors) - {
        x for f in own for x in f
    }
    return Letters((own, result, *places), (own,), window=inner.window | read)


def _update_values(params: Params) -> Values:
    base = _index_values(params)
    controls = frozenset(place + 1 for place in base.controls)
    degrees = (None,) * (2 + len(controls))
    if params["kind"] in ("set", "add"):
        return Values(
            jointly=frozenset({0, 1}),
            controls=controls,
            degrees=degrees,
            moves=params["kind"] == "set",
        )
    return Values(degrees=degrees, controls=controls)


_UFUNCS = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


def _write(
    x: Any,
    new: Any,
    *arrays: Any,
    index: Sequence[Any],
    at: int,
    shape: Sequence[int],
    kind: str,
) -> Any:
    return _written(x, _positions(index, arrays), new, kind)


def _written(x: Any, places: tuple[Any, ...], new: Any, kind: str) -> Any:
    out = np.array(x)
    if kind == "set":
        out[places] = new
    else:
        getattr(np, _UFUNCS[kind]).at(out, places, new)
    return out


def _write_on_devices(
    x: Any,
    new: Any,
    *arrays: Any,
    index: Sequence[Any],
    at: int,
    shape: Sequence[int],
    kind: str,
) -> Any:
    count = len(x)
    missing = (1,) * (len(shape) + 1 - new.ndim)
    whole = new.reshape(count, *missing, *new.shape[1:])
    whole = np.broadcast_to(whole, (count, *shape))
    rank = _rank_of_places(arrays)
    whole = np.moveaxis(whole, range(1 + at, 1 + at + rank), range(1, 1 + rank))
    return _written(x, _positions_on_devices(index, arrays, count), whole, kind)


def _pull_write(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    from shardtypes.semantics.array import NoGradient
    from shardtypes.semantics.primitives.elementwise import unbroadcast

    rest = [None] * (len(operands) - 2)
    plain_params = {name: params[name] for name in ("index", "at", "shape")}
    taken = unbroadcast(indexed(cotangent, *operands[2:], **plain_params), operands[1])
    if params["kind"] == "add":
        return [cotangent, taken, *rest]
    if params["kind"] != "set":
        raise NoGradient(f"an update with {params['kind']}")
    kept = update(
        cotangent, zeros_like(operands[1]), *operands[2:], kind="set", **plain_params
    )
    return [kept, taken, *rest]


update: Primitive = declare(
    "update",
    letters=_update_letters,
    values=_update_values,
    evaluate=_write,
    stacked=_write_on_devices,
    typed_by=by_first,
    pull=_pull_write,
    shape=lambda operands, params, letters: [operands[0].dims],
)
