"""``shardlint annotate``: the annotations that functions lack, as far as what they do proves them.

``spelling`` writes a value as an annotation, ``inferring`` decides what each function lacks, ``editing`` and
``importing`` put it into the text, and ``command`` is the command line.
"""
