"""Evaluates parts of a program on small arrays and simulated devices, without importing it, JAX or anything of it.

The program's code runs as it is written, but in a closed world: names of JAX are our lowerings, arrays are ours, what
it may use of Python is a list of harmless names, and each attribute, import and loop is guarded. Files, processes and
networks do not exist there, and time and memory are bounded.
"""
