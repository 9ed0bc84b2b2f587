"""The wording that all tools share: one function a message.

A value is compared with its annotation in one sentence, whichever tool finds it: ``dimension 1 is F, expected M``,
``dimension 1 is not sharded, expected sharded over 't'``, ``rank is 3, expected 2``, ``dtype is bf16, expected f32``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardtypes.lang.array_names import SHARDTYPES_DTYPES
from shardtypes.lang.format import format_witness

APPLIED = " is applied to "
_CLASSES = {dtype: name for name, dtype in SHARDTYPES_DTYPES.items()}


def listed(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    *first, last = texts
    if first:
        return f"{', '.join(first)} and {last}"
    return last


def axes_text(axes: Iterable[str]) -> str:
    """``'d' and 't'``: mesh axes in prose, major to minor; ``none`` where there are none."""
    quoted = [repr(axis) for axis in axes]
    if quoted:
        return listed(quoted)
    return "none"


def sizes_text(sizes: Mapping[str, int]) -> str:
    """``d=2, t=4``: mesh axes or dimensions with their sizes."""
    parts = []
    for name, size in sizes.items():
        parts.append(f"{name}={size}")
    return ", ".join(parts)


def dtype_text(dtype: str | None) -> str:
    """``bf16`` for ``bfloat16``, ``f32 or f64`` for ``float32|float64``: dtypes as annotations write them."""
    names = str(dtype).split("|")
    return " or ".join(_CLASSES.get(name, name) for name in names)


def array_text(dtype: str | None, shape: str | None) -> str:
    """``f32['B/d M']``: a type as annotations write it; ``'B/d M'`` where the dtype is not known or not one."""
    if dtype is None or "|" in dtype:
        return repr(shape or "...")
    name = dtype_text(dtype)
    if shape is None:
        return name
    return f"{name}[{shape!r}]"


# --- a value against its annotation ------------------------------------------------------------------------------


def expected_got(what: str, want: str, got: str, detail: str = "") -> str:
    """``the result of f: expected f32['B M'], got f32['B F']: dimension 1 is F, expected M``."""
    text = f"{what}: expected {want}, got {got}"
    if detail:
        return f"{text}: {detail}"
    return text


def stands_for(name: object, size: object) -> str:
    """``M = 12``: a name with its size; the name alone where a symbol of that name is all that is known of it."""
    if str(name) == str(size):
        return str(name)
    return f"{name} = {size}"


def within_several(size: object, name: str) -> str:
    """``3 (in *batch)``: a size of one of the dimensions that a name stands for."""
    return f"{size} (in *{name})"


def wrong_size(dim: int, want: str, got: str) -> str:
    """``dimension 1 is F, expected M``."""
    return f"dimension {dim} is {got}, expected {want}"


def wrong_rank(want: str, got: str) -> str:
    """``rank is 3, expected 2``; ``want`` may be ``at least 2``."""
    return f"rank is {got}, expected {want}"


def wrong_dtype(want: str, got: str) -> str:
    """``dtype is bf16, expected f32``."""
    return f"dtype is {got}, expected {want}"


def wrong_axes(dim: int, want: Sequence[str], got: Sequence[str]) -> str:
    """``dimension 1 is not sharded, expected sharded over 't'``."""
    return f"dimension {dim} is {sharded_over(got)}, expected {sharded_over(want)}"


def sharded_over(axes: Sequence[str]) -> str:
    """``sharded over 'd' and 't'``, or ``not sharded``."""
    if axes:
        return f"sharded over {axes_text(axes)}"
    return "not sharded"


def undeclared_sum(axes: Iterable[str]) -> str:
    """``is a partial sum over 't', which its annotation does not declare``."""
    return f"is {partial_sum(axes)}, which its annotation does not declare"


def fails_for(witness: Mapping[str, int]) -> str:
    """`` (fails for B=2, L=3)``: the sizes for which a program fails, after what is wrong; nothing where there are
    none."""
    if witness:
        return f" (fails for {format_witness(witness)})"
    return ""


# --- partial sums and other values that differ between devices ---------------------------------------------------


def partial_sum(axes: Iterable[str]) -> str:
    """``a partial sum over 't'``."""
    return f"a partial sum over {axes_text(axes)}"


def device_mean(axes: Iterable[str]) -> str:
    """``a per-device mean along 't'``: of one shard, before ``pmean``."""
    return f"a per-device mean along {axes_text(axes)}"


def reduce_first(collective: str, axis: str) -> str:
    """``call lax.psum(…, 't') first``."""
    return f"call lax.{collective}(…, {axis!r}) first"


def reordered_rows(axis: str) -> str:
    """What an ``all_gather`` over a major axis makes of a dimension."""
    return f"it is gathered over {axis!r} before the minor axes"


def applied_to(operation: str, values: Sequence[str], remedy: str = "") -> str:
    """``jnp.tanh is applied to a partial sum over 't': call lax.psum(…, 't') first``."""
    is_name = any(letter.isalpha() or letter == "`" for letter in operation)
    if is_name:
        name = operation
    else:
        name = f"`{operation}`"
    text = f"{name}{APPLIED}{listed(values)}"
    if remedy:
        return f"{text}: {remedy}"
    return text


def returned_as_replicated(axes: Sequence[str], values: Sequence[float] = ()) -> str:
    """``varies along 't' (0.5 and 0.25) but is returned as replicated: reduce it over 't', or declare it sharded``."""
    over = axes_text(axes)
    if values:
        numbers = f" ({listed([f'{value:.6g}' for value in values])})"
    else:
        numbers = ""
    return f"varies along {over}{numbers} but is returned as replicated: reduce it over {over}, or declare it sharded"


def made_of_parts(text: str) -> str:
    """``is made of each device's part of a sum: jnp.abs is applied to a partial sum over 't': …``."""
    return f"is made of each device's part of a sum: {text}"


