"""What does Meta's spmd_types catch in manual programs, and what does the linter catch in the same programs in JAX?"""
