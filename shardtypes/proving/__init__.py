"""Does a program compute on many devices what it computes on one? Proved, or refuted with numbers and a line.

A function is traced twice, without devices: on a mesh of any size, and on one whose axes have size one (``tracing``,
``substitution``, ``program``). Both are run in numbers on simulated devices (``evaluation``, ``numbers``); where they
differ, their values are compared one by one (``alignment``, ``observed``) back to where it begins (``walk``).
"""

from __future__ import annotations

from shardtypes.proving.intermediates import Intermediate as Intermediate
from shardtypes.proving.intermediates import Intermediates as Intermediates
from shardtypes.proving.prover import follow as follow
from shardtypes.proving.prover import prove as prove
from shardtypes.proving.prover import prove_call as prove_call
from shardtypes.proving.verdict import Numbers as Numbers
from shardtypes.proving.verdict import Proof as Proof
from shardtypes.proving.verdict import Refuted as Refuted
from shardtypes.proving.verdict import Where as Where
