"""A program in numbers on simulated devices: what each device of a mesh computes, all on one.

A value is held once for each device along the axes on which it depends, in leading dimensions. Floats are in double
precision, whatever the program asks for, so that rounding explains no difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from shardtypes.prng_keys import functions_for, is_key
from shardtypes.proving.arrays import QUICK
from shardtypes.proving.program import Constant, Name, Operand, Params, Program, Step
from shardtypes.proving.relation import Axes, Sizes

Recorded = dict[Name, "Held"]


class Unevaluated(Exception):
    """An operation that simulated devices cannot carry out; the message names it."""


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Held:
    """A value of each device along ``axes``, which are the leading dimensions of the array."""

    array: Any
    axes: Axes = ()

    def tree_flatten(self) -> tuple[tuple[Any], Axes]:
        return (self.array,), self.axes

    @classmethod
    def tree_unflatten(cls, axes: Axes, leaves: tuple[Any]) -> Held:
        return cls(leaves[0], axes)

    @property
    def rank(self) -> int:
        """Of what one device holds."""
        return int(self.array.ndim) - len(self.axes)


@dataclass(frozen=True)
class Instead:
    """What is taken in place of values that are computed, by name: other ``values``, of a loop those of all rounds, and
    what ``results`` are to become. ``operands``: what the first operand is to become before something is computed of it
    that has this name."""

    values: Mapping[Name, Held] = field(default_factory=dict)
    results: Mapping[Name, Callable[[Held], Held]] = field(default_factory=dict)
    operands: Mapping[Name, Callable[[Held], Held]] = field(default_factory=dict)

    def of(self, name: Name, computed: Held) -> Held:
        """The value of that name."""
        if name in self.results:
            return self.results[name](computed)
        return self.values.get(name, computed)

    def inside(self, body: Program) -> dict[Name, Held]:
        """Those of the values that a loop computes."""
        if not self.values:
            return {}
        values = self.values
        return {name: values[name] for name in body.made() if name in values}

    def handed(self, step: Step, operands: Arrays) -> Arrays:
        """The operands that a step is given."""
        for name in step.results[:1]:
            if name in self.operands:
                first, *others = operands
                return [self.operands[name](first), *others]
        return operands


Arrays: TypeAlias = list[Held]
"""What the devices hold of several values."""


def evaluate(
    program: Program,
    given: Sequence[Any],
    keep: Collection[Name] | None = None,
    instead: Instead | None = None,
) -> tuple[Arrays, Recorded]:
    """The results for these arguments, and the intermediate values of these names, or all.

    Those of a loop have one more dimension before their own, for its rounds; those of ``while`` loops and of branches
    are left out. Raises ``Unevaluated``.
    """
    run = _Run(keep, instead)
    with np.errstate(all="ignore"):
        try:
            results = run.program(program, [Held(wide(value)) for value in given])
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            MemoryError,
        ) as error:
            raise Unevaluated(f"{type(error).__name__}: {error}") from error
    return results, run.recorded


def one_step(step: Step, operands: Arrays, program: Program) -> Arrays:
    """The results of one operation. Raises ``Unevaluated``."""
    with np.errstate(all="ignore"), jax.enable_x64(True):
        return _Run(()).step(step, operands, program)


def wide(value: Any) -> Any:
    """In double precision if it is a float."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if is_key(value):
        return value
    return np.asarray(value, _wide_type(value.dtype))


def _wide_type(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.complex128)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64)
    return np.dtype(dtype)


