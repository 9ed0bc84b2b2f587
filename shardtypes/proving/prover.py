"""``prove``: does a program compute on many devices what it computes on one?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from shardtypes.given_meshes import mesh_of
from shardtypes.mesh_dependence import dependence_of
from shardtypes.proving.arguments import (
    layouts,
)
from shardtypes.proving.calls import Call
from shardtypes.proving.elsewhere import other_meshes
from shardtypes.proving.excuses import verdict
from shardtypes.proving.garbage import rarely_collected
from shardtypes.proving.intermediates import Intermediates
from shardtypes.proving.other_questions import for_larger
from shardtypes.proving.question import Question, shapes_of
from shardtypes.proving.retracing import laid_out
from shardtypes.proving.tracing import traced
from shardtypes.proving.verdict import Proof

_COMPILER = "the compiler partitions programs rightly"


def prove(
    f: Callable[..., Any],
    /,
    *examples: Any,
    mesh: Any = None,
    reference: Callable[..., Any] | None = None,
    grad: bool = False,
    mesh_dependent: str | None = None,
    **named: Any,
) -> Proof:
    """Compare a function that runs on several devices with what it means on one. No devices are needed.

    What the function itself raises on the mesh is raised.

    Args:
        f: The function.
        examples: Its arguments, arrays or ``jax.ShapeDtypeStruct``; other leaves are taken as they are.
        mesh: A mesh, concrete or abstract, or axis sizes as in ``{"d": 2, "t": 4}`` or ``"d=2,t=4"``; by default the
            mesh in force, or the one that the function holds.
        reference: What it means on one device, a function of the same arguments; by default the same function on a mesh
            whose axes have size one.
        grad: Compare the gradients of its results with respect to all float arguments as well.
        mesh_dependent: Why the numbers may depend on the mesh, as the decorator ``shardtypes.mesh_dependent`` says for
            all that ask.
        named: Arguments by name.

    Raises:
        TypeError: arguments of which no program can be made.
        ValueError: as above.
    """
    if not callable(f):
        raise TypeError(
            f"prove takes a function and its example arguments, not {type(f).__name__}"
        )
    if reference is not None and not callable(reference):
        raise TypeError(
            f"reference is a function of the same arguments, not {type(reference).__name__}"
        )
    call = Call.of(f, examples, named, grad)
    return _proved(f, call, mesh, reference, mesh_dependent)


def prove_call(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    mesh: Any,
) -> Proof:
    """The same of a call, where parameters may have any names."""
    return _proved(f, Call.of(f, args, kwargs, False), mesh)


def _proved(
    f: Callable[..., Any],
    call: Call,
    mesh: Any,
    reference: Callable[..., Any] | None = None,
    mesh_dependent: str | None = None,
) -> Proof:
    with rarely_collected():
        asked = _asked(call, mesh, reference)
        if isinstance(asked, Proof):
            return replace(asked, shapes=shapes_of(call.arrays))
        why = mesh_dependent or dependence_of(f)
        return replace(
            verdict(asked, why),
            follow=asked.intermediates,
            others=cache(partial(_elsewhere, asked, why)),
        )


def _elsewhere(question: Question, mesh_dependent: str | None) -> tuple[Proof, ...]:
    """What is said on other meshes, and for other sizes. Of what ``pmap`` and ``vmap`` map the arguments are of
    this mesh."""
    if question.many.mapped:
        return ()
    asked = [
        question.on_mesh(mesh, question.call, question.one)
        for mesh in other_meshes(question.sizes)
    ]
    asked.append(for_larger(question))
    return tuple(verdict(one, mesh_dependent) for one in asked if one is not None)


def follow(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    mesh: Any,
) -> Intermediates:
    """How the arrays of a call that maps over devices move over the mesh, as far as it is proved; empty where nothing
    is mapped. Nothing is run. Raises what the function raises on the mesh."""
    asked = _asked(Call.of(f, args, kwargs, False), mesh, None)
    if isinstance(asked, Proof) or asked.failed is not None:
        return Intermediates()
    return asked.intermediates(with_numbers=False)


def _asked(
    call: Call, mesh: Any, reference: Callable[..., Any] | None
) -> Question | Proof:
    """The question, or its answer where there is nothing to compare."""
    context, sizes = mesh_of(mesh)
    many = traced(call.flat, (call.arrays,), {}, sizes, context)
    sizes = {**many.sizes}
    if not sizes and reference is None:
        return Proof(
            True,
            "no axis of a mesh is mapped over by hand: shardings change no number",
            {},
            (_COMPILER,),
            1.0,
        )
    call = replace(call, own=sizes)
    places = layouts(many.program, call.arrays, many.mapped)
    one, places = laid_out(call, places, sizes, context)
    if not isinstance(one, Exception):
        return Question(call, many, one, places, sizes, reference, context)
    alone = Question(call, many, None, places, sizes, reference, context)
    if reference is not None:
        return alone
    alone.failed = one
    of_state = alone.with_state_as_shards()
    if of_state is not None:
        return of_state
    return alone
