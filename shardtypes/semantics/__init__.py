"""What operations do, declared once.

A *primitive* is declared in one place (``primitives/``): which dimension of which operand becomes which of the result,
how its values depend on those of its operands, its dtype, its gradient, and how it is evaluated on small arrays.
Everything else is a *reading* of the declarations: shapes and dtypes, the relation of a value on several devices to
what one device computes, gradients, and numbers on simulated devices. Public functions are short functions over
primitives.

Nothing here imports JAX or libcst, and NumPy is imported only when something is evaluated.
"""