class _Run:
    def __init__(
        self, keep: Collection[Name] | None, instead: Instead | None = None
    ) -> None:
        self.keep = keep
        self.instead = instead or Instead()
        self.recorded: Recorded = {}
        self.types: Mapping[Name, Any] = {}

    def program(self, program: Program, given: Sequence[Held]) -> Arrays:
        self.types = program.types
        known: dict[Name, Held] = dict(zip(program.inputs, given, strict=True))

        def value(operand: Operand) -> Held:
            if isinstance(operand, Constant):
                return Held(constant(operand))
            return known[operand]

        for step in program.steps:
            operands = [value(operand) for operand in step.operands]
            operands = self.instead.handed(step, operands)
            results = self.step(step, operands, program)
            for name, result in zip(step.results, results, strict=True):
                result = self.instead.of(name, result)
                known[name] = result
                if self.keep is None or name in self.keep:
                    self.recorded[name] = result
        return [value(output) for output in program.outputs]

    def step(self, step: Step, operands: Arrays, program: Program) -> Arrays:
        rule = _RULES.get(step.primitive)
        if rule is not None:
            return rule(step, operands)
        if step.primitive in _LOOPS:
            method = f"_{step.primitive}"
            loop: Callable[[Step, Arrays], Arrays] = getattr(self, method)
            return loop(step, operands)
        types = [program.types[name] for name in step.results]
        narrow = [
            operand.dtype
            if isinstance(operand, Constant)
            else program.types[operand].dtype
            for operand in step.operands
        ]
        return _ordinary(step, operands, narrow, types)

    def _scan(self, step: Step, operands: Arrays) -> Arrays:
        params = step.params
        body = step.inside[0]
        fixed = params["num_consts"]
        carried = params["num_carry"]
        consts = operands[:fixed]
        rows = operands[fixed + carried :]
        carry = operands[fixed : fixed + carried]
        order = range(params["length"])
        values = self.instead.inside(body)
        seen: list[Recorded] = []
        stacked: list[Arrays] = []
        for number in reversed(order) if params["reverse"] else order:
            now = {name: _taken(held, number) for name, held in values.items()}
            inner = _Run(self.keep, replace(self.instead, values=now))
            row = [_taken(held, number) for held in rows]
            results = inner.program(body, [*consts, *carry, *row])
            carry = results[:carried]
            seen.append(inner.recorded)
            stacked.append(results[carried:])
        if params["reverse"]:
            seen.reverse()
            stacked.reverse()
        if seen:
            self.recorded |= {
                name: rounds([one[name] for one in seen], step) for name in seen[0]
            }
            return [
                *carry,
                *(
                    rounds([one[i] for one in stacked], step)
                    for i in range(len(stacked[0]))
                ),
            ]
        types = [self.types[name] for name in step.results[carried:]]
        return [
            *carry,
            *(Held(np.zeros(aval.shape, _wide_type(aval.dtype))) for aval in types),
        ]

    def _while(self, step: Step, operands: Arrays) -> Arrays:
        params = step.params
        asked = params["cond_nconsts"]
        done = params["body_nconsts"]
        cond_consts = operands[:asked]
        body_consts = operands[asked : asked + done]
        carry = operands[asked + done :]
        for _ in range(_MOST_ROUNDS):
            inner = _Run(())
            condition, body = step.inside
            (wanted,) = inner.program(condition, [*cond_consts, *carry])
            if not np.any(wanted.array):
                return carry
            after = inner.program(body, [*body_consts, *carry])
            carry = [
                _chosen(wanted, new, old, step.axes)
                for new, old in zip(after, carry, strict=True)
            ]
        raise Unevaluated(
            f"{step.primitive} ({step.place}): more than {_MOST_ROUNDS} rounds"
        )

    def _cond(self, step: Step, operands: Arrays) -> Arrays:
        index, *given = operands
        last = len(step.inside) - 1
        which = np.clip(np.asarray(index.array, np.int64), 0, last)
        numbers = np.unique(which)
        results: Arrays = []
        for number in numbers:
            found = _Run(()).program(step.inside[int(number)], given)
            if not results:
                results = found
                continue
            chosen = Held(which == number, index.axes)
            results = [
                _chosen(chosen, new, old, step.axes)
                for new, old in zip(found, results, strict=True)
            ]
        return results


