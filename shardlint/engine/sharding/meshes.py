"""Device meshes as values: how they are made, what their attributes are, and which one is in force.

The types that axes have where a program does not say differ between releases of JAX, as its sources have it:
``Mesh`` makes Auto axes in all of them; ``jax.make_mesh`` Explicit ones since 0.9.0 (0.8.1 warns of that),
``AbstractMesh`` since 0.11.1. ``jax.sharding.use_mesh`` is there from 0.5.0 to 0.7.0, ``jax.set_mesh`` since 0.7.1;
both put the types in force, which the older ``with mesh:`` does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from shardlint import ir, messages
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.jax_version import Version
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    Dimension,
    ExternalValue,
    IntValue,
    Literal,
    MeshValue,
    SequenceValue,
    SliceValue,
    Unknown,
    Value,
    number_in,
)
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MESH = frozenset(
    {
        "jax.sharding.Mesh",
        "jax.experimental.maps.Mesh",
        "jax.interpreters.pxla.Mesh",
        "jax.mesh.Mesh",
    }
)
_ABSTRACT = frozenset({"jax.sharding.AbstractMesh", "jax.mesh.AbstractMesh"})
#: The releases since which axes are Explicit by default.
_MADE_EXPLICIT: Version = (0, 9)
_ABSTRACT_EXPLICIT: Version = (0, 11, 1)
#: A function that was taken away, and the release that did.
_USE_MESH = frozenset({"jax.sharding.use_mesh", "jax.sharding_impls.use_mesh"})
_WITHOUT_USE_MESH: Version = (0, 7, 1)
#: One device, of which nothing more is known.
DEVICE = Unknown("a device")
_DEVICES = frozenset({"jax.devices", "jax.local_devices"})
_DEVICE_COUNTS = frozenset(
    {"jax.device_count", "jax.local_device_count", "jax.process_count"}
)
#: They return the mesh that they are given, and put it in force as a context manager.
_IN_FORCE = frozenset(
    """jax.set_mesh jax.sharding.set_mesh jax.sharding.use_mesh jax.sharding.use_abstract_mesh
    jax.sharding_impls.use_mesh jax.sharding_impls.set_mesh jax.mesh.use_abstract_mesh""".split()
)
#: Those of them that work as a plain statement too.
SETTERS = frozenset(
    {"jax.set_mesh", "jax.sharding.set_mesh", "jax.sharding_impls.set_mesh"}
)
_MAKING = frozenset(
    {
        "jax.make_mesh",
        "jax.experimental.mesh_utils.create_device_mesh",
        "jax.experimental.mesh_utils.create_hybrid_device_mesh",
    }
)
#: Their axes may be given types.
_TYPED = _MESH | {"jax.make_mesh"}
_CURRENT = frozenset(
    {
        "jax.sharding.get_abstract_mesh",
        "jax.sharding.get_mesh",
        "jax.mesh.get_abstract_mesh",
    }
)


def make(
    qualname: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    current: MeshValue | None,
    jax: Version,
) -> Value | None:
    """A mesh, or the device array for one; None for any other call. ``current`` is the mesh in force, ``jax`` the
    release that the program is for."""
    if qualname in _MESH:
        given = _given(("devices", "axis_names", "axis_types"), args, kwargs)
        devices = given.get("devices")
        sizes = _array_sizes(devices) if isinstance(devices, ArrayValue) else None
        names = _names(given.get("axis_names"))
        return _mesh(names, sizes, _types(given.get("axis_types"), names, "Auto"))
    if qualname == "jax.make_mesh":
        given = _given(("axis_shapes", "axis_names", "axis_types"), args, kwargs)
        names = _names(given.get("axis_names"))
        # as newer releases call it
        shapes = given.get("axis_shapes", given.get("axis_sizes"))
        return _mesh(
            names,
            _ints(shapes),
            _types(given.get("axis_types"), names, _default(jax, _MADE_EXPLICIT)),
        )
    if qualname in _ABSTRACT:
        return _abstract(args, kwargs, _default(jax, _ABSTRACT_EXPLICIT))
    if qualname in _IN_FORCE:
        mesh = next(iter((*args, *kwargs.values())), None)
        if not isinstance(mesh, MeshValue):
            return MeshValue(None)
        # the program is for another release than we think
        gone = qualname in _USE_MESH and jax >= _WITHOUT_USE_MESH
        return replace(mesh, types=None if gone else mesh.types, by_setter=True)
    if qualname in _CURRENT:
        return current if current is not None else MeshValue(None)
    if qualname == "jax.experimental.mesh_utils.create_device_mesh":
        return _device_array(
            _ints(_given(("mesh_shape",), args, kwargs).get("mesh_shape"))
        )
    if qualname == "jax.experimental.mesh_utils.create_hybrid_device_mesh":
        given = _given(("mesh_shape", "dcn_mesh_shape"), args, kwargs)
        inner, outer = (
            _ints(given.get("mesh_shape")),
            _ints(given.get("dcn_mesh_shape")),
        )
        if inner is None or outer is None or len(inner) != len(outer):
            return _device_array(None)
        return _device_array(
            [a * b if a and b else None for a, b in zip(inner, outer, strict=True)]
        )
    return None


@knows(_MESH | _ABSTRACT | _IN_FORCE | _CURRENT | _MAKING)
def call(site: Site) -> Value | None:
    """A mesh that is made, or asked for, or put in force."""
    given = site.qualname, site.args, site.kwargs
    wrong = _refused_shape(site) or refused(*given)
    if wrong is not None:
        site.report("ST314", site.at, f"{site.name}: {wrong}")
        return MeshValue(None)
    mesh = make(*given, site.frame.mesh, site.it.jax)
    if site.qualname in SETTERS and isinstance(mesh, MeshValue):
        # from here on; after a ``with`` what was in force before it returns
        site.frame.mesh = mesh
    return mesh


@knows(_DEVICES)
def devices(site: Site) -> Value | None:
    """``jax.devices()``: a list, as long as the machine has it."""
    return CollectionValue(DEVICE)


@knows(("numpy.array", "numpy.asarray"))
def array_of_devices(site: Site) -> Value | None:
    """``np.array(jax.devices())``."""
    if len(site.args) == 1 and not site.kwargs and _is_list_of_devices(site.args[0]):
        return _device_array([None])
    return None


@knows(_DEVICE_COUNTS)
def device_count(site: Site) -> Value | None:
    """``jax.device_count()``."""
    return IntValue(None)


def _default(jax: Version, explicit_since: Version) -> str:
    return "Explicit" if jax >= explicit_since else "Auto"


def entered(mesh: MeshValue) -> MeshValue:
    """What ``with mesh:`` puts in force: names and sizes, but no types, for what is made there is not on the mesh."""
    return mesh if mesh.by_setter else replace(mesh, types=None)


def refused(
    qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> str | None:
    """Why a mesh cannot be made like this; None where it can, or that is not known."""
    if qualname in _TYPED:
        given = _given(("", "axis_names", "axis_types"), args, kwargs)
        if _has_strings(given.get("axis_types")):
            return messages.axis_types_as_strings()
    if qualname in _MESH:
        given = _given(("devices", "axis_names"), args, kwargs)
        devices = given.get("devices")
        rank = _rank_of_devices(devices)
        what = "the array of devices has"
    elif qualname == "jax.make_mesh":
        given = _given(("axis_shapes", "axis_names"), args, kwargs)
        shapes = given.get("axis_shapes", given.get("axis_sizes"))
        rank = len(shapes.items) if isinstance(shapes, SequenceValue) else None
        what = "its shape has"
    else:
        return None
    names = _names(given.get("axis_names"))
    if names is None:
        return None
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"two mesh axes are named {twice!r}: rename one of them"
    if rank is not None and rank != len(names):
        return f"{_many(len(names), 'axis name')} {names}, but {what} {_many(rank, 'dimension')}"
    return None


def _rank_of_devices(devices: Value | None) -> int | None:
    """How many dimensions the array of devices has: of one list of them, one."""
    if isinstance(devices, ArrayValue) and devices.dims is not None:
        return len(devices.dims)
    if isinstance(devices, IntValue):
        return 0
    return 1 if _is_list_of_devices(devices) else None


def _is_list_of_devices(value: Value | None) -> bool:
    return isinstance(value, CollectionValue) and value.item == DEVICE


#: What a mesh is made of, by the function that makes it; hybrid meshes take another shape for the slices, which may be
#: a number.
_SHAPED = {
    "jax.make_mesh": ("axis_shapes", "axis_names"),
    "jax.experimental.mesh_utils.create_device_mesh": ("mesh_shape",),
    "jax.experimental.mesh_utils.create_hybrid_device_mesh": ("mesh_shape",),
    **dict.fromkeys(_ABSTRACT, ("axis_sizes", "axis_names")),
}


def _refused_shape(site: Site) -> str | None:
    """Why this is the shape of no mesh; None where it may be one."""
    parameters = _SHAPED.get(site.qualname)
    if parameters is None:
        return None
    given = _given(parameters, site.args, site.kwargs)
    shape = given.get(parameters[0], given.get("axis_sizes"))
    if isinstance(shape, IntValue):
        return messages.mesh_shape_is_number(number_in(shape))
    if site.qualname in _ABSTRACT or not isinstance(shape, SequenceValue):
        return None
    numbers = [number_in(item) for item in shape.items]
    wrong = next((n for n in numbers if n is not None and n < 1), None)
    return None if wrong is None else messages.mesh_axis_of_size(wrong)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def report_missing_axis(
    it: Interpreter, frame: Frame, expr: ir.Subscript, shape: DictValue, key: Value
) -> None:
    """``mesh.shape["t"]`` of a mesh that has no such axis, and ``mesh.shape[0]``."""
    if not shape.of_mesh:
        return
    axes = [str(axis) for axis, _ in shape.items]
    text = None
    if isinstance(key, Literal) and isinstance(key.value, str):
        if key.value not in axes:
            text = messages.no_axis_in_shape(key.value, axes)
    elif isinstance(key, (IntValue, SequenceValue, SliceValue)):
        text = messages.shape_not_by_name(axes)
    if text is not None:
        it.report(frame, "ST103", expr.index.at, text)


def attribute(mesh: MeshValue, name: str) -> Value:
    """An attribute of a mesh."""
    if name in ("abstract_mesh", "mesh"):
        return mesh
    if mesh.axes is None:
        return Unknown(f".{name} of a mesh that is not known")
    if name == "shape":
        axes = tuple((axis, IntValue(_size(size))) for axis, size in mesh.axes)
        return DictValue(axes, of_mesh=True)
    if name == "axis_names":
        names = tuple(Literal(axis) for axis, _ in mesh.axes)
        return SequenceValue(names, of_mesh=True)
    if name == "axis_sizes":
        return SequenceValue(tuple(IntValue(_size(size)) for _, size in mesh.axes))
    if name == "size":
        known = [size for _, size in mesh.axes if size is not None]
        return IntValue(
            Size.const(prod(known)) if len(known) == len(mesh.axes) else None
        )
    if name == "devices":
        return _device_array([size for _, size in mesh.axes])
    return Unknown(f".{name} of a mesh")


def sizes(mesh: MeshValue | None) -> dict[str, int | None] | None:
    """The sizes of the axes by name; None where the axes are not known."""
    return dict(mesh.axes) if mesh is not None and mesh.axes is not None else None


def _given(
    names: Sequence[str], args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, Value]:
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _names(value: Value | None) -> tuple[str, ...] | None:
    if isinstance(value, Literal) and isinstance(value.value, str):
        return (value.value,)
    if not isinstance(value, SequenceValue):
        return None
    names = [
        item.value
        for item in value.items
        if isinstance(item, Literal) and isinstance(item.value, str)
    ]
    return tuple(names) if len(names) == len(value.items) else None


def _ints(value: Value | None) -> list[int | None] | None:
    if not isinstance(value, SequenceValue):
        return None
    numbers = [number_in(item) for item in value.items]
    return [n if n is not None and n > 0 else None for n in numbers]


def _array_sizes(devices: ArrayValue) -> list[int | None] | None:
    if devices.dims is None:
        return None
    return [None if dim.size is None else dim.size.constant for dim in devices.dims]


def _mesh(
    names: tuple[str, ...] | None,
    counts: Sequence[int | None] | None,
    types: tuple[str | None, ...] | None,
) -> MeshValue:
    if names is None:
        return MeshValue(None)
    if counts is None or len(counts) != len(names):
        counts = [None] * len(names)
    return MeshValue(tuple(zip(names, counts, strict=True)), types)


def _types(
    value: Value | None, names: tuple[str, ...] | None, default: str | None
) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if value is None or value == Literal(None):
        return (default,) * len(names)
    items = value.items if isinstance(value, SequenceValue) else (value,) * len(names)
    if len(items) != len(names):
        return None
    return tuple(_type(item) for item in items)


def _has_strings(value: Value | None) -> bool:
    items = value.items if isinstance(value, SequenceValue) else (value,)
    return any(
        isinstance(item, Literal) and isinstance(item.value, str) for item in items
    )


def _type(value: Value) -> str | None:
    if not isinstance(value, ExternalValue):
        return None
    last = value.qualname.rpartition(".")[2]
    return last if last in ("Auto", "Explicit", "Manual") else None


def _abstract(
    args: Sequence[Value], kwargs: Mapping[str, Value], default: str
) -> MeshValue:
    given = _given(("axis_sizes", "axis_names", "axis_types"), args, kwargs)
    first = given.get("axis_sizes", given.get("shape_tuple"))
    pairs = first.items if isinstance(first, SequenceValue) else ()
    if pairs and all(
        isinstance(pair, SequenceValue) and len(pair.items) == 2 for pair in pairs
    ):
        # JAX's older form: (name, size)
        rows = [pair.items for pair in pairs if isinstance(pair, SequenceValue)]
        names = _names(SequenceValue(tuple(name for name, _ in rows)))
        return _mesh(names, _ints(SequenceValue(tuple(size for _, size in rows))), None)
    names = _names(given.get("axis_names"))
    return _mesh(names, _ints(first), _types(given.get("axis_types"), names, default))


def _device_array(counts: Sequence[int | None] | None) -> ArrayValue:
    dims = (
        None if counts is None else tuple(Dimension(_size(count)) for count in counts)
    )
    return ArrayValue(dims, None, numpy=True)


def _size(count: int | None) -> Size | None:
    return None if count is None else Size.const(count)
