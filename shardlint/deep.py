"""Room for programs that are nested deeply: sums of thousands of terms, long chains of ``elif``.

Python parses them, but whoever then walks their trees by recursion meets the interpreter's own limit, which is there to
keep the stack of a thread from overflowing; libcst's parser, which has no limit, overflows it. So such work is done in
a thread with a stack that is large enough for a higher limit; what is too deep even there ends in ``RecursionError``.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
#: Memory is taken page by page as it is used, so a large stack costs nothing by itself.
_STACK_BYTES = 512 * 1024 * 1024
_RECURSION_LIMIT = 60_000


_NAME = "shardlint: deep"


def again_with_room(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises; if it runs out of room it is started once more, with more of it."""
    try:
        return work()
    except RecursionError:
        if threading.current_thread().name == _NAME:
            raise
    return with_room(work)


def with_room(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, called where there is much room."""
    if threading.current_thread().name == _NAME:
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    is_done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for it
            errors.append(error)
        finally:
            is_done.set()

    stack, limit = threading.stack_size(_STACK_BYTES), sys.getrecursionlimit()
    try:
        thread = threading.Thread(target=run, name=_NAME)
        sys.setrecursionlimit(_RECURSION_LIMIT)
        thread.start()
        interrupts = _interrupts_until(is_done)
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    for error in (*interrupts, *errors):
        raise error
    return results[0]


def _interrupts_until(is_done: threading.Event) -> list[BaseException]:
    """Wait for a thread. An interrupt has to wait, too: libcst cannot be stopped, and Python that ends under it
    aborts."""
    found: list[BaseException] = []
    while not is_done.is_set():
        try:
            is_done.wait()
        except KeyboardInterrupt as interrupt:
            found.append(interrupt)
    return found


#: Levels of one expression that are followed.
MAX_LEVELS = 250
#: Levels of one pattern of ``match`` that are followed: with each one libcst's time doubles.
MAX_PATTERN_LEVELS = 8
_CONTEXT_FREE = (
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.UnaryOp,
    ast.Compare,
    ast.IfExp,
    ast.Lambda,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Tuple,
)


def too_deep(tree: ast.Module) -> Iterator[ast.expr]:
    """What lies below that level in expressions: it is not followed, for libcst's time grows with the square of the
    levels."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                pending.append(child)
            elif _may_be_deep(child):
                yield from _below(child)


def too_deep_patterns(tree: ast.Module) -> Iterator[ast.pattern]:
    """What lies below the level that is followed in patterns of ``match``."""
    cases = [
        case
        for node in ast.walk(tree)
        if isinstance(node, ast.Match)
        for case in node.cases
    ]
    pending = [(case.pattern, 0) for case in cases]
    while pending:
        node, level = pending.pop()
        if level > MAX_PATTERN_LEVELS:
            yield node
        else:
            inner = ast.iter_child_nodes(node)
            pending += [
                (child, level + 1) for child in inner if isinstance(child, ast.pattern)
            ]


def names_of_pattern(node: ast.pattern) -> list[str]:
    """The names that a pattern binds."""
    found: dict[str, None] = {}
    for part in ast.walk(node):
        name = (
            part.rest
            if isinstance(part, ast.MatchMapping)
            else getattr(part, "name", None)
        )
        if isinstance(part, ast.pattern) and name is not None:
            found[name] = None
    return [*found]


def _may_be_deep(node: ast.expr) -> bool:
    """A level takes a character at least."""
    lines = (node.end_lineno or 0) - node.lineno
    return lines > 0 or (node.end_col_offset or 0) - node.col_offset > MAX_LEVELS


def _below(root: ast.expr) -> Iterator[ast.expr]:
    pending: list[tuple[ast.AST, int]] = [(root, 0)]
    while pending:
        node, level = pending.pop()
        # what f-strings hold has no places of its own
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            if _has_many_pieces(node):
                yield node
        elif (
            level > MAX_LEVELS and isinstance(node, _CONTEXT_FREE) and _is_loaded(node)
        ):
            yield node
        else:
            pending += [(child, level + 1) for child in ast.iter_child_nodes(node)]


def _has_many_pieces(node: ast.Constant | ast.JoinedStr) -> bool:
    """Whether this may be so many strings one after the other, of which libcst nests each in the one before; a text of
    many lines in one pair of quotes is folded as well, which changes nothing of what is known of it."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, (str, bytes)):
        return False
    return (node.end_lineno or 0) - node.lineno > MAX_LEVELS


def _is_loaded(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
