"""``prove``: does a program compute on many devices what it computes on one?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

from shardtypes.lang.messages import axes_text
from shardtypes.mesh_dependence import dependence_of
from shardtypes.proving.alignment import aligned
from shardtypes.proving.arguments import Layout, draws, layouts, states
from shardtypes.proving.blame import blamed, returned_alike, returned_apart, same_draws
from shardtypes.proving.evaluation import Unevaluated
from shardtypes.proving.intermediates import Intermediates, intermediates
from shardtypes.proving.numbers import MOST_BYTES, Values, bytes_of, run, without_axes
from shardtypes.proving.observed import Host, close, observed
from shardtypes.proving.program import Constant, Name, Program, Step
from shardtypes.proving.propagation import Proved, propagated
from shardtypes.proving.random_draws import related_draws, sources, taken
from shardtypes.proving.state import State, same
from shardtypes.proving.tracing import Traced, traced
from shardtypes.proving.verdict import Numbers, Proof, Where
from shardtypes.proving.walk import COLLECTIVES, Walk
from shardtypes.proving.words import mesh_text, operation

_DRAWS = 3
_ALLOWED = 1e-6
"""Relative to the largest number of an array; everything is in double precision."""


def prove(
    f: Callable[..., Any],
    *examples: Any,
    mesh: Any = None,
    reference: Callable[..., Any] | None = None,
    grad: bool = False,
    mesh_dependent: str | None = None,
    **named: Any,
) -> Proof:
    """Compare a function that runs on several devices with what it means on one. No devices are needed.

    On one device it is the same function on a mesh whose axes have size one; with ``reference`` it is that function of
    the same arguments. ``examples`` (and named ones) are arrays or ``jax.ShapeDtypeStruct``; other leaves are taken as
    they are. ``mesh`` is a mesh, concrete or abstract, or axis sizes as in ``{"d": 2, "t": 4}`` or ``"d=2,t=4"``; by
    default it is the mesh in force, or the one that the function holds. With ``grad`` the gradients of its results with
    respect to all float arguments are compared as well. ``mesh_dependent`` says why the numbers may depend on the mesh,
    as the decorator ``shardtypes.mesh_dependent`` does for all that ask.

    Raises ``TypeError`` or ``ValueError`` for arguments of which no program can be made, and what the function itself
    raises on the mesh.
    """
    if not callable(f):
        raise TypeError(f"prove takes a function and its example arguments, not {type(f).__name__}")
    if reference is not None and not callable(reference):
        raise TypeError(f"reference is a function of the same arguments, not {type(reference).__name__}")
    call = _Call.of(f, examples, named, grad)
    asked = _asked(call, mesh, reference)
    if isinstance(asked, Proof):
        return asked
    return replace(asked.verdict(mesh_dependent or dependence_of(f)), follow=asked.intermediates)


def follow(f: Callable[..., Any], *examples: Any, mesh: Any = None, **named: Any) -> Intermediates:
    """How the arrays of a function that maps over devices move over the mesh, as far as it is proved; empty where
    nothing is mapped. Nothing is run. Raises what the function raises on the mesh."""
    asked = _asked(_Call.of(f, examples, named, False), mesh, None)
    return Intermediates() if isinstance(asked, Proof) else asked.intermediates(with_numbers=False)


def _asked(call: _Call, mesh: Any, reference: Callable[..., Any] | None) -> _Judged | Proof:
    """The question, or its answer where there is nothing to compare."""
    context, sizes = _mesh(mesh)
    many = traced(call.flat, (call.arrays,), {}, sizes, context)
    sizes = {**many.sizes}
    if not sizes and reference is None:
        return Proof(
            True, "no axis of a mesh is mapped over by hand: shardings change no number", {}, (_COMPILER,), 1.0
        )
    places = layouts(many.program, call.arrays, many.mapped)
    try:
        one = _on_one(call, places, sizes, context)
    except Exception as error:  # noqa: BLE001 - the user's program, on a mesh that it may not be for
        if reference is None:
            return Proof(None, f"on one device the program does not run: {type(error).__name__}: {error}", sizes)
        one = None
    return _Judged(call, many, one, places, sizes, reference, context)


_COMPILER = "the compiler partitions programs rightly"
_ASSUMED = ("sums are not rounded and may be taken in any order", "all numbers are finite")
_DRAWN = "what devices draw at random for their shards is as good as what one device draws"
_IDENTITIES = "identities that hold at three random points of a field of 2^31 numbers hold everywhere"


@dataclass(frozen=True)
class _Call:
    """A function of arrays alone: the other leaves of the arguments are kept as they are."""

    flat: Callable[..., Any]
    arrays: list[Any]
    f: Callable[..., Any]
    rebuilt: Callable[[Sequence[Any]], tuple[Any, Any]]

    @classmethod
    def of(cls, f: Callable[..., Any], examples: Any, named: Any, grad: bool) -> _Call:
        leaves, tree = jax.tree_util.tree_flatten((examples, named))
        dynamic = [number for number, leaf in enumerate(leaves) if _is_array(leaf)]

        def rebuilt(arrays: Sequence[Any]) -> tuple[Any, Any]:
            full = list(leaves)
            for number, array in zip(dynamic, arrays, strict=True):
                full[number] = array
            args, kwargs = jax.tree_util.tree_unflatten(tree, full)
            return args, kwargs

        def flat(arrays: Sequence[Any]) -> Any:
            args, kwargs = rebuilt(arrays)
            return f(*args, **kwargs)

        made = _with_gradients(flat) if grad else flat
        return cls(made, [leaves[number] for number in dynamic], f, rebuilt)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def _with_gradients(flat: Callable[..., Any]) -> Callable[..., Any]:
    """The results, and the gradients for cotangents that are the results themselves."""

    def both(arrays: Sequence[Any]) -> Any:
        floats = [number for number, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.inexact)]

        def loss(chosen: Sequence[Any]) -> Any:
            full = list(arrays)
            for number, array in zip(floats, chosen, strict=True):
                full[number] = array
            results = flat(full)
            leaves = [leaf for leaf in jax.tree_util.tree_leaves(results) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
            if not leaves:
                raise TypeError("grad=True needs a function with a float result")
            return sum(jnp.sum(leaf * jax.lax.stop_gradient(leaf)) for leaf in leaves), results

        gradients, results = jax.grad(loss, has_aux=True)([arrays[number] for number in floats])
        return results, gradients

    return both


def _mesh(mesh: Any) -> tuple[Any, dict[str, int]]:
    """The mesh to take where the program has none, and the sizes that are asked for."""
    if mesh is None:
        current = jax.sharding.get_abstract_mesh()
        if current is not None and not current.empty:
            return current, {}
        held = jax.sharding.get_mesh()
        return (held, {}) if isinstance(held, Mesh) and not held.empty else (None, {})
    if isinstance(mesh, str):
        mesh = _parsed(mesh)
    if isinstance(mesh, Mapping):
        if not mesh or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in mesh.values()):
            raise ValueError(f"mesh={dict(mesh)!r}: axes have sizes of at least 1, as in {{'d': 2, 't': 4}}")
        mesh = AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh))
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(f"mesh is a mesh, a dict of axis sizes or a string like 'd=2,t=4', not {type(mesh).__name__}")
    return mesh, dict(mesh.shape)


def _parsed(text: str) -> dict[str, int]:
    axes = {}
    for entry in text.split(","):
        name, equals, size = (piece.strip() for piece in entry.partition("="))
        if not equals or not name or not size.isdecimal():
            raise ValueError(f"{entry.strip()!r} in mesh={text!r} is not an axis; write axes like 'd=2,t=4'")
        axes[name] = int(size)
    return axes


def _on_one(call: _Call, places: Sequence[Layout], sizes: Mapping[str, int], context: Any) -> Traced:
    arrays = [place.one(array) for place, array in zip(places, call.arrays, strict=True)]
    return traced(call.flat, (arrays,), {}, dict.fromkeys(sizes, 1), context)


class _Judged:
    """One question, and what has been found out so far."""

    def __init__(
        self,
        call: _Call,
        many: Traced,
        one: Traced | None,
        places: Sequence[Layout],
        sizes: Mapping[str, int],
        reference: Callable[..., Any] | None,
        context: Any,
    ) -> None:
        self.call, self.many, self.one = call, many, one
        self.places, self.sizes, self.reference = places, sizes, reference
        self.context = context
        self.drawn: dict[Name, Name] = {}

    def verdict(self, mesh_dependent: str | None) -> Proof:
        on = mesh_text(self.sizes)
        if mesh_dependent:
            return Proof(None, f"depends on the mesh on purpose: {mesh_dependent}", self.sizes)
        proved = self._proved()
        if proved is not None and self.reference is None:
            found = self._told(proved)
            if found.ok or bytes_of(self.many.program, self.sizes) > MOST_BYTES:
                return found
        apart = self.many.mapped - _crossed(self.many.program)
        if apart and self.reference is None:
            axes = axes_text(sorted(apart))
            return Proof(None, f"nothing crosses devices along {axes}: each computes on its own rows", self.sizes)
        if bytes_of(self.many.program, self.sizes) > MOST_BYTES:
            return Proof(None, f"too large to be run in numbers on {on}: give smaller examples", self.sizes)
        try:
            numbers = self._in_numbers()
        except Unevaluated as error:
            numbers = Proof(None, f"cannot be run on simulated devices: {error}", self.sizes)
        if numbers.ok is False or proved is None:
            return numbers
        reason = numbers.reason
        if numbers.agrees:
            count = sum(map(_is_right, proved.outputs))
            reason = (
                f"on {mesh_text(self.sizes)} {count} of {len(proved.outputs)} results are proved; "
                f"in numbers all agree with {self._whom()} for {_DRAWS} draws"
            )
            for path, state in zip(_paths(self.many.tree), proved.outputs, strict=True):
                if state is not None and state.parts:
                    reason = f"{reason}; {path} is {state.related().words(self.sizes)}"
        return replace(numbers, reason=reason, proved=proved.share, culprit=numbers.culprit or _end(proved))

    def intermediates(self, with_numbers: bool = True) -> Intermediates:
        """What is proved of the values on the way, and what the numbers tell of the others."""
        proved = self._proved()
        claims = {} if proved is None else proved.claims
        walk = None
        if with_numbers and self.one is not None and bytes_of(self.many.program, self.sizes) <= MOST_BYTES:
            try:
                walk = self._walk(*self._draws())
            except Unevaluated:
                walk = None
        return intermediates(self.many.program, claims, walk, self.sizes)

    def _proved(self) -> Proved | None:
        if self.one is None:
            return None
        ones = [place.one(array) for place, array in zip(self.places, self.call.arrays, strict=True)]
        names = self.one.program.inputs
        given = [
            same(self.one.program.types[name].shape) if place.how == "same" else None
            for name, place in zip(names, self.places, strict=True)
        ]
        mapped = states(self.many.program, self.places, ones)
        drawn = related_draws(self.many.program, self.one.program, self.call.arrays, self.places, self.sizes)
        return propagated(self.many.program, self.one.program, given, self.sizes, mapped, self.many.mapped, drawn)

    def _told(self, proved: Proved) -> Proof:
        """What the proof alone says."""
        on = mesh_text(self.sizes)
        if all(map(_is_right, proved.outputs)):
            reason = f"on {on} every result is what one device computes, for all arguments of these shapes"
            assumed = list(_ASSUMED)
            assumed += [_IDENTITIES] * proved.identities + [_DRAWN] * proved.draws
            return Proof(True, reason, self.sizes, tuple(assumed), 1.0)
        reason = f"on {on} not every result is proved, and the program is too large to be run in numbers"
        return Proof(None, reason, self.sizes, proved=proved.share, culprit=_end(proved))

    def _draws(self) -> tuple[list[list[Any]], list[list[Any]]]:
        ones = [place.one(array) for place, array in zip(self.places, self.call.arrays, strict=True)]
        drawn = draws(ones, _DRAWS)
        many = [
            [
                array if place.how == "own" else place.many(value)
                for place, value, array in zip(self.places, draw, self.call.arrays, strict=True)
            ]
            for draw in drawn
        ]
        return many, drawn

    def _in_numbers(self) -> Proof:
        many, ones = self._draws()
        if self.one is not None:
            self.drawn = sources(self.many.program, self.one.program)
        keep = _copied(self.many.program) | set(self.drawn)
        found = run(self.many.program, many, keep)
        taken_over = self._taken(found, _DRAWS)
        if self.reference is not None:
            wanted = self._of_reference(ones)
        else:
            assert self.one is not None
            alone = run(self.one.program, ones, (), taken_over)
            wanted = [without_axes(value) for value in alone.results]
        paths = _paths(self.many.tree)
        if len(wanted) != len(found.results):
            raise ValueError(f"reference returns {len(wanted)} arrays, the function {len(found.results)}")
        wrong = self._wrong(found.results, wanted, found.inside)
        on = mesh_text(self.sizes)
        if not wrong:
            reason = (
                f"on {on} the numbers agree with {self._whom()} for {_DRAWS} draws, which proves nothing for others"
            )
            return Proof(None, reason, self.sizes, agrees=True)
        return self._refuted(wrong, paths, found.results, wanted, many, ones)

    def _taken(self, found: Any, draws: int) -> list[dict[Name, Any]] | None:
        """Random numbers that one device takes over from the devices."""
        if self.one is None or not self.drawn:
            return None
        return taken(self.drawn, found, self.many.program, self.one.program, self.sizes, draws)

    def _whom(self) -> str:
        return "those of one device" if self.reference is None else "the reference"

    def _of_reference(self, ones: list[list[Any]]) -> list[Host]:
        assert self.reference is not None
        call = _Call.of(self.reference, *self.call.rebuilt(self.call.arrays), False)
        program = traced(call.flat, (self.call.arrays,), {}, {}, self.context).program
        return [without_axes(value) for value in run(program, ones, ()).results]

    def _wrong(self, found: list[Values], wanted: list[Host], copies: Mapping[Name, Values]) -> list[int]:
        """The results that are not what they should be."""
        program = self.many.program
        makers = {step.results[0]: step for step in program.steps if step.primitive == "unshard"}
        wrong = []
        for number, (values, whole) in enumerate(zip(found, wanted, strict=True)):
            output = program.outputs[number]
            maker = makers.get(output) if isinstance(output, int) else None
            if not self._is_right(values, whole, maker, copies):
                wrong.append(number)
        return wrong

    def _is_right(self, values: Values, whole: Host, maker: Step | None, copies: Mapping[Name, Values]) -> bool:
        array = values.array
        if maker is not None and set(maker.params["sizes"]) & self.many.mapped:
            return self._mapped_right(maker, whole, copies)
        if array.shape != whole.shape:
            return False
        good = _finite_draws(whole)
        if not close(_floats(array[good]), _floats(whole[good]), _ALLOWED):
            return False
        if maker is None:
            return True
        operand = maker.operands[0]
        if isinstance(operand, Constant):
            return True
        held = copies[operand]
        dims, sizes = maker.params["dims"], maker.params["sizes"]
        unnamed = [a for a in held.axes if a in sizes and not any(a in axes for axes in dims)]
        moved = np.moveaxis(held.array, [held.axes.index(axis) for axis in unnamed], range(len(unnamed)))
        first = moved[(0,) * len(unnamed)]
        return close(_floats(moved), _floats(np.broadcast_to(first, moved.shape)), _ALLOWED)

    def _mapped_right(self, maker: Step, whole: Host, copies: Mapping[Name, Values]) -> bool:
        """A result of ``pmap``, of which each device has its own: a copy, or a shard."""
        operand = maker.operands[0]
        if isinstance(operand, Constant):
            return True
        held = copies[operand]
        relation = observed(held.array, held.axes, whole, self.sizes, 1)
        return relation is not None and (relation.right or bool(relation.parts))

    # --- where ------------------------------------------------------------------------------------------------------

    def _refuted(
        self,
        wrong: list[int],
        paths: Sequence[str],
        found: list[Values],
        wanted: list[Host],
        many: list[list[Any]],
        ones: list[list[Any]],
    ) -> Proof:
        numbers = _numbers_of(wrong[0], paths, found, wanted, many)
        on = mesh_text(self.sizes)
        others = [paths[number] for number in wrong[1:]]
        also = f"; wrong as well: {', '.join(others[:5])}{' …' if len(others) > 5 else ''}" if others else ""
        reason = f"on {on} {numbers.path} is {numbers.words}{also}"
        if self.one is None:
            return Proof(False, reason, self.sizes, numbers=numbers, agrees=False)
        walk = self._walk(many, ones)
        outputs = [self.many.program.outputs[number] for number in wrong]
        names = [output for output in outputs if isinstance(output, int)]
        purposes = [walk.on_purpose.get(name) for name in names]
        why = next((why for why in purposes if why), None)
        if why is None:
            culprit = blamed(walk, names, self.sizes)
        else:
            culprit = self._certain(walk)
        if why is not None and culprit is None:
            return Proof(None, f"the numbers depend on the mesh by construction: {why}", self.sizes, agrees=False)
        return Proof(False, reason, self.sizes, culprit=culprit, numbers=numbers, agrees=False)

    def _certain(self, walk: Walk) -> Where | None:
        """What is wrong in results that depend on the mesh on purpose, whatever the purpose."""
        steps = self.many.program.steps
        found = same_draws(walk, [step for step in steps if step.results[0] in self.drawn], self.sizes)
        if found is not None:
            return found
        for step in steps:
            purpose = walk.on_purpose.get(step.results[0])
            if step.primitive != "unshard" or purpose is None or purpose.kind not in ("counts", "picks"):
                continue
            if not set(step.params["sizes"]) & self.many.mapped:
                found = _returned_otherwise(walk, step)
            if found is not None:
                return found
        return None

    def _walk(self, many: list[list[Any]], ones: list[list[Any]]) -> Walk:
        assert self.one is not None
        few = slice(-2, None)
        names, steps = aligned(self.many.program, self.one.program)
        on_many = run(self.many.program, many[few], None)
        on_one = run(self.one.program, ones[few], None, self._taken(on_many, len(many[few])))
        walk = Walk(self.many.program, names, steps, on_many, on_one, self.sizes)
        for name, place in zip(self.many.program.inputs, self.places, strict=True):
            if place.how == "own":
                walk.mark(name)
        return walk


def _returned_otherwise(walk: Walk, maker: Step) -> Where | None:
    """Where devices do not hold what they return as replicated, or hold but one shard of what they return as
    sharded."""
    operand = maker.operands[0]
    if isinstance(operand, Constant) or operand not in walk.on_many.inside:
        return None
    held = walk.on_many.inside[operand]
    dims, sizes = maker.params["dims"], maker.params["sizes"]
    named = {axis for axes in dims for axis in axes}
    varying = [axis for axis in held.axes if axis in sizes and not _alike(held, axis)]
    apart = [axis for axis in varying if axis not in named]
    if apart:
        return returned_apart(walk, maker, apart)
    for dim, axes in enumerate(dims):
        alike = len(axes) == 1 and sizes[axes[0]] > 1 and axes[0] not in varying and np.ptp(_floats(held.array)) > 0
        if alike and not _repeats(walk, maker, dim, sizes[axes[0]]):
            return returned_alike(walk, maker, axes[0], dim)
    return None


def _alike(held: Values, axis: str) -> bool:
    """Whether all devices along an axis hold the same."""
    first = np.take(held.array, [0], axis=held.axes.index(axis))
    return close(_floats(held.array), _floats(np.broadcast_to(first, held.array.shape)), _ALLOWED)


def _repeats(walk: Walk, maker: Step, dim: int, count: int) -> bool:
    """Whether on one device the shards of a result are the same, too; or there are none that could be told apart."""
    other = walk.names.get(maker.results[0])
    if other is None or other not in walk.on_one.inside:
        return True
    whole = _floats(without_axes(walk.on_one.inside[other]))
    if whole.shape[1:] != tuple(walk.many.types[maker.results[0]].shape) or whole.shape[dim + 1] % count:
        return True
    shards = np.stack(np.split(whole, count, axis=dim + 1))
    return close(shards, np.broadcast_to(shards[:1], shards.shape), _ALLOWED)


def _crossed(program: Program) -> set[str]:
    """The axes over which devices exchange anything, or ask for their number."""
    found: set[str] = set()
    for step in program.all_steps():
        names = step.params.get("axes", step.params.get("axis_name", ()))
        if step.primitive in COLLECTIVES or step.primitive == "axis_index":
            found.update(names if isinstance(names, (tuple, list)) else (names,))
    return found


def _is_right(state: State | None) -> bool:
    """Whether a result is what one device computes."""
    return state is not None and (state.zero or state.exact)


def _end(proved: Proved) -> Where | None:
    """Where knowledge ends first."""
    if not proved.ends:
        return None
    step, why = proved.ends[0]
    return Where(step.place, operation(step), f"knowledge ends at {operation(step)}: {why}")


def _copied(program: Program) -> set[Name]:
    """What each device returns."""
    steps = [step for step in program.steps if step.primitive == "unshard"]
    return {step.operands[0] for step in steps if isinstance(step.operands[0], int)}


def _finite_draws(whole: Host) -> list[int]:
    """Draws for which one device computes numbers; the first if there are none."""
    if whole.dtype.kind not in "fc":
        return list(range(len(whole)))
    return [number for number, array in enumerate(whole) if np.isfinite(array).all()] or [0]


def _floats(array: Host) -> Host:
    if array.dtype.kind in "fc":
        return np.nan_to_num(array, nan=1e30, posinf=1e30, neginf=-1e30)
    return array.astype(np.int64)


def _paths(tree: Any) -> list[str]:
    leaves = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [f"result{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(leaves)]


def _numbers_of(
    number: int, paths: Sequence[str], found: list[Values], wanted: list[Host], many: list[list[Any]]
) -> Numbers:
    array, whole, path = found[number].array, wanted[number], paths[number]
    if array.shape != whole.shape and array.ndim == whole.ndim:
        whole = _beside(array, whole)
    if array.shape != whole.shape:
        words = f"of shape {array.shape[1:]}, on one device {whole.shape[1:]}"
        return Numbers(path, float("nan"), float("nan"), float("inf"), words)
    left, right = _floats(array), _floats(whole)
    error = np.abs(left - right)
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    scale = float(np.max(np.abs(right))) or 1.0
    mine, his = _shown(array[at]), _shown(whole[at])
    where = f" at {tuple(int(i) for i in at[1:])}" if len(at) > 1 else ""
    off = float(error[at]) / scale
    if off == 0:
        words = "not the same on all devices"
    else:
        words = f"{mine:.6g}{where} on devices, {his:.6g} on one"
    return Numbers(path, mine, his, off, words, tuple(many[at[0]]))


def _beside(array: Host, whole: Host) -> Host:
    """What each device of ``pmap`` would return: one device returns one copy, or all shards in one row."""
    if array.size == whole.size:
        return whole.reshape(array.shape)
    fits = all(mine == his or his == 1 for mine, his in zip(array.shape, whole.shape, strict=True))
    return np.broadcast_to(whole, array.shape) if fits else whole


def _shown(value: Any) -> float:
    return float(value.real) if np.iscomplexobj(value) else float(value)
