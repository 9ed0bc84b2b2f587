"""Where a program expects an error: what fails there is meant to fail."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from shardlint import ir
from shardlint.values import ClassValue, ExternalValue, FunctionValue
from shardlint.walking import below, nodes_of, walk

#: ``pytest.raises``, ``assertRaisesRegex``, ``assert_raises``, ``suppress`` and what else test suites name so.
_EXPECTING = re.compile(
    r"raises|assert_?raise|suppress|expect\w*(error|exception|failure)|should_?(fail|raise)",
    re.I,
)
#: What asks how code behaves: which warnings it gives, how often something compiles.
_WATCHING = re.compile(r"assert|warn|deprecated|count|capture|guard|leaks", re.I)
#: Functions that take an exception as the class that it is.
_OF_CLASSES = frozenset(
    {
        "isinstance",
        "issubclass",
        "warn",
        "warn_explicit",
        "simplefilter",
        "filterwarnings",
        "cast",
    }
)
#: The settings of libraries by which annotations go unchecked while the program runs.
_UNCHECKED = frozenset({"jaxtyping_disable", "JAXTYPING_DISABLE"})
#: Decorators of tests that are known to fail.
_FAILING = frozenset({"xfail", "expectedFailure", "expected_failure"})
#: Decorators that call a test with values of their own.
_PARAMETRIZING = re.compile(
    r"parametri[sz]e|parameters|parameterized|product|with_config", re.I
)
#: What no wrong shape raises: who catches these alone expects something else.
_UNRELATED = frozenset(
    """BrokenPipeError ConnectionError EOFError Empty FileExistsError FileNotFoundError GeneratorExit ImportError
    IOError KeyboardInterrupt MemoryError ModuleNotFoundError OSError PermissionError StopAsyncIteration StopIteration
    SystemExit TimeoutError UnicodeDecodeError UnicodeEncodeError UnicodeError""".split()
)


def is_expecting(expr: ir.Expr) -> bool:
    """Whether this is a function, or a call of one, that takes an error as what is wanted."""
    return _EXPECTING.search(_last(expr)) is not None


def is_expecting_call(expr: ir.Expr) -> bool:
    """``assertRaises(TypeError, f, x)``, ``check_trace(ValueError, f)``: a call that calls something of which it wants
    an error."""
    if not isinstance(expr, ir.Call) or len(expr.args) < 2:
        return False
    return is_expecting(expr) or (
        _last(expr) not in _OF_CLASSES
        and any(_is_error(arg.value) for arg in expr.args)
    )


def watches(context: ir.Expr) -> bool:
    """Whether ``with context:`` is there for what its statements do beside what they give."""
    return _WATCHING.search(_last(context)) is not None


def is_tried(name: str, body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a name that a body defines is used where an error is expected, perhaps by another one."""
    uses = _Uses()
    uses.read(body, "")
    return name in uses.tried()


def enters(context: ir.Expr, manager: object, function: FunctionValue | None) -> bool:
    """Whether ``with context:``, in a function, may take an error as what is wanted. ``manager`` is what the name that
    stands there, or is called there, means."""
    return (
        is_expecting(context)
        or _swallows(manager)
        or _unchecks(manager)
        or _may_expect(context, function)
        or _local(context, function)
    )


def handled(node: ir.Try) -> bool:
    """Whether an error of a ``try`` statement ends there."""
    return any(
        not _is_unrelated(caught) and not _raises_again(body)
        for caught, body in zip(node.caught, node.handlers, strict=True)
    )


def is_failing(node: ir.Function | ir.Class) -> bool:
    """Whether a test is marked as one that fails."""
    return any(_last(decorator) in _FAILING for decorator in node.decorators)


