"""``shardlint cost``: the bytes that each device holds and sends, told from annotations, in the sizes that they name.

``sends`` keeps what the engine sees of collectives, ``formula`` has bytes as expressions, ``counting`` makes rows of
both, ``report`` prints them, ``kept`` compares with what was written to a file, ``command`` is the command
line. What each collective sends is said in
``shardtypes.semantics.cost``.
"""
