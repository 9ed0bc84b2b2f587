"""What the run time does not refuse at once: items put into containers later, values of generators, defaults."""

from __future__ import annotations

from pathlib import Path

from tests.engine.test_cases import expected, found, project

SOURCE = """
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

import jax.numpy as jnp
from shardtypes import f32


def lists(x: f32['B M'], y: f32['F'], ys: list[f32['F 2']]):
    columns: list[f32['M']] = [x[0]]
    columns.append(y)  # expect: ST203
    columns.insert(0, x)  # expect: ST203
    columns.extend([x[0], y])  # expect: ST203
    columns += [y]  # expect: ST203
    columns += ys  # expect: ST203
    return columns


def dicts(x: f32['B M'], y: f32['F'], given: dict[str, f32['M']]):
    columns: dict[str, f32['M']] = {}
    columns['w'] = y  # expect: ST203
    columns.update({'w': y})  # expect: ST203
    given['w'] = x  # expect: ST203
    return columns, given


@dataclass
class Cache:
    keys: dict[str, f32['B M']] = field(default_factory=dict)

    def fill(self, y: f32['F']):
        self.keys['a'] = y  # expect: ST203


class Batch(TypedDict):
    inputs: f32['B M']
    weights: f32['M']


def changed(batch: Batch) -> f32['B']:
    batch['weights'] = batch['inputs']  # expect: ST203
    return batch['inputs'] @ batch['weights'][0]


def generated(x: f32['B M'], y: f32['F']) -> Iterator[f32['B M']]:
    yield x
    yield y  # expect: ST201


async def streamed(x: f32['B M'], y: f32['F']) -> AsyncIterator[f32['B M']]:
    yield y  # expect: ST201


async def fetched(x: f32['B M']) -> f32['M']:
    return x[0]


async def awaited(x: f32['B M']):
    rows: f32['B M'] = await fetched(x)  # expect: ST203
    return rows


def with_default(x: f32['2 3'] = jnp.ones((3, 2))):  # expect: ST202
    return x
"""


def test_annotations_hold_for_what_is_given_later(tmp_path: Path) -> None:
    case = tmp_path / "later.py"
    case.write_text(SOURCE)
    assert sum(expected(case).values()) == SOURCE.count("# expect:")
    assert found(project(tmp_path), case) == expected(case)
