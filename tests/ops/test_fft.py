"""``jnp.fft`` against JAX."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.strategies import COMMON, arrays, axes, axis_or_axes, positive, shapes
from tests.ops.tables import case, family, optional

FFT = "jax.numpy.fft"
dtypes = ("float32", "float32", "complex64", "int32", "bool", "bfloat16")
signals = st.one_of(arrays(positive, dtypes), arrays(shapes, dtypes))
several = optional(st.lists(axes, min_size=1, max_size=3).map(tuple))

test_fft = family(
    case(
        FFT,
        "fft ifft rfft irfft hfft ihfft",
        signals,
        n=optional(st.integers(0, 6)),
        axis=optional(axes),
    ),
    case(FFT, "fft2 ifft2 rfft2 irfft2", signals),
    case(FFT, "fft2 rfft2", signals, axes=optional(st.tuples(axes, axes))),
    case(FFT, "fftn ifftn rfftn irfftn", signals, axes=several),
    case(
        FFT,
        "fftn rfftn irfftn",
        signals,
        s=optional(st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    ),
    case(FFT, "fftfreq rfftfreq", st.integers(1, 7), optional(st.floats(0.5, 2))),
    case(FFT, "fftshift ifftshift", arrays(shapes, COMMON), optional(axis_or_axes)),
)
