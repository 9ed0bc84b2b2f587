"""Calls do not share names; a function sees those of the function around it, in the very call that defined it."""

from __future__ import annotations

import contextlib
import functools
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardtypes as st
from shardtypes import f32
from tests.runtime.loading import OURS, WAYS, load, outcome, sections

HEAD = """
from __future__ import annotations
import functools
import jax
import jax.numpy as jnp
from shardtypes import check, f32
"""

CALLS = """
@checked
def norm(x: f32['B M']) -> f32['B M']:
    return x / x.sum()

@checked
def rope(x: f32['B L H D']) -> f32['B L H D']:
    return x

@checked
def generate(steps: int) -> int:
    norm(jnp.ones((7, 4)))
    norm(jnp.ones((1, 4)))
    return steps

@checked
def attend(q: f32['B L H D'], k: f32['B L K D']) -> f32['B L H D']:
    rope(k)
    return rope(q)

@checked
def accumulate(x: f32['B M']) -> f32['']:
    return sum(norm(part).sum() for part in jnp.split(x, [2, 3]))

@checked
def recurse(x: f32['B']) -> f32['']:
    return x.sum() if len(x) == 1 else recurse(x[1:])
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_callee_may_mean_another_size_by_a_name(tmp_path: Path, way: str) -> None:
    module = load(tmp_path, HEAD + CALLS, way)
    module.generate(1)
    module.attend(jnp.ones((2, 3, 8, 4)), jnp.ones((2, 3, 2, 4)))
    module.accumulate(jnp.ones((6, 4)))
    module.recurse(jnp.ones(4))
    jax.jit(module.attend)(jnp.ones((2, 3, 8, 4)), jnp.ones((2, 3, 2, 4)))
    for expected, call in (
        ("alarm", lambda: module.generate(1)),
        (
            "alarm",
            lambda: module.attend(jnp.ones((2, 3, 8, 4)), jnp.ones((2, 3, 2, 4))),
        ),
        (
            "silence",
            lambda: module.attend(jnp.ones((2, 3, 8, 4)), jnp.ones((2, 3, 8, 4))),
        ),
    ):
        with st.Scope():
            assert outcome(call) == expected


# Bodies of a function of x, which is f32['B'], and y: right where both are of the same size.
INSIDE = """
#: result

@checked
def inner(y: f32['C']) -> f32['B']:
    return y
return inner(y)

#: variable

@checked
def inner(y):
    h: f32['B'] = y
inner(y)

#: expression

@checked
def inner(y: f32['C']) -> f32['2*B']:
    return jnp.concatenate([y, y])
return inner(y)

#: nested twice

def middle():

    @checked
    def inner(y: f32['C']) -> f32['B']:
        return y
    return inner
return middle()(y)

#: in a method

class C:

    @checked
    def inner(self, y: f32['C']) -> f32['B']:
        return y
return C().inner(y)

#: in a lambda
inner = lambda y: part(y)

@checked
def part(y: f32['C']) -> f32['B']:
    return y
return inner(y)

#: yielded

@checked
def inner(y: f32['C']):
    h: f32['B'] = y
    yield h
return list(inner(y))

#: traced

@checked
def inner(y: f32['C']) -> f32['B']:
    return y
return jax.jit(inner)(y)

#: scan

@checked
def inner(c, y: f32['C']) -> tuple[jax.Array, f32['B']]:
    return (c, y)
return jax.lax.scan(inner, 0, y[None])

#: vmap

@checked
def inner(y: f32['C']) -> f32['B']:
    return y
return jax.vmap(inner)(y[None])

#: grad

@checked
def inner(y: f32['C']) -> f32['']:
    h: f32['B'] = y
    return h.sum()
return jax.grad(inner)(y)

#: from a variable
h: f32['D'] = x

@checked
def inner(y: f32['C']) -> f32['D']:
    return y
return inner(y)

#: called after it returned

@checked
def inner(y: f32['C']) -> f32['B']:
    return y
return inner

#: by hand

def inner(y):
    check(f32, 'B', y)
inner(y)

#: by hand, in a comprehension
[check(f32, 'B', z) for z in [y]]

#: by hand, in a scan

def inner(c, y):
    check(f32, 'B', y)
    return (c, y)
return jax.lax.scan(inner, 0, y[None])

#: isinstance
if not isinstance(y, f32['B']):
    check(f32, 'B', y)
