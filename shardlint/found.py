"""What was found in one file."""

from __future__ import annotations

from shardlint.knowledge import NOTHING_MET, Knowledge
from shardlint.project import Fact
from shardtypes.lang.diagnostics import Diagnostic, Edit, Place
from shardtypes.lang.frozen import frozen


@frozen
class ShownType:
    """What is known of a name: of a local where it is assigned, as ``--show-types`` prints it, or of a use. The use of
    an array without a name is an expression that gives it."""

    place: Place
    name: str
    text: str
    why: str | None

    @property
    def is_array(self) -> bool:
        """An array of known rank."""
        return self.why is None and self.text.endswith("']")


@frozen
class Proposal:
    """Annotations that a function lacks: ``edits`` write them, for which ``dtypes`` have to be imported. ``why`` says
    what is not known of it; ``place`` is its name."""

    name: str
    place: Place
    edits: tuple[Edit, ...]
    dtypes: tuple[str, ...]
    why: str | None


@frozen
class Way:
    """How a program comes to a result that depends on the number of devices along an axis: the finding (by its code and
    place), and the lines (file, number) that lead to where it begins and from there to the result."""

    code: str
    place: Place
    axis: str
    lines: frozenset[tuple[str, int]]


@frozen
class Found:
    """One analysed file. ``raw`` are findings before selection and suppression, with the lines that anchor each;
    ``known`` is how much is known of what is or may be an array; ``ways`` lead to what running the
    file finds; ``results`` are those of the findings, by code and place, that are of what a called function gives,
    where no place in the function is known; ``arrays`` is what expressions give, as ``shardlint.array_places`` writes
    it, if somebody asks; ``types`` and ``uses`` are what is known of names where they are assigned
    and used, ``proposals`` what functions lack in annotations, if somebody asks; ``read`` is what the analysis asked of
    the project; ``seconds`` are those of the processor that it took, 0 for one that was kept."""

    raw: tuple[Diagnostic, ...] = ()
    anchors: tuple[tuple[int, ...], ...] = ()
    gaps: tuple[tuple[str, int], ...] = ()
    known: Knowledge = NOTHING_MET
    ways: tuple[Way, ...] = ()
    results: tuple[tuple[str, Place], ...] = ()
    arrays: str = ""
    types: tuple[ShownType, ...] = ()
    uses: tuple[ShownType, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    crash: tuple[str, str] | None = None
    read: tuple[Fact, ...] = ()
    seconds: float = 0.0

    @property
    def kept(self) -> tuple[object, ...]:
        """What the cache keeps: the first fields."""
        return (
            self.raw,
            self.anchors,
            self.gaps,
            self.known,
            self.ways,
            self.results,
            self.arrays,
        )
