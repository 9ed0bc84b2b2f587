"""The laws of a project's dimensions as test items: each annotated function that has a dimension with a role."""

from __future__ import annotations

import contextlib
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import pytest

from pytest_shardtypes import examples
from pytest_shardtypes.law_calls import Calls, Recorded
from pytest_shardtypes.summary import COULD_NOT_TELL
from pytest_shardtypes.trace_items import AnnotatedModule, Found, Wrong
from pytest_shardtypes.verdict_reports import CouldNotTell, VerdictReports
from shardtypes import laws
from shardtypes._stats import uncounted
from shardtypes.laws.declarations import concerns, declared_roles, exemptions, need_role

MARK = "shardtypes_laws"


@dataclass(frozen=True)
class Roles:
    """``[tool.shardtypes]`` of a project: roles by dimension, and why functions are exempt, by their dotted names."""

    roles: Mapping[str, str] = field(default_factory=dict)
    exempt: Mapping[str, str] = field(default_factory=dict)


def read_roles(root: Path) -> Roles:
    """The settings of the project in this folder. Raises ``pytest.UsageError``."""
    path = root / "pyproject.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return Roles()
    try:
        settings = tomllib.loads(text).get("tool", {}).get("shardtypes", {})
        return _checked(settings)
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise pytest.UsageError(f"[tool.shardtypes] in {path}: {error}") from None


def _checked(settings: Any) -> Roles:
    if not isinstance(settings, dict):
        raise ValueError(f"{settings!r} is no table")
    unknown = sorted(set(settings) - {"roles", "exempt"})
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}: there are roles and exempt")
    for name in ("roles", "exempt"):
        if not isinstance(settings.get(name, {}), dict):
            raise ValueError(f'{name} is a table, as in {name} = {{B = "…"}}')
    for dim, role in settings.get("roles", {}).items():
        need_role(dim, role)
    for name, why in settings.get("exempt", {}).items():
        if not isinstance(why, str) or not why.strip():
            raise ValueError(f"exempt: say why {name!r} is exempt")
    return Roles(settings.get("roles", {}), settings.get("exempt", {}))


class Law(pytest.Item):
    """One law of one function, tried with a call of the test run, or with arguments made from annotations."""

    found: Found
    dim: str
    role: str
    calls: Calls

    @classmethod
    def of(
        cls, parent: AnnotatedModule, found: Found, dim: str, role: str, calls: Calls
    ) -> Law:
        """The item of a function and a dimension."""
        item: Law = cls.from_parent(parent, name=f"{found.name}[{role} {dim}]")
        item.found, item.dim, item.role, item.calls = found, dim, role, calls
        item.add_marker(MARK)
        return item

    def runtest(self) -> None:
        """Raise ``Wrong`` or ``CouldNotTell``, or return."""
        with self.calls.paused(), uncounted():
            verdict = self._tried(self.calls.of(self.found.qualified))
        if verdict.ok is None:
            raise CouldNotTell(verdict.reason)
        if verdict.ok is False:
            raise Wrong(verdict.reason)

    def _tried(self, call: Recorded | None) -> laws.Verdict:
        law = getattr(laws, self.role)
        if call is None:
            given = next(
                iter(examples.examples_of(self.found.qualified)), examples.Example()
            )
            verdict: laws.Verdict = law(
                self.found.function,
                self.dim,
                *given.positional,
                sizes=given.sizes,
                **given.named,
            )
            return verdict
        mesh = (
            jax.set_mesh(call.mesh)
            if isinstance(call.mesh, jax.sharding.Mesh)
            else contextlib.nullcontext()
        )
        with mesh:
            verdict = law(self.found.function, self.dim, *call.args, **call.kwargs)
            assert isinstance(verdict, laws.Verdict)
            return verdict

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:
        """What is wrong and where."""
        if isinstance(excinfo.value, Wrong):
            return f"E   {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the function is defined."""
        code = getattr(inspect.unwrap(self.found.function), "__code__", None)
        line = None if code is None else code.co_firstlineno - 1
        return self.path, line, f"{self.found.qualified}: {self.role} in {self.dim}"


class LawItems(VerdictReports):
    """The hooks that make the items, after the tests whose calls they take, and report what could not be told."""

    def __init__(self, roles: Roles) -> None:
        super().__init__(Law, "shardtypes_law")
        self.roles = roles
        self.calls = Calls(dict(roles.roles))
        self.exempt: dict[str, str] = {}

    def of(self, parent: AnnotatedModule, found: Found) -> Iterator[Law]:
        """The items of a function, one for each dimension with a role that its parameters and its result have."""
        excused = exemptions(found.function)
        for dim, role in declared_roles(found.function, self.roles.roles).items():
            if role == "features" or not concerns(found.function, dim):
                continue
            if (
                role == "padding"
                and "mask" not in inspect.signature(found.function).parameters
            ):
                continue
            why = excused.get(dim, self.roles.exempt.get(found.qualified))
            if why is not None:
                self.exempt[f"{found.qualified}, {role} in {dim}"] = why
                continue
            yield Law.of(parent, found, dim, role, self.calls)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the laws after all tests."""
        items.sort(key=lambda item: isinstance(item, Law))

    def lines(self) -> Iterator[str]:
        """What the summary says of laws."""
        if self.verdicts:
            right = sum(text == "passed" for text in self.verdicts.values())
            yield f"laws of dimensions: {right} of {len(self.verdicts)} hold"
        for name, text in sorted(self.verdicts.items()):
            if text.startswith(COULD_NOT_TELL):
                yield f"  could not tell {name}{text.removeprefix(COULD_NOT_TELL)}"
        for name, why in sorted(self.exempt.items()):
            yield f"  exempt: {name}: {why}"
