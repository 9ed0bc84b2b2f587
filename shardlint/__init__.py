"""The static half of shardtypes: a linter for shapes and shardings that imports neither JAX nor the user's code."""
