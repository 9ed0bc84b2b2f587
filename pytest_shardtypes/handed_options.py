"""The options of a test run, handed to the processes that it starts, whatever plugin or conftest.py declared them."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

# What the command line of such a process says itself, what chooses tests (it is given their names), starts processes or
# a debugger, and what names a file to write: there is one of it, and the process that prints the summary writes it.
_NOT_HANDED = frozenset(
    """
    basetemp capture collectonly color confcutdir deselect file_or_dir help importmode inifilename keyword markexpr
    maxfail noconftest override_ini plugins pyargs rootdir version
    trace usepdb usepdb_cls
    dist distload loadgroup looponfail maxprocesses numprocesses px rsyncdir testrunuid tx
    allure_report_dir benchmark_json cov_source csvpath debug durations_path htmlpath json_report_file log_file
    pastebin report_log store_durations xmlpath
    """.split()
)


def write(options: argparse.Namespace, path: Path) -> None:
    """Write the options that other processes are to have. What cannot be pickled came from no command line."""
    handed = {}
    for name, value in vars(options).items():
        if name in _NOT_HANDED or name.startswith("shardtypes"):
            continue
        try:
            handed[name] = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError):
            continue
    path.write_bytes(pickle.dumps(handed))


def read(path: Path) -> dict[str, Any]:
    """The options that ``write`` wrote, by name."""
    return {
        name: pickle.loads(value)
        for name, value in pickle.loads(path.read_bytes()).items()
    }
