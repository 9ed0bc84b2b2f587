"""Which bugs does each tool see? Correct annotated programs, mutated at real sites; JAX says which are really wrong."""
