"""Abstract values: what the engine knows of a program's values without running it.

Frozen data without behaviour. A size is a ``shardtypes.lang.Size`` (an exact polynomial over symbols), or None where
it is not known; ``ArrayValue.dims is None`` means that even the rank is unknown. Unknown never leads to a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from shardlint.axis_set import EVERY_AXIS, AxisSet
from shardtypes.lang import Dim, Size
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint import ir


@frozen
class Unknown:
    """A value of which nothing is known, and why (``--show-types`` prints the reason). ``size`` is what it is if it is
    an int: ``cfg.width`` is one size wherever nothing writes to ``cfg``. ``leaf``: in manual code, it is an array or a
    tree of arrays, each of which lies on the mesh like this one; ``lead`` are the axes of the first dimensions of each,
    where they are known. ``names`` are the logical names that a constraint gave it. ``outer``: manual code takes it
    from outside, so it is the same on all devices. ``either`` are the objects that it is one of, where two paths meet.
    ``moments_of``: it is an optimizer's state, which holds arrays of the shapes of these parameters.
    """

    reason: str = ""
    size: Size | None = None
    leaf: ArrayValue | None = None
    lead: tuple[tuple[str, ...], ...] | None = None
    names: SpecValue | None = None
    outer: bool = False
    either: tuple[Value, ...] = field(default=(), compare=False, repr=False)
    moments_of: Value | None = field(default=None, compare=False, repr=False)


@frozen
class Label:
    """The name of a dimension: from an annotation, or (``logical``) from a call that gives logical names.

    ``place`` is (module, node) of the names.
    """

    name: str
    logical: bool = False
    place: tuple[str, int] | None = field(default=None, compare=False)


@frozen
class Dimension:
    """One dimension: its size (None: unknown) and the mesh axes it is split over, major to minor.

    The size is the global one, in the manual view the local one: what ``x.shape`` is there. ``axes is None`` means
    that the sharding is not known; ``()`` that it is known to be unsharded. ``label`` is what the program calls it.
    """

    size: Size | None
    axes: tuple[str, ...] | None = None
    label: Label | None = None


@frozen
class Note:
    """Something that happened to a value over a mesh axis, and where: what findings relate to.

    ``code`` is the finding that it will be where the value leaves the manual view, if it is one.
    """

    axis: str
    text: str
    module: str
    at: int
    code: str = ""


@frozen
class ArrayValue:
    """An array. ``dtype`` is JAX's name (``'bfloat16'``) or a family (``'floating'``), or None.

    ``pending`` are the mesh axes over which a sum is still outstanding (None: not known). ``manual`` tells the
    per-device view of ``shard_map``/``pmap`` from the global one; the fields from ``varying`` on are about that view,
    where a value is, over each mesh axis, sharded (a dimension has the axis), pending, *varying* (it may differ
    between devices though no dimension says so), *unclear* (nothing is known), or else replicated. A sharded value
    may be varying or unclear as well: then its shards are not just parts of one array. ``marks`` say more, see
    ``shardlint.ops.sharding.state``; ``constant`` is made of constants only. ``mesh`` is one with explicit axes in the
    global view, where the array's type says how it lies on that mesh.
    """

    dims: tuple[Dimension, ...] | None
    dtype: str | None = None
    weak: bool = False
    pending: frozenset[str] | None = None
    manual: bool = False
    numpy: bool = False
    varying: frozenset[str] = frozenset()
    unclear: AxisSet = EVERY_AXIS
    marks: frozenset[tuple[str, str]] = frozenset()
    constant: bool = False
    notes: tuple[Note, ...] = field(default=(), compare=False)
    mesh: MeshValue | None = None


@frozen
class IntValue:
    """A Python int whose value is a size expression, or unknown. ``devices`` are the mesh axes whose number of devices
    it was computed from."""

    size: Size | None
    devices: frozenset[str] = frozenset()


def size_in(value: Value | None) -> Size | None:
    """The size that a Python int is; None where that is not known, and for what is no int."""
    return value.size if isinstance(value, IntValue) else None


def is_unranked(value: Value) -> bool:
    """Whether a value may be an array whose rank is not known."""
    if isinstance(value, ArrayValue):
        return value.dims is None
    return isinstance(value, Unknown)


def number_in(value: Value | None) -> int | None:
    """The number that a Python int is, where it is the same for all sizes; else None."""
    size = size_in(value)
    return None if size is None else size.constant


@frozen
class ScalarValue:
    """A Python number or bool of unknown value; ``kind`` is bool, float or complex."""

    kind: str


@frozen
class Literal:
    """A known constant that is not an int: str, bytes, bool, float, complex, None, Ellipsis, an ``EnumMember``."""

    value: object


@frozen
class EnumMember:
    """What a ``Literal`` holds for a member of an enumeration: equal to itself alone."""

    cls: ClassValue
    name: str


@frozen
class StringValue:
    """A str of unknown content. ``name`` is what the program calls it, where nothing else may be called so."""

    name: str = ""


@frozen
class SequenceValue:
    """A tuple or list of known length; or (``keys``) an array of random keys, of which only the length is known.
    ``names`` are the fields of a NamedTuple. A ``kind`` may also be set, deque, or iterator: what it still gives.
    ``either`` are the lists that it is one of, where two paths meet. ``of_mesh``: the axis names of a mesh."""

    items: tuple[Value, ...]
    kind: str = "tuple"
    names: tuple[str, ...] | None = None
    either: tuple[Value, ...] = field(default=(), compare=False, repr=False)
    of_mesh: bool = field(default=False, compare=False, repr=False)


@frozen
class DictValue:
    """A dict whose keys are all known constants, in order. ``either`` are the dicts that it is one of. ``of_mesh``: the
    sizes of a mesh by its axes."""

    items: tuple[tuple[object, Value], ...]
    either: tuple[Value, ...] = field(default=(), compare=False, repr=False)
    of_mesh: bool = field(default=False, compare=False, repr=False)


@frozen
class SliceValue:
    lower: Value
    upper: Value
    step: Value


@frozen
class DTypeValue:
    """A dtype object or a scalar type such as ``jnp.float32``; None where unknown."""

    name: str | None


@frozen
class ExternalValue:
    """Something outside the project, known by its qualified name: ``jax.numpy.sum``, ``jax.lax``."""

    qualname: str


@frozen
class MethodValue:
    """A method of an array, string, list, dict… before its call."""

    receiver: Value
    name: str


@frozen
class PartialValue:
    """``functools.partial(func, *args, **kwargs)``, or a bound method of a project class.

    ``origin`` is the module and node of what findings about the arguments kept here point at.
    """

    func: Value
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...] = ()
    origin: tuple[str, int] | None = field(default=None, compare=False)


@frozen
class WrappedValue:
    """A function under a transformation that keeps or maps its signature: ``jit``, ``vmap``, ``grad``, …

    ``kind`` is the transformation's qualified name, ``options`` its evaluated keyword arguments; ``origin`` is the
    module and node where mapped axes are written out, ``module`` where it was made (empty: that of the function).
    """

    kind: str
    func: Value
    options: tuple[tuple[str, Value], ...] = ()
    origin: tuple[str, int] | None = field(default=None, compare=False)
    module: str = field(default="", compare=False)


@dataclass(eq=False, slots=True)
class FunctionValue:
    """A function of the project: its definition, module, and the environment that it closes over. ``defaults`` are
    those of its parameters where it was defined, if that was in a function. ``tracing`` is the transformation that
    traces it and leaves its signature as it is: ``jax.jit`` and others like it.

    Compared by identity, as Python does.
    """

    node: ir.Function | ir.Lambda
    module: str
    closure: object = None
    owner: ClassValue | None = None
    name: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict)
    tracing: str = ""


@dataclass(eq=False, slots=True)
class ClassValue:
    """A class of the project. ``fields`` maps a dataclass field to its annotation (an ``ir.Expr``), in order;
    ``decorated`` are the qualified names of its decorators, empty for those of the project or unknown ones. No class is
    among the bases of its bases."""

    node: ir.Class
    module: str
    name: str
    bases: tuple[Value, ...] = ()
    fields: Mapping[str, ir.AnnAssign] = field(default_factory=dict)
    is_dataclass: bool = False
    decorated: tuple[str, ...] = ()
    closure: object = None  # of a class defined in a function
    # the fields that are parts of a tree, where the class is registered as one
    data: tuple[str, ...] | None = None

    def line(self) -> Iterator[ClassValue]:
        """The class and all above it."""
        yield self
        for base in self.bases:
            if isinstance(base, ClassValue):
                yield from base.line()

    def inherits(self, other: ClassValue) -> bool:
        """Whether it is the other class, or below it."""
        return any(one is other for one in self.line())


@frozen
class InstanceValue:
    """An instance of a project class: what is known of its attributes. ``prefix`` are dimensions stacked in front
    of every array field (``Array['layers', T]``). ``exact`` tells that it is of no class below ``cls``; ``either`` are
    the instances that it is one of."""

    cls: ClassValue
    fields: tuple[tuple[str, Value], ...] = ()
    prefix: tuple[Dimension, ...] = ()
    exact: bool = False
    either: tuple[Value, ...] = field(default=(), compare=False, repr=False)


@frozen
class SuperValue:
    """``super()`` in a method of ``owner``."""

    owner: ClassValue
    instance: Value


@frozen
class MeshValue:
    """A device mesh: axis names with their sizes (None: not known).

    ``types`` are the axis types in the same order (``Auto``, ``Explicit``, ``Manual``; None: not known). ``by_setter``
    says that this is what ``set_mesh`` returned: a context that puts the types in force too.
    """

    axes: tuple[tuple[str, int | None], ...] | None
    types: tuple[str | None, ...] | None = None
    by_setter: bool = field(default=False, compare=False)


@frozen
class SpecValue:
    """A PartitionSpec: per entry the axes, () for None, or None where the entry is not known or unconstrained.

    ``entries is None`` means that not even their number is known. ``place`` is (module, node) of the call that made it.
    ``unreduced`` are the axes over which values are partial sums, None where that is not known. ``called`` are the
    entries with the names that the program gives to axes which it does not spell out; None where there are none.
    """

    entries: tuple[tuple[str, ...] | None, ...] | None
    place: tuple[str, int] | None = field(default=None, compare=False)
    unreduced: frozenset[str] | None = frozenset()
    called: tuple[tuple[str, ...] | None, ...] | None = None


@frozen
class ShardingValue:
    """A NamedSharding."""

    mesh: MeshValue | None
    spec: SpecValue


@frozen
class ModuleValue:
    """A module of the project."""

    name: str


@frozen
class MaybeValue:
    """The value, or None: an argument annotated ``T | None``."""

    value: Value


@frozen
class EitherValue:
    """One of several: an argument annotated ``T | U``."""

    options: tuple[Value, ...]


@frozen
class CollectionValue:
    """A list, tuple or dict (``kind``) of unknown length, or of ``length`` items that are all like ``item``."""

    item: Value
    kind: str = "list"
    length: Size | None = None


@frozen
class StackedValue:
    """``Array['layers', T]`` as a constructor: ``prefix`` are the dimensions in front of every field of the class."""

    cls: ClassValue
    prefix: tuple[Dim, ...]


Value: TypeAlias = (
    Unknown
    | ArrayValue
    | IntValue
    | ScalarValue
    | Literal
    | StringValue
    | SequenceValue
    | DictValue
    | SliceValue
    | DTypeValue
    | ExternalValue
    | MethodValue
    | PartialValue
    | WrappedValue
    | FunctionValue
    | ClassValue
    | InstanceValue
    | SuperValue
    | MeshValue
    | SpecValue
    | ShardingValue
    | ModuleValue
    | MaybeValue
    | EitherValue
    | CollectionValue
    | StackedValue
)