"""


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("name", sections(INSIDE))
def test_a_function_sees_the_names_of_the_function_around_it(
    tmp_path: Path, name: str, way: str
) -> None:
    body = textwrap.indent(sections(INSIDE)[name], "    ")
    source = f"{HEAD}@checked\ndef call(x: f32['B'], y):\n{body}"
    call = load(tmp_path, source, way).call

    def run(x: Any, y: Any) -> None:
        result = call(x, y)
        if name == "called after it returned":
            call(jnp.ones(7), y)
            result(y)

    assert outcome(lambda: run(jnp.ones(3), jnp.ones(3))) == "silence"
    assert outcome(lambda: run(jnp.ones(3), jnp.ones(4))) == "alarm"


def test_the_functions_own_parameters_come_first() -> None:
    """As in the linter: what a call gives a parameter is matched with the signature alone."""

    @st.typechecked
    def outer(x: f32["B M"]) -> f32["B"]:
        @st.typechecked
        def part(y: f32["B"], z: f32["2*B"]) -> f32["B"]:
            h: f32["B"] = y
            return h

        assert part(x[0], jnp.concatenate([x[0], x[0]])).shape == x[0].shape
        return part(x[:, 0], jnp.ones(2 * len(x)))

    outer(jnp.ones((2, 3)))


def test_an_expression_of_a_parameter_that_only_the_function_around_it_could_settle_is_counted() -> (
    None
):
    @st.typechecked
    def outer(x: f32["B"], y: jax.Array) -> None:
        @st.typechecked
        def inner(y: f32["2*B"]) -> None: ...

        inner(y)

    assert outcome(lambda: outer(jnp.ones(3), jnp.ones(6))) == "count"
    assert outcome(lambda: outer(jnp.ones(3), jnp.ones(5))) == "count"


def test_each_call_has_functions_of_its_own() -> None:
    @st.typechecked
    def recursive(x: f32["B"], first: Callable[[Any], Any] | None = None) -> None:
        @st.typechecked
        def inner(y: f32["C"]) -> f32["B"]:
            return y

        def by_hand(y: jax.Array) -> None:
            x.sum()
            st.check(f32, "B", y)

        inner(x)
        if first is not None:
            first(jnp.ones(4))  # defined in the call around this one
            assert outcome(lambda: first(jnp.ones(2))) == "alarm"
        if len(x) > 2:
            recursive(x[2:], inner)
            recursive(x[2:], by_hand)
        inner(x)

    recursive(jnp.ones(4))


def test_a_call_of_the_bare_function_inside_of_a_checked_one_has_no_names() -> None:
    def bare(x: f32["B"]) -> None:
        @st.typechecked
        def inner(y: f32["C"]) -> f32["B"]:
            return y

        inner(x)
        st.check(f32, "B", x)
        if len(x) > 2:
            bare(x[2:])  # not checked

    st.typechecked(bare)(jnp.ones(4))


def test_checks_by_hand_in_a_helper_are_its_own() -> None:
    def helper(y: jax.Array) -> None:
        st.check(f32, "B", y)
        st.check_size("B", 100)

    @st.typechecked
    def outer(x: f32["B M"]) -> None:
        helper(x[0])
        helper(x[:, 0])
        st.check_size("B", 2)
        with pytest.raises(
            st.ShapeError, match="check_size: M is 4, expected 3, bound by outer"
        ):
            st.check_size("M", 4)

    outer(jnp.ones((2, 3)))


def test_threads_see_the_names_of_the_function_around_theirs() -> None:
    @st.typechecked
    def outer(x: f32["B"], wrong: int = 0) -> list[str]:
        @st.typechecked
        def inner(y: f32["C"]) -> f32["B"]:
            return y

        said: list[str] = []
        threads = [
            threading.Thread(
                target=lambda: said.append(
                    outcome(lambda: inner(jnp.ones(len(x) + wrong)))
                )
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said

    assert outer(jnp.ones(3)) == ["silence"] * 4
    assert outer(jnp.ones(3), 1) == ["alarm"] * 4


def test_functions_made_elsewhere_are_not_inside() -> None:
    def make() -> Any:
        @st.typechecked
        def made(y: f32["C"]) -> f32["B"]:
            return y

        return made

    def helper(y: f32["C"]) -> f32["B"]:
        return y

    @st.typechecked
    def outer(x: f32["B"]) -> None:
        make()(x[1:])
        st.typechecked(helper)(x[1:])
        st.typechecked(functools.partial(helper))(x[1:])

    outer(jnp.ones(3))


def test_a_scope_inside_hides_the_names_outside() -> None:
    @st.typechecked
    def outer(x: f32["B"]) -> None:
        with st.Scope() as scope:
            st.check(f32, "B", x[1:])
            assert scope.sizes == {"B": len(x) - 1}
        st.check(f32, "B", x)

    outer(jnp.ones(3))


def test_generators_define_functions_between_what_they_yield() -> None:
    @st.typechecked
    def outer(x: f32["B"]) -> Iterator[Callable[[Any], Any]]:
        for _ in range(2):

            @st.typechecked
            def inner(y: f32["C"]) -> f32["B"]:
                return y

            yield inner

    for short, long in zip(outer(jnp.ones(2)), outer(jnp.ones(3)), strict=True):
        short(jnp.ones(2))
        long(jnp.ones(3))
        assert outcome(lambda short=short: short(jnp.ones(3))) == "alarm"


def test_context_managers_and_failed_calls_leave_nothing_open() -> None:
    @contextlib.contextmanager
    @st.typechecked
    def opened(x: f32["B"]) -> Iterator[f32["B"]]:
        yield x

    @st.typechecked
    def outer(x: f32["B"]) -> f32["B"]:
        with opened(x[1:]):
            st.check(f32, "B", x)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        outer(jnp.ones(3))
    assert not list(st.scopes.open_tables())
