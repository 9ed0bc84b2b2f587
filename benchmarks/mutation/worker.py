"""One process that evaluates programs and mutants of them abstractly: jobs as JSON lines in, verdicts out.

A program's modules are given as text and imported through a finder of their own, so nothing is written anywhere. What
is called is every annotated function, with arguments made from its annotations, or what a driver says (see drivers).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import signal
import sys
import tempfile
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import jax

import shardtypes
from benchmarks.mutation import numbers
from benchmarks.mutation.drivers import DRIVERS, Calls
from benchmarks.mutation.promises import (
    PRIMES,
    CannotMake,
    Checks,
    Maker,
    described,
    instrumented,
)

#: A mutant that fails in one of these ways is no shape bug but a broken edit.
_NO_SHAPE_BUG = (NameError, SyntaxError, ImportError, AttributeError, UnboundLocalError)

_SECONDS = 90


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a program from its texts."""

    def __init__(self, sources: Mapping[str, bytes], checks: Checks | None) -> None:
        self.sources = sources
        self.checks = checks

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.sources:
            return None
        package = any(other.startswith(f"{name}.") for other in self.sources)
        return importlib.util.spec_from_loader(name, self, is_package=package)

    def exec_module(self, module: types.ModuleType) -> None:
        source = self.sources[module.__name__]
        if self.checks is None:
            code = compile(source, module.__name__, "exec")
        else:
            vars(module)["__checks__"] = self.checks
            code = compile(instrumented(source), module.__name__, "exec")
        exec(code, vars(module))


@contextmanager
def imported(
    sources: Mapping[str, bytes], checks: Checks | None
) -> Iterator[dict[str, types.ModuleType]]:
    """The program's modules, fresh; gone afterwards."""
    finder = _Modules(sources, checks)
    sys.meta_path.insert(0, finder)
    try:
        yield {name: importlib.import_module(name) for name in sources}
    finally:
        sys.meta_path.remove(finder)
        for name in sources:
            sys.modules.pop(name, None)


def calls(modules: Mapping[str, types.ModuleType]) -> Calls:
    """What to evaluate, by name; each takes the primes that sizes are made of."""
    found: Calls = {}
    for module in modules:
        if module in DRIVERS:
            return DRIVERS[module](modules)
    for module, loaded in modules.items():
        for name, value in vars(loaded).items():
            if (
                inspect.isroutine(value)
                and getattr(value, "__module__", None) == module
            ):
                found[f"{module}.{name}"] = lambda primes, f=value: _evaluate(f, primes)
    return found


def _evaluate(function: Callable[..., Any], primes: tuple[int, ...]) -> None:
    hints = typing.get_type_hints(inspect.unwrap(function))
    maker = Maker(primes)
    traced: dict[str, Any] = {}
    static: dict[str, Any] = {}
    if not any(_has_array(h) for h in hints.values()):
        raise CannotMake("no annotated array")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty and not _has_array(
            hints.get(parameter.name)
        ):
            continue
        made = maker.make(hints.get(parameter.name), parameter.name)
        (static if isinstance(made, int) else traced)[parameter.name] = made
    jax.eval_shape(lambda given: function(**given, **static), traced)


def _has_array(hint: Any) -> bool:
    if described(hint) is not None or hasattr(hint, "__shardtypes_pytree__"):
        return True
    return any(_has_array(a) for a in typing.get_args(hint))


def sharded_calls(
    modules: Mapping[str, types.ModuleType], wanted: Mapping[str, numbers.Outcome]
) -> Calls:
    """Calls that fail where eight devices do not compute what the original computes on one."""
    ready, tolerance = numbers.runs(modules)
    return {
        name: lambda primes, name=name, run=run: numbers.compare(
            run(2, 4), wanted[name], tolerance
        )
        for name, run in ready.items()
        if name in wanted
    }


def single_device(sources: Mapping[str, bytes]) -> dict[str, numbers.Outcome]:
    """What the original should give: the numbers of one device, the layouts of eight."""
    found = {}
    with imported(sources, None) as modules:
        for name, run in numbers.runs(modules)[0].items():
            try:
                found[name] = (
                    run(1, 1)[0],
                    run(2, 4)[1] if numbers.has_layouts(modules) else [],
                )
            except Exception as error:  # noqa: BLE001 - a helper that is no program of its own
                print(f"{name}: {_said(error)}", file=sys.stderr)
    return found


