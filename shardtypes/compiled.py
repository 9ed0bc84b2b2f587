"""Shardings that only the compiler knows: values inside ``jit`` on Auto mesh axes.

The trace says nothing about them, and a call with another sharding compiles again without another trace. So wherever
``jit`` is about to compile a function in which such a check was met, the function is first traced once more with the
questions in it and given to the compiler, which is stopped as soon as it has answered: it decides shardings long before
it makes code. What differs is collected and raised there, before anything runs. The executable that the user calls has
no trace of this. ``SHARDTYPES_COMPILE=0`` in the environment turns it off: then every value that was not compared is
counted.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax

# no public one in the oldest JAX that we support
from jax._src.tree_util import broadcast_prefix

from shardtypes import _stats
from shardtypes.errors import ShardingError, ShardTypeError
from shardtypes.sites import Site
from shardtypes.switches import checks_on


class AllAnswered(Exception):
    """Stops the compiler."""


class Collector:
    """What the compiler's answers showed to be wrong, gathered from whatever thread it compiles on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.errors: list[ShardingError] = []
        self.asked = 0
        self.answered = 0
        # How often each question has yet to be answered, by its name, in the program that is being compiled.
        self._due: dict[str, float] = {}
        self.is_stopped = False
        # What takes the answer to each question, by its name, and for which devices the program is compiled.
        self.takers: dict[str, Callable[[Any], None]] = {}
        self.devices: tuple[Any, ...] = ()
        #: The compiler's answers in the program that was compiled last: the name of a question, and the sharding.
        self.given: list[tuple[str, Any]] = []
        # Tracers by identity; they are kept so that no other object gets their address.
        self._kept: list[Any] = []
        self._arguments: set[int] = set()
        self._free: set[int] = set()
        self._results: set[int] = set()
        self._decided: dict[int, Any] = {}
        self.constrains_results = False
        #: The only trace that may have questions in it; None for each that is made while they are asked.
        self.trace: Any = None

    def may_ask_in(self, trace: Any) -> bool:
        """Whether a trace may have questions in it. JAX uses others again, in programs that run."""
        return self.trace is None or self.trace is trace

    def add(self, error: ShardingError | None) -> None:
        """Note one answer."""
        with self._lock:
            self.answered += 1
            if error is not None:
                self.errors.append(error)

    def expect(self, due: Mapping[str, float]) -> None:
        """Stop the compiler once it has answered each question so many times."""
        self._due = dict(due)
        self.given = []
        self.is_stopped = False

    def add_question(
        self, name: str, taker: Callable[[Any], None], devices: tuple[Any, ...]
    ) -> None:
        """Note who takes the answer to a question, and for which devices the program with it is compiled."""
        self.takers[name] = taker
        self.devices = devices

    def note_answer(self, question: str, sharding: Any) -> None:
        """Note that a question was answered. Raises ``AllAnswered`` where it was the last one that was expected."""
        with self._lock:
            self.given.append((question, sharding))
            left = self._due.get(question, 0) - 1
            if left > 0:
                self._due[question] = left
            elif left == 0:
                del self._due[question]
                self.is_stopped = not self._due
            if self.is_stopped:
                raise AllAnswered

    def arguments(self, tree: Any, given: Any) -> None:
        """Note the traced arguments of the program, and what was given for them."""
        leaves = jax.tree_util.tree_leaves(tree)
        self._kept += leaves
        self._arguments.update(id(leaf) for leaf in leaves)
        values = jax.tree_util.tree_leaves(given)
        if len(values) == len(leaves):
            self._free.update(
                id(leaf)
                for leaf, value in zip(leaves, values, strict=True)
                if not getattr(
                    value, "committed", isinstance(value, jax.ShapeDtypeStruct)
                )
            )

    def is_free(self, value: Any) -> bool:
        """Whether a value is an argument that nobody placed, so that the compiler may choose its sharding."""
        return id(value) in self._free

    def results(self, tree: Any, out_shardings: Any) -> None:
        """Note the traced results and the ``out_shardings`` that place them, a prefix of their tree."""
        leaves = jax.tree_util.tree_leaves(tree)
        self._kept += leaves
        self._results.update(id(leaf) for leaf in leaves)
        placed = [
            x
            for x in jax.tree_util.tree_leaves(out_shardings)
            if isinstance(x, jax.sharding.Sharding)
        ]
        if not placed:
            return
        self.constrains_results = True
        if isinstance(out_shardings, jax.sharding.Sharding):
            shardings = [out_shardings] * len(leaves)
        else:
            shardings = broadcast_prefix(out_shardings, tree)
        self._decided.update(
            (id(leaf), sharding)
            for leaf, sharding in zip(leaves, shardings, strict=True)
            if isinstance(sharding, jax.sharding.Sharding)
        )

    def is_result(self, value: Any) -> bool:
        """Whether a value leaves the program."""
        return id(value) in self._results

    def placement(self, value: Any, site: Site, reported: Any) -> Any:
        """How a value is sharded: as ``out_shardings`` say, if it is a result; None where nothing is certain."""
        is_argument = id(value) in self._arguments
        if not is_argument or site.role.startswith("the result"):
            decided = self._decided.get(id(value))
            if decided is not None:
                return decided
        if not is_argument and self.constrains_results and reported.is_fully_replicated:
            return None  # moved to where the results belong only at the border
        return reported

    def raise_first(self) -> None:
        """Raise what was found, the others as notes of the first."""
        __tracebackhide__ = True
        if not self.errors:
            return
        first, *others = self.errors
        for other in others:
            first.add_note(f"also: {other}")
        raise first


