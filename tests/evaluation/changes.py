"""Mistakes that people make in the programs beside this file, each as one change of the text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Change:
    """``old`` in a program becomes ``new``; ``found`` is text on the line that is reported, and ``says`` what is said.
    With ``diverges`` the copies of a weight part, of which each device keeps its own.
    """

    program: str
    name: str
    old: str
    new: str
    found: str
    says: str
    diverges: bool = False

    @property
    def text(self) -> str:
        """The program with the mistake in it."""
        right = source(self.program)
        assert right.count(self.old) == 1, f"{self.old!r} is not once in {self.program}"
        return right.replace(self.old, self.new)


def source(program: str) -> str:
    return (PROGRAMS / f"{program}.py").read_text()


CHANGES = (
    Change(
        "tensor_parallel",
        "bias_before_reduction",
        'out = summed(jax.nn.gelu(h @ p["w_in"]) @ p["w_out"])\n    return x + out + p["bias"], None',
        'out = summed(jax.nn.gelu(h @ p["w_in"]) @ p["w_out"] + p["bias"])\n    return x + out, None',
        "out = summed(",
        "`+` is applied to a partial sum over 't' and a replicated value: call lax.psum(…, 't') first",
    ),
    Change(
        "tensor_parallel",
        "no_sum_in_backward",
        'copied.defvjp(lambda x: (x, None), lambda _, g: (lax.psum(g, "t"),))',
        "copied.defvjp(lambda x: (x, None), lambda _, g: (g,))",
        "",
        "a partial sum over 't'",
        diverges=True,
    ),
    Change(
        "tensor_parallel",
        "gradients_not_summed_backward",
        'h = copied(norm(x, p["scale"]))',
        'h = norm(x, p["scale"])',
        "",
        "a partial sum over 't'",
        diverges=True,
    ),
    Change(
        "tensor_parallel",
        "summed_again_in_backward",
        'summed.defvjp(lambda x: (lax.psum(x, "t"), None), lambda _, g: (g,))',
        'summed.defvjp(lambda x: (lax.psum(x, "t"), None), lambda _, g: (lax.psum(g, "t"),))',
        "summed.defvjp",
        "multiplied by the number of devices",
        diverges=True,
    ),
    Change(
        "tensor_parallel",
        "gradients_not_summed",
        'grads = jax.tree.map(lambda g: lax.psum(g, "d"), grads)',
        "grads = jax.tree.map(lambda g: g, grads)",
        "w - RATE * g",
        "`-` is applied to a replicated value and a partial sum over 'd': call lax.psum(…, 'd') first",
        diverges=True,
    ),
    Change(
        "tensor_parallel",
        "mean_and_sum",
        '/ (lax.axis_size("d") * x.shape[0])',
        "/ x.shape[0]",
        "",
        "multiplied by the number of devices",
    ),
    Change(
        "tensor_parallel",
        "reduction_forgotten",
        'def summed(x):\n    return lax.psum(x, "t")\n\n\nsummed.defvjp(lambda x: (lax.psum(x, "t"), None)',
        "def summed(x):\n    return x\n\n\nsummed.defvjp(lambda x: (x, None)",
        "return x + out",
        "`+` is applied to a replicated value and a partial sum over 't': call lax.psum(…, 't') first",
        diverges=True,
    ),
    Change(
        "sharded_lookup",
        "no_offset",
        'local = ids - lax.axis_index("rows") * rows',
        "local = ids",
        "found = jnp.where(",
        "a value sharded over 'rows' along dimension 0 and a device-varying value",
    ),
    Change(
        "sharded_lookup",
        "rows_of_the_shard",
        '    at = at + lax.axis_index("rows") * table.shape[0]\n',
        "",
        "best, at = lax.top_k(",
        "lax.top_k is applied to a value sharded over 'rows' along dimension 1",
    ),
    Change(
        "sharded_lookup",
        "local_size",
        'lax.psum(jnp.sum(table * table), "rows") / ROWS',
        'lax.psum(jnp.sum(table * table), "rows") / table.shape[0]',
        "total = ",
        "`/` gives a value multiplied by the number of devices",
    ),
    Change(
        "sharded_lookup",
        "sum_of_means",
        'lax.pmean(jnp.mean(table, axis=0), "rows")',
        'lax.psum(jnp.mean(table, axis=0), "rows")',
        "mean = ",
        "lax.psum gives a value multiplied by the number of devices",
    ),
    Change(
        "ring_attention",
        "values_stay",
        '        v = lax.ppermute(v, "s", ring)\n',
        "",
        "",
        "a device-varying value",
    ),
    Change(
        "ring_attention",
        "local_positions",
        "rows = here * length + jnp.arange(length)",
        "rows = jnp.arange(length)",
        "",
        "'s'",
    ),
    Change(
        "ring_attention",
        "wrong_source",
        "source = (here - turn) % size",
        "source = (here + turn) % size",
        "",
        "'s'",
    ),
)
