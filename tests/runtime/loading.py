"""The same source under each way of checking it: our decorator and import hook, and typeguard's."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typeguard

import shardtypes as st
from shardtypes import _stats

OURS = ("shardtypes.typechecked", "shardtypes.install_import_hook")
TYPEGUARDS = ("typeguard.typechecked", "typeguard.install_import_hook")
WAYS = (*OURS, *TYPEGUARDS)

_numbers = itertools.count()


def load(folder: Path, source: str, way: str) -> Any:
    """Import ``source``, in which ``@checked`` stands above what is to be checked, and check it in one of the ways."""
    name = f"loaded_{next(_numbers)}"
    decorator = f"from {way.rpartition('.')[0]} import typechecked as checked\n"
    if not way.endswith("typechecked"):
        decorator = "checked = lambda target: target\n"
    future = "from __future__ import annotations\n"  # which stays the first statement
    before, first, rest = (
        source.partition(future) if future in source else ("", "", source)
    )
    (folder / f"{name}.py").write_text(f"{before}{first}{decorator}{rest}")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        if way == "shardtypes.install_import_hook":
            with st.install_import_hook(name):
                return importlib.import_module(name)
        if way == "typeguard.install_import_hook":
            with typeguard.install_import_hook([name]):
                return importlib.import_module(name)
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of any kind to its end: coroutines are awaited, generators exhausted."""
    result = function(*args, **kwargs)
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    if inspect.isasyncgen(result):
        return asyncio.run(_collect(result))
    return list(result) if inspect.isgenerator(result) else result


async def _collect(items: Any) -> list[Any]:
    return [item async for item in items]


def outcome(call: Callable[[], Any]) -> str:
    """``alarm``, ``count`` (something was left out, and counted) or ``silence``."""
    before = _stats.snapshot()["not_possible"]
    try:
        call()
    except typeguard.TypeCheckError:
        return "alarm"
    after = _stats.snapshot()["not_possible"]
    counted = {
        reason for reason, count in after.items() if count > before.get(reason, 0)
    }
    return (
        "count"
        if counted - {"no mesh in force, and the value is on one device"}
        else "silence"
    )


def sections(text: str) -> dict[str, str]:
    """The sources in a text by their names: ``#: name``, and the source below it."""
    named = [part.partition("\n") for part in text.split("#: ")[1:]]
    return {name: source for name, _, source in named}
