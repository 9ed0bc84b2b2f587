"""Sizes for which a call holds, and sizes for which it fails: found by what the program asks of symbolic sizes.

A call *holds* at some sizes, it is *broken* there (it runs, and an annotation does not hold), or it is *refused*: JAX
or the program itself raises, with or without the checks. Where it is refused it must not be called, so that is no
failure by itself. The same goes for sizes that are *meaningless*, for an annotation has none there: ``'H-h+1'`` where
``h`` is larger than ``H``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jax import export

from shardtypes import _stats
from shardtypes.certainty import (
    lacks_surroundings,
    needs_mesh,
    raised_by_program,
    unbound_axis,
    user_place,
    why_uncertain,
)
from shardtypes.errors import ShardTypeError, TypeCheckError
from shardtypes.lang import Size
from shardtypes.switches import enabled
from shardtypes.trace_calls import Call
from shardtypes.trace_fits import Fit, Fitter, Known
from shardtypes.trace_guesses import CannotTell
from shardtypes.trace_needs import Needs, size_of, watched
from shardtypes.trace_series import CHAINS, COMPOSITES, FAR_APART, PRIMES
from shardtypes.trace_sizes import Inexpressible, Sizes

_MOST_RUNS = 24
_MOST_FITS = 64
#: seconds of the processor's time after which nothing more is tried
_LONGEST = 60.0


@dataclass(frozen=True)
class Path:
    """What became of a call at symbolic sizes that have some needs built in."""

    sizes: Sizes
    error: Exception | None
    result: Any
    needs: Needs
    unbound: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether it holds for all sizes that it stands for."""
        return self.error is None and not self.needs.numbers and not self.sizes.open


@dataclass(frozen=True)
class Trial:
    """What became of a call at one assignment of sizes."""

    sizes: dict[str, int]
    outcome: Literal["holds", "broken", "refused", "meaningless"]
    error: Exception | None = None
    result: Any = None
    needs: tuple[str, ...] = ()
    few: bool = False


