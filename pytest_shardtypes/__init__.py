"""``pytest --shardtypes``: run a test suite on forced devices with every annotation checked."""
