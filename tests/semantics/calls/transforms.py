"""Fourier transforms, convolutions, windows and segments."""

from __future__ import annotations

import numpy as np

from tests.semantics.call import Function, numbers
from tests.semantics.calls.arrays import CUBE, ROW, A
from tests.semantics.calls.entries import X, Y, each

_F = "jax.numpy.fft"
_IMAGE, _KERNEL = numbers((2, 7, 6, 4)), numbers((3, 2, 4, 5), seed=1)
_NHWC = ("NHWC", "HWIO", "NHWC")
_IDS = np.asarray([0, 2, 1, 2], np.int32)

CALLS = [
    *each(_F, "fft ifft", A + 1j * A[::-1].copy(), 5, 0, "ortho"),
    *each(_F, "fft rfft irfft hfft ihfft", A),
    *each(_F, "irfft", A, 7, 1, "forward"),
    *each(_F, "fft2 ifft2 fftn ifftn rfft2 rfftn irfft2 irfftn", CUBE),
    *each(_F, "fftfreq rfftfreq", 7, 0.5),
    *each(_F, "fftshift ifftshift", CUBE),
    *each("jax.lax", "fft", A, "RFFT", (6,)),
    *each("jax.numpy", "convolve correlate", ROW, numbers(3)),
    *each("jax.numpy", "convolve correlate", ROW, numbers(4), "same"),
    *each("jax.numpy", "convolve correlate", numbers(3), ROW, "valid"),
    *each("jax.numpy", "convolve correlate", numbers(4), ROW, "same"),
    *each("jax.numpy", "polymul", ROW, Y),
    *each(
        "jax.scipy.signal",
        "convolve correlate fftconvolve convolve2d correlate2d",
        A,
        numbers((3, 2)),
        "same",
    ),
    *each("jax.scipy.signal", "convolve", A, numbers((3, 2)), "valid"),
    *each(
        "jax.lax",
        "conv_general_dilated",
        _IMAGE,
        _KERNEL,
        (2, 1),
        "SAME",
        dimension_numbers=_NHWC,
    ),
    *each(
        "jax.lax",
        "conv_general_dilated",
        _IMAGE,
        numbers((3, 2, 2, 6), seed=1),
        (1, 2),
        ((1, 0), (2, -1)),
        lhs_dilation=(2, 1),
        rhs_dilation=(1, 2),
        dimension_numbers=_NHWC,
        feature_group_count=2,
    ),
    *each("jax.lax", "conv", numbers((2, 4, 7)), numbers((3, 4, 2)), (2,), "VALID"),
    *each(
        "jax.lax",
        "conv_with_general_padding",
        numbers((2, 4, 7)),
        numbers((3, 4, 2)),
        (2,),
        [(1, 2)],
        None,
        None,
    ),
    *each("jax.lax", "conv_transpose", _IMAGE, _KERNEL, (2, 1), "SAME"),
    *each("jax.lax", "conv_transpose", _IMAGE, _KERNEL, (2, 3), "VALID"),
    *each("jax.lax", "conv_transpose", _IMAGE, _KERNEL, (1, 1), "same"),
    *each(
        "jax.lax",
        "conv_transpose",
        _IMAGE,
        _KERNEL.swapaxes(-1, -2),
        (2, 1),
        "SAME",
        transpose_kernel=True,
    ),
    *each("jax.lax", "conv_transpose", numbers((2, 3)), numbers((3, 4)), (), "SAME"),
    *each("jax.lax", "conv_general_dilated_patches", _IMAGE, (2, 3), (2, 1), "SAME"),
    *each(
        "jax.lax",
        "conv_general_dilated_patches",
        numbers((2, 4, 7)),
        (3,),
        (2,),
        [(1, 2)],
        (2,),
        (1,),
        ("NWC", "OIW", "NWC"),
    ),
    *each(
        "jax.lax",
        "reduce_window",
        A,
        -np.inf,
        Function("jax.lax.max"),
        (2, 2),
        (2, 1),
        "SAME",
        smooth=False,
    ),
    *each(
        "jax.lax",
        "reduce_window",
        A,
        0.0,
        Function("jax.lax.add"),
        (2, 3),
        smooth=False,
    ),
    *each("jax.lax", "reduce", A, 0.0, Function("jax.lax.add"), (0,)),
    *each(
        "jax.ops",
        "segment_max segment_min segment_prod",
        X.repeat(2, 0)[:4],
        _IDS,
        4,
        smooth=False,
    ),
]
