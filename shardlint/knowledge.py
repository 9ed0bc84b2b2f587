"""How much is known of the arrays of a file, or of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shardtypes.lang.frozen import frozen

#: What is known of an array, from most to least, as it is counted.
FULLY = "fully"
IN_PART = "in part"
RANK_ONLY = "rank only"
NOT_AT_ALL = "not at all"


@frozen
class Knowledge:
    """Of names that hold arrays, or may: of how many the rank and all sizes are known, the rank and some sizes, the
    rank alone, nothing; and for what ``reasons`` the last are not known, each with how often."""

    fully: int = 0
    in_part: int = 0
    rank_only: int = 0
    not_at_all: int = 0
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def ranks(self) -> int:
        """Of how many the rank is known."""
        return self.fully + self.in_part + self.rank_only

    @property
    def arrays(self) -> int:
        return self.ranks + self.not_at_all

    def shares(self) -> dict[str, int]:
        """How many are known how well, in order."""
        return {
            FULLY: self.fully,
            IN_PART: self.in_part,
            RANK_ONLY: self.rank_only,
            NOT_AT_ALL: self.not_at_all,
        }

    @classmethod
    def of_all(cls, several: Iterable[Knowledge]) -> Knowledge:
        """The sum."""
        counts: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for one in several:
            counts.update(one.shares())
            reasons.update(dict(one.reasons))
        return cls.counted(counts, reasons)

    @classmethod
    def counted(cls, counts: Counter[str], reasons: Counter[str]) -> Knowledge:
        """From how often each of ``shares`` was met, and each reason."""
        return cls(
            fully=counts[FULLY],
            in_part=counts[IN_PART],
            rank_only=counts[RANK_ONLY],
            not_at_all=counts[NOT_AT_ALL],
            reasons=tuple(sorted(reasons.items())),
        )


NOTHING_MET = Knowledge()
