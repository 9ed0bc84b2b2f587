"""The annotation language: shape strings, exact size arithmetic, matching, findings. Standard library only."""

from __future__ import annotations

from shardtypes.lang.diagnostics import Diagnostic as Diagnostic
from shardtypes.lang.diagnostics import Edit as Edit
from shardtypes.lang.diagnostics import Fix as Fix
from shardtypes.lang.diagnostics import Place as Place
from shardtypes.lang.diagnostics import Related as Related
from shardtypes.lang.errors import ShapeSyntaxError as ShapeSyntaxError
from shardtypes.lang.facts import Different as Different
from shardtypes.lang.facts import Equal as Equal
from shardtypes.lang.facts import Facts as Facts
from shardtypes.lang.facts import Undecided as Undecided
from shardtypes.lang.facts import Verdict as Verdict
from shardtypes.lang.facts import broadcast as broadcast
from shardtypes.lang.facts import compare as compare
from shardtypes.lang.facts import find_witness as find_witness
from shardtypes.lang.format import format_shape as format_shape
from shardtypes.lang.format import format_witness as format_witness
from shardtypes.lang.parser import parse as parse
from shardtypes.lang.size import Size as Size
from shardtypes.lang.syntax import Dialect as Dialect
from shardtypes.lang.syntax import Dim as Dim
from shardtypes.lang.syntax import Shape as Shape
from shardtypes.lang.syntax import Span as Span
from shardtypes.lang.unify import Bindings as Bindings
from shardtypes.lang.unify import Mismatch as Mismatch
from shardtypes.lang.unify import unify as unify
