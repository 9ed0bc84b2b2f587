"""``shardlint convert``: annotations in another of the three forms that mean the same.

``names`` tells what names mean, ``finding`` finds annotations, ``spelling`` writes them in another form, ``importing``
mends the imports, ``files`` converts a text, and ``command`` is the command line.
"""
