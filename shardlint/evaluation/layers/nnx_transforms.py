"""``flax.nnx``'s transformations, optimizers and metrics in guarded code: of functions that change modules in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from shardlint.evaluation import derivatives, mapping
from shardlint.evaluation.control import slices, stacked, transparent
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.layers.functions import call
from shardlint.evaluation.layers.nnx_graph import pure, state, update
from shardlint.evaluation.layers.nnx_objects import (
    Module,
    OptState,
    Param,
    Variable,
    variables_in,
)
from shardlint.evaluation.layers.nnx_state import leaves_of, nested
from shardlint.evaluation.meshes import Sharding, Spec
from shardlint.evaluation.optimizers.parameters import apply_updates
from shardlint.evaluation.outside import KNOWN, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.trees import flatten, map_leaves

_NNX = "flax.nnx"
for _name in "jit jit_partial remat checkpoint no_update module_context".split():
    provide(f"{_NNX}.{_name}")(transparent)
provide(f"{_NNX}.eval_shape")(KNOWN["jax.eval_shape"])
provide(f"{_NNX}.use_eager_sharding")(KNOWN["contextlib.nullcontext"])


# --- derivatives ------------------------------------------------------------------------------------------------------


class DiffState:
    """``nnx.DiffState``: an argument, and the variables of it that are differentiated."""

    def __init__(self, argnum: int, filter: Any) -> None:
        self.argnum, self.filter = argnum, filter


setattr(DiffState, MARK, True)
provide(f"{_NNX}.DiffState")(DiffState)


def value_and_grad(
    fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any
) -> Any:
    """The result and its gradient: of a module, the state of its parameters."""

    def run(*args: Any, **kwargs: Any) -> Any:
        several = isinstance(argnums, (tuple, list))
        asked = list(argnums) if several else [argnums]
        places = [_place(one, len(args)) for one in asked]
        operands = [
            _differentiated(args[place], one)
            for place, one in zip(places, asked, strict=True)
        ]

        def inner(*given: Any) -> Any:
            made = list(args)
            for place, one in zip(places, given, strict=True):
                made[place] = _with_state(args[place], one)
            return fun(*made, **kwargs)

        inner.__name__ = getattr(fun, "__name__", inner.__name__)
        both = derivatives.value_and_grad(inner, tuple(range(len(places))), has_aux)
        found, gradients = both(*operands)
        for place, operand in zip(places, operands, strict=True):
            _restore(args[place], operand)
        return found, tuple(gradients) if several else gradients[0]

    run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
    return run


def _place(asked: Any, count: int) -> int:
    place = asked.argnum if isinstance(asked, DiffState) else asked
    return int(place) % count


def _differentiated(arg: Any, asked: Any) -> Any:
    if not isinstance(arg, Module):
        return arg
    chosen = asked.filter if isinstance(asked, DiffState) else Param
    return state(arg, chosen)


def _with_state(arg: Any, given: Any) -> Any:
    """The argument itself, a module with the arrays of a state."""
    if not isinstance(arg, Module):
        return given
    update(arg, given)
    return arg


def _restore(arg: Any, operand: Any) -> None:
    """Parameters are as they were before; what else changed in a module is no longer differentiated."""
    if not isinstance(arg, Module):
        return
    update(arg, operand)
    for _, variable in variables_in(arg):
        variable.value = derivatives.detached(variable.value)


def _grad(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    both = value_and_grad(fun, argnums, has_aux)
    return derivatives.without_value(both, fun, has_aux)


provide(f"{_NNX}.value_and_grad")(derivatives.decorating(value_and_grad))
provide(f"{_NNX}.grad")(derivatives.decorating(_grad))


# --- maps -------------------------------------------------------------------------------------------------------------


def _with_changes(function: Any, args: Sequence[Any]) -> tuple[Any, list[int]]:
    """The function that also gives the modules among its arguments as it leaves them, and which arguments these are."""
    places = [k for k, arg in enumerate(args) if isinstance(arg, Module)]

    def run(*given: Any, **kwargs: Any) -> Any:
        result = function(*given, **kwargs)
        return result, [given[k] for k in places]

    run.__wrapped__ = function  # type: ignore[attr-defined]  # for whoever asks where it is defined
    return run, places


def _take_over(module: Module, changed: Module) -> None:
    """Give a module the arrays of another that was made of it."""
    before, after = dict(variables_in(module)), dict(variables_in(changed))
    if before.keys() != after.keys():
        raise NotEvaluable("a mapped function that makes variables")
    for path, variable in before.items():
        variable.value = after[path].value


def _per_argument(given: Any, count: int) -> list[Any]:
    is_tuple = isinstance(given, (tuple, list)) and not isinstance(given, Spec)
    return list(given) if is_tuple else [given] * count


def _mapped(make: Callable[..., Any], entering: str, leaving: str) -> Any:
    """A transformation of JAX's for functions that change modules; ``entering`` and ``leaving`` name its options."""

    def transform(fun: Any, **options: Any) -> Any:
        entered = options.pop(entering, 0)
        left = options.pop(leaving, 0)
        options.pop("graph", None)
        options.pop("transform_metadata", None)

        def run(*args: Any, **kwargs: Any) -> Any:
            per = _per_argument(entered, len(args))
            inner, places = _with_changes(fun, args)
            kept = [per[k] for k in places]
            both = make(
                inner, **{entering: tuple(per), leaving: (left, kept)}, **options
            )
            result, modules = both(*args, **kwargs)
            for k, changed in zip(places, modules, strict=True):
                if per[k] is not None:
                    _take_over(args[k], changed)
            return result

        run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
        return run

    return derivatives.decorating(transform)


