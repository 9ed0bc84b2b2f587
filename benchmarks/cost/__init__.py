"""``python -m benchmarks.cost``: what ``shardtypes.cost`` says beside what the compiled programs hold and send."""