def sharded_differently(values: Sequence[str], what: str = "operands") -> str:
    """``operands are sharded differently: 'B/d' and 'B/t'; reshard one of them``."""
    return f"{what} are sharded differently: {listed(values)}; reshard one of them"


def sharded_twice(axis: str, operands: Sequence[str]) -> str:
    """Two dimensions of a result that would be sharded over one axis."""
    texts = listed(operands)
    return f"two dimensions of the result would be sharded over {axis!r}: the operands are {texts}; reshard one of them"


# --- meshes ------------------------------------------------------------------------------------------------------


def invalid_shape(text: str, problem: str, column: int, hint: str | None) -> str:
    """``invalid shape string 'B//': a size was expected at column 4``; ``column`` counts from 0."""
    return f"invalid shape string {text!r}: {problem} at column {column + 1}" + (
        f"; {hint}" if hint else ""
    )


def repeated_axis(axis: str, text: str) -> str:
    """``mesh axis 'd' is used twice in 'B/d M/d'``."""
    return f"mesh axis {axis!r} is used twice in {text!r}"


def unknown_axis(axis: str, mesh: Iterable[str]) -> str:
    """``no mesh has an axis 'dd' (axes: 'd', 't')``."""
    return f"no mesh has an axis {axis!r} (axes: {_names(sorted(mesh))})"


def mesh_without_axis(axis: str, mesh: Iterable[str]) -> str:
    """``the mesh has no axis 'dd' (axes: 'd', 't')``."""
    return f"the mesh has no axis {axis!r} (axes: {_names(mesh)})"


def unbound_axis(axis: str, bound: Iterable[str]) -> str:
    """``mesh axis 'j' is not bound here (bound axes: 'd', 't')``."""
    return f"mesh axis {axis!r} is not bound here (bound axes: {_names(bound)})"


def spec_too_long(rank: int, spec: str, entries: int, shape: str | None = None) -> str:
    """``has rank 2, 'B M', but P('d', None, 't') has 3 entries``."""
    if shape is None:
        shown = ""
    else:
        shown = f", {shape!r}"
    return f"has rank {rank}{shown}, but {spec} has {entries} entries"


def indivisible(size: int, count: int, axes: Iterable[str]) -> str:
    """``10 is not divisible by 4, the number of devices along 't'``."""
    return f"{size} is not divisible by {count}, the number of devices along {axes_text(axes)}"


def _names(axes: Iterable[str]) -> str:
    return ", ".join(repr(axis) for axis in axes) or "none"