_LOOPS = frozenset({"scan", "while", "cond"})
_MOST_ROUNDS = 5_000


def constant(operand: Constant) -> Any:
    """What is written in the program, in double precision."""
    value = operand.value
    if operand.dtype is not None and not hasattr(value, "dtype"):
        value = np.asarray(value, operand.dtype)
    return wide(value)


def _taken(held: Held, number: int) -> Held:
    """What a loop over the first dimension has in a round."""
    take = functions_for(held.array).take
    axes = held.axes
    array = take(held.array, number, axis=len(axes))
    return Held(array, axes)


def _chosen(wanted: Held, new: Held, old: Held, sizes: Sizes) -> Held:
    """The new value on devices on which it is wanted."""
    if not wanted.axes:
        return new if wanted.array else old
    axes = tuple(
        axis for axis in sizes if any(axis in held.axes for held in (wanted, new, old))
    )
    mask = aligned_to(wanted, axes)
    mask = mask.reshape(mask.shape + (1,) * new.rank)
    where = functions_for(new.array).where
    newer = aligned_to(new, axes)
    older = aligned_to(old, axes)
    return Held(where(mask, newer, older), axes)


def rounds(seen: Sequence[Held], step: Step) -> Held:
    """What a loop made in each round, stacked behind the devices: those of the loop, or of what it maps over devices in
    each round."""
    met: dict[str, int] = {}
    for held in seen:
        met.update(zip(held.axes, held.array.shape, strict=False))
    axes = tuple(axis for axis in step.axes if axis in met)
    axes += tuple(axis for axis in met if axis not in step.axes)
    sizes = {axis: met[axis] for axis in axes}
    arrays = [_everywhere(held, sizes).array for held in seen]
    stack = functions_for(arrays[0]).stack
    return Held(stack(arrays, axis=len(axes)), axes)


def aligned_to(held: Held, axes: Axes) -> Any:
    """With a leading dimension for each of the axes, of size one for those on which it does not depend."""
    array = _ordered(held, axes)
    for number, axis in enumerate(axes):
        if axis not in held.axes:
            array = functions_for(array).expand_dims(array, number)
    return array


def _everywhere(held: Held, sizes: dict[str, int]) -> Held:
    """Held once for each device along all axes, in their order."""
    axes = tuple(sizes)
    if held.axes == axes:
        return held
    order = [axis for axis in axes if axis in held.axes]
    before = [held.axes.index(axis) for axis in order]
    array = np.moveaxis(held.array, before, range(len(order)))
    arrays = functions_for(array)
    for number, axis in enumerate(axes):
        if axis not in held.axes:
            leading = array.shape[:number]
            trailing = array.shape[number:]
            shape = (*leading, sizes[axis], *trailing)
            expanded = arrays.expand_dims(array, number)
            array = arrays.broadcast_to(expanded, shape)
    return Held(array, axes)


# --- ordinary operations --------------------------------------------------------------------------------------------


_EXACT = frozenset(
    "bitcast_convert_type nextafter random_bits random_gamma rng_bit_generator rng_uniform threefry2x32 random_wrap"
    " random_unwrap random_seed random_fold_in random_split random_clone igamma_grad_a".split()
)
_SHARDINGS = frozenset({"sharding", "out_sharding", "dimensions_sharding"})


def _ordinary(
    step: Step, operands: Arrays, narrow: Sequence[Any], types: Sequence[Any]
) -> Arrays:
    quick = QUICK.get(step.primitive)
    has_keys = any(is_key(held.array) for held in operands)
    if quick is not None and not has_keys:
        present = tuple(
            axis for axis in step.axes if any(axis in held.axes for held in operands)
        )
        arrays = [aligned_to(held, present) for held in operands]
        return [
            Held(array, present)
            for array in quick(arrays, step.params, len(present), types)
        ]
    return _asked_of_jax(step, operands, narrow)