def only_failing(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The names, of what a body defines, that are used nowhere but where an error is expected. Methods are
    ``self.name``."""
    uses = _Uses()
    uses.read(body, "")
    return uses.only_failing()


def expects_any(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a body expects an error anywhere."""
    return any(
        isinstance(node, ir.Try)
        or (
            isinstance(node, (ir.Name, ir.Attr))
            and (is_expecting(node) or _is_error(node))
        )
        for node in walk(body)
    )


# --- context managers ---------------------------------------------------------------------------------------------


def _swallows(manager: object) -> bool:
    """A context manager of the project that expects an error around its ``yield``, or keeps it from its callers; or
    one of a library."""
    if isinstance(manager, ExternalValue):
        return _EXPECTING.search(manager.qualname.rpartition(".")[2]) is not None
    if isinstance(manager, ClassValue):
        exits = (
            n
            for n in manager.node.body
            if isinstance(n, ir.Function) and n.name == "__exit__"
        )
        return any(
            _may_be_true(n.value)
            for node in exits
            for n in nodes_of(node.body, ir.Return)
        )
    node = manager.node if isinstance(manager, FunctionValue) else None
    return isinstance(node, ir.Function) and _yields_guarded(node)


def _unchecks(manager: object) -> bool:
    """A context manager of the project in which annotations may go unchecked: what contradicts them is meant to."""
    body = (
        manager.node.body
        if isinstance(manager, (FunctionValue, ClassValue))
        and isinstance(manager.node, (ir.Function, ir.Class))
        else ()
    )
    return any(
        isinstance(node, ir.Const)
        and isinstance(node.value, str)
        and node.value in _UNCHECKED
        for node in walk(body)
    )


def _yields_guarded(manager: ir.Function) -> bool:
    return any(
        (
            isinstance(node, ir.With)
            and any(is_expecting(item) for item, _ in node.items)
            and _yields(node.body)
        )
        or (isinstance(node, ir.Try) and handled(node) and _yields(node.body))
        for node in walk(manager.body)
    )


def _local(context: ir.Expr, function: FunctionValue | None) -> bool:
    """Such a manager that the function itself defines."""
    body = (
        function.node.body
        if function is not None and isinstance(function.node, ir.Function)
        else ()
    )
    return any(
        isinstance(node, ir.Function)
        and node.name == _last(context)
        and _yields_guarded(node)
        for node in ir.statements(body)
    )


def _may_be_true(value: ir.Expr | None) -> bool:
    return value is not None and not (isinstance(value, ir.Const) and not value.value)


def _yields(body: tuple[ir.Stmt, ...]) -> bool:
    return any(
        isinstance(node, ir.Opaque) and node.what.startswith("Yield")
        for node in walk(body)
    )


def _may_expect(context: ir.Expr, function: FunctionValue | None) -> bool:
    """A name that holds such a context manager, or what makes one, or one that a test is called with."""
    node = function.node if function is not None else None
    name = context.func if isinstance(context, ir.Call) else context
    if not isinstance(name, ir.Name) or not isinstance(node, ir.Function):
        return False
    if any(param.name == name.id for param in node.params):
        return any(
            _PARAMETRIZING.search(_last(decorator)) for decorator in node.decorators
        )
    held = (
        one.value
        for one in ir.statements(node.body)
        if isinstance(one, ir.Assign)
        and any(isinstance(t, ir.Name) and t.id == name.id for t in one.targets)
    )
    if isinstance(context, ir.Call):
        return any(is_expecting(value) for value in held)
    return any(
        isinstance(n, ir.Call) and is_expecting(n)
        for value in held
        for n in walk(value)
    )


# --- handlers -----------------------------------------------------------------------------------------------------


def _is_unrelated(caught: ir.Expr | None) -> bool:
    several = caught.items if isinstance(caught, ir.Sequence) else (caught,)
    return all(one is not None and _last(one) in _UNRELATED for one in several)


def _raises_again(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a handler ends in an error of its own; a test that is skipped is none."""
    last = body[-1] if body else None
    return isinstance(last, ir.Raise) and (
        last.value is None or "skip" not in _last(last.value).lower()
    )


def _is_error(given: ir.Expr) -> bool:
    """A class of errors that a wrong shape may raise."""
    name = _last(given) if isinstance(given, (ir.Name, ir.Attr)) else ""
    return (
        name.endswith(("Error", "Exception"))
        and name[0].isupper()
        and name not in _UNRELATED
    )


def _last(expr: ir.Expr) -> str:
    """The last part of a dotted name, or of what is called."""
    while isinstance(expr, ir.Call):
        expr = expr.func
    return (
        expr.name
        if isinstance(expr, ir.Attr)
        else expr.id
        if isinstance(expr, ir.Name)
        else ""
    )


# --- functions that are meant to fail -----------------------------------------------------------------------------

_FAILS = "(fails)"  # under a name that no program has
_OF_NAMES = (ir.Name, ir.Sequence, ir.Star)


@dataclass(slots=True)
class _Uses:
    """Where names are used: where an error is expected, in the definition of another name, or elsewhere (empty)."""

    found: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unpacked: set[str] = field(default_factory=set)

    def only_failing(self) -> frozenset[str]:
        """The names all of whose uses are where an error is expected, or in the definition of such a name."""
        failing = {_FAILS}
        unused = self.unpacked - self.found.keys()
        more = True
        while more:
            new = {
                name
                for name, uses in self.found.items()
                if (others := uses - {name} - unused) and others <= failing
            }
            more = not new <= failing
            failing |= new
        return frozenset(failing - {_FAILS})

    def tried(self) -> frozenset[str]:
        """The names of which some use is where an error is expected, or in the definition of such a name."""
        tried = {_FAILS}
        more = True
        while more:
            new = {name for name, uses in self.found.items() if uses & tried}
            more = not new <= tried
            tried |= new
        return frozenset(tried - {_FAILS})

    def read(self, node: object, place: str) -> None:
        """Note the names that are used in a node, or a body, which stands in the definition of ``place``."""
        match node:
            case ir.Name(id=name):
                self.found[name].add(place)
            case ir.Attr(obj=ir.Name(id="self"), name=name):
                self.found[f"self.{name}"].add(place)
            case ir.Call() if is_expecting_call(node):
                self.read(node.args, _FAILS)
            case ir.With(items=items, body=body):
                self.read(items, place)
                self.read(
                    body,
                    _FAILS if any(is_expecting(item) for item, _ in items) else place,
                )
            case ir.Try(body=body):
                self.read(body, _FAILS if handled(node) else place)
                self.read((node.handlers, node.orelse, node.final), place)
            case ir.Function(name=name):
                self.read(node.decorators, place)
                self.read(
                    (tuple(param.default for param in node.params), node.body),
                    self._inside(place, name),
                )
            case ir.Assign(targets=(ir.Name(id=name),), value=value):
                self.read(value, self._inside(place, name))
            case ir.Assign(targets=(ir.Sequence() as target,), value=value) if all(
                isinstance(part, _OF_NAMES) for part in walk(target)
            ):
                names = {part.id for part in nodes_of(target, ir.Name)}
                self.unpacked |= names
                for name in names:
                    self.read(value, self._inside(place, name))
            case _:
                for part in below(node):
                    self.read(part, place)

    @staticmethod
    def _inside(place: str, name: str) -> str:
        return place if place == _FAILS else name
