"""What a program costs: the bytes that each device holds of its arguments and results, and those that it sends.

A function is traced without devices, as ``prove`` traces it. Collectives written by hand are in its program
(``counting``), those that JAX's types ask for follow from them (``explicit``), and what moves an array from one layout
to another from both (``resharding``). What each collective sends is said in ``shardtypes.semantics.cost``.
"""

from __future__ import annotations

from shardtypes.costing.asking import cost as cost
from shardtypes.costing.report import Cost as Cost
from shardtypes.costing.report import Held as Held
from shardtypes.costing.report import Moved as Moved