def _asked_of_jax(step: Step, operands: Arrays, narrow: Sequence[Any]) -> Arrays:
    """An operation as JAX itself carries it out, for all devices at once."""
    primitive = step.source.primitive
    params = dict(primitive.get_bind_params(step.params))
    params = {
        name: None if name in _SHARDINGS else value for name, value in params.items()
    }
    axes = tuple(
        axis for axis in step.axes if any(axis in held.axes for held in operands)
    )
    own = tuple(dict.fromkeys(axis for held in operands for axis in held.axes))
    if set(axes) != set(own):
        axes = own

    def bind(arrays: Sequence[Any], changed: Params) -> list[Any]:
        def once(*values: Any) -> list[Any]:
            found = primitive.bind(*values, **changed)
            if primitive.multiple_results:
                return list(found)
            return [found]

        for axis in reversed(axes):
            places = [0 if axis in held.axes else None for held in operands]
            once = jax.vmap(once, in_axes=places, out_axes=0)
        return [
            array if is_key(array) else np.asarray(array) for array in once(*arrays)
        ]

    ordered = [_ordered(held, axes) for held in operands]
    if step.primitive not in _EXACT:
        wider = {name: _widened(value) for name, value in params.items()}
        try:
            return [Held(array, axes) for array in bind(ordered, wider)]
        except (TypeError, ValueError, NotImplementedError, AssertionError):
            pass  # it insists on the types that it was traced with
    cast = [
        array
        if dtype is None or is_key(array) or array.dtype == dtype
        else array.astype(dtype)
        for array, dtype in zip(ordered, narrow, strict=True)
    ]
    try:
        return [Held(wide(array), axes) for array in bind(cast, params)]
    except Exception as error:
        raise Unevaluated(f"{step.primitive} ({step.place}): {error}") from error


def _ordered(held: Held, axes: Axes) -> Any:
    order = [axis for axis in axes if axis in held.axes]
    if tuple(order) == held.axes:
        return held.array
    places = [held.axes.index(axis) for axis in order]
    return np.moveaxis(held.array, places, range(len(order)))


def _widened(value: Any) -> Any:
    if isinstance(value, np.dtype) or (
        isinstance(value, type) and issubclass(value, np.generic)
    ):
        return _wide_type(value)
    if isinstance(value, jex.ClosedJaxpr):
        return _wider(value)
    if isinstance(value, jex.Jaxpr):
        return _wider(jex.ClosedJaxpr(value, ())).jaxpr
    return value


def _wider(closed: Any) -> Any:
    """What an operation does with two elements, for elements in double precision."""
    zeros = [
        jnp.zeros(var.aval.shape, _wide_type(var.aval.dtype))
        for var in closed.jaxpr.invars
    ]
    return jax.make_jaxpr(jex.jaxpr_as_fun(closed))(*zeros)


# --- collectives and what maps over a mesh ----------------------------------------------------------------------


def _gathered(held: Held, step: Step) -> tuple[Any, Axes, list[list[int]]]:
    """What the devices along the axes of a collective hold, in one leading dimension before the other axes'; those
    axes; and the devices of each group."""
    names = step.over
    if any(not isinstance(name, str) for name in names):
        raise Unevaluated(f"{step.primitive} ({step.place}): over positions")
    sizes = {
        axis: size
        for axis, size in step.axes.items()
        if axis in names or axis in held.axes
    }
    whole = _everywhere(held, sizes)
    rest = tuple(axis for axis in whole.axes if axis not in names)
    array = np.moveaxis(
        whole.array,
        [whole.axes.index(axis) for axis in (*names, *rest)],
        range(len(whole.axes)),
    )
    count = math.prod(sizes[name] for name in names)
    groups = step.params.get("axis_index_groups")
    if groups is not None:
        devices = [list(group) for group in groups]
    else:
        devices = [list(range(count))]
    local = array.shape[len(names) :]
    return array.reshape(count, *local), rest, devices


