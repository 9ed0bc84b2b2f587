"""Variables of flax's modules, ``self.variable(…)``, and what a module says of itself."""

from __future__ import annotations

from shardlint import ir
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.values import (
    ArrayValue,
    ClassValue,
    Dimension,
    ExternalValue,
    InstanceValue,
    Literal,
    ScalarValue,
    Unknown,
    Value,
)
from shardlint.walking import walk

_MODULE = "flax.linen.Module"
_ASKING = frozenset(
    {"has_variable", "has_rng", "is_initializing", "is_mutable_collection", "sow"}
)
#: The methods that are known here.
METHODS = _ASKING | {"variable", "put_variable", "perturb"}
#: What asks whether variables are there.
_GUARDS = frozenset({"has_variable", "is_initializing", "is_mutable_collection"})
#: What ``self.variable`` gives.
_VARIABLE = ClassValue(
    ir.Class(-1, "Variable", (), (), (), -1), "flax.linen", "Variable"
)
#: They take a shape first.
_SHAPED = frozenset(f"jax.numpy.{name}" for name in ("zeros", "ones", "empty", "full"))


@knows(f"{_MODULE}.{name}" for name in _ASKING)
def asked(site: Site) -> Value | None:
    """What is true or false of a module."""
    return ScalarValue("bool")


@knows((f"{_MODULE}.put_variable",))
def put(site: Site) -> Value | None:
    """``self.put_variable(collection, name, value)``."""
    return Literal(None)


@knows((f"{_MODULE}.perturb",))
def perturbed(site: Site) -> Value | None:
    """``self.perturb(name, value)``: the value, and what is added to see its gradient."""
    value = site.given("name", "value").get("value")
    return value if isinstance(value, ArrayValue) else None


@knows((f"{_MODULE}.variable",))
def variable(site: Site) -> Value | None:
    """``self.variable(collection, name, init_fn, *init_args)``."""
    held: Value = Unknown("a variable of a module")
    init = site.given("col", "name", "init_fn").get("init_fn")
    options = {
        name: value
        for name, value in site.kwargs.items()
        if name not in ("col", "name", "init_fn", "unbox")
    }
    if init is not None and site.it.view is None:
        made = site.it.call(site.frame, init, site.args[3:], options, site.at)
        if isinstance(made, ArrayValue) and made.dims is not None:
            held = _held(site, init, made.dims)
    return InstanceValue(_VARIABLE, (("value", held),), exact=True)


def _held(site: Site, init: Value, dims: tuple[Dimension, ...]) -> ArrayValue:
    """What a variable holds. One that is there already keeps its sizes, which the arguments of another call had: only
    those that are written out are the same, if nothing is assigned."""
    shape = site.operand(3, "shape")
    known = isinstance(init, ExternalValue) and init.qualname in _SHAPED
    if not known or not isinstance(shape, ir.Sequence) or _may_differ(site):
        return ArrayValue((Dimension(None),) * len(dims))
    pairs = zip(dims, shape.items, strict=True)
    sizes = [dim.size if isinstance(item, ir.Const) else None for dim, item in pairs]
    return ArrayValue(tuple(map(Dimension, sizes)))


def _may_differ(site: Site) -> bool:
    """Whether the class gives any variable another value, or runs some code only where it has one already."""
    function = site.frame.function
    if function is None or function.owner is None:
        return True
    return any(_changes(node, site.at) for node in walk(function.owner.node.body))


def _changes(node: ir.Node, at: int) -> bool:
    """Whether this gives a variable a value, or asks whether it is there before the call at ``at`` makes it."""
    if isinstance(node, ir.Attr) and node.name in _GUARDS:
        return node.at < at
    targets: tuple[ir.Expr, ...] = ()
    if isinstance(node, ir.Assign):
        targets = node.targets
    if isinstance(node, ir.AugAssign):
        targets = (node.target,)
    return any(isinstance(one, ir.Attr) and one.name == "value" for one in targets)