provide(f"{_NNX}.vmap")(
    _mapped(partial(mapping.vmap, filters=True), "in_axes", "out_axes")
)
provide(f"{_NNX}.pmap")(
    _mapped(partial(mapping.pmap, filters=True), "in_axes", "out_axes")
)
provide(f"{_NNX}.shard_map")(_mapped(mapping.shard_map, "in_specs", "out_specs"))


class Carry:
    """``nnx.Carry``: what goes from one round of a scan to the next."""


setattr(Carry, MARK, True)
provide(f"{_NNX}.Carry")(Carry)


def scan(
    fun: Any,
    *,
    length: int | None = None,
    reverse: bool = False,
    in_axes: Any = (Carry, 0),
    out_axes: Any = (Carry, 0),
    **options: Any,
) -> Any:
    """A loop over a dimension of modules and arrays."""

    def run(*args: Any) -> Any:
        entering = _per_argument(in_axes, len(args))
        leaving = _items(out_axes)
        if any(axis not in (0, None, Carry) for axis in (*entering, *leaving)):
            raise NotEvaluable("nnx.scan over another dimension than the first")
        sliced = _where(entering, args, 0)
        carry = _where(entering, args, Carry)
        rows: list[Any] = []
        for parts in slices(sliced, length, reverse):
            given = _merged(entering, args, parts, carry)
            outputs = _items(fun(*given), out_axes)
            carry = _where(leaving, outputs, Carry)
            rows.append((outputs, _modules(parts)))
        if reverse:
            rows.reverse()
        made, changed = stacked(rows)
        for module, new in zip(_modules(sliced), changed, strict=True):
            _take_over(module, new)
        found = _merged(leaving, made, _where(leaving, made, 0), carry)
        return tuple(found) if isinstance(out_axes, (tuple, list)) else found[0]

    run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
    return run


def _items(value: Any, like: Any = ...) -> list[Any]:
    """The items of a tuple; one thing alone where ``like``, or the value itself, is none."""
    is_several = isinstance(value if like is ... else like, (tuple, list))
    return list(value) if is_several else [value]


def _modules(values: Sequence[Any]) -> list[Module]:
    return [value for value in values if isinstance(value, Module)]


def _where(axes: Sequence[Any], values: Sequence[Any], wanted: Any) -> list[Any]:
    """The values whose axis is the wanted one."""
    pairs = zip(axes, values, strict=True)
    return [value for axis, value in pairs if axis == wanted and axis is not None]


def _merged(
    axes: Sequence[Any],
    values: Sequence[Any],
    parts: Sequence[Any],
    carry: Sequence[Any],
) -> list[Any]:
    """The values, with others for those that are sliced and those that are carried."""
    sliced, held = iter(parts), iter(carry)
    made = []
    for axis, value in zip(axes, values, strict=True):
        if axis is Carry:
            made.append(next(held))
        elif axis == 0:
            made.append(next(sliced))
        else:
            made.append(value)
    return made


provide(f"{_NNX}.scan")(derivatives.decorating(scan))


def _of_lax(name: str) -> Callable[..., Any]:
    function = KNOWN[f"jax.lax.{name}"]

    def run(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(arg, Module) for arg in args):
            raise NotEvaluable(f"nnx.{name} with modules")
        return function(*args, **kwargs)

    return run


for _name in ("cond", "switch", "while_loop", "fori_loop"):
    provide(f"{_NNX}.{_name}")(_of_lax(_name))


# --- optimizers -------------------------------------------------------------------------------------------------------


