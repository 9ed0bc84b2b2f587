"""Arrays as sizes and axes in compiled code: what is traced has no value yet, and JAX raises ``TypeError``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint import ir, messages
from shardlint.engine.conditions import bound_in
from shardlint.engine.frames import Frame
from shardlint.engine.sharding.placements import COMPILING
from shardlint.ops.application import find_model
from shardlint.values import ArrayValue, ExternalValue, PartialValue, Value
from shardlint.walking import walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_SIZES = ("shape", "slice_sizes", "slice_size", "dimension", "new_sizes")
#: Functions with parameters of these names, which are numbers or sequences of numbers.
_WITH_SHAPES = frozenset(
    f"jax.{name}"
    for name in """numpy.broadcast_to numpy.zeros numpy.ones numpy.empty numpy.full numpy.full_like numpy.zeros_like
    numpy.ones_like numpy.empty_like numpy.reshape Array.reshape lax.broadcast_in_dim lax.broadcasted_iota
    lax.concatenate lax.dynamic_slice lax.dynamic_slice_in_dim lax.full lax.full_like lax.gather lax.reshape
    image.resize image.scale_and_translate random.ball random.bernoulli random.beta random.binomial random.bits
    random.categorical random.cauchy random.chisquare random.choice random.dirichlet random.double_sided_maxwell
    random.exponential random.f random.gamma random.generalized_normal random.geometric random.gumbel random.laplace
    random.loggamma random.logistic random.lognormal random.maxwell random.multivariate_normal random.normal
    random.orthogonal random.pareto random.poisson random.rademacher random.randint random.rayleigh random.t
    random.triangular random.truncated_normal random.uniform random.wald random.weibull_min""".split()
)
#: Functions whose parameters have other names.
_OF_FUNCTIONS = {
    "jax.numpy.arange": ("start", "stop", "step"),
    "jax.numpy.linspace": ("num",),
    "jax.numpy.logspace": ("num",),
    "jax.numpy.geomspace": ("num",),
    "jax.numpy.eye": ("N", "M"),
    "jax.numpy.identity": ("n",),
    "jax.numpy.tri": ("N", "M"),
    "jax.numpy.tile": ("reps",),
    "jax.numpy.split": ("indices_or_sections",),
    "jax.numpy.array_split": ("indices_or_sections",),
    "jax.numpy.pad": ("pad_width",),
    "jax.numpy.expand_dims": ("axis",),
    "jax.numpy.concatenate": ("axis",),
    "jax.numpy.stack": ("axis",),
    "jax.numpy.bincount": ("length",),
    "jax.numpy.nonzero": ("size",),
    "jax.numpy.unique": ("size",),
    "jax.nn.one_hot": ("num_classes",),
    "jax.nn.softmax": ("axis",),
    "jax.random.split": ("num",),
    "jax.lax.iota": ("size", "dimension"),
    "jax.lax.top_k": ("k",),
    "jax.ops.segment_sum": ("num_segments",),
    **{
        f"jax.numpy.{name}": ("axis",)
        for name in "sum mean max min prod any all argmax argmin std var flip squeeze".split()
    },
}
#: The parameters of functions that are known by what they do alone.
_WITHOUT_MODEL = {
    "jax.numpy.tile": ("A", "reps"),
    "jax.numpy.pad": ("array", "pad_width"),
    "jax.ops.segment_sum": ("data", "segment_ids", "num_segments"),
}
#: The functions that ``check`` asks about.
SIZED = _WITH_SHAPES.union(_OF_FUNCTIONS)
#: They compute, so in compiled code they give traced arrays; others may give back an array from outside as it is.
COMPUTING = frozenset(
    f"jax.numpy.{name}"
    for name in """abs add all any arange argmax argmin array ceil clip count_nonzero cumsum dot floor floor_divide
    log2 max maximum mean median min minimum mod multiply ones power prod rint round sort sqrt square std sum trunc
    where zeros""".split()
)
#: A context in which arrays are computed at once.
_AT_ONCE = "ensure_compile_time_eval"


def check(it: Interpreter, frame: Frame, call: ir.Call, qualname: str) -> None:
    """Report an argument of a call that says a size or an axis, and is certainly traced."""
    if not any(arg.star for arg in call.args):
        for name, expr in _numbers(call, qualname):
            if _holds_traced(it, frame, expr) and is_compiled(it, frame):
                text = messages.traced_size(qualname.rpartition(".")[2], name)
                it.report(frame, "ST220", expr.at, text)


def check_slices(it: Interpreter, frame: Frame, index: ir.Expr) -> None:
    """Report a slice of an array whose start, stop or step is certainly traced."""
    parts = index.items if isinstance(index, ir.Sequence) else (index,)
    for part in parts:
        if isinstance(part, ir.Slice):
            bounds = (part.lower, part.upper, part.step)
            found = [one for one in bounds if one and is_traced(it, frame, one)]
            if found and is_compiled(it, frame):
                it.report(frame, "ST220", found[0].at, messages.traced_slice())


def _numbers(call: ir.Call, qualname: str) -> Iterator[tuple[str, ir.Expr]]:
    """The arguments that are numbers, or sequences of them, by their names."""
    if qualname == "jax.Array.reshape":
        yield from (("shape", arg.value) for arg in call.args if not arg.keyword)
        return
    wanted = _OF_FUNCTIONS.get(qualname, _SIZES)
    names = iter(_positional(qualname))
    for arg in call.args:
        name = arg.keyword or next(names, "")
        if name in wanted:
            yield name, arg.value


def _positional(qualname: str) -> tuple[str, ...]:
    """The names of what a function takes by position."""
    if qualname in _WITHOUT_MODEL:
        return _WITHOUT_MODEL[qualname]
    model = find_model(qualname)
    return () if model is None else model.signature.positional


def _holds_traced(it: Interpreter, frame: Frame, expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Sequence):
        return any(is_traced(it, frame, item) for item in expr.items)
    return is_traced(it, frame, expr)


def is_traced(it: Interpreter, frame: Frame, expr: ir.Expr) -> bool:
    """Whether an expression, in compiled code, is certainly an array that is traced: what JAX computes there, and what
    the compiled function itself takes. An array from outside has a value."""
    match expr:
        case ir.Name(id=name):
            return _is_traced_name(it, frame, expr, name)
        case ir.Binary(left=left, right=right):
            parts = any(is_traced(it, frame, one) for one in (left, right))
        case ir.Unary(value=value) | ir.Subscript(obj=value):
            parts = is_traced(it, frame, value)
        case ir.Call(func=ir.Attr(obj=obj) as func):
            callee = _quietly(it, frame, func)
            if isinstance(callee, ExternalValue):
                parts = callee.qualname in COMPUTING
            else:
                parts = is_traced(it, frame, obj)
        case _:
            return False
    return parts and _is_array(it, frame, expr)


def _is_array(it: Interpreter, frame: Frame, expr: ir.Expr) -> bool:
    value = _quietly(it, frame, expr)
    return isinstance(value, ArrayValue) and not value.numpy


def _quietly(it: Interpreter, frame: Frame, expr: ir.Expr) -> Value:
    frame.silent += 1
    try:
        return it.evaluate(frame, expr)
    finally:
        frame.silent -= 1


def _is_traced_name(it: Interpreter, frame: Frame, expr: ir.Name, name: str) -> bool:
    """A local that is assigned once, to something traced; or a parameter of a function that ``jax.jit`` decorates."""
    function = None if frame.function is None else frame.function.node
    if not isinstance(function, ir.Function) or name not in frame.variables:
        return False
    times = Counter(bound_in(function.body))[name]
    parameters = {param.name for param in function.params if param.kind != "**"}
    if name in parameters:
        return not times and _takes_arrays(it, frame) and _is_array(it, frame, expr)
    values = [
        statement.value
        for statement in ir.statements(function.body)
        if isinstance(statement, ir.Assign)
        and [t.id for t in statement.targets if isinstance(t, ir.Name)] == [name]
        and len(statement.targets) == 1
    ]
    is_one = times == 1 and len(values) == 1
    return is_one and values[0].at < expr.at and is_traced(it, frame, values[0])


def _takes_arrays(it: Interpreter, frame: Frame) -> bool:
    """Whether every argument of the function itself is traced: it is compiled, and no option leaves one out."""
    function = frame.function
    if function is None or not isinstance(function.node, ir.Function):
        return False
    decorators = function.node.decorators
    if len(decorators) != 1:
        return False
    found = _quietly(it, frame, decorators[0])
    return isinstance(found, ExternalValue) and found.qualname == "jax.jit"


def is_compiled(it: Interpreter, frame: Frame) -> bool:
    """Whether this code certainly runs where ``jax.jit`` traces it."""
    around: Frame | None = frame
    while around is not None:
        function = around.function
        if function is not None and isinstance(function.node, ir.Function):
            if _computes_at_once(function.node):
                return False
            if function.tracing in COMPILING:
                return True
            if any(_compiles(it, around, one) for one in function.node.decorators):
                return True
        around = around.parent
    return False


def _compiles(it: Interpreter, frame: Frame, decorator: ir.Expr) -> bool:
    found = _quietly(it, frame, decorator)
    if isinstance(found, PartialValue):
        found = found.func
    return isinstance(found, ExternalValue) and found.qualname in COMPILING


def _computes_at_once(function: ir.Function) -> bool:
    return any(
        isinstance(node, ir.Attr) and node.name == _AT_ONCE
        for node in walk(function.body)
    )