# A new value is a new part of JAX's cache keys: what was traced before inside of a function is traced again, with the
# questions in it.
_retraced = jax.make_user_context(None)
_traces = itertools.count(1)

_collector: ContextVar[Collector | None] = ContextVar(
    "shardtypes_compile_checks", default=None
)
# Set where programs are compiled to be looked at, which do not run.
looking: ContextVar[bool] = ContextVar("shardtypes_looking", default=False)


#: What gathers the answers of the checking compile that is under way.
collector_in_force = _collector.get


def asking() -> bool:
    """Whether a checking compile is under way."""
    return _collector.get() is not None


@contextmanager
def without_questions() -> Iterator[None]:
    """Compile programs in the block without checking them: to look at what the compiler made of them."""
    token = looking.set(True)
    try:
        yield
    finally:
        looking.reset(token)


@contextmanager
def questions(function: Any, inside: bool) -> Iterator[Collector | None]:
    """Ask the compiler about everything that is traced in the block, for a function's sake; None where that is off.

    Unless there are checks in programs ``inside`` of it, JAX may use again what it traced of those.
    """
    if not checks_on():
        _stats.count_not_possible("compiled while checks were off")
        yield None
        return
    begun = time.perf_counter()
    collector = Collector()
    token = _collector.set(collector)
    try:
        with _retraced(next(_traces)) if inside else nullcontext():
            yield collector
    finally:
        _collector.reset(token)
        name = str(getattr(function, "__qualname__", function)).rpartition("<locals>.")[
            2
        ]
        _stats.spend(
            f"{getattr(function, '__module__', '')}.{name}", time.perf_counter() - begun
        )


def quick_options() -> dict[str, str | bool] | None:
    """How to compile what is never run: shardings are decided before the processor's code is made better."""
    if jax.default_backend() != "cpu":  # other compilers know other options
        return None
    return {
        "xla_backend_optimization_level": "0",
        "xla_llvm_disable_expensive_passes": True,
    }


@contextmanager
def counted_failures() -> Iterator[None]:
    """Count a checking compile that fails: JAX compiles the program itself next, and says what is wrong with it."""
    try:
        yield
    except ShardTypeError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        _stats.count_not_possible(
            f"the checking compile failed: {type(error).__name__}"
        )


def finish(collector: Collector) -> None:
    """Raise what was found wrong, and count what was not answered."""
    __tracebackhide__ = True
    if collector.answered < collector.asked:
        _stats.count_not_possible("the compiler did not report the sharding of a value")
    collector.raise_first()
