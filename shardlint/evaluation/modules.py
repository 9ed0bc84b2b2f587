"""The modules of a program, run statement by statement as far as that is possible."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, TypeAlias

from shardlint.evaluation import (
    array_annotations,  # noqa: F401 - this and the others that are not used register what they provide
    arrays,
    callbacks,  # noqa: F401
    checkpoints,  # noqa: F401
    command_lines,
    control,  # noqa: F401
    custom_gradients,  # noqa: F401
    derivatives,  # noqa: F401
    extrema,  # noqa: F401
    grids,  # noqa: F401
    guarded_code,
    guards,
    images,  # noqa: F401
    jacobians,  # noqa: F401
    lax_functions,  # noqa: F401
    mapping,  # noqa: F401
    meshes,  # noqa: F401
    namespace,
    numpy_functions,
    numpy_like,  # noqa: F401
    optimizers,  # noqa: F401
    packing,  # noqa: F401
    pieces,
    placing,
    processes,  # noqa: F401
    python,
    ragged,  # noqa: F401
    replication,  # noqa: F401
    rings,  # noqa: F401
    scattering,  # noqa: F401
    serialization,  # noqa: F401
    sets,  # noqa: F401
    settings,  # noqa: F401
    solving,  # noqa: F401
    stored,  # noqa: F401
    tree_checks,  # noqa: F401
    trees,  # noqa: F401
    unmade,
)
from shardlint.evaluation.errors import NotEvaluable, OutOfBudget
from shardlint.evaluation.layers import (
    equinox_filters,  # noqa: F401
    equinox_layers,  # noqa: F401
    flax_states,  # noqa: F401
    linen_layers,  # noqa: F401
    linen_transforms,  # noqa: F401
    nnx_layers,  # noqa: F401
    nnx_objects,
    nnx_transforms,  # noqa: F401
)
from shardlint.evaluation.outside import Outside, attribute, known
from shardlint.evaluation.recording import Place
from shardlint.star_exports import STAR_EXPORTS
from shardtypes.semantics.array import NotConcrete

Find = Callable[[str, str], "tuple[str, str, str] | None"]
"""The name, path and source text of a module of the program, for the dotted name by which another module imports it;
None for one from outside."""


NOT_READ = f"Python {sys.version_info.major}.{sys.version_info.minor}, which shardlint runs on, does not read it"
MOST_CHARACTERS = 1_000_000
"""Of all modules that a program imports, itself included: more do not come to an end within bounds."""
Where: TypeAlias = tuple[str, Place]
"""A place in a file."""


class Written(int):
    """A number as it is written in the program: it knows where, until something is computed of it."""

    where: Where

    def __new__(cls, value: int, where: Where) -> Written:
        made = super().__new__(cls, value)
        made.where = where
        return made


class Missing:
    """Stands for a name that a statement would have bound that could not be run."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotEvaluable(f"{self.name}: {self.reason}")

    __call__ = __getitem__ = __iter__ = __bool__ = __enter__ = __add__ = __mul__ = (
        _refuse
    )


