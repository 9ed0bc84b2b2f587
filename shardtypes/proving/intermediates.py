"""How the arrays of a program move over the mesh: what is known of each value on the way, a line of the user's at a
time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from shardtypes.lang.drawing import Cut, Drawing
from shardtypes.lang.format import format_shape
from shardtypes.messages import array_text, short_dtype
from shardtypes.proving.places import Place
from shardtypes.proving.program import Name, Program, Step
from shardtypes.proving.relation import Related, Sizes
from shardtypes.proving.state import State
from shardtypes.proving.walk import Walk
from shardtypes.proving.words import operation

_NONE = "not what one device computes, nor a shard or a partial result of it"
_UNKNOWN = "not compared with one device"


@dataclass(frozen=True)
class Intermediate:
    """What a line of the program computes on each device: ``shape`` there, and the ``relation`` to what one device
    computes in its place; None where it has none (``compared``) or nothing is known. ``proved`` says whether that holds
    for all arguments, or was only seen in numbers."""

    place: Place
    operation: str
    dtype: str
    shape: tuple[int, ...]
    relation: Related | None
    proved: bool
    compared: bool
    sizes: Mapping[str, int]

    @property
    def array(self) -> str:
        """As an annotation writes it: ``f32[8/d, 16 {U:t}]``; of what nothing is known, the shape on a device."""
        if self.relation is None:
            return array_text(self.dtype, self.shape)
        rank = len(self.shape)
        dims = [self.relation.sharding(dim) for dim in range(rank)]
        whole = [
            size * self._count(axes)
            for size, axes in zip(self.shape, dims, strict=True)
        ]
        pending = self._pending
        text = format_shape([str(size) for size in whole], dims, pending)
        if pending:
            sums = text[text.index("{") :]
        else:
            sums = ""
        shape = ", ".join(text.removesuffix(sums).split())
        inside = " ".join(filter(None, (shape, sums)))
        return f"{short_dtype(self.dtype)}[{inside}]"

    @property
    def _pending(self) -> Collection[str]:
        """The axes over which it is a partial sum."""
        if self.relation is None or self.relation.monoid != "sum":
            return ()
        return self.relation.parts

    @property
    def words(self) -> str:
        """``sharded over 't' along dimension 1``; ``a partial sum over 't'``."""
        if self.relation is None:
            return _NONE if self.compared else _UNKNOWN
        text = self.relation.words(self.sizes)
        if self.proved:
            return text
        return f"{text}, seen in numbers"

    @property
    def remark(self) -> str:
        """The words, where ``array`` does not say as much."""
        plain = (
            self.relation is not None
            and not self.relation.held_on
            and self.relation.factor == 1
        )
        sums = self.relation is not None and self.relation.monoid in (None, "sum")
        if plain and sums and self.proved:
            return ""
        return self.words

    @property
    def text(self) -> str:
        """The line of the program, or which argument comes in there."""
        if self.operation.startswith("argument "):
            return self.operation
        return self.place.text

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Where, the array, the line of the program, and what else is to say."""
        return (
            str(self.place) if self.place.file else "shard_map",
            self.array,
            self.text,
            self.remark,
        )

    @property
    def drawing(self) -> Drawing:
        """The array cut into the parts that devices hold; as one device has it where no relation is known."""
        where, array, text, remark = self.row
        shown = escape(array)
        title = f"<code>{escape(where)}</code> <code>{shown}</code>"
        if text:
            title = f"{title} {escape(text)}"
        cuts = []
        for dim, size in enumerate(self.shape):
            axes = () if self.relation is None else self.relation.sharding(dim)
            parts = self._count(axes)
            cut = Cut(str(size * parts), axes, parts)
            cuts.append(cut)
        sizes: Mapping[str, int] = {}
        pending: Collection[str] = ()
        if self.relation is not None:
            sizes = self.sizes
            pending = self._pending
        notes = [remark] if remark else []
        return Drawing(title, cuts, sizes, pending, notes=notes)

    def __str__(self) -> str:
        return f"{self.place}: {self.array}: {self.words}"

    def _count(self, axes: Iterable[str]) -> int:
        count = 1
        for axis in axes:
            count *= self.sizes.get(axis, 1)
        return count


class Intermediates(tuple[Intermediate, ...]):
    """The values on the way, in the order in which the program computes them; printed as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [each.row for each in self]
        left, middle = (
            max((len(row[column]) for row in rows), default=0) for column in (0, 1)
        )
        lines = []
        for place, array, text, remark in rows:
            line = f"{place:<{left}}  {array:<{middle}}  {text}"
            if remark:
                line = f"{line}  # {remark}"
            lines.append(line)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A picture of each, one below the other, for notebooks."""
        return "".join(each.drawing.html() for each in self)


def intermediates(
    program: Program,
    claims: Mapping[Name, tuple[State, Name]],
    walk: Walk | None,
    sizes: Sizes,
) -> Intermediates:
    """The last value of each line, in the order in which the program computes them. ``claims`` are proved; a ``walk``
    has the numbers of the others."""
    found = []
    for step in _last_of_lines(program):
        name = step.results[0]
        type_ = program.types[name]
        proved = name in claims
        relation: Related | None
        if proved:
            compared = True
            relation = claims[name][0].related()
        else:
            compared, relation = _seen(walk, name)
        if step.primitive == "shard":
            what = f"argument {step.params['number'] + 1} of shard_map"
        else:
            what = operation(step)
        found.append(
            Intermediate(
                step.place,
                what,
                str(type_.dtype),
                type_.shape,
                relation,
                proved,
                compared,
                sizes,
            )
        )
    return Intermediates(found)


def _seen(walk: Walk | None, name: Name) -> tuple[bool, Related | None]:
    """Whether the numbers of a value could be compared, and in which relation they are."""
    if walk is None:
        return False, None
    standing = walk.standing(name)[0]
    relation = walk.told(name)
    return standing != "unpaired", relation


def _last_of_lines(program: Program) -> Iterator[Step]:
    """Of the steps on devices that are written on one line one after another, the last; each argument as it comes
    in."""
    last: Step | None = None
    for step in program.all_steps():
        known = bool(step.place.file) or step.primitive == "shard"
        if (
            step.primitive == "unshard"
            or step.inside
            or not (step.manual and known and step.results)
        ):
            continue
        if last is not None and (
            last.primitive == "shard" or not _on_one_line(last, step)
        ):
            yield last
        last = step
    if last is not None:
        yield last


def _on_one_line(a: Step, b: Step) -> bool:
    here = a.place
    there = b.place
    return here.file == there.file and here.line == there.line
