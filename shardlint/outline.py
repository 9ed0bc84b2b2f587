"""What the rest of a project has to know of one file before anything in it is evaluated.

An outline is small plain data, kept in the cache beside the lowered file, so that a run in which one file changed need
not read all the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint import ir
from shardlint.changes import Changes, changes
from shardlint.walking import walk
from shardtypes.lang.frozen import frozen

#: Methods that make an instance: what they write is there before anything else looks.
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "setup", "__new__"})
#: Functions of flax and of shardtypes that put rules for logical names in force: as context managers, or from there on.
RULES_CONTEXTS = frozenset({"logical_axis_rules", "axis_rules"})
RULES_SETTERS = frozenset({"set_logical_axis_rules", "set_axis_rules"})
#: Those and others that are given rules for names written elsewhere, with the position and the name of that parameter.
RULES_PARAMETERS = {
    **dict.fromkeys(RULES_CONTEXTS | RULES_SETTERS, (0, "rules")),
    "logical_to_mesh": (1, "rules"),
    "logical_to_mesh_sharding": (2, "rules"),
}
#: They make axes implicit, or explicit, for a function that they are given.
AXES_SWITCHES = frozenset({"auto_axes", "explicit_axes"})
#: Settings that say what ``jax.random.PRNGKey`` makes, by the names that they have in calls and as attributes.
KEY_SETTINGS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "jax_")
    for name in ("default_prng_impl", "enable_custom_prng")
)
#: They run a function on every device.
MAPPINGS = frozenset({"pmap", "shard_map", "smap", "typed_shard_map", "filter_pmap"})
#: They say how arrays are sharded over a mesh.
PLACINGS = frozenset({"NamedSharding", "with_sharding_constraint"})


@frozen
class ClassOutline:
    """A class: the last parts of its bases' names, what its methods write into ``self`` other than constructors, and
    every name that its body defines."""

    name: str
    bases: tuple[str, ...]
    written: tuple[str, ...]
    defined: tuple[str, ...]


@frozen
class Outline:
    """``written`` are attributes assigned on anything but ``self``; ``any_written`` says that some are whose names are
    not known; ``registered`` names what is handed to a function that registers; ``gives_rules`` says that a function of
    ``RULES_PARAMETERS`` is called, ``switches_axes`` that one of ``AXES_SWITCHES`` is mentioned, ``maps_functions``
    one of ``MAPPINGS``, ``places_arrays`` one of ``PLACINGS``, ``sets_keys`` one of ``KEY_SETTINGS``. ``imports`` are
    the names of what it imports, with dots before. ``changes`` is what it changes of modules, itself and others."""

    classes: tuple[ClassOutline, ...] = ()
    written: tuple[str, ...] = ()
    any_written: bool = False
    registered: tuple[str, ...] = ()
    gives_rules: bool = False
    switches_axes: bool = False
    maps_functions: bool = False
    places_arrays: bool = False
    sets_keys: bool = False
    imports: frozenset[str] = frozenset()
    changes: Changes = Changes()


_TELLING: frozenset[type[ir.Node]] = frozenset(
    {
        ir.Class,
        ir.Assign,
        ir.Delete,
        ir.AugAssign,
        ir.AnnAssign,
        ir.Call,
        ir.Name,
        ir.Attr,
        ir.Import,
        ir.ImportFrom,
    }
)


def outline(module: ir.Module) -> Outline:
    """One look at a whole file."""
    classes: list[ClassOutline] = []
    written: set[str] = set()
    registered: set[str] = set()
    imports: set[str] = set()
    any_written = gives_rules = switches_axes = False
    maps_functions = places_arrays = sets_keys = False
    for node in walk(module.body, _TELLING):
        match node:
            case ir.Name(id=name) | ir.Attr(name=name):
                switches_axes |= name in AXES_SWITCHES
                maps_functions |= name in MAPPINGS
                places_arrays |= name in PLACINGS
                sets_keys |= name in KEY_SETTINGS
            case ir.Import(bindings=bindings):
                imports.update(name for _, name in bindings)
            case ir.ImportFrom(module=source, level=level, names=names):
                maps_functions |= any(name in MAPPINGS for name, _ in names or ())
                dots = "." * level
                imports.update(
                    dots + ".".join(filter(None, (source, name)))
                    for name, _ in (("", ""), *(names or ()))
                )
            case ir.Class():
                classes.append(_class(node))
            case ir.Assign(targets=targets) | ir.Delete(targets=targets):
                for target in targets:
                    written.update(_elsewhere(target))
            case ir.AugAssign(target=target) | ir.AnnAssign(target=target):
                written.update(_elsewhere(target))
            case ir.Call(func=func, args=args):
                name = last_name(func)
                gives_rules |= name in RULES_PARAMETERS
                sets_keys |= _names_setting(args)
                if "register" in name:
                    registered.update(last_name(arg.value) for arg in args)
                elif name in ("__setattr__", "setattr") and len(args) > 1:
                    known = args[1].value
                    if isinstance(known, ir.Const) and isinstance(known.value, str):
                        written.add(known.value)
                    else:
                        any_written = True
                elif isinstance(func, ir.Attr) and _is_dict_of_attributes(func.obj):
                    any_written = True
            case _:
                pass
    return Outline(
        tuple(classes),
        tuple(sorted(written)),
        any_written,
        tuple(sorted(registered)),
        gives_rules,
        switches_axes,
        maps_functions,
        places_arrays,
        sets_keys,
        frozenset(imports),
        changes(module.body),
    )


def _names_setting(args: tuple[ir.Arg, ...]) -> bool:
    """Whether a call is given ``"jax_default_prng_impl"``, or a keyword of that name."""
    for arg in args:
        if arg.keyword in KEY_SETTINGS:
            return True
        if isinstance(arg.value, ir.Const) and arg.value.value in KEY_SETTINGS:
            return True
    return False


def _is_dict_of_attributes(expr: ir.Expr) -> bool:
    """``x.__dict__`` or ``vars(x)``."""
    if isinstance(expr, ir.Call):
        return isinstance(expr.func, ir.Name) and expr.func.id == "vars"
    return isinstance(expr, ir.Attr) and expr.name == "__dict__"


def _elsewhere(target: ir.Expr) -> Iterator[str]:
    for attr in _attributes(target):
        if not (isinstance(attr.obj, ir.Name) and attr.obj.id == "self"):
            yield attr.name


def _class(node: ir.Class) -> ClassOutline:
    methods = [
        item
        for item in node.body
        if isinstance(item, ir.Function) and item.name not in CONSTRUCTORS
    ]
    written = {name for method in methods for name in _self_writes(method)}
    bases = tuple(last_name(base.value) for base in node.bases)
    return ClassOutline(
        node.name, bases, tuple(sorted(written)), tuple(dict.fromkeys(_defined(node)))
    )


def _self_writes(method: ir.Function) -> set[str]:
    """The attributes of its first parameter that a method assigns."""
    if not method.params:
        return set()
    first = method.params[0].name
    found: set[str] = set()
    for node in walk(method.body):
        match node:
            case ir.Assign(targets=targets) | ir.Delete(targets=targets):
                written = [attr for target in targets for attr in _attributes(target)]
            case (
                ir.AugAssign(target=target)
                | ir.AnnAssign(target=target)
                | ir.For(target=target)
            ):
                written = list(_attributes(target))
            case _:
                continue
        found |= {
            attr.name
            for attr in written
            if isinstance(attr.obj, ir.Name) and attr.obj.id == first
        }
    return found


def _attributes(target: ir.Expr) -> Iterator[ir.Attr]:
    """The attributes that an assignment target writes, into an item of one included."""
    match target:
        case ir.Attr():
            yield target
        case ir.Subscript(obj=obj) | ir.Star(value=obj):
            yield from _attributes(obj)
        case ir.Sequence(items=items):
            for item in items:
                yield from _attributes(item)
        case _:
            pass


def _defined(node: ir.Class) -> Iterator[str]:
    for item in node.body:
        match item:
            case ir.Function(name=name):
                yield name
                if name in CONSTRUCTORS:
                    yield from sorted(_self_writes(item))
            case ir.Assign(targets=targets):
                yield from (t.id for t in targets if isinstance(t, ir.Name))
            case ir.AnnAssign(target=ir.Name(id=name)):
                yield name
            case _:
                pass


def last_name(expr: ir.Expr) -> str:
    """``c`` of ``a.b.c`` and of ``a.b.c[…]``; '' for anything else."""
    if isinstance(expr, ir.Subscript):
        return last_name(expr.obj)
    return (
        expr.id
        if isinstance(expr, ir.Name)
        else expr.name
        if isinstance(expr, ir.Attr)
        else ""
    )
