"""What the compiled programs of a run cost, read from the text that XLA dumps: sizes and communication per device."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

_COLLECTIVES = "all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all"
_NAMES = f"{_COLLECTIVES}|dot|convolution"
_OPERATION = re.compile(
    rf"^\s*(?:ROOT )?%?\S+ = (?P<result>.*?) (?P<name>{_NAMES})(?:-start)?\(", re.M
)
_LAYOUT = re.compile(
    r"entry_computation_layout=\{\((?P<arguments>.*)\)->(?P<results>.*)\}"
)
_ON_EIGHT = re.compile(r"(?:num_partitions|replica_count)=8")
_ARRAY = re.compile(r"\b(?P<dtype>pred|[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")


def costs(dump: Path) -> Counter[str]:
    """Summed over every program that runs on eight devices: how many collectives, and bytes of what."""
    total: Counter[str] = Counter()
    for path in sorted(dump.glob("*after_optimizations.txt")):
        text = path.read_text()
        head = text.partition("\n")[0]
        layout = _LAYOUT.search(head)
        if layout is None or not _ON_EIGHT.search(head):
            continue
        total["argument bytes"] += _bytes(layout["arguments"])
        total["result bytes"] += _bytes(layout["results"])
        for operation in _OPERATION.finditer(text):
            name = operation["name"]
            if name in _COLLECTIVES:
                total[name] += 1
            total[f"{name} bytes"] += _bytes(operation["result"])
    return total


def difference(before: Counter[str], after: Counter[str]) -> str:
    """What costs more or less, such as ``all-reduce 30 -> 64``; empty if nothing does."""
    names = sorted(before.keys() | after.keys())
    return ", ".join(
        f"{name} {before[name]} -> {after[name]}"
        for name in names
        if before[name] != after[name]
    )


def _bytes(text: str) -> int:
    return sum(
        _width(array["dtype"]) * _elements(array["sizes"])
        for array in _ARRAY.finditer(text)
    )


def _elements(sizes: str) -> int:
    return math.prod(int(size) for size in sizes.split(",") if size)


def _width(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1
