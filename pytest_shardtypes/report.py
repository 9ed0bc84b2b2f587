"""The report file: the same facts as the terminal section, whole, as JSON or as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.page import page


def write(coverage: Coverage, path: Path, root: Path) -> str:
    """Write the report, making its folder, and say where it is (or why it could not be written)."""
    text = _json(coverage) if path.suffix == ".json" else page(coverage, root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        return f"report not written: {path}: {error.strerror}"
    return f"report: {path}"


def _json(coverage: Coverage) -> str:
    plain = coverage.to_json()
    plain["unreached"] = list(coverage.unreached)
    plain["unverified"] = [list(key) for key in coverage.unverified]
    return json.dumps(plain, indent=2, sort_keys=True) + "\n"
