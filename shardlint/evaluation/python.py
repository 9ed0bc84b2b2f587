"""What a program may use of Python: builtins and a few modules of the standard library, all without effects."""

from __future__ import annotations

import abc
import argparse
import builtins
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import json
import math
import operator
import re
import string
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import LARGE, MARK, NAMES, Resolver, is_users
from shardlint.evaluation.outside import Outside, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import plain, whole

_PLAIN = """abs all any bool bytes callable chr complex dict divmod enumerate filter float frozenset hash hex id iter
len map max min next object oct ord pow range repr reversed round set slice sorted str sum zip
property classmethod staticmethod super
ArithmeticError AssertionError AttributeError Exception FileNotFoundError FloatingPointError ImportError IndexError
KeyError KeyboardInterrupt LookupError ModuleNotFoundError NameError NotImplementedError OSError OverflowError
RuntimeError StopIteration TimeoutError TypeError UserWarning DeprecationWarning ValueError Warning ZeroDivisionError
NotImplemented Ellipsis True False None""".split()


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor that refuses to be filled beyond all bounds."""

    def make(*args: Any) -> Any:
        if (
            args
            and isinstance(args[0], (range, bytes, int))
            and _length(args[0]) > LARGE
        ):
            raise NotEvaluable("a sequence beyond all bounds")
        if args and isinstance(
            args[0], (itertools.count, itertools.cycle, itertools.repeat)
        ):
            raise NotEvaluable("a sequence without end")
        return function(*args)

    return make


def _length(value: Any) -> int:
    return value if isinstance(value, int) else len(value)


class _Sequence(type):
    """Lets a bounded constructor stand for its class in ``isinstance``."""

    plain: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.plain)

    def __call__(cls, *args: Any) -> Any:
        return _bounded(cls.plain)(*args)

    def __getitem__(cls, item: Any) -> Any:
        return types.GenericAlias(cls.plain, item)

    def __iter__(cls) -> Iterator[Any]:
        """Python would ask ``__getitem__`` for one item after another, without end."""
        raise NotEvaluable(f"the items of {cls.plain.__name__}")

    def __mro_entries__(cls, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (cls.plain,)


def plain_class(value: Any) -> Any:
    """The class that a guarded constructor stands for: ``int`` as a dtype. Anything else is itself."""
    return value.plain if isinstance(value, _Sequence) else value


def _len(value: Any) -> int:
    """``len``, which keeps what is known of local sizes."""
    length = len(value)
    return plain(value.dims[0]) if isinstance(value, Array) else length


class _Int(_Sequence):
    """``int``, which keeps what is known of local sizes."""

    def __call__(cls, *args: Any) -> Any:
        return whole(args[0]) if len(args) == 1 else int(*args)


def _is_instance(value: Any, classes: Any) -> bool:
    given = classes if isinstance(classes, tuple) else (classes,)
    return any(_is_one(value, cls) for cls in given)


def _is_one(value: Any, cls: Any) -> bool:
    if isinstance(cls, tuple):
        return _is_instance(value, cls)
    if isinstance(cls, types.UnionType):
        return any(_is_one(value, one) for one in cls.__args__)
    if isinstance(cls, Outside):
        if cls.qualname in (
            "jax.Array",
            "jax.numpy.ndarray",
            "jax.core.Tracer",
            "jax.numpy.number",
        ):
            return isinstance(value, Array)
        if isinstance(value, (int, float, str, dict, list, tuple, Array, type(None))):
            return False
        raise NotEvaluable(f"whether something is a {cls.qualname}")
    if not isinstance(cls, type):
        raise NotEvaluable("isinstance of something that is no class")
    return isinstance(value, cls)


def _closed(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotEvaluable(f"{name}()")

    return refuse


def _silent(*args: Any, **kwargs: Any) -> None:
    """Print nothing."""


class Exit(NotEvaluable):
    """Ends the program as ``SystemExit`` does, which is no reason not to have evaluated it."""

    def __init__(self, *args: Any) -> None:
        super().__init__("")


def _type(*args: Any) -> Any:
    if len(args) != 1:
        raise NotEvaluable("a class that is made by type()")
    return Outside("jax.Array") if isinstance(args[0], Array) else type(args[0])


_HOLDERS = (argparse.Namespace, types.SimpleNamespace)
"""Classes whose objects have whatever attributes they are given."""


def _vars(*args: Any) -> dict[str, Any]:
    if len(args) == 1 and (isinstance(args[0], _HOLDERS) or is_users(args[0])):
        found: dict[str, Any] = vars(args[0])
        return found
    raise NotEvaluable("vars()")


class Builtins:
    """The builtins of guarded code; ``resolver`` finds attributes."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        names: dict[str, Any] = {
            name: getattr(builtins, name) for name in _PLAIN if hasattr(builtins, name)
        }
        names.update(
            {
                name: _closed(name)
                for name in "open eval exec compile __import__ globals locals input breakpoint dir".split()
            }
        )
        names.update(
            len=_len,
            int=_Int("int", (), {"plain": int}),
            list=_Sequence("list", (), {"plain": list}),
            tuple=_Sequence("tuple", (), {"plain": tuple}),
            bytearray=_closed("bytearray"),
            memoryview=_closed("memoryview"),
            print=_silent,
            isinstance=_is_instance,
            type=_type,
            getattr=self._get,
            hasattr=self._has,
            setattr=self.set_attribute,
            delattr=_closed("delattr"),
            vars=_vars,
            SystemExit=Exit,
            issubclass=_is_subclass,
            BaseException=Exception,
            __build_class__=_build_class,
            __name__="shardlint_evaluated",
        )
        self.names = names

    def _get(self, value: Any, name: str, *default: Any) -> Any:
        try:
            return self.resolver.attribute(value, name)
        except (AttributeError, NotEvaluable):
            if default and not isinstance(value, Outside):
                return default[0]
            raise

    def _has(self, value: Any, name: str) -> bool:
        try:
            self.resolver.attribute(value, name)
        except AttributeError:
            return False
        except NotEvaluable:
            if isinstance(value, Outside):
                raise
            return False
        return True

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """``value.name = new``, of objects of the program's own classes and of its functions."""
        is_settable = is_users(value) or isinstance(
            value, (types.FunctionType, *_HOLDERS)
        )
        if name.startswith("__") or not is_settable:
            raise NotEvaluable(
                f"the attribute {name} of a {type(value).__name__} is set"
            )
        setattr(value, name, new)