class Module:
    """A module of the program."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.names: dict[str, Any] = {}
        self.program: list[CodeType] = []
        """The blocks of ``if __name__ == "__main__":``."""


class World:
    """All that a program is while it is evaluated: its modules, and what they may use. ``literals`` are other values
    for numbers that are written in it, ``met`` the numbers that are written where it came by, ``characters`` how much
    code was run to import its modules."""

    def __init__(self, find: Find, literals: Mapping[Where, int] | None = None) -> None:
        self.find = find
        self.literals = literals or {}
        self.met: dict[Where, int] = {}
        self.modules: dict[str, Module] = {}
        self.script = ""
        self.characters = 0
        resolver = guards.Resolver()
        self.resolver = resolver
        python.register(resolver)
        arrays.register(resolver)
        numpy_functions.register(resolver)
        command_lines.register(resolver)
        nnx_objects.register(resolver)
        placing.register(resolver)
        pieces.register(resolver)
        resolver.of_type[Outside] = attribute
        resolver.of_type[Module] = self.member
        resolver.of_type[Missing] = _refuse_missing
        resolver.of_type[unmade.Unmade] = unmade.refuse_attribute
        self.builtins = python.Builtins(resolver)

    def module(self, name: str, importer: str = "") -> Module | None:
        """A module of the program, run the first time; None for one from outside."""
        found = self.find(name, importer)
        if found is None:
            return None
        full, path, source = found
        if full not in self.modules:
            self.modules[full] = made = Module(full, path)
            self._run(made, source)
        return self.modules[full]

    @property
    def paths(self) -> frozenset[str]:
        """The files that were run."""
        return frozenset(module.path for module in self.modules.values())

    def run_program(self, name: str) -> None:
        """Run a module as a script: its ``if __name__ == "__main__":``, or else its function ``main``."""
        self._refuse_unknown_starts(name)
        module = self.module(name)
        if module is None:
            raise NotEvaluable(f"{name} is not found")
        module.names["__name__"] = "__main__"
        for code in module.program:
            exec(code, module.names)
        if not module.program:
            main = _present(module.names.get("main"))
            if not is_function(main):
                raise NotEvaluable("nothing in it runs the program")
            main()

    def run_script(self, name: str) -> None:
        """Run a module that is a program without saying so, up to the first statement that fails: what follows may not
        be what the program computes."""
        self.script = name
        if self.module(name) is None:
            raise NotEvaluable(f"{name} is not found")

    def _refuse_unknown_starts(self, name: str) -> None:
        """Refuse a program that hands itself to a function that is not known (``absl.app.run``) before it is run."""
        found = self.find(name, "")
        try:
            started = guarded_code.started(found[2]) if found is not None else []
        except (SyntaxError, RecursionError) as error:
            raise NotEvaluable(NOT_READ) from error
        for called in started:
            whole, _, last = called.rpartition(".")
            if known(called) is None and self.find(whole or last, name) is None:
                raise NotEvaluable(f"{called}, which is not evaluated")

    def member(self, module: Module, name: str) -> Any:
        """``module.name``: what it binds, or a module below it."""
        if name in module.names:
            return _present(module.names[name])
        below = self.module(f"{module.name}.{name}")
        if below is None:
            raise AttributeError(f"module {module.name!r} has no attribute {name!r}")
        return below

    def _run(self, module: Module, source: str) -> None:
        self.characters += len(source)
        if self.characters > MOST_CHARACTERS:
            raise OutOfBudget(
                f"it imports more than {MOST_CHARACTERS:,} characters of code"
            )
        try:
            statements = guarded_code.statements(source, module.path)
        except (SyntaxError, RecursionError) as error:
            raise NotEvaluable(f"{module.name}: {NOT_READ}") from error
        names = module.names
        names.update(
            self._guards(module),
            __name__=namespace.__name__,
            __builtins__=self.builtins.names,
            __file__=module.path,
            __doc__=None,
            __package__=module.name.rpartition(".")[0],
        )
        for statement in statements:
            if statement.runs_program:
                module.program.append(statement.code)
                continue
            try:
                exec(statement.code, names)
            except OutOfBudget:
                raise
            except (NotEvaluable, NotConcrete, Exception) as error:
                if module.name == self.script and not statement.defines:
                    raise
                reason = (
                    error.reason
                    if isinstance(error, NotEvaluable)
                    else f"{type(error).__name__}: {error}"
                )
                names.update(
                    {
                        name: Missing(name, reason)
                        for name in statement.names
                        if name not in names
                    }
                )

    def _guards(self, module: Module) -> Mapping[str, Any]:
        def load(whole: str, name: str | None, level: int) -> Any:
            return self._import(module, whole, name, level)

        def star(whole: str, level: int) -> None:
            self._star(module, whole, level)

        def literal(value: int, place: Place) -> int:
            written = Written(
                self.literals.get((module.path, place), value), (module.path, place)
            )
            self.met[written.where] = value
            return written

        return {
            guarded_code.ATTRIBUTE: self.attribute,
            guarded_code.SET: self.builtins.set_attribute,
            guarded_code.CALL: functools.partial(guards.call, module.path),
            guarded_code.ITEM: functools.partial(guards.item, module.path),
            guarded_code.OPERATOR: functools.partial(guards.operate, module.path),
            guarded_code.COMPARISON: functools.partial(guards.compare, module.path),
            guarded_code.TICK: guards.tick,
            guarded_code.LITERAL: literal,
            guarded_code.IMPORT: load,
            guarded_code.STAR: star,
            guarded_code.ASYNCHRONOUS: _refuse_asynchronous,
            "_refuse_": _refuse,
        }

    def attribute(self, value: Any, name: str) -> Any:
        return self.resolver.attribute(_present(value), name)

    def _absolute(self, module: Module, whole: str, level: int) -> str:
        if not level:
            return whole
        parts = module.name.split(".")
        package = parts if module.path.endswith("__init__.py") else parts[:-1]
        base = package[: len(package) - level + 1]
        return ".".join([*base, whole] if whole else base)

    def _import(self, module: Module, whole: str, name: str | None, level: int) -> Any:
        full = self._absolute(module, whole, level)
        found = self.module(full, module.name) if full else None
        if name is None:
            return Outside(full) if found is None else found
        if found is not None and name in found.names:
            return _present(found.names[name])
        below = self.module(f"{full}.{name}", module.name)
        if below is not None:
            return below
        if found is not None:
            return _present(self.member(found, name))
        return attribute(Outside(full), name)

    def _star(self, module: Module, whole: str, level: int) -> None:
        full = self._absolute(module, whole, level)
        found = self.module(full, module.name)
        if found is None and full not in STAR_EXPORTS:
            raise NotEvaluable(f"all names of {whole}")
        if found is None:
            library = Outside(full)
            module.names.update(
                {name: attribute(library, name) for name in STAR_EXPORTS[full]}
            )
            return
        module.names.update(
            {
                name: value
                for name, value in found.names.items()
                if not name.startswith("_")
            }
        )


def _present(value: Any) -> Any:
    if isinstance(value, Missing):
        raise NotEvaluable(f"{value.name}: {value.reason}")
    return value


def _refuse_missing(value: Missing, name: str) -> Any:
    raise NotEvaluable(f"{value.name}: {value.reason}")


def _refuse_asynchronous() -> None:
    raise NotEvaluable("a function that an event loop runs")


def _refuse() -> None:
    raise NotEvaluable("code that reaches for the interpreter")


def is_function(value: Any) -> bool:
    """Whether this is a function of the program."""
    return isinstance(getattr(value, "__wrapped__", value), types.FunctionType)
