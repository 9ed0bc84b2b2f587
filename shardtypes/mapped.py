"""``typed_shard_map``: ``shard_map`` whose specs are the annotations of the function."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar, overload

import jax
from jax.sharding import PartitionSpec

from shardtypes.array_types import array_annotation
from shardtypes.checked import evaluated_hints
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.fields import is_pytree_dataclass, known_field_types
from shardtypes.frames import defining_frame, keep_names, mentioned_names
from shardtypes.function_names import display_name
from shardtypes.grouped_results import GroupedResults
from shardtypes.layouts import axes_of_spec
from shardtypes.meshes import Sums, current_mesh, make_spec
from shardtypes.partition_specs import has_open_structure, map_type, spec_of
from shardtypes.trace_forms import innermost

F = TypeVar("F", bound=Callable[..., Any])
#: What is not given to the devices one by one.
_CLOSED_OVER = object()
_STATIC = (int, float, str, bool, _CLOSED_OVER)
#: What the first parameter of a method is called, by convention: of any other it is not certain that it is no array.
_RECEIVERS = ("self", "cls")


@overload
def typed_shard_map(f: F, **options: Any) -> F: ...
@overload
def typed_shard_map(f: None = None, **options: Any) -> Callable[[F], F]: ...


def typed_shard_map(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``jax.shard_map`` with ``in_specs`` and ``out_specs`` from the signature, on the mesh in force.

    Usable as ``@typed_shard_map``, as ``@typed_shard_map(check_vma=False)`` and as
    ``@partial(typed_shard_map, check_rep=False)``. Parameters annotated ``int``, ``float``, ``str`` or ``bool`` are
    static. ``self`` of a method needs no annotation: a ``pytree_dataclass`` is sharded as its fields say, any other
    object is closed over, whole on each device, and so is ``cls``.

    Args:
        f: The function of one device's arrays. Its annotations have the global shapes.
        options: Those of ``jax.shard_map``: ``mesh``, ``axis_names``, ``check_vma`` (``check_rep`` is its old name).

    Raises:
        TypeError: when called, a parameter or a result without annotation; or a method of an object that has a field
            annotated as sharded, and is no ``pytree_dataclass``.
        ValueError: when called, there is no mesh.
    """
    if f is None:
        return functools.partial(typed_shard_map, **options)
    if "check_rep" in options:
        options = {**options, "check_vma": options["check_rep"]}
        del options["check_rep"]
    for name in ("in_specs", "out_specs"):
        if name in options:
            raise TypeError(
                f"typed_shard_map takes {name} from the annotations of {display_name(f)}; use jax.shard_map"
            )
    function = f
    signature = inspect.signature(function)
    _remember_names(innermost(function), sys._getframe(1))
    receiver = _receiver(function, signature)

    @functools.lru_cache(maxsize=1)
    def annotations() -> dict[str, Any]:
        inner = innermost(function)
        hints = evaluated_hints(inner)
        for name, parameter in signature.parameters.items():
            if name not in hints and name != receiver:
                raise TypeError(
                    f"typed_shard_map({display_name(function)}): parameter {name!r} has no annotation, so it is not "
                    "known how it is sharded; annotate it as f32['batch/d …'], or as int, float, str or bool if static"
                )
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(
                    f"typed_shard_map({display_name(function)}): {name!r} must not be * or **"
                )
        if "return" not in hints:
            raise TypeError(
                f"typed_shard_map({display_name(function)}): the result has no annotation"
            )
        return hints

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        hints = annotations()
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if receiver is not None and receiver not in hints:
            owner = type(bound.arguments[receiver])
            hints = {**hints, receiver: _type_of_receiver(function, receiver, owner)}
        static = {n: v for n, v in bound.arguments.items() if _is_static(hints[n])}
        names = [n for n in bound.arguments if n not in static]
        mesh = options.get("mesh")
        if mesh is None and (mesh := current_mesh()) is None:
            raise ValueError(
                f"typed_shard_map({display_name(function)}) needs a mesh in force: with jax.set_mesh(mesh): …"
            )
        rest = {k: v for k, v in options.items() if k != "mesh"}

        def on_shard(*parts: Any) -> Any:
            call = signature.bind_partial()
            call.arguments.update({**static, **dict(zip(names, parts, strict=True))})
            ordered = {
                n: call.arguments[n]
                for n in signature.parameters
                if n in call.arguments
            }
            call.arguments.clear()
            call.arguments.update(ordered)
            return function(*call.args, **call.kwargs)

        on_shard.__name__ = getattr(function, "__name__", "on_shard")
        manual = frozenset(options.get("axis_names") or mesh.axis_names)
        values = [bound.arguments[n] for n in names]
        in_specs = []
        for name, value in zip(names, values, strict=True):
            with _said_of(function, f"parameter {name!r}"):
                spec = map_type(hints[name], _spec_of_array, example=value)
            in_specs.append(_with_reduced(spec, value, manual))
        shard_map = functools.partial(
            _shard_map(), mesh=mesh, in_specs=tuple(in_specs), **rest
        )
        annotation = hints["return"]
        with _said_of(function, "the result"):
            is_open = has_open_structure(annotation)
            out_specs = None if is_open else map_type(annotation, _spec_of_array)
        if is_open:
            mapped = _grouped(shard_map, function, on_shard, annotation)
        else:
            mapped = shard_map(on_shard, out_specs=out_specs)
        return mapped(*values)

    return run