def _is_subclass(cls: Any, classes: Any) -> bool:
    if isinstance(cls, Outside) or isinstance(classes, Outside):
        raise NotEvaluable("issubclass of a class of a library")
    return issubclass(cls, classes)


def _build_class(function: Any, name: str, /, *bases: Any, **keywords: Any) -> Any:
    if keywords.keys() - {"metaclass", "frozen", "kw_only", "strict"}:
        raise NotEvaluable("a class with keywords")
    known = {
        key: value
        for key, value in keywords.items()
        if not isinstance(value, Outside) and key == "metaclass"
    }
    made = builtins.__build_class__(function, name, *bases, **known)
    setattr(made, MARK, True)
    setattr(made, NAMES, function.__globals__)
    return made


# --- modules of the standard library ------------------------------------------------------------------------------


_MODULES: dict[Any, tuple[str, str]] = {
    math: (
        "math",
        """acos acosh asin asinh atan atan2 atanh ceil comb copysign cos cosh degrees e erf erfc exp expm1
                   fabs floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma
                   log log10 log1p log2 modf nan perm pi pow prod radians remainder sin sinh sqrt tan tanh tau
                   trunc""",
    ),
    functools: (
        "functools",
        "partial reduce wraps lru_cache cache cached_property total_ordering cmp_to_key partialmethod",
    ),
    itertools: (
        "itertools",
        """accumulate chain combinations combinations_with_replacement compress count cycle
    dropwhile
                filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest""",
    ),
    operator: (
        "operator",
        """add sub mul truediv floordiv mod pow matmul neg pos and_ or_ xor not_ eq ne lt le gt ge
               itemgetter getitem contains index truth""",
    ),
    collections: ("collections", "OrderedDict defaultdict Counter deque ChainMap"),
    dataclasses: (
        "dataclasses",
        "dataclass field replace fields asdict astuple is_dataclass KW_ONLY InitVar MISSING",
    ),
    enum: ("enum", "Enum IntEnum Flag IntFlag auto unique StrEnum"),
    abc: ("abc", "ABC ABCMeta abstractmethod"),
    contextlib: ("contextlib", "contextmanager nullcontext suppress ExitStack"),
    copy: ("copy", "copy deepcopy"),
    re: ("re", "search match fullmatch findall sub split compile escape I IGNORECASE"),
    json: ("json", "dumps loads JSONDecodeError"),
    string: ("string", "ascii_letters ascii_lowercase ascii_uppercase digits"),
    typing: (
        "typing",
        "NamedTuple TYPE_CHECKING cast overload final no_type_check Protocol",
    ),
    types: ("types", "SimpleNamespace MappingProxyType"),
}
for _module, (_prefix, _names) in _MODULES.items():
    for _name in _names.split():
        if hasattr(_module, _name):
            provide(f"{_prefix}.{_name}")(getattr(_module, _name))
provide("typing_extensions.NamedTuple")(typing.NamedTuple)
for _name in ("Enum", "IntEnum", "Flag", "IntFlag", "StrEnum"):
    provide(f"enum.{_name}<base>")(getattr(enum, _name))
provide("typing.NamedTuple<base>")(typing.NamedTuple)
provide("typing.TypedDict<base>")(typing.TypedDict)
provide("typing_extensions.TypedDict<base>")(typing.TypedDict)
provide("abc.ABC<base>")(abc.ABC)
provide("typing.Protocol<base>")(object)
provide("typing_extensions.Protocol<base>")(object)
provide("typing.Generic[]")(lambda item: Outside("typing.Generic"))
provide("typing.Generic<base>")(object)


@provide("typing.TypeVar")
def _type_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    return Outside("typing.Any")