@dataclass
class Search:
    """Everything that is known of a call."""

    call: Call
    paths: list[Path] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    #: the equalities that it needs besides a configuration's, and a trial that has them
    only_where: tuple[str, ...] = ()
    #: what a program lacks around it, where it says so once sizes fit
    beyond: Exception | None = None
    #: the sizes that it loops over for which it holds whatever the others are
    proved_where: list[dict[str, int]] = field(default_factory=list)
    began: float = field(default_factory=time.thread_time)

    def of(self, outcome: str) -> list[Trial]:
        """The trials with this outcome."""
        return [trial for trial in self.trials if trial.outcome == outcome]

    @property
    def wrong(self) -> bool:
        """Whether it holds nowhere, or only for a few sizes of some name, and runs for others that break it."""
        return all(trial.few for trial in self.of("holds")) and bool(
            self.of("broken") or not self.of("holds")
        )

    @property
    def proved(self) -> bool:
        """Whether it holds for all sizes, without any need."""
        proved = all(path.proved and not path.sizes.partial for path in self.paths)
        return bool(self.paths) and proved and not self._failed

    @property
    def refused_everywhere(self) -> bool:
        """Whether all ways through it were followed, and end where JAX's rules for shapes refuse it."""
        ends = [path.error for path in self.paths]
        exact = not any(path.needs.integers for path in self.paths)
        return exact and all(
            error is None or why_uncertain(error) is None for error in ends
        )

    @property
    def _failed(self) -> bool:
        return any(trial.outcome != "holds" for trial in self.trials)

    def run(
        self,
        sizes: Sizes,
        known: Known,
        direct: frozenset[str],
        fields: frozenset[str],
    ) -> None:
        """Fill ``paths`` and ``trials``. ``known`` are numbers that a size may have to equal, and
        ``direct`` and ``fields`` the names of sizes that only the signature and only fields of dataclasses have."""
        self.paths = _explore(self.call, sizes)
        if isinstance(self.paths[-1].error, CannotTell):
            raise self.paths[-1].error
        sizes = replace(sizes, looped=self.looped)
        self._try(sizes, PRIMES[0])
        self._try(sizes, PRIMES[1], backwards=True)
        if self.looped and not self._failed:
            self._prove_steps(sizes)
        if not self._failed and all(
            path.error is None and not path.sizes.partial for path in self.paths
        ):
            return
        self._follow_paths()
        if self.wrong:
            for series in (COMPOSITES, FAR_APART):
                self._try(sizes, series)
                self._try(sizes, series, backwards=True)
        if self.wrong:
            self._try_chains(sizes, backwards=False)
            self._try_chains(sizes, backwards=True)
        if self.wrong and not self.of("broken"):
            self.beyond = self._error_of_surroundings()
        if self.wrong and self.beyond is None:
            self._fit(
                Fitter(
                    known,
                    direct,
                    fields,
                    [path.sizes for path in self.paths] or [sizes],
                )
            )

    def _error_of_surroundings(self) -> Exception | None:
        """What the program lacks around it at sizes that it accepts up to there, whatever it says of others."""
        errors = [*(t.error for t in self.trials), *(path.error for path in self.paths)]
        return next(filter(lacks_surroundings, errors), None)

    @property
    def looped(self) -> frozenset[str]:
        """The names of sizes that the program uses as numbers, as loops do."""
        return frozenset[str]().union(*(path.sizes.looped for path in self.paths))

    def _prove_steps(self, sizes: Sizes) -> None:
        """What holds for some numbers of steps may be shown for all of the other sizes."""
        for series, backwards in ((PRIMES[0], False), (PRIMES[1], True)):
            steps = sizes.steps(series, backwards)
            stepped = sizes.stepped(steps)
            if stepped is None or not _symbolic(self.call, stepped).proved:
                self.proved_where.clear()
                return
            self.proved_where.append(steps)

    def _try_chains(self, sizes: Sizes, backwards: bool) -> None:
        """Try sizes that divide each other; what holds for one such series only does so by chance."""
        tried = [
            replace(self._attempt(sizes.numbers(series, backwards)), few=True)
            for series in CHAINS
        ]
        if all(trial.outcome == "holds" for trial in tried):
            self.trials += [replace(trial, few=False) for trial in tried]
        else:
            self.trials += [trial for trial in tried if trial.outcome != "holds"]

    def _follow_paths(self) -> None:
        """Try numbers that have the needs of each path. JAX does not compare the elements of a reshape where sizes are
        symbols: where only numbers are refused, what the program divides is built in."""
        for path in list(self.paths):
            trials = [self._try(path.sizes, series) for series in PRIMES]
            if path.error is not None or all(
                trial.outcome != "refused" for trial in trials
            ):
                continue
            for exact in _explore(self.call, path.sizes, exact=True):
                if exact.sizes != path.sizes:
                    self.paths.append(exact)
                    for series in PRIMES:
                        self._try(exact.sizes, series)

    def _try(
        self, sizes: Sizes, series: Sequence[int], backwards: bool = False
    ) -> Trial:
        numbers = sizes.numbers(series, backwards)
        known = next((trial for trial in self.trials if trial.sizes == numbers), None)
        if known is not None:
            return known
        trial = replace(self._attempt(numbers), needs=sizes.needs, few=sizes.few)
        self.trials.append(trial)
        return trial

    def _attempt(self, numbers: dict[str, int]) -> Trial:
        if time.thread_time() - self.began > _LONGEST:
            raise CannotTell(
                f"it fails at the sizes that were tried in {_LONGEST:.0f} seconds; others may do: give an example"
            )
        return attempt(self.call, numbers)

    def _fit(self, fitter: Fitter) -> None:
        """Let sizes be equal to those of a configuration, and where that does not do to products of others, led by
        what the errors say."""
        waiting = [
            (Fit(sizes), self._try(sizes, PRIMES[0]))
            for sizes in reversed(fitter.starts)
        ]
        left = _MOST_FITS
        while waiting and left > 0:
            fit, before = waiting.pop(0)
            for made in fitter.fitted(fit, before):
                left -= 1
                trial = self._attempt(made.numbers(PRIMES[0]))
                if trial.outcome == "holds" and made.equal:
                    self.only_where = made.equal
                    return
                if trial.outcome == "holds":
                    self.trials += [trial, self._attempt(made.numbers(PRIMES[1]))]
                    return
                if unbound_axis(trial.error) is not None or needs_mesh(trial.error):
                    self.beyond = trial.error
                    return
                if _says_other(trial.error, before.error):
                    waiting.append((made, trial))


def _says_other(error: Exception | None, before: Exception | None) -> bool:
    """Whether a program got on, and fails elsewhere or for other sizes."""
    return (user_place(error), str(error)) != (user_place(before), str(before))


