"""What ``from library import *`` binds, in any of the versions of the libraries that are tested."""

from __future__ import annotations

from collections.abc import Mapping

_SHARDTYPES = """
    Array DimSpec Layout LogicallyPartitioned RulesFallback Scope ShapeError ShapeSpec ShapeStringError ShardTypeError
    ShardingError anydtype axis_rules bf16 bool_ c128 c64 check check_size complexfloating cost enabled explain f16 f32
    f4_e2m1fn f64 f8_e3m4 f8_e4m3 f8_e4m3b11fnuz f8_e4m3fn f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu floating
    get_logical_axis_rules i16 i2 i32 i4 i64 i8 inexact install_import_hook integer is_fully_sharded key layout
    logical_to_mesh logical_to_mesh_axes logical_to_mesh_sharding make_partition_specs make_shardings mesh_dependent
    number prove pytree_dataclass register_with_typeguard scope set_logical_axis_rules shard signed source
    trace typechecked typed_shard_map u16 u2 u32 u4 u64 u8 unsigned with_logical_constraint
    with_logical_partitioning DroppedConstraint
"""
_JAX_NUMPY = """
    ComplexWarning abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis
    apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort
    argwhere around array array_equal array_equiv array_repr array_split array_str asarray asin asinh astype atan
    atan2 atanh atleast_1d atleast_2d atleast_3d average bartlett bfloat16 bincount bitwise_and bitwise_count
    bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman block bool bool_
    broadcast_arrays broadcast_shapes broadcast_to c_ can_cast cbrt cdouble ceil character choose clip column_stack
    complex128 complex64 complex_ complexfloating compress concat concatenate conj conjugate convolve copy copysign
    corrcoef correlate cos cosh count_nonzero cov cross csingle cumprod cumsum cumulative_prod cumulative_sum deg2rad
    degrees delete diag diag_indices diag_indices_from diagflat diagonal diff digitize divide divmod dot double dsplit
    dstack dtype e ediff1d einsum einsum_path empty empty_like equal euler_gamma exp exp2 expand_dims expm1 extract
    eye fabs fft fill_diagonal finfo flatnonzero flexible flip fliplr flipud float16 float32 float4_e2m1fn float64
    float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2
    float8_e5m2fnuz float8_e8m0fnu float_ float_power floating floor floor_divide fmax fmin fmod frexp from_dlpack
    frombuffer fromfile fromfunction fromiter frompyfunc fromstring full full_like gcd generic geomspace
    get_printoptions gradient greater greater_equal hamming hanning heaviside histogram histogram2d
    histogram_bin_edges histogramdd hsplit hstack hypot i0 identity iinfo imag index_exp indices inexact inf inner
    insert int1 int16 int2 int32 int4 int64 int8 int_ integer interp intersect1d invert isclose iscomplex iscomplexobj
    isdtype isfinite isin isinf isnan isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron
    lcm ldexp left_shift less less_equal lexsort linalg linspace load log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logspace mask_indices matmul matrix_transpose matvec max maximum
    mean median meshgrid mgrid min minimum minmax mod modf moveaxis multiply nan nan_to_num nanargmax nanargmin
    nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar
    ndarray ndim negative newaxis nextafter nonzero not_equal number object_ ogrid ones ones_like outer packbits pad
    partition percentile permute_dims pi piecewise place poly polyadd polyder polydiv polyfit polyint polymul polysub
    polyval positive pow power printoptions prod promote_types ptp put put_along_axis quantile r_ rad2deg radians
    ravel ravel_multi_index real reciprocal remainder repeat reshape resize result_type right_shift rint roll rollaxis
    roots rot90 round s_ save savez searchsorted select set_printoptions setdiff1d setxor1d shape sign signbit
    signedinteger sin sinc single sinh size sort sort_complex spacing split sqrt square squeeze stack std subtract sum
    swapaxes take take_along_axis tan tanh tensordot tile top_k trace transpose trapezoid tri tril tril_indices
    tril_indices_from trim_zeros triu triu_indices triu_indices_from true_divide trunc ufunc uint uint1 uint16 uint2
    uint32 uint4 uint64 uint8 union1d unique unique_all unique_counts unique_inverse unique_values unpackbits
    unravel_index unsignedinteger unstack unwrap vander var vdot vecdot vecmat vectorize vsplit vstack where zeros
    zeros_like
"""
_JAX_LAX = """
    AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm DotAlgorithmPreset
    DotDimensionNumbers FftType GatherDimensionNumbers GatherScatterMode Precision PrecisionLike
    RaggedDotDimensionNumbers RandomAlgorithm RoundingMethod ScatterDimensionNumbers Tolerance abs abs_p acos acos_p
    acosh acosh_p add add_p after_all after_all_p all_gather all_gather_p all_to_all all_to_all_p and_p approx_max_k
    approx_min_k approx_top_k_p argmax argmax_p argmin argmin_p asin asin_p asinh asinh_p associative_scan atan atan2
    atan2_p atan_p atanh atanh_p axis_index axis_index_p axis_size batch_matmul bessel_i0e bessel_i0e_p bessel_i1e
    bessel_i1e_p betainc bitcast_convert_type bitcast_convert_type_p bitwise_and bitwise_not bitwise_or bitwise_xor
    broadcast broadcast_in_dim broadcast_in_dim_p broadcast_like broadcast_shapes broadcast_to_rank broadcasted_iota
    cbrt cbrt_p ceil ceil_p clamp clamp_p clz clz_p collapse complex complex_p composite concatenate concatenate_p
    cond cond_p conj conj_p conv conv_dimension_numbers conv_general_dilated conv_general_dilated_local
    conv_general_dilated_p conv_general_dilated_patches conv_general_permutations conv_general_shape_tuple
    conv_shape_tuple conv_transpose conv_transpose_shape_tuple conv_with_general_padding convert_element_type
    convert_element_type_p copy_p cos cos_p cosh cosh_p create_token create_token_p cumlogsumexp cumlogsumexp_p cummax
    cummax_p cummin cummin_p cumprod cumprod_p cumsum cumsum_p custom_linear_solve custom_root dce_sink dce_sink_p
    device_put_p digamma digamma_p div div_p dot dot_general dot_general_p dtype dynamic_index_in_dim dynamic_slice
    dynamic_slice_in_dim dynamic_slice_p dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim
    dynamic_update_slice_p empty eq eq_p eq_to_p erf erf_inv erf_inv_p erf_p erfc erfc_p exp exp2 exp2_p exp_p
    expand_dims expm1 expm1_p fft fft_p floor floor_p fori_loop full full_like gather gather_p ge ge_p gt gt_p igamma
    igamma_grad_a igamma_grad_a_p igamma_p igammac igammac_p imag imag_p index_in_dim index_take integer_pow
    integer_pow_p iota iota_p is_finite is_finite_p le le_p le_to_p lgamma lgamma_p linalg linear_solve_p log log1p
    log1p_p log2 log2_p log_p logistic logistic_p lt lt_p lt_to_p map max max_p min min_p mul mul_p mulhi mulhi_p ne
    ne_p neg neg_p nextafter nextafter_p not_p one_minus_square one_minus_square_p optimization_barrier
    optimization_barrier_p or_p pad pad_p padtype_to_pads pbroadcast pcast platform_dependent pmax pmax_p pmean pmin
    pmin_p polygamma polygamma_p polynomial polynomial_p population_count population_count_p pow pow_p ppermute
    ppermute_p precv psend pshuffle psum psum_p psum_scatter psum_scatter_start pswapaxes ragged_all_to_all
    ragged_all_to_all_p ragged_dot ragged_dot_general random_gamma_grad real real_p reciprocal reduce reduce_and
    reduce_and_p reduce_max reduce_max_p reduce_min reduce_min_p reduce_or reduce_or_p reduce_p reduce_precision
    reduce_precision_p reduce_prod reduce_prod_p reduce_sum reduce_sum_p reduce_window reduce_window_max_p
    reduce_window_min_p reduce_window_p reduce_window_shape_tuple reduce_window_sum_p reduce_xor reduce_xor_p
    regularized_incomplete_beta_p rem rem_p reshape reshape_p rev rev_p rng_bit_generator rng_bit_generator_p
    rng_uniform rng_uniform_p round round_p rsqrt rsqrt_p scaled_dot scan scan_p scatter scatter_add scatter_add_p
    scatter_apply scatter_max scatter_max_p scatter_min scatter_min_p scatter_mul scatter_mul_p scatter_p scatter_sub
    scatter_sub_p select select_and_gather_add_p select_and_scatter_add_p select_and_scatter_p select_n select_n_p
    shape_as_value sharding_constraint_p shift_left shift_left_p shift_right_arithmetic shift_right_arithmetic_p
    shift_right_logical shift_right_logical_p sign sign_p sin sin_p sinh sinh_p slice slice_in_dim slice_p sort
    sort_key_val sort_p split split_p sqrt sqrt_p square square_p squeeze squeeze_p stack stack_p stage stage_p
    stop_gradient stop_gradient_p sub sub_p switch tan tan_p tanh tanh_p tile tile_p top_k top_k_p transpose
    transpose_p unstack unstack_p while_loop while_p with_sharding_constraint xor_p zeta zeta_p
"""
_JAX_NN = """
    celu dot_product_attention elu gelu get_scaled_dot_general_config glu hard_sigmoid hard_silu hard_swish hard_tanh
    identity initializers leaky_relu log1mexp log_sigmoid log_softmax logmeanexp logsumexp mish one_hot relu relu6
    scaled_dot_general scaled_matmul selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid
    squareplus standardize swish tanh
"""
_NUMPY = """
    False_ ScalarType True_ __array_namespace_info__ __version__ abs absolute acos acosh add all allclose amax amin
    angle any append apply_along_axis apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
    argmax argmin argpartition argsort argwhere around array array2string array_equal array_equiv array_repr
    array_split array_str asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray asin asinh asmatrix
    astype atan atan2 atanh atleast_1d atleast_2d atleast_3d average bartlett base_repr binary_repr bincount
    bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    blackman block bmat bool bool_ broadcast broadcast_arrays broadcast_shapes broadcast_to busday_count busday_offset
    busdaycalendar byte bytes_ c_ can_cast cbrt cdouble ceil char character choose clip clongdouble column_stack
    common_type complex128 complex256 complex64 complexfloating compress concat concatenate conj conjugate convolve
    copy copysign copyto core corrcoef correlate cos cosh count_nonzero cov cross csingle ctypeslib cumprod cumsum
    cumulative_prod cumulative_sum datetime64 datetime_as_string datetime_data deg2rad degrees delete diag
    diag_indices diag_indices_from diagflat diagonal diff digitize divide divmod dot double dsplit dstack dtype dtypes
    e ediff1d einsum einsum_path emath empty empty_like equal errstate euler_gamma exceptions exp exp2 expand_dims
    expm1 extract eye f2py fabs fft fill_diagonal finfo fix flatiter flatnonzero flexible flip fliplr flipud float128
    float16 float32 float64 float_power floating floor floor_divide fmax fmin fmod format_float_positional
    format_float_scientific frexp from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromregex
    fromstring full full_like gcd generic genfromtxt geomspace get_include get_printoptions getbufsize geterr
    geterrcall gradient greater greater_equal half hamming hanning heaviside histogram histogram2d histogram_bin_edges
    histogramdd hsplit hstack hypot i0 identity iinfo imag index_exp indices inexact inf info inner insert int16 int32
    int64 int8 int_ intc integer interp intersect1d intp invert is_busday isclose iscomplex iscomplexobj isdtype
    isfinite isfortran isin isinf isnan isnat isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_
    kaiser kron lcm ldexp left_shift less less_equal lexsort lib linalg linspace little_endian load loadtxt log log10
    log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace long longdouble longlong
    ma mask_indices matmul matrix matrix_transpose matvec max maximum may_share_memory mean median memmap meshgrid
    mgrid min min_scalar_type minimum mintypecode mod modf moveaxis multiply nan nan_to_num nanargmax nanargmin
    nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar
    ndarray ndenumerate ndim ndindex nditer negative nested_iters newaxis nextafter nonzero not_equal number object_
    ogrid ones ones_like outer packbits pad partition percentile permute_dims pi piecewise place poly poly1d polyadd
    polyder polydiv polyfit polyint polymul polynomial polysub polyval positive pow power printoptions prod
    promote_types ptp put put_along_axis putmask quantile r_ rad2deg radians random ravel ravel_multi_index real
    real_if_close rec recarray reciprocal record remainder repeat require reshape resize result_type right_shift rint
    roll rollaxis roots rot90 round row_stack s_ save savetxt savez savez_compressed sctypeDict searchsorted select
    set_printoptions setbufsize setdiff1d seterr seterrcall setxor1d shape shares_memory short show_config
    show_runtime sign signbit signedinteger sin sinc single sinh size sort sort_complex spacing split sqrt square
    squeeze stack std str_ strings subtract sum swapaxes take take_along_axis tan tanh tensordot test testing tile
    timedelta64 trace transpose trapezoid tri tril tril_indices tril_indices_from trim_zeros triu triu_indices
    triu_indices_from true_divide trunc typecodes typename typing ubyte ufunc uint uint16 uint32 uint64 uint8 uintc
    uintp ulong ulonglong union1d unique unique_all unique_counts unique_inverse unique_values unpackbits
    unravel_index unsignedinteger unstack unwrap ushort vander var vdot vecdot vecmat vectorize void vsplit vstack
    where zeros zeros_like
"""
STAR_EXPORTS: Mapping[str, frozenset[str]] = {
    "shardtypes": frozenset(_SHARDTYPES.split()),
    "jax.numpy": frozenset(_JAX_NUMPY.split()),
    "jax.lax": frozenset(_JAX_LAX.split()),
    "jax.nn": frozenset(_JAX_NN.split()),
    "numpy": frozenset(_NUMPY.split()),
}
