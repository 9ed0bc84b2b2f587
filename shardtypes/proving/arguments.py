"""Arguments to try a program with: drawn like the examples, and laid out for several devices and for one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath, SequenceKey

from shardtypes.prng_keys import functions_for, is_key
from shardtypes.proving.program import Name, Program, Step
from shardtypes.proving.relation import Axes
from shardtypes.proving.state import State

Draws: TypeAlias = list[list[Any]]
"""Arguments that are drawn, several times."""

LARGEST_DRAWN = 3
"""Of integers of which nothing is known but their dtype."""


@dataclass(frozen=True)
class Layout:
    """How an argument of the program on many devices follows from the one of the program on one device.

    ``how`` is ``same``; ``copies``, of which there is one for each device along dimension ``dim``; ``shards``, which
    are stacked along it; or ``own``: numbers of each device's own, of which one device gets the first.
    """

    how: str = "same"
    dim: int = 0
    count: int = 1

    def one(self, value: Any) -> Any:
        """The argument on one device, or its shape and type."""
        if self.how == "same":
            return value
        if isinstance(value, jax.ShapeDtypeStruct):
            return jax.eval_shape(self.one, value)
        if self.how in ("copies", "own"):
            return jax.lax.slice_in_dim(value, 0, 1, axis=self.dim)
        array = jnp.moveaxis(value, self.dim, 0)
        count, local, *rest = array.shape
        array = array.reshape(1, count * local, *rest)
        return jnp.moveaxis(array, 0, self.dim)

    def many(self, value: Any) -> Any:
        """The argument on many devices."""
        if self.how == "same":
            return value
        arrays = functions_for(value)
        array = arrays.moveaxis(
            value if is_key(value) else np.asarray(value), self.dim, 0
        )
        if self.how == "copies":
            rows = np.repeat(np.arange(len(array)), self.count)
            array = array[rows]
        else:
            rest = array.shape[2:]
            array = array.reshape(self.count, -1, *rest)
        return arrays.moveaxis(array, 0, self.dim)


def layouts(
    program: Program, examples: Sequence[Any], mapped: frozenset[str]
) -> list[Layout]:
    """Of each argument: those that ``pmap`` or ``vmap`` takes apart are copies if they are equal, shards otherwise."""
    found = [Layout()] * len(examples)
    for place, step in _taken_apart(program):
        for dim, axes in enumerate(step.params["dims"]):
            if len(axes) == 1 and axes[0] in mapped:
                how = _how(examples[place], dim)
                count = step.params["sizes"][axes[0]]
                found[place] = Layout(how, dim, count)
    return found


def _taken_apart(program: Program) -> Iterator[tuple[int, Step]]:
    """Which arguments devices have shards of, with the steps that give them these."""
    numbers = {name: number for number, name in enumerate(program.inputs)}
    for step in program.taken_apart:
        (operand,) = step.operands
        if isinstance(operand, int) and operand in numbers:
            yield numbers[operand], step


def parts_of(program: Program) -> dict[int, int]:
    """Into how many parts devices divide dimensions of arguments, by their sizes."""
    found: dict[int, int] = {}
    for number, step in _taken_apart(program):
        shape = program.types[program.inputs[number]].shape
        for size, axes in zip(shape, step.params["dims"], strict=True):
            parts = math.prod(step.params["sizes"][axis] for axis in axes)
            found[size] = math.lcm(found.get(size, 1), parts)
    return found


def entries(
    program: Program, examples: Sequence[Any], places: Sequence[Layout]
) -> list[Layout]:
    """Where arguments have one entry for each device, all of them alike: one device has one of them."""
    found = list(places)
    for number, step in _taken_apart(program):
        example = examples[number]
        if isinstance(example, jax.ShapeDtypeStruct) or found[number].how != "same":
            continue
        sizes = step.params["sizes"]
        for dim, axes in enumerate(step.params["dims"]):
            count = math.prod(sizes[axis] for axis in axes)
            has_one_each = count > 1 and example.shape[dim] == count
            if has_one_each and _how(example, dim) == "copies":
                found[number] = Layout("copies", dim, count)
    return found


def as_shards(
    places: Sequence[Layout], examples: Sequence[Any], paths: Sequence[KeyPath[Any]]
) -> list[Layout]:
    """The same, but what is beside shards in a container, and as long as they are, is of shards, too; and so are keys
    that are as long as any.

    Zeros and counts that start alike are equal on all devices without being copies, and keys may be one for each row.
    """
    holders = []
    for path in paths:
        holders.append(jax.tree_util.keystr(path[:-1]))
    lengths = list(map(rows_of, examples, places))
    of_shards = set()
    for holder, length, place in zip(holders, lengths, places, strict=True):
        if place.how == "shards":
            of_shards.add((holder, length))
    of_any = {length for _, length in of_shards}
    found = []
    for holder, length, example, place in zip(
        holders,
        lengths,
        examples,
        places,
        strict=True,
    ):
        if is_key(example):
            is_beside = length in of_any
        else:
            is_beside = (holder, length) in of_shards
        if is_beside and place.how in ("copies", "own"):
            found.append(replace(place, how="shards"))
        else:
            found.append(place)
    return found


def carried(
    arguments: Sequence[KeyPath[Any]], results: Sequence[KeyPath[Any]]
) -> dict[int, int]:
    """Which arguments come back as which results: the fields of a state that a step takes and gives back."""
    fields: dict[str, list[int]] = {}
    for number, path in enumerate(results):
        field = path
        if path and isinstance(path[0], SequenceKey):
            field = path[1:]
        fields.setdefault(jax.tree_util.keystr(field), []).append(number)
    found = {}
    for number, path in enumerate(arguments):
        field = path[2:]  # behind by position or by name, and which of them
        numbers = fields.get(jax.tree_util.keystr(field), [])
        if field and len(numbers) == 1:
            found[number] = numbers[0]
    return found


def rows_of(example: Any, place: Layout) -> int | None:
    """How many rows each device has of an argument of which devices have parts; None of what has none."""
    if place.how == "same":
        return None
    rest = list(np.shape(example))
    del rest[place.dim]
    if not rest:
        return None
    return int(rest[0])


def _how(example: Any, dim: int) -> str:
    if isinstance(example, jax.ShapeDtypeStruct):
        if len(example.shape) > 1:
            return "shards"
        return "own"
    if is_key(example):
        data = np.asarray(jax.random.key_data(example))
        if (data == data.take([0], axis=dim)).all():
            return "copies"
        return "own"
    array = np.asarray(example)
    if (array == array.take([0], axis=dim)).all():
        return "copies"
    if array.ndim > 1:
        return "shards"
    return "own"


def draws(examples: Sequence[Any], count: int) -> Draws:
    """Arguments like the examples: first the examples themselves, where they are arrays, then random ones."""
    rng = np.random.default_rng(20)
    concrete = any(
        not isinstance(example, jax.ShapeDtypeStruct) for example in examples
    )
    found: Draws = []
    if concrete:
        found.append([_filled(example, rng) for example in examples])
    while len(found) < count:
        found.append([_drawn(example, rng) for example in examples])
    return found


def _filled(example: Any, rng: np.random.Generator) -> Any:
    if isinstance(example, jax.ShapeDtypeStruct):
        return _drawn(example, rng)
    return example


def _drawn(example: Any, rng: np.random.Generator) -> Any:
    """Random numbers in the range of the example: integers among its own, floats about as large and of its signs."""
    known = not isinstance(example, jax.ShapeDtypeStruct)
    if is_key(example):
        return _keys(example, rng)
    if not known and jnp.issubdtype(example.dtype, jnp.unsignedinteger):
        return rng.integers(0, 2**16, example.shape).astype(example.dtype)
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(example.dtype))
    shape = tuple(np.shape(example))
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        if known:
            values = np.asarray(example).ravel()
            if values.size:
                return rng.choice(values, shape).astype(dtype)
            return np.asarray(example)
        return rng.integers(0, LARGEST_DRAWN + 1, shape).astype(dtype)
    if known:
        values = np.asarray(example, np.float64).ravel()
    else:
        values = np.zeros(0)
    values = values[np.isfinite(values)]
    if values.size and np.ptp(values):
        scale = float(np.std(values))
    else:
        scale = 1.0
    # second moments and counts must not become negative
    if values.size and values.min() >= 0:
        mean = float(values.mean()) or 0.1
        return rng.uniform(0.5, 1.5, shape) * mean
    if jnp.issubdtype(dtype, jnp.complexfloating):
        real = rng.normal(size=shape) * scale
        imaginary = rng.normal(size=shape) * scale
        return real + 1j * imaginary
    return rng.normal(size=shape) * scale


def _keys(example: Any, rng: np.random.Generator) -> Any:
    if not isinstance(example, jax.ShapeDtypeStruct):
        return example
    seeds = rng.integers(0, 2**31, example.shape)
    flat = jnp.asarray(seeds.ravel(), jnp.uint32)
    keys = jax.vmap(jax.random.key)(flat)
    return jnp.reshape(keys, example.shape)


def cut(arrays: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
    """The first entries of arguments, as many as other shapes have."""
    found = []
    for array, shape in zip(arrays, shapes, strict=True):
        if isinstance(array, jax.ShapeDtypeStruct):
            found.append(jax.ShapeDtypeStruct(shape, array.dtype))
        else:
            corner = tuple(slice(size) for size in shape)
            found.append(array[corner])
    return found


def largest_index(array: Any) -> int:
    """The largest entry of an argument that may be an index, -1 of others."""
    if not jnp.issubdtype(array.dtype, jnp.signedinteger):
        return -1
    if isinstance(array, jax.ShapeDtypeStruct):
        return LARGEST_DRAWN
    entries = np.asarray(array)
    return int(entries.max(initial=-1))


def states(
    program: Program, places: Sequence[Layout], ones: Sequence[Any]
) -> dict[Name, State | None]:
    """Of what ``pmap`` and ``vmap`` hand to each device: how it is related to what one device gets."""
    found: dict[Name, State | None] = {}
    for number, step in _taken_apart(program):
        place = places[number]
        if place.how == "same":
            continue
        one = ones[number]
        if is_key(one) and place.how != "shards":
            whole = ()
        else:
            whole = tuple(np.shape(one))
        dims: list[Axes] = [()] * len(whole)
        if place.how == "shards":
            beside = 1 if place.dim == 0 else 0
            dims[beside] = tuple(step.params["sizes"])
        found[step.results[0]] = (
            None if place.how == "own" else State(whole, tuple(dims))
        )
    return found
