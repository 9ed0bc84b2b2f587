"""``python -m shardtypes.proving.named_function``: a function of a file, proved for another program.

It runs the file, and is therefore a process of its own: the question is JSON on standard input, the answer JSON on
standard output, where nothing of what the program prints goes. ``shardlint mcp`` asks it.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from shardtypes.certainty import user_place
from shardtypes.proving.from_annotations import Made, arrays_text, prove_annotated
from shardtypes.proving.prover import prove
from shardtypes.proving.verdict import Proof
from shardtypes.trace_guesses import CannotTell

_WORDS = {True: "proved", False: "refuted", None: "could not tell"}


class CannotAsk(Exception):
    """The question names nothing that can be proved; the text says what there is instead."""


def main() -> None:
    """Answer the question on standard input."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what the program prints is no answer
    question = json.load(sys.stdin)
    found = answer(question)
    with open(answers, "w", encoding="utf-8") as file:
        json.dump(found, file)


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict as plain values, or ``{"error": …}``."""
    try:
        return _answer(question)
    except (CannotAsk, CannotTell) as error:
        return {"error": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the program raises
        return {"error": _raised(error)}


def _answer(question: Mapping[str, Any]) -> dict[str, Any]:
    file = Path(question["file"])
    module = module_of(file.resolve())
    function = function_of(module, question["function"])
    mesh = question["mesh"] or None
    grad = question["grad"]
    if question["examples"] is None:
        proof, made = prove_annotated(function, question["sizes"], mesh, grad)
    else:
        positional, named = _examples(question["examples"], module)
        proof = prove(function, *positional, mesh=mesh, grad=grad, **named)
        made = Made({}, _arrays(positional, named))
    found = _plain(proof)
    found["names"] = made.sizes
    found["arguments"] = made.arrays
    if question["moves"]:
        found["moves"] = [each.row for each in proof.intermediates]
    return found


def module_of(path: Path) -> ModuleType:
    """The module of a file, imported as by the programs of its folder: of a package with the name of that.

    Raises:
        CannotAsk: there is no such file, or its name leads to another one.
    """
    if not path.is_file():
        raise CannotAsk(f"{path}: no such file")
    folder = path.parent
    parts = [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(parts)
    sys.path.insert(0, str(folder))
    module = importlib.import_module(name)
    found = module.__file__
    if found is None or Path(found).resolve() != path:
        raise CannotAsk(
            f"import {name} gives {found}, not {path}: give the file a name of its own"
        )
    return module


def function_of(module: ModuleType, name: str) -> Callable[..., Any]:
    """The function of a module with a name, or the method, as in ``Model.forward``.

    Raises:
        CannotAsk: there is none.
    """
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise CannotAsk(_no_function(module, name)) from None
    if not callable(found):
        raise CannotAsk(f"{name} of {module.__file__} is no function")
    function: Callable[..., Any] = found
    return function


def _no_function(module: ModuleType, name: str) -> str:
    own = []
    for known, value in vars(module).items():
        home = getattr(value, "__module__", None)
        if callable(value) and home == module.__name__:
            own.append(known)
    close = difflib.get_close_matches(name, own) or own
    others = ", ".join(close) or "no functions"
    return f"{module.__file__} has no {name!r}; it has {others}"


def _examples(text: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that an expression gives: a tuple those by position, a dict those by name, else the only one."""
    names = {"jax": jax, "jnp": jax.numpy, "np": np, "array": _array}
    names.update(vars(module))
    code = compile(text.strip(), "<examples>", "eval")
    value = eval(code, names)
    if isinstance(value, dict):
        return (), value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return value, {}
    return (value,), {}


def _array(*shape: int, dtype: Any = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _arrays(
    positional: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    found = {}
    given = {str(index): value for index, value in enumerate(positional)}
    given.update(named)
    for name, value in given.items():
        leaves = jax.tree.leaves(value)
        arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        found[name] = arrays_text(arrays)
    return found


def _plain(proof: Proof) -> dict[str, Any]:
    culprit = None
    if proof.culprit is not None:
        place = proof.culprit.place
        related = []
        for other, text in proof.culprit.related:
            line = {
                "file": other.file,
                "line": other.line,
                "message": text,
            }
            related.append(line)
        culprit = {
            "file": place.file,
            "line": place.line,
            "text": place.text,
            "operation": proof.culprit.operation,
            "message": proof.culprit.what,
            "related": related,
        }
    numbers = None
    if proof.numbers is not None:
        numbers = {
            "path": proof.numbers.path,
            "on_devices": str(proof.numbers.on_devices),
            "on_one": str(proof.numbers.on_one),
            "message": proof.numbers.words,
        }
    return {
        "verdict": _WORDS[proof.ok],
        "reason": proof.reason,
        "mesh": dict(proof.sizes),
        "assumed": list(proof.assumed),
        "proved": proof.proved,
        "agrees": proof.agrees,
        "culprit": culprit,
        "numbers": numbers,
        "moves": [],
    }


def _raised(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    first = " ".join(lines[:4])
    text = f"{type(error).__name__}: {first}"
    file, line = user_place(error) or (__file__, 0)
    if file == __file__ or file.startswith("<"):  # of the import system
        return text
    return f"{text} ({file}:{line})"


if __name__ == "__main__":
    main()