@provide(f"{_NNX}.Optimizer")
@provide(f"{_NNX}.ModelAndOptimizer")
class Optimizer(Module):
    """``nnx.Optimizer``: a transformation of ``optax`` and its state. Without ``wrt`` it has the model, as before
    flax 0.11."""

    def __init__(self, model: Any, tx: Any, wrt: Any = None, **options: Any) -> None:
        self.wrt = Param if wrt is None else wrt
        self.tx = tx
        self.step = OptState(asarray(0, "uint32"))
        made = tx.init(pure(state(model, self.wrt)))
        self.opt_state = map_leaves(_opt_state, made)
        if wrt is None:
            self.model = model

    def update(self, model: Any, grads: Any = None, **kwargs: Any) -> Any:
        """Change the parameters of a model by gradients of them."""
        if grads is None:
            model, grads = self.model, model
        params = pure(state(model, self.wrt))
        given = grads if not isinstance(grads, Module) else state(grads, self.wrt)
        held = map_leaves(_value, self.opt_state, is_leaf=_is_variable)
        updates, after = self.tx.update(pure(given), held, params, **kwargs)
        update(model, nested(leaves_of(apply_updates(params, updates))))
        for old, new in zip(
            flatten(self.opt_state, _is_variable)[0], flatten(after)[0], strict=True
        ):
            old.value = new
        self.step.value = self.step.value + cast(asarray(1), "uint32")
        return updates


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Variable)


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Variable) else leaf


def _opt_state(leaf: Any) -> Variable:
    return OptState(leaf)


# --- metrics ----------------------------------------------------------------------------------------------------------


@provide(f"{_NNX}.metrics.MetricState")
class MetricState(Variable):
    """A number that a metric counts."""


@provide(f"{_NNX}.metrics.Metric")
@provide(f"{_NNX}.Metric")
class Metric(Module):
    """``nnx.Metric``."""


@provide(f"{_NNX}.metrics.Average")
@provide(f"{_NNX}.Average")
class Average(Metric):
    """The mean of all entries that were given."""

    def __init__(self, argname: str = "values") -> None:
        self.argname = argname
        self.reset()

    def reset(self) -> None:
        self.total = MetricState(asarray(0.0))
        self.count = MetricState(asarray(0))

    def update(self, **kwargs: Any) -> None:
        values = asarray(kwargs[self.argname])
        self.total.value = self.total.value + call("numpy.sum", values)
        self.count.value = self.count.value + call("numpy.size", values)

    def compute(self) -> Any:
        return self.total.value / self.count.value


@provide(f"{_NNX}.metrics.Accuracy")
@provide(f"{_NNX}.Accuracy")
class Accuracy(Average):
    """The share of logits whose largest is the label's."""

    def __init__(self, threshold: Any = None, *args: Any, **kwargs: Any) -> None:
        if threshold is not None:
            raise NotEvaluable("nnx.metrics.Accuracy with a threshold")
        super().__init__()

    def update(self, **kwargs: Any) -> None:
        logits, labels = asarray(kwargs["logits"]), asarray(kwargs["labels"])
        right = call("numpy.argmax", logits, axis=-1) == labels
        super().update(values=asarray(right, "float32"))


@provide(f"{_NNX}.metrics.MultiMetric")
@provide(f"{_NNX}.MultiMetric")
class MultiMetric(Metric):
    """Several metrics, by name."""

    def __init__(self, **metrics: Metric) -> None:
        self.names = tuple(metrics)
        for name, metric in metrics.items():
            setattr(self, name, metric)

    def reset(self) -> None:
        for name in self.names:
            getattr(self, name).reset()

    def update(self, **kwargs: Any) -> None:
        for name in self.names:
            getattr(self, name).update(**kwargs)

    def compute(self) -> dict[str, Any]:
        return {name: getattr(self, name).compute() for name in self.names}


# --- shardings --------------------------------------------------------------------------------------------------------


@provide(f"{_NNX}.get_partition_spec")
@provide(f"{_NNX}.spmd.get_partition_spec")
def get_partition_spec(tree: Any) -> Any:
    """The same tree with the spec of each variable; replicated where none is said, as arrays are."""
    return _with_specs(tree, lambda spec: spec)


@provide(f"{_NNX}.get_named_sharding")
@provide(f"{_NNX}.spmd.get_named_sharding")
def get_named_sharding(tree: Any, mesh: Any) -> Any:
    """The same with shardings on a mesh."""
    return _with_specs(tree, lambda spec: Sharding(mesh, spec))


def _with_specs(tree: Any, make: Callable[[Spec], Any]) -> Any:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, Variable):
            return leaf.replace(make(_spec(leaf.metadata)))
        if isinstance(leaf, Array):
            return make(Spec())
        return None

    return map_leaves(one, tree, is_leaf=lambda part: isinstance(part, Variable))


def _spec(metadata: Mapping[str, Any]) -> Spec:
    """What an initializer said of a parameter, under any of the names that flax gave it."""
    for name in ("sharding", "sharding_names", "out_sharding"):
        names = metadata.get(name)
        if names is not None:
            return Spec(*names)
    return Spec()