def _back(array: Any, step: Step, rest: Axes) -> Held:
    """Devices in one leading dimension become axes again."""
    names = step.over
    sizes = step.axes
    counts = [sizes[name] for name in names]
    whole = array.reshape(*counts, *array.shape[1:])
    wanted = tuple(axis for axis in sizes if axis in names or axis in rest)
    present = (*names, *rest)
    order = [present.index(axis) for axis in wanted]
    count = len(wanted)
    moved = np.moveaxis(whole, order, range(count))
    return Held(moved, wanted)


def _by_group(
    step: Step, operands: Arrays, combine: Callable[[Any], Any], alike: bool = True
) -> Arrays:
    """``combine`` takes what the devices of a group hold in a leading dimension; what it gives is all of theirs, or has
    a leading dimension for them."""
    results = []
    for held in operands:
        array, rest, groups = _gathered(held, step)
        if alike and len(groups) == 1:
            results.append(Held(combine(array), rest))
            continue
        parts: dict[int, Any] = {}
        for group in groups:
            found = combine(array[group])
            for number, device in enumerate(group):
                parts[device] = found if alike else found[number]
        ordered = [parts[device] for device in range(array.shape[0])]
        whole = functions_for(array).stack(ordered)
        results.append(_back(whole, step, rest))
    return results


def _at(held: Held, step: Step, dim: int) -> int:
    """Where a dimension is in an array with the other axes' before it."""
    left = [axis for axis in held.axes if axis not in step.over]
    return dim + len(left)


def _reduction(
    function: Callable[[Any], Any],
) -> Callable[[Step, Arrays], Arrays]:
    return lambda step, operands: _by_group(step, operands, function)


def _all_gather(step: Step, operands: Arrays) -> Arrays:
    (held,) = operands
    at = _at(held, step, step.params["all_gather_dimension"])

    def join(array: Any) -> Any:
        if step.params["tiled"]:
            return functions_for(array).concatenate(list(array), axis=at)
        return np.moveaxis(array, 0, at)

    return _by_group(step, operands, join)


def _reduce_scatter(step: Step, operands: Arrays) -> Arrays:
    (held,) = operands
    at = _at(held, step, step.params["scatter_dimension"])

    def share(array: Any) -> Any:
        total = np.sum(array, axis=0)
        parts = np.stack(np.split(total, array.shape[0], axis=at))
        if step.params["tiled"]:
            return parts
        return np.squeeze(parts, at + 1)

    return _by_group(step, operands, share, alike=False)


def _all_to_all(step: Step, operands: Arrays) -> Arrays:
    # ``tiled`` says nothing here: JAX has made the dimensions that an untiled exchange adds and removes.
    (held,) = operands
    apart, together = (
        _at(held, step, step.params[name]) for name in ("split_axis", "concat_axis")
    )

    def exchange(array: Any) -> Any:
        count = array.shape[0]
        arrays = functions_for(array)
        found = []
        for device in range(count):
            pieces = [arrays.split(part, count, axis=apart)[device] for part in array]
            found.append(arrays.concatenate(pieces, axis=together))
        return arrays.stack(found)

    return _by_group(step, operands, exchange, alike=False)


def _ppermute(step: Step, operands: Arrays) -> Arrays:
    results = []
    for held in operands:
        array, rest, _ = _gathered(held, step)
        found = np.zeros_like(array)
        count = len(found)
        for source, target in step.params["perm"]:
            last = max(source, target)
            if last >= count:
                raise Unevaluated(
                    f"{step.primitive} ({step.place}) names device {last} of {count}"
                )
            found[target] = array[source]
        results.append(_back(found, step, rest))
    return results


def _pbroadcast(step: Step, operands: Arrays) -> Arrays:
    return _by_group(step, operands, lambda array: array[step.params["source"]])


