"""Libraries of layers in guarded code: ``flax.nnx``, ``flax.linen``, ``equinox.nn``, in numbers as their documentation
defines them.

What their layers compute is in ``functions``; how each library holds parameters and random keys, in a module of its
own.
"""
