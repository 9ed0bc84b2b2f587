"""The public functions of JAX that are no lowerings, with reasons.

``python -m tests.semantics.public`` lists those without one.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import jax.scipy.stats

from shardtypes.semantics.lowerings import LOWERINGS

MODULES = """jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.nn jax.ops jax.random jax.scipy.special
jax.scipy.linalg jax.scipy.signal jax.scipy.integrate jax.scipy.fft jax.scipy.stats""".split()
MODULES += [
    f"jax.scipy.stats.{name}"
    for name, value in vars(jax.scipy.stats).items()
    if isinstance(value, ModuleType) and not name.startswith("_")
]

_REASONS = {
    "reads or writes files, text or buffers": """jax.numpy.array_repr jax.numpy.array_str jax.numpy.from_dlpack
        jax.numpy.frombuffer jax.numpy.fromfile jax.numpy.fromiter jax.numpy.fromstring jax.numpy.get_printoptions
        jax.numpy.load jax.numpy.printoptions jax.numpy.save jax.numpy.savez jax.numpy.set_printoptions""",
    "asks about types or shapes, not about numbers": """jax.numpy.can_cast jax.numpy.isdtype jax.numpy.isscalar
        jax.numpy.issubdtype jax.numpy.iterable jax.numpy.promote_types jax.numpy.result_type jax.numpy.einsum_path
        jax.lax.ConvGeneralDilatedDimensionNumbers jax.lax.DotDimensionNumbers jax.lax.PrecisionLike
        jax.lax.conv_general_permutations jax.lax.conv_general_shape_tuple jax.lax.conv_shape_tuple
        jax.lax.conv_transpose_shape_tuple jax.lax.dtype jax.lax.padtype_to_pads jax.lax.reduce_window_shape_tuple
        jax.lax.shape_as_value jax.nn.get_scaled_dot_general_config jax.random.key_dtype jax.random.key_impl""",
    "takes a function and follows it: the linter's evaluation has it, or not yet": """jax.numpy.apply_along_axis
        jax.numpy.frompyfunc jax.numpy.mask_indices jax.numpy.vectorize jax.lax.associative_scan jax.lax.composite
        jax.lax.cond jax.lax.custom_linear_solve jax.lax.custom_root jax.lax.fori_loop jax.lax.map
        jax.lax.platform_dependent jax.lax.scan jax.lax.stage jax.lax.switch jax.lax.while_loop
        jax.scipy.linalg.funm""",
    "orders effects between operations": """jax.lax.after_all jax.lax.create_token jax.lax.dce_sink""",
    "a collective that no simulated axis has yet": """jax.lax.pbroadcast jax.lax.precv jax.lax.psend
        jax.lax.pswapaxes jax.lax.ragged_all_to_all""",
    "its result depends on how floats are laid out in bits, and ours are held in double precision": """
        jax.lax.bitcast_convert_type jax.lax.mulhi jax.numpy.packbits jax.numpy.unpackbits
        jax.lax.rng_bit_generator jax.lax.rng_uniform""",
    "a general form whose uses have lowerings of their own": """jax.lax.gather jax.lax.scatter jax.lax.scatter_add
        jax.lax.scatter_apply jax.lax.scatter_max jax.lax.scatter_min jax.lax.scatter_mul jax.lax.scatter_sub
        jax.lax.index_take jax.lax.ragged_dot_general jax.lax.conv_general_dilated_local
        jax.lax.broadcast_like jax.lax.empty""",
    "JAX's own order among equal or unsorted entries is not documented": """jax.numpy.argpartition""",
    "not yet": """jax.numpy.histogram2d jax.numpy.histogramdd jax.numpy.intersect1d jax.numpy.polydiv
        jax.numpy.setdiff1d jax.numpy.setxor1d jax.numpy.sort_complex jax.numpy.unique_all jax.numpy.unique_inverse
        jax.lax.igamma_grad_a jax.lax.random_gamma_grad jax.lax.scaled_dot
        jax.nn.scaled_dot_general jax.nn.scaled_matmul
        jax.scipy.special.bessel_jn jax.scipy.special.hyp2f1 jax.scipy.special.owens_t
        jax.scipy.special.sph_harm_y jax.scipy.special.wofz jax.scipy.linalg.convolution_matrix
        jax.scipy.linalg.eigh_tridiagonal jax.scipy.linalg.expm_frechet jax.scipy.linalg.fiedler
        jax.scipy.linalg.fiedler_companion jax.scipy.linalg.hadamard jax.scipy.linalg.helmert
        jax.scipy.linalg.hessenberg jax.scipy.linalg.invhilbert jax.scipy.linalg.invpascal jax.scipy.linalg.leslie
        jax.scipy.linalg.lu jax.scipy.linalg.pascal jax.scipy.linalg.qr_multiply jax.scipy.linalg.rsf2csf
        jax.scipy.linalg.schur jax.scipy.linalg.solve_sylvester jax.scipy.linalg.sqrtm jax.scipy.signal.csd
        jax.scipy.signal.detrend jax.scipy.signal.istft jax.scipy.signal.stft jax.scipy.signal.welch
        jax.scipy.fft.dct jax.scipy.fft.dctn jax.scipy.fft.idct jax.scipy.fft.idctn jax.scipy.stats.mode
        jax.scipy.stats.poisson.entropy jax.random.multinomial""",
}
REASONS = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def public_functions() -> set[str]:
    """The qualified names of all public functions of JAX's modules of numbers."""
    found = set()
    for module in MODULES:
        for name, value in vars(importlib.import_module(module)).items():
            if (
                callable(value)
                and not inspect.isclass(value)
                and not name.startswith("_")
            ):
                found.add(f"{module}.{name}")
    return found


def missing() -> list[str]:
    """Those that are neither lowerings nor have a reason."""
    return sorted(public_functions() - set(LOWERINGS) - set(REASONS))


if __name__ == "__main__":
    print(*missing(), sep="\n")
