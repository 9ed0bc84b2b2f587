"""The module that classes of evaluated programs say they are of: ``dataclasses`` looks up marks of fields in it."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar

__all__ = ["KW_ONLY", "ClassVar", "InitVar", "dataclasses", "typing"]