def _axis_index(step: Step, operands: Arrays) -> Arrays:
    names = step.over
    sizes = [step.axes[name] for name in names]
    numbers = np.arange(math.prod(sizes), dtype=np.int32)
    return [_back(numbers, step, ())]


def _same(step: Step, operands: Arrays) -> Arrays:
    return operands


def _no_sums(step: Step) -> None:
    if step.params["unreduced"]:
        raise Unevaluated(
            f"shard_map ({step.place}) is given or returns partial sums over {step.params['unreduced']}"
        )


def _shard(step: Step, operands: Arrays) -> Arrays:
    """Each device along the axes takes its part."""
    (held,) = operands
    _no_sums(step)
    sizes = step.params["sizes"]
    array = held.array
    axes = list(held.axes)
    for dim, names in enumerate(step.params["dims"]):
        for name in names:
            at = len(axes) + dim
            array = array.reshape(
                *array.shape[:at],
                sizes[name],
                array.shape[at] // sizes[name],
                *array.shape[at + 1 :],
            )
            array = np.moveaxis(array, at, len(axes))
            axes.append(name)
    order = tuple(axis for axis in step.axes if axis in axes)
    places = [axes.index(axis) for axis in order]
    moved = np.moveaxis(array, places, range(len(order)))
    return [Held(moved, order)]


def _unshard(step: Step, operands: Arrays) -> Arrays:
    """The parts put together; along axes of which nothing is said, what the first device holds."""
    (held,) = operands
    _no_sums(step)
    dims = step.params["dims"]
    sizes = step.params["sizes"]
    named = [name for names in dims for name in names]
    array = held.array
    axes = list(held.axes)
    for axis in [axis for axis in axes if axis in sizes and axis not in named]:
        array = functions_for(array).take(array, 0, axis=axes.index(axis))
        axes.remove(axis)
    whole = _everywhere(
        Held(array, tuple(axes)),
        {
            axis: size
            for axis, size in step.axes.items()
            if axis in axes or axis in named
        },
    )
    array = whole.array
    axes = list(whole.axes)
    for dim, names in enumerate(dims):
        for name in reversed(names):
            at = axes.index(name)
            array = np.moveaxis(array, at, len(axes) - 1 + dim)
            axes.remove(name)
            place = len(axes) + dim
            array = array.reshape(
                *array.shape[:place],
                array.shape[place] * array.shape[place + 1],
                *array.shape[place + 2 :],
            )
    return [Held(array, tuple(axes))]


def on_all(step: Step, operands: Arrays) -> Arrays:
    """What a collective makes of these operands, however many it had. Raises ``Unevaluated``."""
    return _RULES[step.primitive](step, operands)


def summed(step: Step, held: Held) -> Held:
    """The sum over the devices of a collective."""
    (found,) = _sum(step, [held])
    return found


_sum = _reduction(lambda array: np.sum(array, axis=0))
_RULES: dict[str, Callable[[Step, Arrays], Arrays]] = {
    "psum": _sum,
    "psum_invariant": _sum,
    "unreduced_psum": _sum,
    "psum2": _sum,
    "pmax": _reduction(lambda array: np.max(array, axis=0)),
    "pmin": _reduction(lambda array: np.min(array, axis=0)),
    "all_gather": _all_gather,
    "all_gather_invariant": _all_gather,
    "all_gather_reduced": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "unreduced_reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "ppermute": _ppermute,
    "pbroadcast": _pbroadcast,
    "axis_index": _axis_index,
    "shard": _shard,
    "unshard": _unshard,
}
UNCHANGED = frozenset(
    "pvary pcast reshard mesh_cast sharding_constraint layout_constraint optimization_barrier stop_gradient copy copy_p"
    " device_put name reduce_precision preduced vary_unreduced_cast_p vary_unreduced_cast reduced_vary_cast".split()
)
_RULES |= dict.fromkeys(UNCHANGED, _same)
