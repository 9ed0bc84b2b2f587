"""Every kind of callable that users decorate or that the hook meets: checked, or counted where nothing can look."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardtypes as st
from shardtypes import f32, typechecked
from tests.runtime.loading import OURS, load, outcome, run, sections

HEAD = """
import abc
import contextlib
import dataclasses
import functools
import typing
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Generic, NamedTuple, NotRequired, ParamSpec, Protocol, Self, TypedDict, TypeVar, TypeVarTuple, Unpack

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from jax import jit
from shardtypes import f32, pytree_dataclass

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Options(TypedDict):
    a: f32["N"]
    b: NotRequired[f32["N"]]


def logged(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        run.calls = getattr(run, "calls", 0) + 1
        return function(*args, **kwargs)
    return run


def timed(function):
    @functools.wraps(function)
    def run(*args, function=function, **kwargs):
        return function(*args, **kwargs), 1.0
    return run


def compiled(function):
    inner = jit(function)
    @functools.wraps(function)
    def run(*args):
        return inner(*args)
    return run


"""

# In each, call(x, y) calls it with arrays that must agree.
FORMS = """
#: function
@checked
def call(x: f32['N'], y: f32['N']):
    pass

#: positional and keyword only
@checked
def f(x: f32['N'], /, *, y: f32['N']):
    pass
call = lambda x, y: f(x, y=y)

#: default
@checked
def f(x: f32['N'], y: f32['N']=jnp.ones(4)):
    pass
call = lambda x, y: f(x) if len(y) == 4 else f(x, y)

#: args
@checked
def f(*xs: f32['N']):
    pass
call = lambda x, y: f(x, x, y)

#: kwargs
@checked
def f(**xs: f32['N']):
    pass
call = lambda x, y: f(a=x, b=y)

#: args of a tuple
@checked
def f(*xs: *tuple[f32['N'], f32['N']]):
    pass
call = f

#: args of a tuple, Unpack
@checked
def f(*xs: Unpack[tuple[f32['N'], ...]]):
    pass
call = f

#: args of any types
@checked
def f(x: f32['N'], *xs: *Ts) -> f32['N']:
    return xs[0]
call = f

#: kwargs of a typed dict
@checked
def f(x: f32['N'], **o: Unpack[Options]):
    pass
call = lambda x, y: f(x, a=x, b=y)

#: parameters of a callable
@checked
def f(x: f32['N'], g: Callable[P, f32['N']], *a: P.args, **k: P.kwargs) -> f32['N']:
    return g(*a, **k)
call = lambda x, y: f(x, lambda z: z, y)

#: lambda
from shardtypes import typechecked
call = lambda x, y: None
call.__annotations__ = dict(x=f32['N'], y=f32['N'])
call = typechecked(call)

#: partial
@checked
def f(x: f32['N'], y: f32['N']):
    pass
call = lambda x, y: functools.partial(f, x)(y)

#: partial, checked
def f(x: f32['N'], y: f32['N']):
    pass
call = lambda x, y: checked(functools.partial(f, x))(y)

#: bound method
class C:

    def m(self, x: f32['N'], y: f32['N']):
        pass
call = checked(C().m)

#: callable object
class C:
    w: int = 1

    def __call__(self, x: f32['N'], y: f32['N']):
        pass
call = checked(C())

#: coroutine
@checked
async def call(x: f32['N'], y: f32['N']):
    pass

#: generator
@checked
def call(x: f32['N'], y: f32['N']) -> Iterator[f32['N']]:
    yield x

#: yields
@checked
def call(x: f32['N'], y) -> Iterator[f32['N']]:
    yield y

#: asynchronous generator
@checked
async def call(x: f32['N'], y) -> AsyncIterator[f32['N']]:
    yield y

#: context manager
@contextlib.contextmanager
@checked
def f(x: f32['N'], y) -> Iterator[f32['N']]:
    yield y

def call(x, y):
    with f(x, y):
        pass

#: context manager, checked
@checked
@contextlib.contextmanager
def f(x: f32['N'], y) -> Iterator[f32['N']]:
    yield y

def call(x, y):
    with f(x, y):
        pass

#: wrapper
@checked
@logged
def call(x: f32['N'], y: f32['N']):
    pass

#: wrapper of a coroutine
@checked
@logged
async def call(x: f32['N'], y: f32['N']) -> f32['N']:
    return x

#: wrapper of a generator
@checked
@logged
def call(x: f32['N'], y: f32['N']) -> Iterator[f32['N']]:
    yield x

#: wrapper that returns something else
@checked
@timed
def call(x: f32['N'], y: f32['N']) -> f32['N']:
    return x

#: wrappers
@checked
@logged
@timed
@logged
def call(x: f32['N'], y: f32['N']) -> f32['N']:
    return x

#: wrapper of a compiled one
@checked
@compiled
def call(x: f32['N'], y: f32['N']):
    pass

#: jit
@checked
@jit
def call(x: f32['N'], y: f32['N']):
    pass

#: jit with options
@checked
@functools.partial(jit, donate_argnums=0)
def f(x: f32['N'], y: f32['N']):
    pass
call = lambda x, y: f(jnp.array(x), jnp.array(y))

#: wrapper, jit
@checked
@logged
@jit
def call(x: f32['N'], y: f32['N']):
    pass

#: remat
@checked
@jax.checkpoint
def call(x: f32['N'], y: f32['N']):
    return x

#: named_call
@checked
@jax.named_call
def call(x: f32['N'], y: f32['N']):
    return x

#: vmap
@checked
@jax.vmap
def f(x: f32['N'], y: f32['N']) -> f32['N']:
    return x
call = lambda x, y: f(x[None], y[None])

#: grad
@checked
@jax.grad
def call(x: f32['N'], y: f32['N']) -> f32['']:
    return x.sum()

#: value_and_grad
@checked
@jax.value_and_grad
def call(x: f32['N'], y: f32['N']) -> f32['']:
    return x.sum()

#: jacfwd
@checked
@jax.jacfwd
def call(x: f32['N'], y: f32['N']) -> f32['']:
    return x.sum()

#: custom_vjp
@checked
@jax.custom_vjp
def call(x: f32['N'], y: f32['N']):
    return x
call.defvjp(lambda x, y: (x, None), lambda _, g: (g, g))

#: custom_jvp
@checked
@jax.custom_jvp
def call(x: f32['N'], y: f32['N']):
    return x
call.defjvp(lambda p, t: (p[0], t[0]))

#: eqx.filter_jit
@checked
@eqx.filter_jit
def call(x: f32['N'], y: f32['N']):
    return x

#: nnx.jit
@checked
@nnx.jit
def call(x: f32['N'], y: f32['N']):
    return x

#: cache
@checked
@functools.cache
def f(n: int) -> f32['3']:
    return jnp.ones(n)
call = lambda x, y: (f(len(y)), f.cache_info())

#: singledispatch
@checked
@functools.singledispatch
def f(kind: object, x: f32['N']):
    pass

@f.register
@checked
def _(kind: int, x: f32['N'], y: f32['N']):
    pass
call = lambda x, y: f(1, x, y)

#: singledispatch, registered later
@checked
@functools.singledispatch
def f(kind: object):
    pass

@f.register(str)
def _(kind: str, x: f32['N'], y: f32['N']):
    pass
call = lambda x, y: f('', x, y)

#: overload
@typing.overload
def f(x: int, y: int):
    ...

@typing.overload
def f(x: str, y: str):
    ...

@checked
def f(x: f32['N'], y: f32['N']):
    pass
call = f

#: staticmethod
class C:

    @checked
    @staticmethod
    def m(x: f32['N'], y: f32['N']):
        pass
call = C.m

#: below staticmethod
class C:

    @staticmethod
    @checked
    def m(x: f32['N'], y: f32['N']):
        pass
call = C().m

#: classmethod
class C:

    @checked
    @classmethod
    def m(cls, x: f32['N'], y: f32['N']):
        pass
call = C.m

#: below classmethod
class C:

    @classmethod
    @checked
    def m(cls, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: method
class C:

    @checked
    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: property
class C:

    @checked
    @property
    def p(self) -> f32['3']:
        return self.v

def call(x, y):
    c = C()
    c.v = y
    c.p

#: property setter
class C:

    @property
    def p(self):
        pass

    @checked
    @p.setter
    def p(self, v: f32['3']):
        pass

def call(x, y):
    C().p = y

#: cached_property
class C:

    @checked
    @functools.cached_property
    def p(self) -> f32['3']:
        return self.v

def call(x, y):
    c = C()
    c.v = y
    assert c.p is c.p

#: below cached_property
class C:

    @functools.cached_property
    @checked
    def p(self) -> f32['3']:
        return self.v

def call(x, y):
    c = C()
    c.v = y
    assert c.p is c.p

#: partialmethod
class C:

    def m(self, x: f32['N'], y: f32['N']):
        pass
    p = checked(functools.partialmethod(m, y=jnp.ones(3)))
call = lambda x, y: C().p(y)

#: singledispatchmethod
class C:

    @checked
    @functools.singledispatchmethod
    def m(self, kind):
        pass

    @m.register
    def _(self, kind: int, x: f32['N'], y: f32['N']):
        pass
call = lambda x, y: C().m(1, x, y)

#: class
@checked
class C:

    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: class, static
@checked
class C:

    @staticmethod
    def m(x: f32['N'], y: f32['N']):
        pass
call = C().m

#: class, classmethod
@checked
class C:

    @classmethod
    def m(cls, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: class, nested
@checked
class C:

    class D:

        def m(self, x: f32['N'], y: f32['N']):
            pass
call = C.D().m

#: class, jit
@checked
class C:

    @functools.partial(jit, static_argnums=0)
    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: class, wrapper
@checked
class C:

    @logged
    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C().m

#: class, setter
@checked
class C:

    @property
    def p(self):
        pass

    @p.setter
    def p(self, v: f32['3']):
        pass

def call(x, y):
    C().p = y

#: class, cached_property
@checked
class C:

    @functools.cached_property
    def p(self) -> f32['3']:
        return self.v

def call(x, y):
    c = C()
    c.v = y
    assert c.p is c.p

#: class, partialmethod
@checked
class C:

    def m(self, x: f32['N'], y: f32['N']):
        pass
    p = functools.partialmethod(m, y=jnp.ones(3))
call = lambda x, y: C().p(y)

#: class, singledispatchmethod
@checked
class C:

    @functools.singledispatchmethod
    def m(self, kind):
        pass

    @m.register
    def _(self, kind: int, x: f32['N'], y: f32['N']):
        pass
call = lambda x, y: C().m(1, x, y)

#: class, __new__
@checked
class C:

    def __new__(cls, x: f32['N'], y: f32['N']):
        return object.__new__(cls)
call = C

#: class, __init__
@checked
class C:

    def __init__(self, x: f32['N'], y: f32['N']):
        pass
call = C

#: class, __call__
@checked
class C:

    def __call__(self, x: f32['N'], y: f32['N']):
        pass
call = C()

#: class, operator
@checked
class C:

    def __add__(self, y: f32['3']) -> f32['3']:
        return y
call = lambda x, y: C() + y

#: generic class
@checked
class C(Generic[T]):

    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C[int]().m

#: abstract class
@checked
class A(abc.ABC):

    @abc.abstractmethod
    def m(self, x: f32['N'], y: f32['N']):
        pass

class C(A):

    @checked
    def m(self, x: f32['N'], y: f32['N']):
        return super().m(x, x)
call = C().m

#: protocol with a body
@checked
class A(Protocol):

    def m(self, x: f32['N'], y: f32['N']):
        pass

class C(A):
    pass
call = C().m

#: class of a function
def make():

    @checked
    class C:

        def m(self, x: f32['N'], y: f32['N']):
            pass
    return C()
call = make().m

#: pytree_dataclass
@checked
@pytree_dataclass
class C:
    w: f32['M']

    def m(self, x: f32['N'], y: f32['N']):
        pass
call = lambda x, y: jax.tree.map(lambda w: None, C(jnp.ones(5))) and C(jnp.ones(5)).m(x, y)

#: equinox
class C(eqx.Module):
    w: jax.Array

    @checked
    def __call__(self, x: f32['N'], y: f32['N']):
        return x
call = lambda x, y: C(x)(x, y)

#: linen
class C(nn.Module):

    @checked
    @nn.compact
    def __call__(self, x: f32['N'], y: f32['N']):
        return nn.Dense(3)(x)
call = lambda x, y: C().init(jax.random.key(0), x, y)

#: nnx
class C(nnx.Module):

    def __init__(self, rngs):
        self.d = nnx.Linear(3, 3, rngs=rngs)

    @checked
    def __call__(self, x: f32['N'], y: f32['N']):
        return self.d(x)
call = lambda x, y: C(nnx.Rngs(0))(x, y)
"""

# Those of which the decorator says that they hide the function; the hook stands below them.
HIDDEN = """
#: jit of a wrapper
@checked
@jit
@logged
def call(x: f32['N'], y: f32['N']):
    pass

#: pmap
@checked
@jax.pmap
def f(x: f32['N'], y: f32['N']):
    return x
call = lambda x, y: f(x[None], y[None])

#: two ways to the function
def both(function):
    g = jit(function)

    @functools.wraps(function)
    def run(*args):
        return (function, g)[1](*args)
    return run

@checked
@both
def call(x: f32['N'], y: f32['N']):
    pass

#: a function of another name
def other(function):
    REGISTRY.append(function)

    @functools.wraps(function)
    def run(*args):
        return REGISTRY[0](*args)
    return run
REGISTRY = []

@checked
@other
def call(x: f32['N'], y: f32['N']):
    pass

#: descriptor of another kind
class Lazy:

    def __init__(self, func):
        self.func = func

    def __get__(self, obj, cls=None):
        return functools.partial(self.func, obj)

@checked
class C:

    @Lazy
    def m(self, x: f32['N'], y: f32['N']):
        pass
call = C().m
"""


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("form", sections(FORMS))
def test_each_form_is_checked(tmp_path: Path, form: str, way: str) -> None:
    call = load(tmp_path, HEAD + sections(FORMS)[form], way).call
    x = jnp.ones(3)
    run(call, x, x)
    assert outcome(lambda: run(call, x, jnp.ones(4))) == "alarm"


@pytest.mark.parametrize("form", sections(HIDDEN))
def test_what_hides_a_function_from_the_decorator_is_counted(
    tmp_path: Path, form: str
) -> None:
    x = jnp.ones(3)
    source = HEAD + sections(HIDDEN)[form]
    assert (
        outcome(
            lambda: run(
                load(tmp_path, source, "shardtypes.typechecked").call, x, jnp.ones(1)
            )
        )
        == "count"
    )
    assert (
        outcome(lambda: run(load(tmp_path, source, OURS[1]).call, x, jnp.ones(1)))
        == "alarm"
    )
    run(load(tmp_path, source, OURS[1]).call, x, x)


def test_wrappers_keep_their_attributes(tmp_path: Path) -> None:
    both = sections(FORMS)["wrapper"] + sections(FORMS)["jit"].replace(
        "call", "fast"
    ).replace("pass", "return x")
    module = load(tmp_path, HEAD + both, "shardtypes.typechecked")
    x = jnp.ones(3)
    module.call(x, x)
    module.call(x, x)
    assert module.call.calls == 2 and module.call.__name__ == "call"
    assert "tensor<3xf32>" in module.fast.lower(x, x).as_text()
    assert list(inspect.signature(module.fast).parameters) == ["x", "y"]


@dataclasses.dataclass
class Plain:
    x: f32["N"]
    y: f32["N"]
    n: int = 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Tree(Plain):
    pass


def test_a_class_checks_its_fields_where_one_is_made() -> None:
    x = jnp.ones(3)
    for cls in (typechecked(Plain), typechecked(Tree)):
        assert outcome(lambda cls=cls: cls(x, x)) == "silence"
        assert outcome(lambda cls=cls: cls(x, jnp.ones(4))) == "alarm"
    assert outcome(lambda: Plain(x, x, n="text")) == "alarm"
    # JAX puts other things in the fields
    assert jax.tree.map(jnp.shape, Tree(x, x)).x == (3,)


WRITTEN = """
import dataclasses
from shardtypes import f32, typechecked

@typechecked
@dataclasses.dataclass(init=False)
class C:
    x: f32["N"]
    def __init__(self, x: f32["N"], y: f32["N"]) -> None:
        self.x = x

@typechecked
@dataclasses.dataclass
class WithParameter:
    x: f32["N"]
    y: dataclasses.InitVar[f32["N"]]
"""


def test_a_constructor_that_is_written_is_checked_as_such() -> None:
    names: dict[str, Any] = {"__name__": __name__}
    # as a console runs it, and "python -c"
    assert outcome(lambda: exec(WRITTEN, names)) == "count"
    # its source is not there: what it assigns to attributes is counted
    assert outcome(lambda: names["C"](jnp.ones(3), jnp.ones(3))) == "count"
    assert outcome(lambda: names["C"](jnp.ones(3), jnp.ones(3))) == "silence"
    assert outcome(lambda: names["C"](jnp.ones(3), jnp.ones(4))) == "alarm"


@pytest.mark.parametrize("base", ["object", "typing.Protocol", "TypedDict"])
def test_fields_that_are_not_checked_where_one_is_made_are_counted(
    tmp_path: Path, base: str
) -> None:
    head = (
        "import typing\nfrom typing import NamedTuple, TypedDict\nimport equinox as eqx\n"
        "from shardtypes import f32, pytree_dataclass\n"
    )
    body = "class C:\n    x: f32['N']\n"
    source = head + body.replace("C", f"C({base})")
    assert outcome(lambda: load(tmp_path, source, OURS[1])) == "count"
    assert (
        outcome(lambda: load(tmp_path, source.replace("f32['N']", "int"), OURS[1]))
        == "silence"
    )
    assert (
        outcome(lambda: load(tmp_path, f"{head}@pytree_dataclass\n{body}", OURS[1]))
        == "silence"
    )
    for checked in ("NamedTuple", "eqx.Module"):
        assert (
            outcome(
                lambda base=checked: load(
                    tmp_path, head + body.replace("C", f"C({base})"), OURS[1]
                )
            )
            == "silence"
        )


def test_self_is_the_class_of_the_method(tmp_path: Path) -> None:
    source = (
        f"{HEAD}@checked\nclass C:\n    def m(self, other: Self) -> Self: return self\n"
        "    @classmethod\n    def c(cls) -> list[Self]: return [cls()]\nclass D(C): pass\n"
    )
    for way in OURS:
        module = load(tmp_path, source, way)
        module.C().m(module.D())
        module.D.c()
        assert outcome(lambda module=module: module.C().m(3)) == "alarm"


def test_what_is_no_function_is_refused() -> None:
    for wrong in (3, "f"):
        with pytest.raises(
            TypeError, match="typechecked needs a function or a class, got"
        ):
            typechecked(wrong)
    assert typechecked(len) is len


def decorated_later(function: Callable[..., Any]) -> Any:
    return typechecked(function)


def test_checks_are_made_once() -> None:
    calls = []

    @typechecked
    @typechecked
    def f(x: f32["N"]) -> f32["N"]:
        calls.append(x)
        return x

    assert typechecked(f) is f and decorated_later(f) is f
    with st.Scope():
        f(jnp.ones(3))
        typechecked(scope=True)(f)(jnp.ones(4))
    assert len(calls) == 2