@provide("collections.namedtuple")
def _named_tuple(name: str, fields: Any, **options: Any) -> Any:
    made = collections.namedtuple(name, fields, **options)  # type: ignore[misc]  # as the program says
    setattr(made, MARK, True)
    return made


@provide("time.time")
@provide("time.perf_counter")
@provide("time.monotonic")
def _no_time() -> float:
    return 0.0


class Nothing:
    """Takes every call and every attribute, and does nothing: loggers, warnings, profilers."""

    is_value = True
    has_all_names = True

    def __call__(self, *args: Any, **kwargs: Any) -> Nothing:
        return self

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *args: object) -> None:
        return None


for _name in """logging warnings absl.logging jax.debug.print jax.debug.callback jax.debug.visualize_array_sharding
                jax.debug.inspect_array_sharding jax.config jax.named_scope jax.profiler jax.distributed tqdm.write
                jax.multihost_utils.sync_global_devices jax.multihost_utils.assert_equal wandb mlflow tensorboardX
                torch.utils.tensorboard clu.metric_writers
                jax.checkpoint_policies jax.effects_barrier pprint.pprint""".split():
    provide(_name)(Nothing())


class Bar(Nothing):
    """Goes over what it is given, and shows how far it is."""

    is_value = False

    def __init__(self, over: Any = (), *args: Any, **options: Any) -> None:
        self._over = over

    def __iter__(self) -> Iterator[Any]:
        return iter(self._over)


for _name in "tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.rich.tqdm".split():
    provide(_name)(Bar)
for _name in ("tqdm.trange", "tqdm.auto.trange"):
    provide(_name)(lambda *bounds, **options: Bar(range(*bounds)))


def methods(*allowed: str) -> Callable[[Any, str], Any]:
    """Attributes by name."""
    names = frozenset(name for text in allowed for name in text.split())

    def resolve(value: Any, name: str) -> Any:
        if name not in names:
            if not hasattr(type(value), name):
                raise AttributeError(
                    f"{type(value).__name__!r} object has no attribute {name!r}"
                )
            raise NotEvaluable(f"the attribute {name} of a {type(value).__name__}")
        return getattr(value, name)

    return resolve


def public(value: Any, name: str) -> Any:
    """Every attribute that is not hidden."""
    if name.startswith("_") and name not in (
        "_asdict",
        "_replace",
        "_fields",
        "__len__",
        "__getitem__",
        "__contains__",
    ):
        raise NotEvaluable(f"the attribute {name} of a {type(value).__name__}")
    return getattr(value, name)


def of_text(value: str, name: str) -> Any:
    """Methods of strings; ``format`` would read attributes without a guard."""
    if name in ("format", "format_map"):
        return lambda *args, **kwargs: _formatted(value, args, kwargs)
    return public(value, name)


def _formatted(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    if any("." in field or "[" in field for field in fields):
        raise NotEvaluable("a format with attributes")
    return text.format(*args, **kwargs)


def of_function(value: types.FunctionType, name: str) -> Any:
    if name in ("__name__", "__doc__", "__qualname__", "__wrapped__", "__module__"):
        return getattr(value, name)
    if name in vars(value):
        return vars(value)[name]
    if name == "__call__":
        return value
    raise AttributeError(f"'function' object has no attribute {name!r}")


def of_class(value: type, name: str) -> Any:
    """Attributes of classes: those of the program, and plain ones of Python's."""
    if is_users(value):
        if name in ("__dict__", "__subclasses__"):
            raise NotEvaluable(f"the attribute {name}")
        return getattr(value, name)
    if value in (dict, str, int, float, bytes, list, tuple, set) and name in (
        "fromkeys",
        "join",
        "maketrans",
        "__name__",
    ):
        return getattr(value, name)
    if name in ("__name__", "__qualname__", "from_iterable"):
        return getattr(value, name)
    raise NotEvaluable(f"the attribute {name} of the class {value.__name__}")


def register(resolver: Resolver) -> None:
    """Attributes of Python's own objects."""
    table = resolver.of_type
    containers: tuple[type, ...] = (
        list,
        dict,
        tuple,
        set,
        frozenset,
        collections.deque,
        bytes,
        range,
        slice,
        enum.Enum,
    )
    for kind in containers:
        table[kind] = public
    table[str] = of_text
    for cls in (int, float, complex):
        table[cls] = methods(
            "real imag conjugate is_integer bit_length bit_count as_integer_ratio hex"
        )
    table[types.FunctionType] = of_function
    table[types.BuiltinFunctionType] = methods("__name__")
    table[functools.partial] = methods("func args keywords")
    table[type] = of_class
    table[Nothing] = lambda value, name: value
    table[types.SimpleNamespace] = public
    table[types.MappingProxyType] = public
    table[property] = methods("setter getter deleter fget")
    table[type((lambda: (yield))())] = methods("send close throw")
    table[re.Pattern] = methods("search match fullmatch findall sub split pattern")
    table[re.Match] = methods("group groups start end span")
    table[Exception] = methods("args add_note")
    table[dataclasses.Field] = methods(
        "name type default default_factory metadata init"
    )
    table[itertools.chain] = methods("from_iterable")
    table[contextlib.ExitStack] = methods("enter_context close push callback")
