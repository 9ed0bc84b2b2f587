"""One run of ``pytest --shardtypes``: what is switched on when, and switched off again in the end."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_shardtypes import examples
from pytest_shardtypes.axes import BadMesh
from pytest_shardtypes.devices import FORCED, ForcedDevices, WrongDevices
from pytest_shardtypes.facts import Facts
from pytest_shardtypes.options import OPTIONS, Options, read_options
from pytest_shardtypes.processes import Processes
from pytest_shardtypes.rank import Rank, Reporter

if TYPE_CHECKING:
    from pytest_shardtypes.coverage import Coverage
    from pytest_shardtypes.hook import PackageHook
    from pytest_shardtypes.law_items import LawItems
    from pytest_shardtypes.proofs import Proving
    from pytest_shardtypes.recorded_calls import RecordedCalls
    from pytest_shardtypes.trace_items import Tracing

_EVERYTHING_KEY = "shardtypes_everything"
_WORKER_KEY = "shardtypes"
_MESH_FIXTURE = "_shardtypes_mesh"
_VARIANT_FIXTURE = "variant"


def start(config: pytest.Config, options: argparse.Namespace) -> Run:
    """The run of this configuration, begun on the first call. Raises ``pytest.UsageError``."""
    run = config.stash.get(RUN, None)
    if run is None:
        run = config.stash[RUN] = Run(config, read_options(config, options))
        run.begin()
    return run


class Run:
    """The hooks that act while ``--shardtypes`` is on, and what they share."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config = config
        self.options = config.stash[OPTIONS] = options
        self.forced = (
            None if options.devices is None else ForcedDevices(options.devices)
        )
        config.stash[FORCED] = self.forced
        self.hook: PackageHook | None = None
        self.tracing: Tracing | None = None
        self.laws: LawItems | None = None
        self.proving: Proving | None = None
        self._calls: RecordedCalls | None = None
        self.facts = Facts()
        self.rank = Rank.of()
        self.processes: Processes | None = None
        self._configured = False
        self._answers_before: Path | None = None
        self._examples_before = examples.exchange({})
        self._workers: list[Mapping[str, object]] = []

    def begin(self) -> None:
        """Force devices and start checking, before anything of the project is imported."""
        if not _is_installed("jax"):
            raise pytest.UsageError(
                "--shardtypes needs JAX: pip install 'shardtypes[jax]'"
            )
        try:
            if self.forced is not None:
                self.forced.force()
            self._join()
            importlib.import_module("jax")
            importlib.import_module("typeguard")
            from pytest_shardtypes import hook
        except pytest.UsageError:
            raise
        # a broken installation raises anything, and pytest would print a long traceback
        except Exception as error:
            raise pytest.UsageError(
                f"--shardtypes cannot start: JAX or typeguard does not import: {type(error).__name__}: {error}"
            ) from error
        packages = self.options.packages or hook.packages_in(self.config.rootpath)
        self.hook = hook.PackageHook(
            packages,
            self.config.getini("python_files"),
            self.options.all_annotations,
            self.options.jaxtyping,
        )
        self.hook.install()
        if not self.hook.switched_off:
            from pytest_shardtypes.proofs import Proving

            self.proving = Proving(
                self.config.rootpath,
                self.options.prove,
                self.options.report is not None,
            )
            self.proving.calls.install()

    def take_options(self) -> None:
        """Have the options of the run that started this process as one of several."""
        if self.rank is not None:
            self.rank.take_options(self.config)

    def _join(self) -> None:
        """Become one of several processes, if somebody started this one as such."""
        if self.rank is not None:
            self.rank.join()
        elif self.options.processes == 0 and not hasattr(self.config, "workerinput"):
            import jax

            try:
                jax.distributed.initialize()
            except (RuntimeError, ValueError) as error:
                raise pytest.UsageError(
                    f"--shardtypes-processes=0 joins the processes of a launcher, and there is none: {error}"
                ) from None

    def configure(self) -> None:
        """Register hooks and fixtures; force again, for a conftest.py may have started JAX its own way."""
        if self._configured:
            return
        self._configured = True
        from pytest_shardtypes import explaining, fixtures

        self.config.pluginmanager.register(self.facts, "shardtypes-facts")
        assert self.hook is not None
        if self.rank is not None:
            reporter = Reporter(self.config, self.rank, self._counted)
            self.config.pluginmanager.register(reporter, "shardtypes-reporter")
        elif self.options.processes and self.options.devices is not None:
            each = self.options.devices // self.options.processes
            self.processes = Processes(self.config, self.options.processes, each)
            self.config.pluginmanager.register(self.processes, "shardtypes-processes")
        if self.options.trace and not self.hook.switched_off:
            from pytest_shardtypes.law_items import LawItems, read_roles
            from pytest_shardtypes.recorded_calls import CALLS, RecordedCalls
            from pytest_shardtypes.trace_items import Tracing

            self.config.stash[CALLS] = self._calls = RecordedCalls()
            self._calls.install()
            self.laws = LawItems(read_roles(self.config.rootpath))
            root = self.config.rootpath
            self.tracing = Tracing(
                self.hook.packages, root, self._collects_everything(), self.laws.of
            )
            self.config.pluginmanager.register(self.tracing, "shardtypes-tracing")
            self.config.pluginmanager.register(self.laws, "shardtypes-laws")
            self.laws.calls.begin()
        self._answers_before = self._keep_answers()
        if self.proving is not None:
            self.config.pluginmanager.register(self.proving, "shardtypes-proving")
        self.config.pluginmanager.register(self, "shardtypes-run")
        self.config.pluginmanager.register(fixtures, "shardtypes-fixtures")
        self.config.pluginmanager.register(explaining, "shardtypes-explaining")
        if self.forced is not None:
            self.forced.force()

    def _keep_answers(self) -> Path | None:
        """Keep what the compiler says of shardings in pytest's cache, which warns by itself where it cannot write."""
        from shardtypes.answers_folder import keep_in

        folder = None
        with suppress(OSError):
            folder = self._cache_folder()
        return keep_in(folder)

    def _cache_folder(self) -> Path | None:
        """Ours in pytest's cache; None where that is switched off.

        Raises:
            OSError: it cannot be made.
        """
        cache = getattr(self.config, "cache", None)  # none with -p no:cacheprovider
        return None if cache is None else Path(cache.mkdir("shardtypes"))

    def _collects_everything(self) -> bool:
        """Whether the command line names no files, so that all functions of the packages are traced."""
        everything = getattr(self.config, "workerinput", {}).get(_EVERYTHING_KEY)
        return (
            self.config.args_source != pytest.Config.ArgsSource.ARGS
            if everything is None
            else bool(everything)
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker, which is given the paths one by one, what the user's command line was."""
        node.workerinput[_EVERYTHING_KEY] = self._collects_everything()

    def pytest_report_header(self) -> list[str]:
        """What is on, at the top of the run."""
        assert self.hook is not None
        devices = (
            "the devices that are there"
            if self.forced is None
            else f"{self.forced.count} CPU devices"
        )
        packages = (
            ", ".join(self.hook.packages) or "no packages found in the root directory"
        )
        if self.hook.switched_off:
            packages = "nothing: SHARDTYPES=0 in the environment turns all checks off"
        mesh = f"; mesh {self.options.mesh}" if self.options.mesh else ""
        restarts = [] if self.forced is None else self.forced.restarts
        return [
            f"shardtypes: {devices}{mesh}; checks {packages}",
            *(f"shardtypes: {text}" for text in restarts),
        ]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test once on each mesh of its marker ``meshes``, and once for each variant if it takes ``variant``."""
        _generate_variants(metafunc)
        marker = metafunc.definition.get_closest_marker("meshes")
        if marker is None:
            return
        from pytest_shardtypes.meshes import marked_meshes

        try:
            if metafunc.definition.get_closest_marker("mesh") is not None:
                raise BadMesh(
                    "a test has the marker mesh or the marker meshes, not both"
                )
            meshes = marked_meshes(marker)
        except BadMesh as error:
            raise pytest.Collector.CollectError(
                f"{metafunc.definition.nodeid}: {error}"
            ) from None
        metafunc.parametrize(
            _MESH_FIXTURE, meshes, indirect=True, ids=[str(axes) for axes in meshes]
        )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the devices once every test module is imported: a module may have started JAX with others."""
        if self.forced is not None and session.items:
            try:
                self.forced.verify()
            except WrongDevices as error:
                raise pytest.UsageError(f"--shardtypes: {error}") from None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Hand what was counted to the controller, if this is an xdist worker (which sends it once this is done)."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_WORKER_KEY] = self._counted().to_json()
        elif self.proving is not None:
            self._keep_verdicts(self.proving)

    def _keep_verdicts(self, proving: Proving) -> None:
        """Keep what was proved or refuted in pytest's cache, for editors to show."""
        try:
            folder = self._cache_folder()
            if folder is not None:
                proving.keep(folder)
        except OSError as error:
            warning = pytest.PytestCacheWarning(f"verdicts are not kept: {error}")
            self.config.issue_config_time_warning(warning, stacklevel=2)

    def _counted(self) -> Coverage:
        """What this process and those that it started have counted, and the workers of xdist."""
        from pytest_shardtypes import coverage

        assert self.hook is not None
        ranks = [] if self.processes is None else self.processes.coverage
        own = coverage.take(self.hook)
        if self.proving is not None:
            own = replace(own, not_compared=tuple(sorted(self.proving.calls.names)))
        return coverage.merge(
            [own, *map(coverage.Coverage.from_json, [*self._workers, *ranks])]
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Collect what a worker counted; a worker that crashed has nothing to give."""
        counted = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
        if counted is not None:
            self._workers.append(counted)

    def pytest_terminal_summary(
        self,
        terminalreporter: pytest.TerminalReporter,
        exitstatus: int,
    ) -> None:
        """Print what was checked, over all workers, and write the report."""
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        from pytest_shardtypes import report, summary

        assert self.hook is not None
        traced = {} if self.tracing is None else self.tracing.verdicts
        proved = {} if self.proving is None else self.proving.verdicts
        total = replace(
            self._counted(),
            traced=traced,
            proved=proved,
            intermediates={} if self.proving is None else self.proving.intermediates,
            collectives=self.facts.collectives,
            seconds=self.facts.seconds,
            laws={} if self.laws is None else self.laws.verdicts,
        )
        terminalreporter.section("shardtypes")
        for name in () if self.tracing is None else self.tracing.useless_examples:
            terminalreporter.line(
                f"trace_example({name!r}): there is no such function in {', '.join(self.hook.packages)}"
            )
        for text in self.facts.leaks:
            terminalreporter.line(f"undone for the tests after it: {text}")
        session = terminalreporter._session
        stopped = session is not None and bool(session.shouldfail or session.shouldstop)
        ran = summary.how_much_ran(exitstatus, stopped)
        for line in summary.lines(total, self.hook.packages, self.config.rootpath, ran):
            terminalreporter.line(line)
        for line in () if self.laws is None else self.laws.lines():
            terminalreporter.line(line)
        if self.options.fail_under is not None and ran is summary.Ran.ALL:
            missed = summary.below(total, self.options.fail_under)
            if missed is not None:
                terminalreporter.line(missed, red=True)
                _end_with(session, pytest.ExitCode.TESTS_FAILED)
        if self.options.report is None or not self._writes():
            return
        try:
            terminalreporter.line(
                report.write(total, self.options.report, self.config.rootpath)
            )
        except report.NotWritten as error:
            terminalreporter.line(str(error), red=True)
            _end_with(session, pytest.ExitCode.INTERNAL_ERROR)

    def _writes(self) -> bool:
        """Whether this process writes the report: of several that a launcher started, the first."""
        if self.options.processes != 0:
            return True
        import jax

        return jax.process_index() == 0

    def pytest_unconfigure(self) -> None:
        """Leave the process as it was found."""
        examples.exchange(self._examples_before)
        if self._configured:
            from shardtypes.answers_folder import keep_in

            keep_in(self._answers_before)
        if self.laws is not None:
            self.laws.calls.end()
        if self.proving is not None:
            self.proving.calls.uninstall()
        if self._calls is not None:
            self._calls.uninstall()
        if self.hook is not None:
            self.hook.uninstall()
        if self.forced is not None:
            self.forced.restore()


def _generate_variants(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("variants")
    if _VARIANT_FIXTURE not in metafunc.fixturenames:
        if marker is not None:
            raise pytest.Collector.CollectError(
                f"{metafunc.definition.nodeid}: a test with the marker variants takes the fixture variant"
            )
        return
    from pytest_shardtypes.variants import BadVariant, marked

    try:
        variants = marked(marker)
    except BadVariant as error:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: {error}"
        ) from None
    metafunc.parametrize(_VARIANT_FIXTURE, variants, indirect=True, ids=str)


def _end_with(session: pytest.Session | None, status: pytest.ExitCode) -> None:
    """Have a run that would end well end with another status."""
    if session is not None and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = status


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    # a finder refuses it, or None stands for it in sys.modules
    except (ImportError, ValueError):
        return False


RUN = pytest.StashKey[Run]()