def _receiver(function: Any, signature: inspect.Signature) -> str | None:
    """The parameter that stands for the object of which a function is a method."""
    first = next(iter(signature.parameters), None)
    inner = innermost(function)
    owner = getattr(inner, "__qualname__", "").rpartition(".")[0]
    is_in_class = bool(owner) and not owner.endswith("<locals>")
    if first in _RECEIVERS and is_in_class and not inspect.ismethod(function):
        return first
    return None


def _type_of_receiver(function: Any, receiver: str, owner: type) -> Any:
    """The type whose fields say how an object is sharded, or that it is closed over."""
    if is_pytree_dataclass(owner):
        return owner
    for name, hint in known_field_types(owner).types.items():
        array = array_annotation(hint)
        if array is not None and shape_of_type(array).axes:
            raise TypeError(
                f"typed_shard_map({display_name(function)}): {receiver}.{name} is annotated as sharded, {array}, but "
                f"{owner.__name__} is closed over, whole on each device; make it a pytree_dataclass, or give the "
                "array to the method as a parameter"
            )
    return _CLOSED_OVER


def _remember_names(function: Any, frame: FrameType) -> None:
    """Keep the local names that its annotations mention, where a function is defined in another one."""
    defined = defining_frame(function, frame) or frame
    annotations = getattr(function, "__annotations__", {})
    keep_names(function, mentioned_names(annotations, defined))


def _is_static(annotation: Any) -> bool:
    return any(annotation is one for one in _STATIC)


def _grouped(
    shard_map: Callable[..., Any], function: Any, on_shard: Any, annotation: Any
) -> Callable[..., Any]:
    """The mapped function where only its result shows of how many arrays that is."""
    with _said_of(function, "the result"):
        results = GroupedResults(annotation, _spec_of_array)

    @functools.wraps(on_shard)
    def grouped(*parts: Any) -> Any:
        result = on_shard(*parts)
        with _said_of(function, "the result"):
            return results.group(result)

    mapped = shard_map(grouped, out_specs=results.specs)
    return lambda *values: results.whole(mapped(*values))


@contextlib.contextmanager
def _said_of(function: Any, role: str) -> Iterator[None]:
    """What is wrong with an annotation, with where it is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"typed_shard_map({display_name(function)}): {role}: {error}"
        ) from None


def _spec_of_array(array: ArrayType) -> PartitionSpec:
    return spec_of(shape_of_type(array))


def _with_reduced(specs: Any, value: Any, manual: frozenset[str]) -> Any:
    """The specs of an argument with what JAX calls *reduced* in its type: no annotation says that, and JAX insists."""
    if not any(_reduced(leaf) & manual for leaf in jax.tree_util.tree_leaves(value)):
        return specs

    def one(spec: PartitionSpec, leaf: Any) -> PartitionSpec:
        dims = axes_of_spec(spec, 0)
        return (
            spec
            if dims is None
            else make_spec(dims, Sums(Sums.of(spec).pending, _reduced(leaf) & manual))
        )

    def each(spec: PartitionSpec, part: Any) -> Any:
        return jax.tree_util.tree_map(lambda leaf: one(spec, leaf), part)

    return jax.tree_util.tree_map(
        each, specs, value, is_leaf=lambda x: isinstance(x, PartitionSpec)
    )


def _reduced(leaf: Any) -> frozenset[str]:
    described = jax.typeof(leaf) if isinstance(leaf, jax.core.Tracer) else leaf
    return Sums.of(getattr(getattr(described, "sharding", None), "spec", None)).reduced


def _shard_map() -> Callable[..., Any]:
    """JAX's ``shard_map``, under its old name and option where JAX is older than 0.6.1."""
    current = getattr(jax, "shard_map", None)
    if current is not None:
        return current  # type: ignore[no-any-return]
    from jax.experimental.shard_map import shard_map as old

    def shard_map(f: Any, *, check_vma: bool = True, **rest: Any) -> Any:
        return old(f, check_rep=check_vma, **rest)

    return shard_map
