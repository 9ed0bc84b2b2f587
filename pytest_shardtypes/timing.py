"""How long the checks of each function's arrays took, but for what a generated checker passes."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from shardtypes import _stats
from shardtypes.array_check import ArraySpec
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site


class CheckTimes:
    """Takes the time of every check while it is installed and checks are counted."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._check = ArraySpec.check

    def install(self) -> None:
        """From now on; a function that was called before is not seen, for it holds on to its checks."""
        seconds, check = self.seconds, self._check

        def timed(
            spec: ArraySpec, value: Any, table: Table, view: View, site: Site
        ) -> None:
            __tracebackhide__ = True
            # assert_sharding checks for no function
            if not (_stats.recording and site.function):
                check(spec, value, table, view, site)
                return
            begun = time.perf_counter()
            try:
                check(spec, value, table, view, site)
            finally:
                seconds[site.qualified] += time.perf_counter() - begun

        setattr(ArraySpec, "check", timed)  # noqa: B010 - mypy takes an assignment for a mistake

    def uninstall(self) -> None:
        """Back to the checks alone."""
        setattr(ArraySpec, "check", self._check)  # noqa: B010 - as above
