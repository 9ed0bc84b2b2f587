"""The work on single files, in this process or in several."""

from __future__ import annotations

import gc
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias, TypeVar

from shardlint import ir, messages
from shardlint.config import Config
from shardlint.deep import again_with_room
from shardlint.folding import NESTED
from shardlint.found import Found
from shardlint.imports import imported
from shardlint.lower_ast import read_module
from shardlint.outline import Outline, outline
from shardlint.project import Project
from shardlint.syntax import UnparsableFile
from shardlint.walking import walk
from shardtypes.lang.frozen import frozen

#: Below this much new source text, starting processes costs more than it saves.
PARALLEL_BYTES = 200_000

T = TypeVar("T")
R = TypeVar("R")
Summary: TypeAlias = tuple[tuple[str, ...], tuple[ir.Suppression, ...], Outline]
"""What a file imports, its suppression comments, and its outline."""


@frozen
class State:
    """What every worker process needs to analyse a file."""

    project: Project
    sources: Mapping[str, tuple[bytes, bool]]
    config: Config
    show_types: bool
    arrays: bool = False


def each(
    work: Callable[[T], R],
    tasks: Sequence[T],
    jobs: int,
    size: int,
    state: State | None = None,
) -> Iterator[R | None]:
    """``work`` of every task, in order; None for those that a dying process took along."""
    global _STATE
    if jobs == 1 or len(tasks) < 2 or size < PARALLEL_BYTES:
        _STATE = state
        with _few_collections():
            yield from map(work, tasks)
        _STATE = None
        return
    # these take a tenth of the time that the program takes to start
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    method = (
        "fork"
        if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix"
        else "spawn"
    )
    context = multiprocessing.get_context(method)
    done = 0
    others = set(multiprocessing.active_children())
    try:
        with (
            _ending_when_terminated(),
            ProcessPoolExecutor(
                min(jobs, len(tasks)), context, _begin, (state,)
            ) as pool,
        ):
            chunk = max(1, len(tasks) // (8 * jobs))
            try:
                for task, result in zip(
                    tasks,
                    pool.map(partial(_sendable, work), tasks, chunksize=chunk),
                    strict=True,
                ):
                    done += 1
                    yield pickle.loads(result) if result is not None else work(task)
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                # leaving waits for the workers, which nobody wants to
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        for _ in range(len(tasks) - done):
            yield None


@contextmanager
def _ending_when_terminated() -> Iterator[None]:
    """In the block, a request to end raises, as an interrupt does, so that workers are not left behind. A program that
    handles it itself is left alone."""
    import signal
    import threading

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _sendable(work: Callable[[T], R], task: T) -> bytes | None:
    """The result of a task as it is sent to the process that waits for it; None where it is nested too deeply, so that
    it has to be made there."""
    result = work(task)
    try:
        return again_with_room(lambda: pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    except RecursionError:
        return None


_STATE: State | None = None


def _begin(state: State | None) -> None:
    """The first that a worker does. An interrupt ends it without a word: the process that waits for it tells."""
    import signal  # which only a run with workers needs

    global _STATE
    _STATE = state
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # as in _few_collections, for the life of the process


@contextmanager
def _few_collections() -> Iterator[None]:
    """Trees have no cycles; looking for cycles in them takes a fifth of the time. ``_tidy`` does it now and then."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _collecting_cycles() -> Iterator[None]:
    """In the block, cycles are looked for among what it makes: programs that are run, unlike trees, have some, which
    hold their arrays."""
    enabled = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not enabled:
            gc.disable()


_tasks_done = 0


def _tidy() -> None:
    """Collect the cycles among what the last files left, and give memory back."""
    global _tasks_done
    _tasks_done += 1
    if _tasks_done % 32 == 0 and not gc.isenabled():
        gc.collect(1)
        _give_back()


def _give_back() -> None:
    """Give the system the memory that trees of libcst took. What is kept of a file lies between what is not, so glibc
    would hold on to more than half of all that it ever had."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's function; None with another allocator."""
    try:
        import ctypes  # not in every build of Python

        return ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def lower_one(
    task: tuple[bytes, str, str, bool],
) -> tuple[ir.Module, Summary] | UnparsableFile:
    """Lower a file, given by its text, module name, path to show, and whether it is a package."""

    def lowered() -> tuple[ir.Module, Summary]:
        module = read_module(*task)
        return module, (imported(module), module.suppressions, outline(module))

    try:
        return again_with_room(lowered)
    except UnparsableFile as error:
        return error
    finally:
        _tidy()


def analyse_one(name: str) -> Found:
    """What is found in one module of the project."""
    state = _STATE
    assert state is not None
    start = time.process_time()
    try:
        found = again_with_room(lambda: _analysed(name, state))
        return replace(found, seconds=time.process_time() - start)
    except RecursionError:
        path = state.project.modules[name].path
        return Found(gaps=((messages.too_deep_to_follow(path), 1),))
    except Exception as error:  # noqa: BLE001  # a bug of ours becomes exit status 2; the other files are still checked
        path = state.project.modules[name].path
        return Found(crash=(messages.crashed(path, error), traceback.format_exc()))
    finally:
        _tidy()


def _analysed(name: str, state: State) -> Found:
    from shardlint.placing import found_in

    state.project.read.clear()
    module = state.project.modules[name]
    found = found_in(
        state.project,
        module,
        state.sources,
        state.config,
        state.show_types,
        state.arrays,
    )
    found = _with_evaluation(found, module, state)
    nested = sum(
        isinstance(node, ir.Opaque) and node.what == NESTED
        for node in walk(module.body, _OPAQUE)
    )
    gap = (messages.nested(module.path), nested)
    return replace(found, gaps=(*found.gaps, gap)) if nested else found


def _imports_mapping(project: Project, name: str) -> bool:
    """Whether a file imports one of the project that maps functions over devices."""
    links = project.links.get(name, {})
    project.read.add(("links", name))
    for whole in sorted(project.outline(name).imports):
        full = links.get(whole, whole)
        project.read.add(("module", full))
        if full in project.modules and project.outline(full).maps_functions:
            return True
    return False


def _reaches_devices(project: Project, name: str) -> bool:
    """Whether a file, or what it imports, maps functions over devices or places arrays on them."""
    seen = {name}
    waiting = [name]
    while waiting:
        importer = waiting.pop()
        outline = project.outline(importer)
        if outline.maps_functions or outline.places_arrays:
            return True
        links = project.links.get(importer, {})
        project.read.add(("links", importer))
        for whole in sorted(outline.imports):
            full = links.get(whole, whole)
            project.read.add(("module", full))
            if full in project.modules and full not in seen:
                seen.add(full)
                waiting.append(full)
    return False


def _with_evaluation(found: Found, module: ir.Module, state: State) -> Found:
    """What is found by running the file in numbers, too, if it maps functions over devices, or is a program that does
    so or places arrays on them, itself or by what it imports."""
    project = state.project
    if not state.config.evaluate:
        return found
    is_script = b"__main__" in state.sources[module.name][0]
    if not (
        project.outline(module.name).maps_functions
        or _imports_mapping(project, module.name)
        or (is_script and _reaches_devices(project, module.name))
    ):
        return found
    from shardlint.evaluation.findings import with_findings  # takes its time to import

    with _collecting_cycles():
        return with_findings(found, project, module, state.sources)


_OPAQUE: frozenset[type[ir.Node]] = frozenset({ir.Opaque})