def attempt(call: Call, sizes: dict[str, int]) -> Trial:
    """Call it at these sizes; where it fails, once more without the checks."""
    try:
        return Trial(sizes, "holds", None, call.evaluate(sizes))
    except Exception as error:  # noqa: BLE001 - whatever user code raises is judged
        failed = error
    if not isinstance(failed, TypeCheckError):
        return Trial(sizes, "refused", failed)
    if _is_never_positive(_expected(failed)):
        return Trial(sizes, "meaningless", failed)
    with enabled(False):
        try:
            call.evaluate(sizes)
        except Exception:  # noqa: BLE001 - as above
            return Trial(sizes, "refused", failed)
    return Trial(sizes, "broken", failed)


def _explore(call: Call, sizes: Sizes, exact: bool = False) -> list[Path]:
    """Call it at symbolic sizes. Where it asks which of two sizes is larger, both ways are gone; where it fails after
    a division that need not be exact, and everywhere with ``exact``, exact ones are tried."""
    paths: list[Path] = []
    waiting = [sizes]
    for _ in range(_MOST_RUNS):
        if not waiting:
            break
        path = _symbolic(call, waiting.pop())
        more = _ways_on(path, exact)
        waiting += more
        is_last = not more and not (waiting or paths)
        if (
            is_last
            or not (more or _is_never_positive(_expected(path.error)))
            or (path.error is None and not exact)
        ):
            paths.append(path)
    return paths + [Path(left, _NotExplored(), None, Needs()) for left in waiting]


class _NotExplored(Exception):
    """More ways through a program than were followed."""


def _symbolic(call: Call, sizes: Sizes) -> Path:
    symbols = sizes.symbols
    made = export.symbolic_shape(", ".join(symbols)) if symbols else ()
    supposed = dict(
        zip(symbols, PRIMES[0] * (1 + len(symbols) // len(PRIMES[0])), strict=False)
    )
    before = dict(_stats._reasons)
    error: Exception | None = None
    result = None
    with watched(supposed) as needs:
        try:
            result = call.evaluate(sizes.valued(dict(zip(symbols, made, strict=True))))
        except Exception as raised:  # noqa: BLE001 - whatever user code raises at symbolic sizes is asked with numbers
            error = raised
    unbound = tuple(
        r
        for r, n in _stats._reasons.items()
        if n > before.get(r, 0) and r.startswith("size ")
    )
    return Path(sizes.counting(needs.looped(error)), error, result, needs, unbound)


def _ways_on(path: Path, exact: bool) -> list[Sizes]:
    sizes, needs = path.sizes, path.needs
    if path.error is None and exact:
        multiples = _with_divisions(sizes, needs)
        return [] if multiples is None else [multiples]
    if path.error is None:
        return _with_equalities(sizes, needs)
    if needs.compared is not None:
        return _both_orders(sizes, *needs.compared)
    expected = _expected(path.error)
    positive = None if expected is None else sizes.positive(expected)
    if expected is not None and positive is not None and not expected.is_nonnegative:
        return [positive]
    multiples = _with_divisions(sizes, needs)
    if multiples is not None:
        return [multiples]
    for first, second in needs.minima:
        if first.constant is None and second.constant is None:
            return _both_orders(sizes, first, second)
    if (
        expected is not None
        and positive is not None
        and not (expected - 1).is_nonnegative
    ):
        return [positive]
    # the program itself may ask for the very number
    return _with_equalities(sizes, needs) if raised_by_program(path.error) else []


def _with_equalities(sizes: Sizes, needs: Needs) -> list[Sizes]:
    """Sizes that have the numbers with which the program compared them."""
    pinned = [
        sizes.pinned(size, number) for size, number in dict.fromkeys(needs.equalities)
    ]
    return [found for found in pinned if found is not None]


def _expected(error: Exception | None) -> Size | None:
    """The size that an annotation gives by an expression, where that is what differs."""
    expected = error.expected if isinstance(error, ShardTypeError) else None
    return None if expected is None else size_of(expected)


def _is_never_positive(size: Size | None) -> bool:
    return size is not None and (-size).is_nonnegative


def _both_orders(sizes: Sizes, first: Size, second: Size) -> list[Sizes]:
    """With the first no smaller than the second, and the reverse; nothing where these cannot be built in."""
    try:
        both = [sizes.ordered(first, second), sizes.ordered(second, first + 1)]
    except Inexpressible:
        return []
    return [found for found in both if found is not None]


def _with_divisions(sizes: Sizes, needs: Needs) -> Sizes | None:
    """The sizes with everything exact that was divided; None where that is so already."""
    before = sizes
    for what, by in dict.fromkeys(needs.divisions):
        sizes = sizes.divided(what, by) or sizes
        if sizes is not before:
            return sizes
    return None