def limit(seconds: float) -> None:
    """Raise ``TimeoutError`` after so much time of the processors, however busy they are with others; 0 ends that."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def limited() -> None:
    """Have ``limit`` raise in this process."""

    def alarm(number: int, frame: object) -> None:
        raise TimeoutError(f"longer than {_SECONDS} s")

    signal.signal(signal.SIGPROF, alarm)


Verdict = tuple[str, str, list[tuple[str, int]]]
"""``right``, ``wrong``, or ``none`` for a failure that says nothing about shapes; why; the traceback's lines."""


def _outcome(
    call: Callable[[tuple[int, ...]], Any], sources: Mapping[str, bytes], times: int
) -> Verdict:
    for primes in PRIMES[:times]:
        limit(_SECONDS)
        try:
            call(primes)
        except (CannotMake, TimeoutError, *_NO_SHAPE_BUG) as error:
            return "none", _said(error), []
        except Exception as error:  # noqa: BLE001 - whatever JAX or a check raises is the answer
            return "wrong", _said(error), _lines(error, sources)
        finally:
            limit(0)
    return "right", "", []


def _said(error: Exception) -> str:
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:300]


def _lines(error: Exception, sources: Mapping[str, bytes]) -> list[tuple[str, int]]:
    """Where the program stood when it failed."""
    frames = traceback.walk_tb(error.__traceback__)
    return [
        (f.f_code.co_filename, n)
        for f, n in frames
        if f.f_code.co_filename in sources and n is not None
    ]


class Session:
    """The program that this process is about. ``way`` is how it is judged: ``promises`` (abstractly, annotations
    checked), ``bare`` (abstractly, by what the program itself checks) or ``numbers`` (on eight devices)."""

    def __init__(self, way: str, originals: Mapping[str, bytes]) -> None:
        self.way = way
        self.originals = originals
        self.wanted = single_device(originals) if way == "numbers" else {}

    def calls(self, modules: Mapping[str, types.ModuleType]) -> Calls:
        """What to evaluate."""
        return (
            sharded_calls(modules, self.wanted)
            if self.way == "numbers"
            else calls(modules)
        )

    @property
    def times(self) -> int:
        """How many assignments of sizes are tried."""
        return 1 if self.way == "numbers" else len(PRIMES)

    def baseline(self) -> dict[str, Any]:
        """Which calls succeed on the original, and which functions each of them runs."""
        checks = Checks()
        with imported(
            self.originals, None if self.way == "bare" else checks
        ) as modules:
            runs: dict[str, list[str]] = {}
            failed: dict[str, str] = {}
            for name, call in self.calls(modules).items():
                checks.entered.clear()
                verdict, why, _ = _outcome(call, self.originals, self.times)
                if verdict == "right":
                    runs[name] = sorted(checks.entered)
                else:
                    failed[name] = f"{verdict}: {why}"
            return {"runs": runs, "failed": failed}

    def judge(self, sources: Mapping[str, bytes], names: Sequence[str]) -> Verdict:
        """A mutant's verdict: the first of the named calls that fails."""
        limit(_SECONDS)
        try:
            with imported(sources, None if self.way == "bare" else Checks()) as modules:
                limit(0)
                ready = self.calls(modules)
                for name in names:
                    verdict = (
                        _outcome(ready[name], sources, self.times)
                        if name in ready
                        else ("none", "gone", [])
                    )
                    if verdict[0] != "right":
                        return verdict
        except (TimeoutError, *_NO_SHAPE_BUG) as error:
            return "none", _said(error), []
        except Exception as error:  # noqa: BLE001 - the import of a mutant raises what JAX raises
            return "wrong", _said(error), _lines(error, sources)
        finally:
            limit(0)
        return "right", "", []


def main() -> None:
    """Answer jobs until the input ends; the first one brings the original program."""
    first = first_job()
    with compiled_quickly() if first["way"] == "numbers" else nullcontext():
        session = Session(first["way"], encoded(first["sources"]))
        print(json.dumps(session.baseline() if first["baseline"] else {}), flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            print(
                json.dumps(session.judge(encoded(job["sources"]), job["calls"])),
                flush=True,
            )


def first_job() -> dict[str, Any]:
    """Make this process ready for jobs (eight CPU devices, limited in time, nothing checked by us); read the first."""
    limited()
    shardtypes.enabled(False)
    jax.config.update("jax_num_cpu_devices", 8)
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    return job


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """A mutant runs once on few numbers: no optimizations, and what it shares with the others is compiled once."""
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    with tempfile.TemporaryDirectory() as cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        yield


def encoded(sources: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in sources.items()}


if __name__ == "__main__":
    main()
