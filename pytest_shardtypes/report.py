"""The report file: the same facts as the terminal section, whole, as JSON or as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.page import page
from pytest_shardtypes.reasons import reasons
from shardtypes.whole_files import write_whole


class NotWritten(Exception):
    """The report could not be written; the message says where, why, and what to do."""


def write(coverage: Coverage, path: Path, root: Path) -> str:
    """Write the report, making its folder, and say where it is. Raises ``NotWritten``."""
    text = _json(coverage) if path.suffix == ".json" else page(coverage, root)
    try:
        write_whole(path, text)
    except OSError as error:
        raise NotWritten(
            f"report not written: {path}: {error.strerror or error}; make room or name another place with "
            "--shardtypes-report"
        ) from error
    return f"report: {path}"


def _json(coverage: Coverage) -> str:
    plain = coverage.to_json()
    plain["unreached"] = list(coverage.unreached)
    plain["unverified"] = [list(key) for key in coverage.unverified]
    plain["why_unverified"] = [
        [*key, list(reasons(coverage, key))] for key in coverage.unverified
    ]
    return json.dumps(plain, indent=2, sort_keys=True) + "\n"
