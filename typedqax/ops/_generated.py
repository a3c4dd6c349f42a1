"""One typed object for each primitive of JAX 0.10.2.

Written by `python -m typedqax.ops._generate`; do not edit.
"""

# Annotations are evaluated here: as strings, TypedDict would compile each of them, and importing
# this module would take twice as long.
from collections.abc import Callable, Hashable
from typing import Any, Final, NotRequired, TypedDict

import jax
import numpy as np
from jax import Array, lax
from jax.core import ShapedArray
from jax.experimental.layout import Layout
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive
from jax.tree_util import PyTreeDef
from jax.typing import ArrayLike
from typing_extensions import Never

from typedqax.ops._op import (
    BinaryOp,
    HigherOrderOp,
    MultiBinaryOp,
    MultiQuaternaryOp,
    MultiUnaryOp,
    MultiVariadicOp,
    NullaryOp,
    QuaternaryOp,
    TernaryOp,
    UnaryOp,
    VariadicOp,
)

__all__ = [
    "AddupdateParams",
    "AllGatherInvariantParams",
    "AllGatherParams",
    "AllToAllParams",
    "ApproxTopKParams",
    "ArgmaxParams",
    "ArgminParams",
    "AxisIndexParams",
    "BitcastConvertTypeParams",
    "BroadcastInDimParams",
    "CallExportedParams",
    "CallParams",
    "CbrtParams",
    "CheckParams",
    "ClosedCallParams",
    "CompositeParams",
    "ConcatenateParams",
    "CondParams",
    "ConjParams",
    "ConvGeneralDilatedParams",
    "ConvertElementTypeParams",
    "CosParams",
    "CumlogsumexpParams",
    "CummaxParams",
    "CumminParams",
    "CumprodParams",
    "CumsumParams",
    "CustomJvpCallParams",
    "CustomLinParams",
    "CustomVjpCallParams",
    "CustomVmapCallParams",
    "DebugCallbackParams",
    "DebugPrintParams",
    "DevicePutParams",
    "DotGeneralParams",
    "DynamicSliceParams",
    "EigParams",
    "EighParams",
    "Empty2Params",
    "EmptyParams",
    "Exp2Params",
    "ExpParams",
    "Expm1Params",
    "FfiCallParams",
    "FftParams",
    "GatherParams",
    "Geqp3Params",
    "GetParams",
    "InspectShardingParams",
    "IntegerPowParams",
    "IoCallbackParams",
    "IotaParams",
    "JitParams",
    "LayoutConstraintParams",
    "LinearCallParams",
    "LinearSolveParams",
    "Log1pParams",
    "LogParams",
    "LogisticParams",
    "LuPivotsToPermutationParams",
    "MulParams",
    "NameParams",
    "NewRefParams",
    "OrmqrParams",
    "PadParams",
    "PlatformIndexParams",
    "PmaxParams",
    "PminParams",
    "PpermuteParams",
    "PsumInvariantParams",
    "PsumParams",
    "PureCallbackParams",
    "PvaryParams",
    "QrParams",
    "RaggedAllToAllParams",
    "RaggedDotGeneralParams",
    "RandomBitsParams",
    "RandomGammaParams",
    "RandomSeedParams",
    "RandomSplitParams",
    "RandomWrapParams",
    "ReduceAndParams",
    "ReduceMaxParams",
    "ReduceMinParams",
    "ReduceOrParams",
    "ReduceParams",
    "ReducePrecisionParams",
    "ReduceProdParams",
    "ReduceScatterParams",
    "ReduceSumParams",
    "ReduceWindowMaxParams",
    "ReduceWindowMinParams",
    "ReduceWindowParams",
    "ReduceWindowSumParams",
    "ReduceXorParams",
    "RematParams",
    "ReshapeParams",
    "ReshardParams",
    "RevParams",
    "RngBitGeneratorParams",
    "RngUniformParams",
    "RoundParams",
    "RsqrtParams",
    "RunStateParams",
    "ScaledDotParams",
    "ScanParams",
    "ScatterAddParams",
    "ScatterMaxParams",
    "ScatterMinParams",
    "ScatterMulParams",
    "ScatterParams",
    "ScatterSubParams",
    "SchurParams",
    "SelectAndGatherAddParams",
    "SelectAndScatterAddParams",
    "SelectAndScatterParams",
    "ShardMapParams",
    "ShardingConstraintParams",
    "SinParams",
    "SliceParams",
    "SortParams",
    "SplitParams",
    "SqrtParams",
    "SqueezeParams",
    "StackParams",
    "SvdParams",
    "SwapParams",
    "SymmetricProductParams",
    "TanParams",
    "TanhParams",
    "TileParams",
    "TopKParams",
    "TransposeParams",
    "TriangularSolveParams",
    "TridiagonalParams",
    "TridiagonalSolveParams",
    "UnstackParams",
    "WhileParams",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_any",
    "add_jaxvals",
    "addupdate",
    "after_all",
    "all_gather",
    "all_gather_invariant",
    "all_to_all",
    "and_",
    "approx_top_k",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "axis_index",
    "bessel_i0e",
    "bessel_i1e",
    "bitcast_convert_type",
    "broadcast_in_dim",
    "call",
    "call_exported",
    "cbrt",
    "ceil",
    "check",
    "cholesky",
    "cholesky_update",
    "clamp",
    "closed_call",
    "clz",
    "complex",
    "composite",
    "concatenate",
    "cond",
    "conj",
    "conv_general_dilated",
    "convert_element_type",
    "copy",
    "cos",
    "cosh",
    "create_token",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "custom_jvp_call",
    "custom_lin",
    "custom_linear_solve",
    "custom_vjp_call",
    "custom_vmap_call",
    "dce_sink",
    "debug_callback",
    "debug_print",
    "device_put",
    "digamma",
    "div",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "eig",
    "eigh",
    "empty",
    "empty2",
    "eq",
    "eq_to",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "ffi_call",
    "fft",
    "floor",
    "freeze",
    "gather",
    "ge",
    "geqp3",
    "geqrf",
    "get",
    "gt",
    "hessenberg",
    "householder_product",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "imag",
    "inspect_sharding",
    "integer_pow",
    "io_callback",
    "iota",
    "is_finite",
    "jit",
    "layout_constraint",
    "le",
    "le_to",
    "lgamma",
    "linear_call",
    "linear_solve",
    "log",
    "log1p",
    "logistic",
    "lt",
    "lt_to",
    "lu",
    "lu_pivots_to_permutation",
    "max",
    "min",
    "mul",
    "mulhi",
    "name",
    "ne",
    "neg",
    "new_ref",
    "nextafter",
    "not_",
    "optimization_barrier",
    "or_",
    "ormqr",
    "pad",
    "platform_index",
    "pmax",
    "pmin",
    "polygamma",
    "population_count",
    "pow",
    "ppermute",
    "psum",
    "psum_invariant",
    "pure_callback",
    "pvary",
    "qr",
    "ragged_all_to_all",
    "ragged_dot_general",
    "random_bits",
    "random_clone",
    "random_fold_in",
    "random_gamma",
    "random_seed",
    "random_split",
    "random_unwrap",
    "random_wrap",
    "real",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_precision",
    "reduce_prod",
    "reduce_scatter",
    "reduce_sum",
    "reduce_window",
    "reduce_window_max",
    "reduce_window_min",
    "reduce_window_sum",
    "reduce_xor",
    "regularized_incomplete_beta",
    "rem",
    "remat",
    "remat2",
    "reshape",
    "reshard",
    "rev",
    "rng_bit_generator",
    "rng_uniform",
    "round",
    "rsqrt",
    "run_state",
    "scaled_dot",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "schur",
    "select_and_gather_add",
    "select_and_scatter",
    "select_and_scatter_add",
    "select_n",
    "shard_map",
    "sharding_constraint",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "slice",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "sub",
    "svd",
    "swap",
    "symmetric_product",
    "tan",
    "tanh",
    "threefry2x32",
    "tile",
    "top_k",
    "transpose",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
    "unstack",
    "while_",
    "xor",
    "zeta",
]

JAX_VERSION: Final = "0.10.2"


class AddupdateParams(TypedDict):
    """The params of `ops.addupdate`."""

    tree: PyTreeDef


class AllGatherParams(TypedDict):
    """The params of `ops.all_gather`."""

    all_gather_dimension: int
    axis_index_groups: tuple[tuple[int, ...], ...] | None
    axis_name: tuple[Hashable, ...]
    axis_size: int
    tiled: bool


class AllGatherInvariantParams(TypedDict):
    """The params of `ops.all_gather_invariant`."""

    all_gather_dimension: int
    axis_name: tuple[Hashable, ...]
    axis_size: int
    tiled: bool


class AllToAllParams(TypedDict):
    """The params of `ops.all_to_all`."""

    axis_index_groups: tuple[tuple[int, ...], ...] | None
    axis_name: Hashable
    concat_axis: int
    split_axis: int
    tiled: bool


class ApproxTopKParams(TypedDict):
    """The params of `ops.approx_top_k`."""

    aggregate_to_topk: bool
    is_max_k: bool
    k: int
    recall_target: float
    reduction_dimension: int
    reduction_input_size_override: int


class ArgmaxParams(TypedDict):
    """The params of `ops.argmax`."""

    axes: tuple[int, ...]
    index_dtype: np.dtype


class ArgminParams(TypedDict):
    """The params of `ops.argmin`."""

    axes: tuple[int, ...]
    index_dtype: np.dtype


class AxisIndexParams(TypedDict):
    """The params of `ops.axis_index`."""

    axis_name: Hashable


class BitcastConvertTypeParams(TypedDict):
    """The params of `ops.bitcast_convert_type`."""

    new_dtype: np.dtype


class BroadcastInDimParams(TypedDict):
    """The params of `ops.broadcast_in_dim`."""

    broadcast_dimensions: tuple[int, ...]
    shape: tuple[int, ...]
    sharding: jax.sharding.Sharding | None


class CallParams(TypedDict):
    """The params of `ops.call`."""

    call_jaxpr: Jaxpr


class CallExportedParams(TypedDict):
    """The params of `ops.call_exported`."""

    exported: jax.export.Exported


class CbrtParams(TypedDict):
    """The params of `ops.cbrt`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class CheckParams(TypedDict):
    """The params of `ops.check`."""

    debug: bool
    err_tree: PyTreeDef


class ClosedCallParams(TypedDict):
    """The params of `ops.closed_call`."""

    call_jaxpr: ClosedJaxpr


class CompositeParams(TypedDict):
    """The params of `ops.composite`."""

    attributes: tuple[tuple[str, object], ...]
    jaxpr: ClosedJaxpr
    name: str
    version: int


class ConcatenateParams(TypedDict):
    """The params of `ops.concatenate`."""

    dimension: int


class CondParams(TypedDict):
    """The params of `ops.cond`."""

    branches: tuple[ClosedJaxpr, ...]
    branches_platforms: NotRequired[tuple[tuple[str, ...] | None, ...]]


class ConjParams(TypedDict):
    """The params of `ops.conj`."""

    input_dtype: np.dtype


class ConvGeneralDilatedParams(TypedDict):
    """The params of `ops.conv_general_dilated`."""

    batch_group_count: int
    dimension_numbers: lax.ConvDimensionNumbers
    feature_group_count: int
    lhs_dilation: tuple[int, ...]
    out_sharding: jax.sharding.Sharding | None
    padding: tuple[tuple[int, int], ...]
    precision: (
        lax.Precision
        | tuple[lax.Precision, lax.Precision]
        | lax.DotAlgorithm
        | lax.DotAlgorithmPreset
        | None
    )
    preferred_element_type: np.dtype | None
    rhs_dilation: tuple[int, ...]
    window_strides: tuple[int, ...]


class ConvertElementTypeParams(TypedDict):
    """The params of `ops.convert_element_type`."""

    new_dtype: np.dtype
    sharding: jax.sharding.Sharding | None
    weak_type: bool


class CosParams(TypedDict):
    """The params of `ops.cos`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class CumlogsumexpParams(TypedDict):
    """The params of `ops.cumlogsumexp`."""

    axis: int
    reverse: bool


class CummaxParams(TypedDict):
    """The params of `ops.cummax`."""

    axis: int
    reverse: bool


class CumminParams(TypedDict):
    """The params of `ops.cummin`."""

    axis: int
    reverse: bool


class CumprodParams(TypedDict):
    """The params of `ops.cumprod`."""

    axis: int
    reverse: bool


class CumsumParams(TypedDict):
    """The params of `ops.cumsum`."""

    axis: int
    reverse: bool


class CustomJvpCallParams(TypedDict):
    """The params of `ops.custom_jvp_call`."""

    call_jaxpr: ClosedJaxpr
    jvp_jaxpr_fun: object
    num_consts: int
    symbolic_zeros: bool


class CustomLinParams(TypedDict):
    """The params of `ops.custom_lin`."""

    bwd: object
    in_zeros: list[bool]
    num_res: int
    out_avals: list[ShapedArray]
    symbolic_zeros: bool


class CustomVjpCallParams(TypedDict):
    """The params of `ops.custom_vjp_call`."""

    bwd: object
    call_jaxpr: ClosedJaxpr
    fwd_jaxpr_thunk: object
    num_consts: int
    out_trees: Callable[[], object]
    symbolic_zeros: bool


class CustomVmapCallParams(TypedDict):
    """The params of `ops.custom_vmap_call`."""

    call: ClosedJaxpr
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    rule: object


class DebugCallbackParams(TypedDict):
    """The params of `ops.debug_callback`."""

    callback: Callable[..., object]
    effect: object
    partitioned: bool


class DebugPrintParams(TypedDict):
    """The params of `ops.debug_print`."""

    fmt: str
    has_placeholders: bool
    in_tree: PyTreeDef
    logging_record: None
    np_printoptions: tuple[
        tuple[None | str, ...] | tuple[bool | str, ...] | tuple[int | str, ...] | tuple[str, ...],
        ...,
    ]
    ordered: bool
    partitioned: bool
    static_args: tuple[object, ...]


class DevicePutParams(TypedDict):
    """The params of `ops.device_put`."""

    copy_semantics: tuple[object, ...]
    devices: tuple[object, ...]
    srcs: tuple[object, ...]


class DotGeneralParams(TypedDict):
    """The params of `ops.dot_general`."""

    dimension_numbers: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
    ]
    out_sharding: jax.sharding.Sharding | None
    precision: (
        lax.Precision
        | tuple[lax.Precision, lax.Precision]
        | lax.DotAlgorithm
        | lax.DotAlgorithmPreset
        | None
    )
    preferred_element_type: np.dtype | None


class DynamicSliceParams(TypedDict):
    """The params of `ops.dynamic_slice`."""

    slice_sizes: tuple[int, ...]


class EigParams(TypedDict):
    """The params of `ops.eig`."""

    compute_left_eigenvectors: bool
    compute_right_eigenvectors: bool
    enable_eigvec_derivs: bool
    implementation: lax.linalg.EigImplementation | None


class EighParams(TypedDict):
    """The params of `ops.eigh`."""

    algorithm: lax.linalg.EighImplementation | None
    lower: bool
    sort_eigenvalues: bool
    subset_by_index: tuple[int, int] | None


class EmptyParams(TypedDict):
    """The params of `ops.empty`."""

    dtype: np.dtype
    out_sharding: jax.sharding.Sharding | None
    shape: tuple[int, ...]


class Empty2Params(TypedDict):
    """The params of `ops.empty2`."""

    dtype: np.dtype
    memory_space: object


class ExpParams(TypedDict):
    """The params of `ops.exp`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class Exp2Params(TypedDict):
    """The params of `ops.exp2`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class Expm1Params(TypedDict):
    """The params of `ops.expm1`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class FfiCallParams(TypedDict):
    """The params of `ops.ffi_call`."""

    attributes: object
    custom_call_api_version: int
    has_side_effect: bool
    input_layouts: object
    input_output_aliases: object
    legacy_backend_config: object
    output_layouts: object
    result_avals: tuple[ShapedArray, ...]
    target_name: str
    vmap_method: str | None


class FftParams(TypedDict):
    """The params of `ops.fft`."""

    fft_lengths: tuple[int, ...]
    fft_type: lax.FftType


class GatherParams(TypedDict):
    """The params of `ops.gather`."""

    dimension_numbers: lax.GatherDimensionNumbers
    fill_value: Any
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    slice_sizes: tuple[int, ...]
    unique_indices: bool


class Geqp3Params(TypedDict):
    """The params of `ops.geqp3`."""

    use_magma: bool | None


class GetParams(TypedDict):
    """The params of `ops.get`."""

    tree: PyTreeDef


class InspectShardingParams(TypedDict):
    """The params of `ops.inspect_sharding`."""

    callback: Callable[..., object]


class IntegerPowParams(TypedDict):
    """The params of `ops.integer_pow`."""

    y: int


class IoCallbackParams(TypedDict):
    """The params of `ops.io_callback`."""

    callback: Callable[..., object]
    ordered: bool
    result_avals: tuple[ShapedArray, ...]
    sharding: jax.sharding.Sharding | None


class IotaParams(TypedDict):
    """The params of `ops.iota`."""

    dimension: int
    dtype: np.dtype
    shape: tuple[int, ...]
    sharding: jax.sharding.Sharding | None


class JitParams(TypedDict):
    """The params of `ops.jit`."""

    compiler_options_kvs: tuple[tuple[str, object], ...]
    ctx_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh
    donated_invars: tuple[bool, ...]
    in_layouts: tuple[object, ...]
    in_shardings: tuple[object, ...]
    inline: bool
    jaxpr: ClosedJaxpr
    keep_unused: bool
    name: str
    out_layouts: tuple[object, ...]
    out_shardings: tuple[object, ...]


class LayoutConstraintParams(TypedDict):
    """The params of `ops.layout_constraint`."""

    layout: Layout | None


class LinearCallParams(TypedDict):
    """The params of `ops.linear_call`."""

    callee: ClosedJaxpr
    num_callee_consts: int
    num_res: int
    transpose_thunk: Callable[..., object]


class LinearSolveParams(TypedDict):
    """The params of `ops.linear_solve`."""

    const_lengths: object
    jaxprs: object


class LogParams(TypedDict):
    """The params of `ops.log`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class Log1pParams(TypedDict):
    """The params of `ops.log1p`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class LogisticParams(TypedDict):
    """The params of `ops.logistic`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class LuPivotsToPermutationParams(TypedDict):
    """The params of `ops.lu_pivots_to_permutation`."""

    permutation_size: int


class MulParams(TypedDict):
    """The params of `ops.mul`."""

    out_dtype: NotRequired[np.dtype | None]


class NameParams(TypedDict):
    """The params of `ops.name`."""

    name: str


class NewRefParams(TypedDict):
    """The params of `ops.new_ref`."""

    kind: str | None
    memory_space: object


class OrmqrParams(TypedDict):
    """The params of `ops.ormqr`."""

    left: bool
    transpose: bool


class PadParams(TypedDict):
    """The params of `ops.pad`."""

    padding_config: tuple[tuple[int, int, int], ...]


class PlatformIndexParams(TypedDict):
    """The params of `ops.platform_index`."""

    platforms: tuple[tuple[str, ...] | None, ...]


class PmaxParams(TypedDict):
    """The params of `ops.pmax`."""

    axes: tuple[Hashable, ...]
    axis_index_groups: tuple[tuple[int, ...], ...] | None


class PminParams(TypedDict):
    """The params of `ops.pmin`."""

    axes: tuple[Hashable, ...]
    axis_index_groups: tuple[tuple[int, ...], ...] | None


class PpermuteParams(TypedDict):
    """The params of `ops.ppermute`."""

    axis_name: tuple[Hashable, ...]
    perm: tuple[tuple[int, int], ...]


class PsumParams(TypedDict):
    """The params of `ops.psum`."""

    axes: tuple[Hashable, ...]
    axis_index_groups: tuple[tuple[int, ...], ...] | None


class PsumInvariantParams(TypedDict):
    """The params of `ops.psum_invariant`."""

    axes: tuple[Hashable, ...]


class PureCallbackParams(TypedDict):
    """The params of `ops.pure_callback`."""

    callback: Callable[..., object]
    result_avals: tuple[ShapedArray, ...]
    sharding: jax.sharding.Sharding | None
    vmap_method: str | None


class PvaryParams(TypedDict):
    """The params of `ops.pvary`."""

    axes: tuple[Hashable, ...]


class QrParams(TypedDict):
    """The params of `ops.qr`."""

    full_matrices: bool
    pivoting: bool
    use_magma: bool | None


class RaggedAllToAllParams(TypedDict):
    """The params of `ops.ragged_all_to_all`."""

    axis_index_groups: tuple[tuple[int, ...], ...] | None
    axis_name: Hashable


class RaggedDotGeneralParams(TypedDict):
    """The params of `ops.ragged_dot_general`."""

    group_offset: Array | None
    out_sharding: jax.sharding.Sharding | None
    precision: (
        lax.Precision
        | tuple[lax.Precision, lax.Precision]
        | lax.DotAlgorithm
        | lax.DotAlgorithmPreset
        | None
    )
    preferred_element_type: np.dtype | None
    ragged_dot_dimension_numbers: lax.RaggedDotDimensionNumbers


class RandomBitsParams(TypedDict):
    """The params of `ops.random_bits`."""

    bit_width: int
    shape: tuple[int, ...]


class RandomGammaParams(TypedDict):
    """The params of `ops.random_gamma`."""

    log_space: bool


class RandomSeedParams(TypedDict):
    """The params of `ops.random_seed`."""

    impl: object


class RandomSplitParams(TypedDict):
    """The params of `ops.random_split`."""

    shape: tuple[int, ...]


class RandomWrapParams(TypedDict):
    """The params of `ops.random_wrap`."""

    impl: object


class ReduceParams(TypedDict):
    """The params of `ops.reduce`."""

    computation: Callable[..., object]
    dimensions: tuple[int, ...]
    jaxpr: ClosedJaxpr


class ReduceAndParams(TypedDict):
    """The params of `ops.reduce_and`."""

    axes: tuple[int, ...]


class ReduceMaxParams(TypedDict):
    """The params of `ops.reduce_max`."""

    axes: tuple[int, ...]


class ReduceMinParams(TypedDict):
    """The params of `ops.reduce_min`."""

    axes: tuple[int, ...]


class ReduceOrParams(TypedDict):
    """The params of `ops.reduce_or`."""

    axes: tuple[int, ...]


class ReducePrecisionParams(TypedDict):
    """The params of `ops.reduce_precision`."""

    exponent_bits: int
    mantissa_bits: int


class ReduceProdParams(TypedDict):
    """The params of `ops.reduce_prod`."""

    axes: tuple[int, ...]


class ReduceScatterParams(TypedDict):
    """The params of `ops.reduce_scatter`."""

    axis_index_groups: tuple[tuple[int, ...], ...] | None
    axis_name: tuple[Hashable, ...]
    axis_size: int
    scatter_dimension: int
    tiled: bool


class ReduceSumParams(TypedDict):
    """The params of `ops.reduce_sum`."""

    axes: tuple[int, ...]
    out_sharding: NotRequired[jax.sharding.Sharding | None]


class ReduceWindowParams(TypedDict):
    """The params of `ops.reduce_window`."""

    base_dilation: tuple[int, ...]
    consts: tuple[object, ...]
    jaxpr: Jaxpr
    padding: tuple[tuple[int, int], ...]
    window_dilation: tuple[int, ...]
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class ReduceWindowMaxParams(TypedDict):
    """The params of `ops.reduce_window_max`."""

    base_dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    window_dilation: tuple[int, ...]
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class ReduceWindowMinParams(TypedDict):
    """The params of `ops.reduce_window_min`."""

    base_dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    window_dilation: tuple[int, ...]
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class ReduceWindowSumParams(TypedDict):
    """The params of `ops.reduce_window_sum`."""

    base_dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    window_dilation: tuple[int, ...]
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class ReduceXorParams(TypedDict):
    """The params of `ops.reduce_xor`."""

    axes: tuple[int, ...]


class RematParams(TypedDict):
    """The params of `ops.remat`."""

    differentiated: bool
    jaxpr: Jaxpr
    policy: Callable[..., object] | None
    prevent_cse: bool


class ReshapeParams(TypedDict):
    """The params of `ops.reshape`."""

    dimensions: tuple[int, ...] | None
    new_sizes: tuple[int, ...]
    sharding: jax.sharding.Sharding | None


class ReshardParams(TypedDict):
    """The params of `ops.reshard`."""

    concrete_mesh: object
    dst_sharding: jax.sharding.Sharding


class RevParams(TypedDict):
    """The params of `ops.rev`."""

    dimensions: tuple[int, ...]


class RngBitGeneratorParams(TypedDict):
    """The params of `ops.rng_bit_generator`."""

    algorithm: lax.RandomAlgorithm
    dtype: np.dtype
    out_sharding: jax.sharding.Sharding | None
    shape: tuple[int, ...]


class RngUniformParams(TypedDict):
    """The params of `ops.rng_uniform`."""

    shape: tuple[int, ...]


class RoundParams(TypedDict):
    """The params of `ops.round`."""

    rounding_method: lax.RoundingMethod


class RsqrtParams(TypedDict):
    """The params of `ops.rsqrt`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class RunStateParams(TypedDict):
    """The params of `ops.run_state`."""

    is_initialized: tuple[bool, ...]
    jaxpr: Jaxpr
    which_linear: tuple[bool, ...]


class ScaledDotParams(TypedDict):
    """The params of `ops.scaled_dot`."""

    dimension_numbers: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
    ]
    preferred_element_type: np.dtype | None


class ScanParams(TypedDict):
    """The params of `ops.scan`."""

    jaxpr: ClosedJaxpr
    length: int
    num_carry: int
    num_consts: int
    reverse: bool
    unroll: int


class ScatterParams(TypedDict):
    """The params of `ops.scatter`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class ScatterAddParams(TypedDict):
    """The params of `ops.scatter_add`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class ScatterMaxParams(TypedDict):
    """The params of `ops.scatter_max`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class ScatterMinParams(TypedDict):
    """The params of `ops.scatter_min`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class ScatterMulParams(TypedDict):
    """The params of `ops.scatter_mul`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class ScatterSubParams(TypedDict):
    """The params of `ops.scatter_sub`."""

    dimension_numbers: lax.ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: lax.GatherScatterMode
    unique_indices: bool
    update_consts: tuple[object, ...]
    update_jaxpr: Jaxpr | None


class SchurParams(TypedDict):
    """The params of `ops.schur`."""

    compute_schur_vectors: bool
    select_callable: Callable[..., object] | None
    sort_eig_vals: bool


class SelectAndGatherAddParams(TypedDict):
    """The params of `ops.select_and_gather_add`."""

    base_dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    select_prim: Primitive
    window_dilation: tuple[int, ...]
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class SelectAndScatterParams(TypedDict):
    """The params of `ops.select_and_scatter`."""

    padding: tuple[tuple[int, int], ...]
    scatter_consts: tuple[object, ...]
    scatter_jaxpr: Jaxpr
    select_consts: tuple[object, ...]
    select_jaxpr: Jaxpr
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class SelectAndScatterAddParams(TypedDict):
    """The params of `ops.select_and_scatter_add`."""

    padding: tuple[tuple[int, int], ...]
    select_prim: Primitive
    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]


class ShardMapParams(TypedDict):
    """The params of `ops.shard_map`."""

    check_vma: bool
    in_specs: tuple[jax.sharding.PartitionSpec, ...]
    jaxpr: Jaxpr
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh
    newly_manual_axes: frozenset[Hashable]
    out_specs: tuple[jax.sharding.PartitionSpec, ...]


class ShardingConstraintParams(TypedDict):
    """The params of `ops.sharding_constraint`."""

    context_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh
    layout: Layout | None
    sharding: jax.sharding.Sharding
    unconstrained_dims: frozenset[int]


class SinParams(TypedDict):
    """The params of `ops.sin`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class SliceParams(TypedDict):
    """The params of `ops.slice`."""

    limit_indices: tuple[int, ...]
    start_indices: tuple[int, ...]
    strides: tuple[int, ...] | None


class SortParams(TypedDict):
    """The params of `ops.sort`."""

    dimension: int
    is_stable: bool
    num_keys: int


class SplitParams(TypedDict):
    """The params of `ops.split`."""

    axis: int
    sizes: tuple[int, ...]


class SqrtParams(TypedDict):
    """The params of `ops.sqrt`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class SqueezeParams(TypedDict):
    """The params of `ops.squeeze`."""

    dimensions: tuple[int, ...]


class StackParams(TypedDict):
    """The params of `ops.stack`."""

    axis: int


class SvdParams(TypedDict):
    """The params of `ops.svd`."""

    algorithm: lax.linalg.SvdAlgorithm | None
    compute_uv: bool
    full_matrices: bool
    subset_by_index: tuple[int, int] | None


class SwapParams(TypedDict):
    """The params of `ops.swap`."""

    tree: PyTreeDef


class SymmetricProductParams(TypedDict):
    """The params of `ops.symmetric_product`."""

    alpha: float
    beta: float


class TanParams(TypedDict):
    """The params of `ops.tan`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class TanhParams(TypedDict):
    """The params of `ops.tanh`."""

    accuracy: NotRequired[lax.AccuracyMode | lax.Tolerance | None]


class TileParams(TypedDict):
    """The params of `ops.tile`."""

    reps: tuple[int, ...]


class TopKParams(TypedDict):
    """The params of `ops.top_k`."""

    axis: int
    k: int


class TransposeParams(TypedDict):
    """The params of `ops.transpose`."""

    permutation: tuple[int, ...]


class TriangularSolveParams(TypedDict):
    """The params of `ops.triangular_solve`."""

    conjugate_a: bool
    left_side: bool
    lower: bool
    transpose_a: bool
    unit_diagonal: bool


class TridiagonalParams(TypedDict):
    """The params of `ops.tridiagonal`."""

    lower: bool


class TridiagonalSolveParams(TypedDict):
    """The params of `ops.tridiagonal_solve`."""

    perturb_singular: bool


class UnstackParams(TypedDict):
    """The params of `ops.unstack`."""

    axis: int


class WhileParams(TypedDict):
    """The params of `ops.while_`."""

    body_jaxpr: ClosedJaxpr
    body_nconsts: int
    cond_jaxpr: ClosedJaxpr
    cond_nconsts: int


def _abs_params() -> None: ...
def _addupdate_params(*, tree: PyTreeDef) -> None: ...
def _addupdate_handler(x: Never, y: Never, /, *operands: Never, tree: PyTreeDef) -> None: ...
def _addupdate_bind(
    x: ArrayLike, y: ArrayLike, /, *operands: ArrayLike, tree: PyTreeDef
) -> None: ...
def _after_all_handler(x: Never, /, *operands: Never) -> None: ...
def _after_all_bind(*operands: ArrayLike) -> None: ...
def _all_gather_params(
    *,
    all_gather_dimension: int,
    axis_index_groups: tuple[tuple[int, ...], ...] | None,
    axis_name: tuple[Hashable, ...],
    axis_size: int,
    tiled: bool,
) -> None: ...
def _all_gather_bind(
    *,
    all_gather_dimension: int,
    axis_index_groups: tuple[tuple[int, ...], ...] | None = None,
    axis_name: tuple[Hashable, ...],
    axis_size: int,
    tiled: bool,
) -> None: ...
def _all_gather_invariant_params(
    *, all_gather_dimension: int, axis_name: tuple[Hashable, ...], axis_size: int, tiled: bool
) -> None: ...
def _all_to_all_params(
    *,
    axis_index_groups: tuple[tuple[int, ...], ...] | None,
    axis_name: Hashable,
    concat_axis: int,
    split_axis: int,
    tiled: bool,
) -> None: ...
def _all_to_all_bind(
    *,
    axis_index_groups: tuple[tuple[int, ...], ...] | None = None,
    axis_name: Hashable,
    concat_axis: int,
    split_axis: int,
    tiled: bool,
) -> None: ...
def _approx_top_k_params(
    *,
    aggregate_to_topk: bool,
    is_max_k: bool,
    k: int,
    recall_target: float,
    reduction_dimension: int,
    reduction_input_size_override: int,
) -> None: ...
def _argmax_params(*, axes: tuple[int, ...], index_dtype: np.dtype) -> None: ...
def _axis_index_bind(*, axis_name: Hashable) -> None: ...
def _bitcast_convert_type_params(*, new_dtype: np.dtype) -> None: ...
def _broadcast_in_dim_params(
    *,
    broadcast_dimensions: tuple[int, ...],
    shape: tuple[int, ...],
    sharding: jax.sharding.Sharding | None,
) -> None: ...
def _broadcast_in_dim_bind(
    *,
    broadcast_dimensions: tuple[int, ...],
    shape: tuple[int, ...],
    sharding: jax.sharding.Sharding | None = None,
) -> None: ...
def _call_params(*, call_jaxpr: Jaxpr) -> None: ...
def _call_handler(x: Never, /, *operands: Never, call_jaxpr: Jaxpr) -> None: ...
def _call_bind(*operands: ArrayLike, call_jaxpr: Jaxpr) -> None: ...
def _call_exported_params(*, exported: jax.export.Exported) -> None: ...
def _call_exported_handler(
    x: Never, /, *operands: Never, exported: jax.export.Exported
) -> None: ...
def _call_exported_bind(*operands: ArrayLike, exported: jax.export.Exported) -> None: ...
def _cbrt_bind(*, accuracy: lax.AccuracyMode | lax.Tolerance | None = None) -> None: ...
def _check_params(*, debug: bool, err_tree: PyTreeDef) -> None: ...
def _check_handler(x: Never, /, *operands: Never, debug: bool, err_tree: PyTreeDef) -> None: ...
def _check_bind(*operands: ArrayLike, debug: bool, err_tree: PyTreeDef) -> None: ...
def _closed_call_params(*, call_jaxpr: ClosedJaxpr) -> None: ...
def _closed_call_handler(x: Never, /, *operands: Never, call_jaxpr: ClosedJaxpr) -> None: ...
def _closed_call_bind(*operands: ArrayLike, call_jaxpr: ClosedJaxpr) -> None: ...
def _composite_params(
    *, attributes: tuple[tuple[str, object], ...], jaxpr: ClosedJaxpr, name: str, version: int
) -> None: ...
def _composite_handler(
    x: Never,
    /,
    *operands: Never,
    attributes: tuple[tuple[str, object], ...],
    jaxpr: ClosedJaxpr,
    name: str,
    version: int,
) -> None: ...
def _composite_bind(
    *operands: ArrayLike,
    attributes: tuple[tuple[str, object], ...],
    jaxpr: ClosedJaxpr,
    name: str,
    version: int,
) -> None: ...
def _concatenate_params(*, dimension: int) -> None: ...
def _concatenate_handler(x: Never, /, *operands: Never, dimension: int) -> None: ...
def _concatenate_bind(*operands: ArrayLike, dimension: int) -> None: ...
def _cond_params(*, branches: tuple[ClosedJaxpr, ...]) -> None: ...
def _cond_handler(x: Never, /, *operands: Never, branches: tuple[ClosedJaxpr, ...]) -> None: ...
def _cond_bind(*operands: ArrayLike, branches: tuple[ClosedJaxpr, ...]) -> None: ...
def _conj_params(*, input_dtype: np.dtype) -> None: ...
def _conv_general_dilated_params(
    *,
    batch_group_count: int,
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int,
    lhs_dilation: tuple[int, ...],
    out_sharding: jax.sharding.Sharding | None,
    padding: tuple[tuple[int, int], ...],
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None,
    preferred_element_type: np.dtype | None,
    rhs_dilation: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _conv_general_dilated_bind(
    *,
    batch_group_count: int,
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int,
    lhs_dilation: tuple[int, ...],
    out_sharding: jax.sharding.Sharding | None = None,
    padding: tuple[tuple[int, int], ...],
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None = None,
    preferred_element_type: np.dtype | None = None,
    rhs_dilation: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _convert_element_type_params(
    *, new_dtype: np.dtype, sharding: jax.sharding.Sharding | None, weak_type: bool
) -> None: ...
def _convert_element_type_bind(
    *, new_dtype: np.dtype, sharding: jax.sharding.Sharding | None = None, weak_type: bool
) -> None: ...
def _cumlogsumexp_params(*, axis: int, reverse: bool) -> None: ...
def _custom_jvp_call_params(
    *, call_jaxpr: ClosedJaxpr, jvp_jaxpr_fun: object, num_consts: int, symbolic_zeros: bool
) -> None: ...
def _custom_jvp_call_handler(
    x: Never,
    /,
    *operands: Never,
    call_jaxpr: ClosedJaxpr,
    jvp_jaxpr_fun: object,
    num_consts: int,
    symbolic_zeros: bool,
) -> None: ...
def _custom_jvp_call_bind(
    *operands: ArrayLike,
    call_jaxpr: ClosedJaxpr,
    jvp_jaxpr_fun: object,
    num_consts: int,
    symbolic_zeros: bool,
) -> None: ...
def _custom_lin_params(
    *,
    bwd: object,
    in_zeros: list[bool],
    num_res: int,
    out_avals: list[ShapedArray],
    symbolic_zeros: bool,
) -> None: ...
def _custom_lin_handler(
    x: Never,
    /,
    *operands: Never,
    bwd: object,
    in_zeros: list[bool],
    num_res: int,
    out_avals: list[ShapedArray],
    symbolic_zeros: bool,
) -> None: ...
def _custom_lin_bind(
    *operands: ArrayLike,
    bwd: object,
    in_zeros: list[bool],
    num_res: int,
    out_avals: list[ShapedArray],
    symbolic_zeros: bool,
) -> None: ...
def _custom_vjp_call_params(
    *,
    bwd: object,
    call_jaxpr: ClosedJaxpr,
    fwd_jaxpr_thunk: object,
    num_consts: int,
    out_trees: Callable[[], object],
    symbolic_zeros: bool,
) -> None: ...
def _custom_vjp_call_handler(
    x: Never,
    /,
    *operands: Never,
    bwd: object,
    call_jaxpr: ClosedJaxpr,
    fwd_jaxpr_thunk: object,
    num_consts: int,
    out_trees: Callable[[], object],
    symbolic_zeros: bool,
) -> None: ...
def _custom_vjp_call_bind(
    *operands: ArrayLike,
    bwd: object,
    call_jaxpr: ClosedJaxpr,
    fwd_jaxpr_thunk: object,
    num_consts: int,
    out_trees: Callable[[], object],
    symbolic_zeros: bool,
) -> None: ...
def _custom_vmap_call_params(
    *, call: ClosedJaxpr, in_tree: PyTreeDef, out_tree: PyTreeDef, rule: object
) -> None: ...
def _custom_vmap_call_handler(
    x: Never,
    /,
    *operands: Never,
    call: ClosedJaxpr,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    rule: object,
) -> None: ...
def _custom_vmap_call_bind(
    *operands: ArrayLike, call: ClosedJaxpr, in_tree: PyTreeDef, out_tree: PyTreeDef, rule: object
) -> None: ...
def _debug_callback_params(
    *, callback: Callable[..., object], effect: object, partitioned: bool
) -> None: ...
def _debug_callback_handler(
    x: Never,
    /,
    *operands: Never,
    callback: Callable[..., object],
    effect: object,
    partitioned: bool,
) -> None: ...
def _debug_callback_bind(
    *operands: ArrayLike, callback: Callable[..., object], effect: object, partitioned: bool
) -> None: ...
def _debug_print_params(
    *,
    fmt: str,
    has_placeholders: bool,
    in_tree: PyTreeDef,
    logging_record: None,
    np_printoptions: tuple[
        tuple[None | str, ...] | tuple[bool | str, ...] | tuple[int | str, ...] | tuple[str, ...],
        ...,
    ],
    ordered: bool,
    partitioned: bool,
    static_args: tuple[object, ...],
) -> None: ...
def _debug_print_handler(
    x: Never,
    /,
    *operands: Never,
    fmt: str,
    has_placeholders: bool,
    in_tree: PyTreeDef,
    logging_record: None,
    np_printoptions: tuple[
        tuple[None | str, ...] | tuple[bool | str, ...] | tuple[int | str, ...] | tuple[str, ...],
        ...,
    ],
    ordered: bool,
    partitioned: bool,
    static_args: tuple[object, ...],
) -> None: ...
def _debug_print_bind(
    *operands: ArrayLike,
    fmt: str,
    has_placeholders: bool,
    in_tree: PyTreeDef,
    logging_record: None = None,
    np_printoptions: tuple[
        tuple[None | str, ...] | tuple[bool | str, ...] | tuple[int | str, ...] | tuple[str, ...],
        ...,
    ],
    ordered: bool,
    partitioned: bool,
    static_args: tuple[object, ...],
) -> None: ...
def _device_put_params(
    *, copy_semantics: tuple[object, ...], devices: tuple[object, ...], srcs: tuple[object, ...]
) -> None: ...
def _device_put_handler(
    x: Never,
    /,
    *operands: Never,
    copy_semantics: tuple[object, ...],
    devices: tuple[object, ...],
    srcs: tuple[object, ...],
) -> None: ...
def _device_put_bind(
    *operands: ArrayLike,
    copy_semantics: tuple[object, ...],
    devices: tuple[object, ...],
    srcs: tuple[object, ...],
) -> None: ...
def _dot_general_params(
    *,
    dimension_numbers: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
    ],
    out_sharding: jax.sharding.Sharding | None,
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None,
    preferred_element_type: np.dtype | None,
) -> None: ...
def _dot_general_bind(
    *,
    dimension_numbers: lax.DotDimensionNumbers,
    out_sharding: jax.sharding.Sharding | None = None,
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None = None,
    preferred_element_type: np.dtype | None = None,
) -> None: ...
def _dynamic_slice_params(*, slice_sizes: tuple[int, ...]) -> None: ...
def _dynamic_slice_handler(x: Never, /, *operands: Never, slice_sizes: tuple[int, ...]) -> None: ...
def _dynamic_slice_bind(
    x: ArrayLike, /, *operands: ArrayLike, slice_sizes: tuple[int, ...]
) -> None: ...
def _eig_params(
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: lax.linalg.EigImplementation | None,
) -> None: ...
def _eig_bind(
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: lax.linalg.EigImplementation | None = None,
) -> None: ...
def _eigh_params(
    *,
    algorithm: lax.linalg.EighImplementation | None,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: tuple[int, int] | None,
) -> None: ...
def _eigh_bind(
    *,
    algorithm: lax.linalg.EighImplementation | None = None,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: tuple[int, int] | None = None,
) -> None: ...
def _empty_bind(
    *, dtype: np.dtype, out_sharding: jax.sharding.Sharding | None = None, shape: tuple[int, ...]
) -> None: ...
def _empty2_bind(*, dtype: np.dtype, memory_space: object) -> None: ...
def _ffi_call_params(
    *,
    attributes: object,
    custom_call_api_version: int,
    has_side_effect: bool,
    input_layouts: object,
    input_output_aliases: object,
    legacy_backend_config: object,
    output_layouts: object,
    result_avals: tuple[ShapedArray, ...],
    target_name: str,
    vmap_method: str | None,
) -> None: ...
def _ffi_call_handler(
    x: Never,
    /,
    *operands: Never,
    attributes: object,
    custom_call_api_version: int,
    has_side_effect: bool,
    input_layouts: object,
    input_output_aliases: object,
    legacy_backend_config: object,
    output_layouts: object,
    result_avals: tuple[ShapedArray, ...],
    target_name: str,
    vmap_method: str | None,
) -> None: ...
def _ffi_call_bind(
    *operands: ArrayLike,
    attributes: object,
    custom_call_api_version: int,
    has_side_effect: bool,
    input_layouts: object,
    input_output_aliases: object,
    legacy_backend_config: object,
    output_layouts: object,
    result_avals: tuple[ShapedArray, ...],
    target_name: str,
    vmap_method: str | None = None,
) -> None: ...
def _fft_params(*, fft_lengths: tuple[int, ...], fft_type: lax.FftType) -> None: ...
def _gather_params(
    *,
    dimension_numbers: lax.GatherDimensionNumbers,
    fill_value: Any,
    indices_are_sorted: bool,
    mode: lax.GatherScatterMode,
    slice_sizes: tuple[int, ...],
    unique_indices: bool,
) -> None: ...
def _geqp3_params(*, use_magma: bool | None) -> None: ...
def _geqp3_bind(*, use_magma: bool | None = None) -> None: ...
def _get_handler(x: Never, /, *operands: Never, tree: PyTreeDef) -> None: ...
def _get_bind(x: ArrayLike, /, *operands: ArrayLike, tree: PyTreeDef) -> None: ...
def _inspect_sharding_params(*, callback: Callable[..., object]) -> None: ...
def _inspect_sharding_handler(
    x: Never, /, *operands: Never, callback: Callable[..., object]
) -> None: ...
def _inspect_sharding_bind(*operands: ArrayLike, callback: Callable[..., object]) -> None: ...
def _integer_pow_params(*, y: int) -> None: ...
def _io_callback_params(
    *,
    callback: Callable[..., object],
    ordered: bool,
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None,
) -> None: ...
def _io_callback_handler(
    x: Never,
    /,
    *operands: Never,
    callback: Callable[..., object],
    ordered: bool,
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None,
) -> None: ...
def _io_callback_bind(
    *operands: ArrayLike,
    callback: Callable[..., object],
    ordered: bool,
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None = None,
) -> None: ...
def _iota_bind(
    *,
    dimension: int,
    dtype: np.dtype,
    shape: tuple[int, ...],
    sharding: jax.sharding.Sharding | None = None,
) -> None: ...
def _jit_params(
    *,
    compiler_options_kvs: tuple[tuple[str, object], ...],
    ctx_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    donated_invars: tuple[bool, ...],
    in_layouts: tuple[object, ...],
    in_shardings: tuple[object, ...],
    inline: bool,
    jaxpr: ClosedJaxpr,
    keep_unused: bool,
    name: str,
    out_layouts: tuple[object, ...],
    out_shardings: tuple[object, ...],
) -> None: ...
def _jit_handler(
    x: Never,
    /,
    *operands: Never,
    compiler_options_kvs: tuple[tuple[str, object], ...],
    ctx_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    donated_invars: tuple[bool, ...],
    in_layouts: tuple[object, ...],
    in_shardings: tuple[object, ...],
    inline: bool,
    jaxpr: ClosedJaxpr,
    keep_unused: bool,
    name: str,
    out_layouts: tuple[object, ...],
    out_shardings: tuple[object, ...],
) -> None: ...
def _jit_bind(
    *operands: ArrayLike,
    compiler_options_kvs: tuple[tuple[str, object], ...],
    ctx_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    donated_invars: tuple[bool, ...],
    in_layouts: tuple[object, ...],
    in_shardings: tuple[object, ...],
    inline: bool,
    jaxpr: ClosedJaxpr,
    keep_unused: bool,
    name: str,
    out_layouts: tuple[object, ...],
    out_shardings: tuple[object, ...],
) -> None: ...
def _layout_constraint_params(*, layout: Layout | None) -> None: ...
def _layout_constraint_bind(*, layout: Layout | None = None) -> None: ...
def _linear_call_params(
    *,
    callee: ClosedJaxpr,
    num_callee_consts: int,
    num_res: int,
    transpose_thunk: Callable[..., object],
) -> None: ...
def _linear_call_handler(
    x: Never,
    /,
    *operands: Never,
    callee: ClosedJaxpr,
    num_callee_consts: int,
    num_res: int,
    transpose_thunk: Callable[..., object],
) -> None: ...
def _linear_call_bind(
    *operands: ArrayLike,
    callee: ClosedJaxpr,
    num_callee_consts: int,
    num_res: int,
    transpose_thunk: Callable[..., object],
) -> None: ...
def _linear_solve_params(*, const_lengths: object, jaxprs: object) -> None: ...
def _linear_solve_handler(
    x: Never, /, *operands: Never, const_lengths: object, jaxprs: object
) -> None: ...
def _linear_solve_bind(*operands: ArrayLike, const_lengths: object, jaxprs: object) -> None: ...
def _lu_pivots_to_permutation_params(*, permutation_size: int) -> None: ...
def _mul_bind(*, out_dtype: np.dtype | None = None) -> None: ...
def _name_params(*, name: str) -> None: ...
def _new_ref_params(*, kind: str | None, memory_space: object) -> None: ...
def _new_ref_bind(*, kind: str | None = None, memory_space: object) -> None: ...
def _ormqr_params(*, left: bool, transpose: bool) -> None: ...
def _pad_params(*, padding_config: tuple[tuple[int, int, int], ...]) -> None: ...
def _platform_index_bind(*, platforms: tuple[tuple[str, ...] | None, ...]) -> None: ...
def _pmax_params(
    *, axes: tuple[Hashable, ...], axis_index_groups: tuple[tuple[int, ...], ...] | None
) -> None: ...
def _pmax_bind(
    *, axes: tuple[Hashable, ...], axis_index_groups: tuple[tuple[int, ...], ...] | None = None
) -> None: ...
def _ppermute_params(
    *, axis_name: tuple[Hashable, ...], perm: tuple[tuple[int, int], ...]
) -> None: ...
def _psum_invariant_params(*, axes: tuple[Hashable, ...]) -> None: ...
def _pure_callback_params(
    *,
    callback: Callable[..., object],
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None,
    vmap_method: str | None,
) -> None: ...
def _pure_callback_handler(
    x: Never,
    /,
    *operands: Never,
    callback: Callable[..., object],
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None,
    vmap_method: str | None,
) -> None: ...
def _pure_callback_bind(
    *operands: ArrayLike,
    callback: Callable[..., object],
    result_avals: tuple[ShapedArray, ...],
    sharding: jax.sharding.Sharding | None = None,
    vmap_method: str | None = None,
) -> None: ...
def _qr_params(*, full_matrices: bool, pivoting: bool, use_magma: bool | None) -> None: ...
def _qr_bind(*, full_matrices: bool, pivoting: bool, use_magma: bool | None = None) -> None: ...
def _ragged_all_to_all_params(
    *, axis_index_groups: tuple[tuple[int, ...], ...] | None, axis_name: Hashable
) -> None: ...
def _ragged_all_to_all_handler(
    x: Never,
    /,
    *operands: Never,
    axis_index_groups: tuple[tuple[int, ...], ...] | None,
    axis_name: Hashable,
) -> None: ...
def _ragged_all_to_all_bind(
    *operands: ArrayLike,
    axis_index_groups: tuple[tuple[int, ...], ...] | None = None,
    axis_name: Hashable,
) -> None: ...
def _ragged_dot_general_params(
    *,
    group_offset: Array | None,
    out_sharding: jax.sharding.Sharding | None,
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None,
    preferred_element_type: np.dtype | None,
    ragged_dot_dimension_numbers: lax.RaggedDotDimensionNumbers,
) -> None: ...
def _ragged_dot_general_bind(
    *,
    group_offset: Array | None = None,
    out_sharding: jax.sharding.Sharding | None = None,
    precision: lax.Precision
    | tuple[lax.Precision, lax.Precision]
    | lax.DotAlgorithm
    | lax.DotAlgorithmPreset
    | None = None,
    preferred_element_type: np.dtype | None = None,
    ragged_dot_dimension_numbers: lax.RaggedDotDimensionNumbers,
) -> None: ...
def _random_bits_params(*, bit_width: int, shape: tuple[int, ...]) -> None: ...
def _random_gamma_params(*, log_space: bool) -> None: ...
def _random_seed_params(*, impl: object) -> None: ...
def _random_split_params(*, shape: tuple[int, ...]) -> None: ...
def _reduce_params(
    *, computation: Callable[..., object], dimensions: tuple[int, ...], jaxpr: ClosedJaxpr
) -> None: ...
def _reduce_handler(
    x: Never,
    /,
    *operands: Never,
    computation: Callable[..., object],
    dimensions: tuple[int, ...],
    jaxpr: ClosedJaxpr,
) -> None: ...
def _reduce_bind(
    *operands: ArrayLike,
    computation: Callable[..., object],
    dimensions: tuple[int, ...],
    jaxpr: ClosedJaxpr,
) -> None: ...
def _reduce_and_params(*, axes: tuple[int, ...]) -> None: ...
def _reduce_precision_params(*, exponent_bits: int, mantissa_bits: int) -> None: ...
def _reduce_scatter_params(
    *,
    axis_index_groups: tuple[tuple[int, ...], ...] | None,
    axis_name: tuple[Hashable, ...],
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
) -> None: ...
def _reduce_scatter_bind(
    *,
    axis_index_groups: tuple[tuple[int, ...], ...] | None = None,
    axis_name: tuple[Hashable, ...],
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
) -> None: ...
def _reduce_sum_bind(
    *, axes: tuple[int, ...], out_sharding: jax.sharding.Sharding | None = None
) -> None: ...
def _reduce_window_params(
    *,
    base_dilation: tuple[int, ...],
    consts: tuple[object, ...],
    jaxpr: Jaxpr,
    padding: tuple[tuple[int, int], ...],
    window_dilation: tuple[int, ...],
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _reduce_window_handler(
    x: Never,
    /,
    *operands: Never,
    base_dilation: tuple[int, ...],
    consts: tuple[object, ...],
    jaxpr: Jaxpr,
    padding: tuple[tuple[int, int], ...],
    window_dilation: tuple[int, ...],
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _reduce_window_bind(
    *operands: ArrayLike,
    base_dilation: tuple[int, ...],
    consts: tuple[object, ...],
    jaxpr: Jaxpr,
    padding: tuple[tuple[int, int], ...],
    window_dilation: tuple[int, ...],
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _reduce_window_max_params(
    *,
    base_dilation: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    window_dilation: tuple[int, ...],
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _remat_params(
    *, differentiated: bool, jaxpr: Jaxpr, policy: Callable[..., object] | None, prevent_cse: bool
) -> None: ...
def _remat_handler(
    x: Never,
    /,
    *operands: Never,
    differentiated: bool,
    jaxpr: Jaxpr,
    policy: Callable[..., object] | None,
    prevent_cse: bool,
) -> None: ...
def _remat_bind(
    *operands: ArrayLike,
    differentiated: bool,
    jaxpr: Jaxpr,
    policy: Callable[..., object] | None = None,
    prevent_cse: bool,
) -> None: ...
def _reshape_params(
    *,
    dimensions: tuple[int, ...] | None,
    new_sizes: tuple[int, ...],
    sharding: jax.sharding.Sharding | None,
) -> None: ...
def _reshape_bind(
    *,
    dimensions: tuple[int, ...] | None = None,
    new_sizes: tuple[int, ...],
    sharding: jax.sharding.Sharding | None = None,
) -> None: ...
def _reshard_params(*, concrete_mesh: object, dst_sharding: jax.sharding.Sharding) -> None: ...
def _rev_params(*, dimensions: tuple[int, ...]) -> None: ...
def _rng_bit_generator_params(
    *,
    algorithm: lax.RandomAlgorithm,
    dtype: np.dtype,
    out_sharding: jax.sharding.Sharding | None,
    shape: tuple[int, ...],
) -> None: ...
def _rng_bit_generator_bind(
    *,
    algorithm: lax.RandomAlgorithm,
    dtype: np.dtype,
    out_sharding: jax.sharding.Sharding | None = None,
    shape: tuple[int, ...],
) -> None: ...
def _round_params(*, rounding_method: lax.RoundingMethod) -> None: ...
def _run_state_params(
    *, is_initialized: tuple[bool, ...], jaxpr: Jaxpr, which_linear: tuple[bool, ...]
) -> None: ...
def _run_state_handler(
    x: Never,
    /,
    *operands: Never,
    is_initialized: tuple[bool, ...],
    jaxpr: Jaxpr,
    which_linear: tuple[bool, ...],
) -> None: ...
def _run_state_bind(
    *operands: ArrayLike,
    is_initialized: tuple[bool, ...],
    jaxpr: Jaxpr,
    which_linear: tuple[bool, ...],
) -> None: ...
def _scaled_dot_params(
    *,
    dimension_numbers: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
    ],
    preferred_element_type: np.dtype | None,
) -> None: ...
def _scaled_dot_bind(
    *, dimension_numbers: lax.DotDimensionNumbers, preferred_element_type: np.dtype | None = None
) -> None: ...
def _scan_params(
    *, jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int, reverse: bool, unroll: int
) -> None: ...
def _scan_handler(
    x: Never,
    /,
    *operands: Never,
    jaxpr: ClosedJaxpr,
    length: int,
    num_carry: int,
    num_consts: int,
    reverse: bool,
    unroll: int,
) -> None: ...
def _scan_bind(
    *operands: ArrayLike,
    jaxpr: ClosedJaxpr,
    length: int,
    num_carry: int,
    num_consts: int,
    reverse: bool,
    unroll: int,
) -> None: ...
def _scatter_params(
    *,
    dimension_numbers: lax.ScatterDimensionNumbers,
    indices_are_sorted: bool,
    mode: lax.GatherScatterMode,
    unique_indices: bool,
    update_consts: tuple[object, ...],
    update_jaxpr: Jaxpr | None,
) -> None: ...
def _scatter_bind(
    *,
    dimension_numbers: lax.ScatterDimensionNumbers,
    indices_are_sorted: bool,
    mode: lax.GatherScatterMode,
    unique_indices: bool,
    update_consts: tuple[object, ...],
    update_jaxpr: Jaxpr | None = None,
) -> None: ...
def _schur_params(
    *,
    compute_schur_vectors: bool,
    select_callable: Callable[..., object] | None,
    sort_eig_vals: bool,
) -> None: ...
def _schur_bind(
    *,
    compute_schur_vectors: bool,
    select_callable: Callable[..., object] | None = None,
    sort_eig_vals: bool,
) -> None: ...
def _select_and_gather_add_params(
    *,
    base_dilation: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    select_prim: Primitive,
    window_dilation: tuple[int, ...],
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _select_and_scatter_params(
    *,
    padding: tuple[tuple[int, int], ...],
    scatter_consts: tuple[object, ...],
    scatter_jaxpr: Jaxpr,
    select_consts: tuple[object, ...],
    select_jaxpr: Jaxpr,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _select_and_scatter_add_params(
    *,
    padding: tuple[tuple[int, int], ...],
    select_prim: Primitive,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
) -> None: ...
def _select_n_bind(x: ArrayLike, /, *operands: ArrayLike) -> None: ...
def _shard_map_params(
    *,
    check_vma: bool,
    in_specs: tuple[jax.sharding.PartitionSpec, ...],
    jaxpr: Jaxpr,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    newly_manual_axes: frozenset[Hashable],
    out_specs: tuple[jax.sharding.PartitionSpec, ...],
) -> None: ...
def _shard_map_handler(
    x: Never,
    /,
    *operands: Never,
    check_vma: bool,
    in_specs: tuple[jax.sharding.PartitionSpec, ...],
    jaxpr: Jaxpr,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    newly_manual_axes: frozenset[Hashable],
    out_specs: tuple[jax.sharding.PartitionSpec, ...],
) -> None: ...
def _shard_map_bind(
    *operands: ArrayLike,
    check_vma: bool,
    in_specs: tuple[jax.sharding.PartitionSpec, ...],
    jaxpr: Jaxpr,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    newly_manual_axes: frozenset[Hashable],
    out_specs: tuple[jax.sharding.PartitionSpec, ...],
) -> None: ...
def _sharding_constraint_params(
    *,
    context_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    layout: Layout | None,
    sharding: jax.sharding.Sharding,
    unconstrained_dims: frozenset[int],
) -> None: ...
def _sharding_constraint_bind(
    *,
    context_mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    layout: Layout | None = None,
    sharding: jax.sharding.Sharding,
    unconstrained_dims: frozenset[int],
) -> None: ...
def _slice_params(
    *,
    limit_indices: tuple[int, ...],
    start_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> None: ...
def _slice_bind(
    *,
    limit_indices: tuple[int, ...],
    start_indices: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
) -> None: ...
def _sort_params(*, dimension: int, is_stable: bool, num_keys: int) -> None: ...
def _sort_handler(
    x: Never, /, *operands: Never, dimension: int, is_stable: bool, num_keys: int
) -> None: ...
def _sort_bind(*operands: ArrayLike, dimension: int, is_stable: bool, num_keys: int) -> None: ...
def _split_params(*, axis: int, sizes: tuple[int, ...]) -> None: ...
def _stack_params(*, axis: int) -> None: ...
def _stack_handler(x: Never, /, *operands: Never, axis: int) -> None: ...
def _stack_bind(*operands: ArrayLike, axis: int) -> None: ...
def _svd_params(
    *,
    algorithm: lax.linalg.SvdAlgorithm | None,
    compute_uv: bool,
    full_matrices: bool,
    subset_by_index: tuple[int, int] | None,
) -> None: ...
def _svd_bind(
    *,
    algorithm: lax.linalg.SvdAlgorithm | None = None,
    compute_uv: bool,
    full_matrices: bool,
    subset_by_index: tuple[int, int] | None = None,
) -> None: ...
def _symmetric_product_params(*, alpha: float, beta: float) -> None: ...
def _tile_params(*, reps: tuple[int, ...]) -> None: ...
def _top_k_params(*, axis: int, k: int) -> None: ...
def _transpose_params(*, permutation: tuple[int, ...]) -> None: ...
def _triangular_solve_params(
    *, conjugate_a: bool, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> None: ...
def _tridiagonal_params(*, lower: bool) -> None: ...
def _tridiagonal_solve_params(*, perturb_singular: bool) -> None: ...
def _while_params(
    *, body_jaxpr: ClosedJaxpr, body_nconsts: int, cond_jaxpr: ClosedJaxpr, cond_nconsts: int
) -> None: ...
def _while_handler(
    x: Never,
    /,
    *operands: Never,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
) -> None: ...
def _while_bind(
    *operands: ArrayLike,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
) -> None: ...


abs: Final = UnaryOp("abs", _abs_params, _abs_params, doc="Absolute value, elementwise.")
"""Absolute value, elementwise."""

acos: Final = UnaryOp("acos", _abs_params, _abs_params, doc="Arc cosine, elementwise.")
"""Arc cosine, elementwise."""

acosh: Final = UnaryOp(
    "acosh", _abs_params, _abs_params, doc="Inverse hyperbolic cosine, elementwise."
)
"""Inverse hyperbolic cosine, elementwise."""

add: Final = BinaryOp("add", _abs_params, _abs_params, doc="Sum of two arrays, elementwise.")
"""Sum of two arrays, elementwise."""

add_jaxvals: Final = BinaryOp(
    "add_any",
    _abs_params,
    _abs_params,
    doc="Sum of two cotangents: what differentiation writes where a value is used twice.",
    attribute="add_jaxvals",
)
"""Sum of two cotangents: what differentiation writes where a value is used twice."""

addupdate: Final = MultiVariadicOp(
    "addupdate",
    _addupdate_params,
    _addupdate_handler,
    _addupdate_bind,
    doc="Adds to a mutable array reference.",
    path="state.primitives.addupdate_p",
)
"""Adds to a mutable array reference."""

after_all: Final = VariadicOp(
    "after_all",
    _abs_params,
    _after_all_handler,
    _after_all_bind,
    doc="A token that comes after all the given tokens.",
)
"""A token that comes after all the given tokens."""

all_gather: Final = UnaryOp(
    "all_gather",
    _all_gather_params,
    _all_gather_bind,
    doc="The operand of every device along a mesh axis, gathered into one array.",
)
"""The operand of every device along a mesh axis, gathered into one array."""

all_gather_invariant: Final = UnaryOp(
    "all_gather_invariant",
    _all_gather_invariant_params,
    _all_gather_invariant_params,
    doc="As `all_gather`, with a result known to be the same on every device.",
    path="lax.parallel.all_gather_invariant_p",
)
"""As `all_gather`, with a result known to be the same on every device."""

all_to_all: Final = UnaryOp(
    "all_to_all",
    _all_to_all_params,
    _all_to_all_bind,
    doc="Scatters one array axis over a mesh axis and gathers another.",
)
"""Scatters one array axis over a mesh axis and gathers another."""

and_: Final = BinaryOp(
    "and", _abs_params, _abs_params, doc="Bitwise or logical and, elementwise.", attribute="and_"
)
"""Bitwise or logical and, elementwise."""

approx_top_k: Final = MultiUnaryOp(
    "approx_top_k",
    _approx_top_k_params,
    _approx_top_k_params,
    doc="The largest or smallest values along an axis and their indices, approximately.",
)
"""The largest or smallest values along an axis and their indices, approximately."""

argmax: Final = UnaryOp(
    "argmax", _argmax_params, _argmax_params, doc="Index of the largest element along an axis."
)
"""Index of the largest element along an axis."""

argmin: Final = UnaryOp(
    "argmin", _argmax_params, _argmax_params, doc="Index of the smallest element along an axis."
)
"""Index of the smallest element along an axis."""

asin: Final = UnaryOp("asin", _abs_params, _abs_params, doc="Arc sine, elementwise.")
"""Arc sine, elementwise."""

asinh: Final = UnaryOp(
    "asinh", _abs_params, _abs_params, doc="Inverse hyperbolic sine, elementwise."
)
"""Inverse hyperbolic sine, elementwise."""

atan: Final = UnaryOp("atan", _abs_params, _abs_params, doc="Arc tangent, elementwise.")
"""Arc tangent, elementwise."""

atan2: Final = BinaryOp(
    "atan2", _abs_params, _abs_params, doc="Angle of the point (y, x), elementwise."
)
"""Angle of the point (y, x), elementwise."""

atanh: Final = UnaryOp(
    "atanh", _abs_params, _abs_params, doc="Inverse hyperbolic tangent, elementwise."
)
"""Inverse hyperbolic tangent, elementwise."""

axis_index: Final = NullaryOp(
    "axis_index", _axis_index_bind, doc="The index of this device along a mesh axis."
)
"""The index of this device along a mesh axis."""

bessel_i0e: Final = UnaryOp(
    "bessel_i0e",
    _abs_params,
    _abs_params,
    doc="Exponentially scaled modified Bessel function of order 0, elementwise.",
)
"""Exponentially scaled modified Bessel function of order 0, elementwise."""

bessel_i1e: Final = UnaryOp(
    "bessel_i1e",
    _abs_params,
    _abs_params,
    doc="Exponentially scaled modified Bessel function of order 1, elementwise.",
)
"""Exponentially scaled modified Bessel function of order 1, elementwise."""

bitcast_convert_type: Final = UnaryOp(
    "bitcast_convert_type",
    _bitcast_convert_type_params,
    _bitcast_convert_type_params,
    doc="The same bits read as another dtype.",
)
"""The same bits read as another dtype."""

broadcast_in_dim: Final = UnaryOp(
    "broadcast_in_dim",
    _broadcast_in_dim_params,
    _broadcast_in_dim_bind,
    doc="The operand in a larger shape; `broadcast_dimensions` says where its axes go.",
)
"""The operand in a larger shape; `broadcast_dimensions` says where its axes go."""

call: Final = HigherOrderOp(
    "call",
    _call_params,
    _call_handler,
    _call_bind,
    doc="Calls a function in the middle of a trace.",
)
"""Calls a function in the middle of a trace."""

call_exported: Final = MultiVariadicOp(
    "call_exported",
    _call_exported_params,
    _call_exported_handler,
    _call_exported_bind,
    doc="Calls a function that `jax.export` serialized.",
    path="export._export.call_exported_p",
)
"""Calls a function that `jax.export` serialized."""

cbrt: Final = UnaryOp("cbrt", _abs_params, _cbrt_bind, doc="Cube root, elementwise.")
"""Cube root, elementwise."""

ceil: Final = UnaryOp(
    "ceil", _abs_params, _abs_params, doc="Smallest integer not below, elementwise."
)
"""Smallest integer not below, elementwise."""

check: Final = MultiVariadicOp(
    "check",
    _check_params,
    _check_handler,
    _check_bind,
    doc="Raises inside `checkify` if an error has happened.",
    path="checkify.check_p",
)
"""Raises inside `checkify` if an error has happened."""

cholesky: Final = UnaryOp(
    "cholesky",
    _abs_params,
    _abs_params,
    doc="Cholesky factor of a symmetric positive definite matrix.",
)
"""Cholesky factor of a symmetric positive definite matrix."""

cholesky_update: Final = BinaryOp(
    "cholesky_update",
    _abs_params,
    _abs_params,
    doc="Cholesky factor of a matrix after a rank-one update.",
    path="lax.linalg.cholesky_update_p",
)
"""Cholesky factor of a matrix after a rank-one update."""

clamp: Final = TernaryOp(
    "clamp",
    _abs_params,
    _abs_params,
    doc="The middle operand, kept between the first and the last, elementwise.",
)
"""The middle operand, kept between the first and the last, elementwise."""

closed_call: Final = HigherOrderOp(
    "closed_call",
    _closed_call_params,
    _closed_call_handler,
    _closed_call_bind,
    doc="Calls a closed jaxpr.",
)
"""Calls a closed jaxpr."""

clz: Final = UnaryOp(
    "clz", _abs_params, _abs_params, doc="Number of leading zero bits, elementwise."
)
"""Number of leading zero bits, elementwise."""

complex: Final = BinaryOp(
    "complex", _abs_params, _abs_params, doc="Complex numbers from real and imaginary parts."
)
"""Complex numbers from real and imaginary parts."""

composite: Final = MultiVariadicOp(
    "composite",
    _composite_params,
    _composite_handler,
    _composite_bind,
    doc="Calls a jaxpr under a name that a compiler may replace whole.",
    path="lax.lax.composite_p",
)
"""Calls a jaxpr under a name that a compiler may replace whole."""

concatenate: Final = VariadicOp(
    "concatenate",
    _concatenate_params,
    _concatenate_handler,
    _concatenate_bind,
    doc="Arrays joined along an axis that they have.",
)
"""Arrays joined along an axis that they have."""

cond: Final = HigherOrderOp(
    "cond",
    _cond_params,
    _cond_handler,
    _cond_bind,
    doc="One of several branches, chosen by the first operand.",
)
"""One of several branches, chosen by the first operand."""

conj: Final = UnaryOp("conj", _conj_params, _conj_params, doc="Complex conjugate, elementwise.")
"""Complex conjugate, elementwise."""

conv_general_dilated: Final = BinaryOp(
    "conv_general_dilated",
    _conv_general_dilated_params,
    _conv_general_dilated_bind,
    doc="Convolution of an image by a kernel, with strides, padding, dilation and groups.",
)
"""Convolution of an image by a kernel, with strides, padding, dilation and groups."""

convert_element_type: Final = UnaryOp(
    "convert_element_type",
    _convert_element_type_params,
    _convert_element_type_bind,
    doc="The operand in another dtype.",
)
"""The operand in another dtype."""

copy: Final = UnaryOp("copy", _abs_params, _abs_params, doc="The same values in a new buffer.")
"""The same values in a new buffer."""

cos: Final = UnaryOp("cos", _abs_params, _cbrt_bind, doc="Cosine, elementwise.")
"""Cosine, elementwise."""

cosh: Final = UnaryOp("cosh", _abs_params, _abs_params, doc="Hyperbolic cosine, elementwise.")
"""Hyperbolic cosine, elementwise."""

create_token: Final = NullaryOp(
    "create_token", _abs_params, doc="A token that comes after nothing."
)
"""A token that comes after nothing."""

cumlogsumexp: Final = UnaryOp(
    "cumlogsumexp",
    _cumlogsumexp_params,
    _cumlogsumexp_params,
    doc="Running log of the sum of exponentials along an axis.",
)
"""Running log of the sum of exponentials along an axis."""

cummax: Final = UnaryOp(
    "cummax", _cumlogsumexp_params, _cumlogsumexp_params, doc="Running maximum along an axis."
)
"""Running maximum along an axis."""

cummin: Final = UnaryOp(
    "cummin", _cumlogsumexp_params, _cumlogsumexp_params, doc="Running minimum along an axis."
)
"""Running minimum along an axis."""

cumprod: Final = UnaryOp(
    "cumprod", _cumlogsumexp_params, _cumlogsumexp_params, doc="Running product along an axis."
)
"""Running product along an axis."""

cumsum: Final = UnaryOp(
    "cumsum", _cumlogsumexp_params, _cumlogsumexp_params, doc="Running sum along an axis."
)
"""Running sum along an axis."""

custom_jvp_call: Final = HigherOrderOp(
    "custom_jvp_call",
    _custom_jvp_call_params,
    _custom_jvp_call_handler,
    _custom_jvp_call_bind,
    doc="Calls a function that has its own jvp rule.",
)
"""Calls a function that has its own jvp rule."""

custom_lin: Final = HigherOrderOp(
    "custom_lin",
    _custom_lin_params,
    _custom_lin_handler,
    _custom_lin_bind,
    doc="The linear part of a function that has its own vjp rule, while it is linearized.",
)
"""The linear part of a function that has its own vjp rule, while it is linearized."""

custom_vjp_call: Final = HigherOrderOp(
    "custom_vjp_call",
    _custom_vjp_call_params,
    _custom_vjp_call_handler,
    _custom_vjp_call_bind,
    doc="Calls a function that has its own vjp rule.",
)
"""Calls a function that has its own vjp rule."""

custom_vmap_call: Final = HigherOrderOp(
    "custom_vmap_call",
    _custom_vmap_call_params,
    _custom_vmap_call_handler,
    _custom_vmap_call_bind,
    doc="Calls a function that has its own vmap rule.",
    path="custom_batching.custom_vmap_p",
)
"""Calls a function that has its own vmap rule."""

dce_sink: Final = MultiVariadicOp(
    "dce_sink",
    _abs_params,
    _after_all_handler,
    _after_all_bind,
    doc="Keeps a value from being removed as unused.",
    path="lax.lax.dce_sink_p",
)
"""Keeps a value from being removed as unused."""

debug_callback: Final = MultiVariadicOp(
    "debug_callback",
    _debug_callback_params,
    _debug_callback_handler,
    _debug_callback_bind,
    doc="Calls Python for debugging, without a result.",
    path="debugging.debug_callback_p",
)
"""Calls Python for debugging, without a result."""

debug_print: Final = MultiVariadicOp(
    "debug_print",
    _debug_print_params,
    _debug_print_handler,
    _debug_print_bind,
    doc="Prints values while the program runs.",
    path="debugging.debug_print_p",
)
"""Prints values while the program runs."""

device_put: Final = MultiVariadicOp(
    "device_put",
    _device_put_params,
    _device_put_handler,
    _device_put_bind,
    doc="The operands on other devices, or with another sharding.",
)
"""The operands on other devices, or with another sharding."""

digamma: Final = UnaryOp(
    "digamma",
    _abs_params,
    _abs_params,
    doc="Derivative of the log of the gamma function, elementwise.",
)
"""Derivative of the log of the gamma function, elementwise."""

div: Final = BinaryOp(
    "div",
    _abs_params,
    _abs_params,
    doc="Quotient of two arrays, elementwise; rounds towards zero on integers.",
)
"""Quotient of two arrays, elementwise; rounds towards zero on integers."""

dot_general: Final = BinaryOp(
    "dot_general",
    _dot_general_params,
    _dot_general_bind,
    doc="Product of two arrays, summed over contracting axes, batch axes apart.",
)
"""Product of two arrays, summed over contracting axes, batch axes apart."""

dynamic_slice: Final = VariadicOp(
    "dynamic_slice",
    _dynamic_slice_params,
    _dynamic_slice_handler,
    _dynamic_slice_bind,
    doc="A block of the operand that starts at indices known only at run time.",
)
"""A block of the operand that starts at indices known only at run time."""

dynamic_update_slice: Final = VariadicOp(
    "dynamic_update_slice",
    _abs_params,
    _after_all_handler,
    _after_all_bind,
    doc="The operand with a block replaced, at indices known only at run time.",
)
"""The operand with a block replaced, at indices known only at run time."""

eig: Final = MultiUnaryOp(
    "eig",
    _eig_params,
    _eig_bind,
    doc="Eigenvalues, and left and right eigenvectors, of a general matrix.",
)
"""Eigenvalues, and left and right eigenvectors, of a general matrix."""

eigh: Final = MultiUnaryOp(
    "eigh", _eigh_params, _eigh_bind, doc="Eigenvectors and eigenvalues of a symmetric matrix."
)
"""Eigenvectors and eigenvalues of a symmetric matrix."""

empty: Final = NullaryOp(
    "empty",
    _empty_bind,
    doc="An array of a given shape whose values are not set.",
    path="lax.lax.empty_p",
)
"""An array of a given shape whose values are not set."""

empty2: Final = NullaryOp("empty2", _empty2_bind, doc="An array whose values are not set.")
"""An array whose values are not set."""

eq: Final = BinaryOp("eq", _abs_params, _abs_params, doc="Whether equal, elementwise.")
"""Whether equal, elementwise."""

eq_to: Final = BinaryOp(
    "eq_to",
    _abs_params,
    _abs_params,
    doc="Whether equal in the total order of floats, elementwise.",
)
"""Whether equal in the total order of floats, elementwise."""

erf: Final = UnaryOp("erf", _abs_params, _abs_params, doc="Error function, elementwise.")
"""Error function, elementwise."""

erf_inv: Final = UnaryOp(
    "erf_inv", _abs_params, _abs_params, doc="Inverse of the error function, elementwise."
)
"""Inverse of the error function, elementwise."""

erfc: Final = UnaryOp(
    "erfc", _abs_params, _abs_params, doc="Complement of the error function, elementwise."
)
"""Complement of the error function, elementwise."""

exp: Final = UnaryOp("exp", _abs_params, _cbrt_bind, doc="Exponential, elementwise.")
"""Exponential, elementwise."""

exp2: Final = UnaryOp("exp2", _abs_params, _cbrt_bind, doc="Two to the power of, elementwise.")
"""Two to the power of, elementwise."""

expm1: Final = UnaryOp(
    "expm1", _abs_params, _cbrt_bind, doc="Exponential minus one, exact near zero, elementwise."
)
"""Exponential minus one, exact near zero, elementwise."""

ffi_call: Final = MultiVariadicOp(
    "ffi_call",
    _ffi_call_params,
    _ffi_call_handler,
    _ffi_call_bind,
    doc="Calls a function of a foreign library.",
    path="ffi.ffi_call_p",
)
"""Calls a function of a foreign library."""

fft: Final = UnaryOp(
    "fft", _fft_params, _fft_params, doc="Discrete Fourier transform over the last axes."
)
"""Discrete Fourier transform over the last axes."""

floor: Final = UnaryOp(
    "floor", _abs_params, _abs_params, doc="Largest integer not above, elementwise."
)
"""Largest integer not above, elementwise."""

freeze: Final = UnaryOp(
    "freeze",
    _abs_params,
    _abs_params,
    doc="The value of a mutable array reference that is no longer used.",
    path="core.freeze_p",
)
"""The value of a mutable array reference that is no longer used."""

gather: Final = BinaryOp(
    "gather", _gather_params, _gather_params, doc="Slices of the operand at an array of indices."
)
"""Slices of the operand at an array of indices."""

ge: Final = BinaryOp("ge", _abs_params, _abs_params, doc="Whether greater or equal, elementwise.")
"""Whether greater or equal, elementwise."""

geqp3: Final = MultiBinaryOp(
    "geqp3",
    _geqp3_params,
    _geqp3_bind,
    doc="QR factors of a matrix with column pivoting, as LAPACK stores them.",
    path="lax.linalg.geqp3_p",
)
"""QR factors of a matrix with column pivoting, as LAPACK stores them."""

geqrf: Final = MultiUnaryOp(
    "geqrf",
    _abs_params,
    _abs_params,
    doc="QR factors of a matrix, as LAPACK stores them.",
    path="lax.linalg.geqrf_p",
)
"""QR factors of a matrix, as LAPACK stores them."""

get: Final = VariadicOp(
    "get", _addupdate_params, _get_handler, _get_bind, doc="Reads from a mutable array reference."
)
"""Reads from a mutable array reference."""

gt: Final = BinaryOp("gt", _abs_params, _abs_params, doc="Whether greater, elementwise.")
"""Whether greater, elementwise."""

hessenberg: Final = MultiUnaryOp(
    "hessenberg",
    _abs_params,
    _abs_params,
    doc="Upper Hessenberg form of a matrix, as reflectors and their scales.",
)
"""Upper Hessenberg form of a matrix, as reflectors and their scales."""

householder_product: Final = BinaryOp(
    "householder_product", _abs_params, _abs_params, doc="Product of Householder reflectors."
)
"""Product of Householder reflectors."""

igamma: Final = BinaryOp(
    "igamma",
    _abs_params,
    _abs_params,
    doc="Lower regularized incomplete gamma function, elementwise.",
)
"""Lower regularized incomplete gamma function, elementwise."""

igamma_grad_a: Final = BinaryOp(
    "igamma_grad_a",
    _abs_params,
    _abs_params,
    doc="Derivative of `igamma` in its first operand, elementwise.",
)
"""Derivative of `igamma` in its first operand, elementwise."""

igammac: Final = BinaryOp(
    "igammac",
    _abs_params,
    _abs_params,
    doc="Upper regularized incomplete gamma function, elementwise.",
)
"""Upper regularized incomplete gamma function, elementwise."""

imag: Final = UnaryOp("imag", _abs_params, _abs_params, doc="Imaginary part, elementwise.")
"""Imaginary part, elementwise."""

inspect_sharding: Final = MultiVariadicOp(
    "inspect_sharding",
    _inspect_sharding_params,
    _inspect_sharding_handler,
    _inspect_sharding_bind,
    doc="Calls Python with the sharding that the compiler chose.",
    path="debugging.inspect_sharding_p",
)
"""Calls Python with the sharding that the compiler chose."""

integer_pow: Final = UnaryOp(
    "integer_pow",
    _integer_pow_params,
    _integer_pow_params,
    doc="The operand to a fixed integer power, elementwise.",
)
"""The operand to a fixed integer power, elementwise."""

io_callback: Final = MultiVariadicOp(
    "io_callback",
    _io_callback_params,
    _io_callback_handler,
    _io_callback_bind,
    doc="Calls Python, with its side effects, and gives what it returns.",
    path="callback.io_callback_p",
)
"""Calls Python, with its side effects, and gives what it returns."""

iota: Final = NullaryOp("iota", _iota_bind, doc="Counts from zero along an axis.")
"""Counts from zero along an axis."""

is_finite: Final = UnaryOp(
    "is_finite", _abs_params, _abs_params, doc="Whether neither infinite nor nan, elementwise."
)
"""Whether neither infinite nor nan, elementwise."""

jit: Final = HigherOrderOp(
    "jit", _jit_params, _jit_handler, _jit_bind, doc="Calls a compiled function."
)
"""Calls a compiled function."""

layout_constraint: Final = UnaryOp(
    "layout_constraint",
    _layout_constraint_params,
    _layout_constraint_bind,
    doc="The operand, constrained to a layout in memory.",
    path="pjit.layout_constraint_p",
)
"""The operand, constrained to a layout in memory."""

le: Final = BinaryOp("le", _abs_params, _abs_params, doc="Whether less or equal, elementwise.")
"""Whether less or equal, elementwise."""

le_to: Final = BinaryOp(
    "le_to",
    _abs_params,
    _abs_params,
    doc="Whether less or equal in the total order of floats, elementwise.",
)
"""Whether less or equal in the total order of floats, elementwise."""

lgamma: Final = UnaryOp(
    "lgamma",
    _abs_params,
    _abs_params,
    doc="Log of the absolute value of the gamma function, elementwise.",
)
"""Log of the absolute value of the gamma function, elementwise."""

linear_call: Final = HigherOrderOp(
    "linear_call",
    _linear_call_params,
    _linear_call_handler,
    _linear_call_bind,
    doc="Calls a linear function that has its own transpose.",
    path="custom_derivatives.linear_call_p",
)
"""Calls a linear function that has its own transpose."""

linear_solve: Final = HigherOrderOp(
    "custom_linear_solve",
    _linear_solve_params,
    _linear_solve_handler,
    _linear_solve_bind,
    doc="Solves a linear system given by functions, with a derivative of its own.",
    attribute="linear_solve",
)
"""Solves a linear system given by functions, with a derivative of its own."""

log: Final = UnaryOp("log", _abs_params, _cbrt_bind, doc="Natural logarithm, elementwise.")
"""Natural logarithm, elementwise."""

log1p: Final = UnaryOp(
    "log1p", _abs_params, _cbrt_bind, doc="Log of one plus, exact near zero, elementwise."
)
"""Log of one plus, exact near zero, elementwise."""

logistic: Final = UnaryOp("logistic", _abs_params, _cbrt_bind, doc="Logistic sigmoid, elementwise.")
"""Logistic sigmoid, elementwise."""

lt: Final = BinaryOp("lt", _abs_params, _abs_params, doc="Whether less, elementwise.")
"""Whether less, elementwise."""

lt_to: Final = BinaryOp(
    "lt_to", _abs_params, _abs_params, doc="Whether less in the total order of floats, elementwise."
)
"""Whether less in the total order of floats, elementwise."""

lu: Final = MultiUnaryOp(
    "lu", _abs_params, _abs_params, doc="LU factors, pivots and permutation of a matrix."
)
"""LU factors, pivots and permutation of a matrix."""

lu_pivots_to_permutation: Final = UnaryOp(
    "lu_pivots_to_permutation",
    _lu_pivots_to_permutation_params,
    _lu_pivots_to_permutation_params,
    doc="The permutation that a sequence of row swaps makes.",
    path="lax.linalg.lu_pivots_to_permutation_p",
)
"""The permutation that a sequence of row swaps makes."""

max: Final = BinaryOp("max", _abs_params, _abs_params, doc="The larger of two, elementwise.")
"""The larger of two, elementwise."""

min: Final = BinaryOp("min", _abs_params, _abs_params, doc="The smaller of two, elementwise.")
"""The smaller of two, elementwise."""

mul: Final = BinaryOp("mul", _abs_params, _mul_bind, doc="Product of two arrays, elementwise.")
"""Product of two arrays, elementwise."""

mulhi: Final = BinaryOp(
    "mulhi",
    _abs_params,
    _abs_params,
    doc="The upper half of the product of two integers, elementwise.",
    path="lax.lax.mulhi_p",
)
"""The upper half of the product of two integers, elementwise."""

name: Final = UnaryOp(
    "name",
    _name_params,
    _name_params,
    doc="The operand, with a name that checkpoint policies can ask for.",
)
"""The operand, with a name that checkpoint policies can ask for."""

ne: Final = BinaryOp("ne", _abs_params, _abs_params, doc="Whether not equal, elementwise.")
"""Whether not equal, elementwise."""

neg: Final = UnaryOp(
    "neg", _abs_params, _abs_params, doc="The operand with the opposite sign, elementwise."
)
"""The operand with the opposite sign, elementwise."""

new_ref: Final = UnaryOp(
    "new_ref",
    _new_ref_params,
    _new_ref_bind,
    doc="A mutable array reference with a first value.",
    path="core.ref_p",
)
"""A mutable array reference with a first value."""

nextafter: Final = BinaryOp(
    "nextafter",
    _abs_params,
    _abs_params,
    doc="The next float after the first operand towards the second, elementwise.",
)
"""The next float after the first operand towards the second, elementwise."""

not_: Final = UnaryOp(
    "not", _abs_params, _abs_params, doc="Bitwise or logical not, elementwise.", attribute="not_"
)
"""Bitwise or logical not, elementwise."""

optimization_barrier: Final = MultiVariadicOp(
    "optimization_barrier",
    _abs_params,
    _after_all_handler,
    _after_all_bind,
    doc="The operands; the compiler moves nothing across.",
    path="lax.lax.optimization_barrier_p",
)
"""The operands; the compiler moves nothing across."""

or_: Final = BinaryOp(
    "or", _abs_params, _abs_params, doc="Bitwise or logical or, elementwise.", attribute="or_"
)
"""Bitwise or logical or, elementwise."""

ormqr: Final = TernaryOp(
    "ormqr",
    _ormqr_params,
    _ormqr_params,
    doc="A matrix multiplied by the Q of a QR decomposition, as LAPACK stores it.",
    path="lax.linalg.ormqr_p",
)
"""A matrix multiplied by the Q of a QR decomposition, as LAPACK stores it."""

pad: Final = BinaryOp(
    "pad", _pad_params, _pad_params, doc="The operand with padding around and between its elements."
)
"""The operand with padding around and between its elements."""

platform_index: Final = NullaryOp(
    "platform_index",
    _platform_index_bind,
    doc="Index of the platform that the program is compiled for, among the given ones.",
    path="lax.control_flow.conditionals.platform_index_p",
)
"""Index of the platform that the program is compiled for, among the given ones."""

pmax: Final = UnaryOp("pmax", _pmax_params, _pmax_bind, doc="Largest over a mesh axis.")
"""Largest over a mesh axis."""

pmin: Final = UnaryOp("pmin", _pmax_params, _pmax_bind, doc="Smallest over a mesh axis.")
"""Smallest over a mesh axis."""

polygamma: Final = BinaryOp(
    "polygamma",
    _abs_params,
    _abs_params,
    doc="Derivatives of the log of the gamma function, elementwise.",
)
"""Derivatives of the log of the gamma function, elementwise."""

population_count: Final = UnaryOp(
    "population_count", _abs_params, _abs_params, doc="Number of bits that are set, elementwise."
)
"""Number of bits that are set, elementwise."""

pow: Final = BinaryOp(
    "pow",
    _abs_params,
    _abs_params,
    doc="The first operand to the power of the second, elementwise.",
)
"""The first operand to the power of the second, elementwise."""

ppermute: Final = UnaryOp(
    "ppermute",
    _ppermute_params,
    _ppermute_params,
    doc="Sends each device's operand to another along a mesh axis.",
)
"""Sends each device's operand to another along a mesh axis."""

psum: Final = UnaryOp("psum", _pmax_params, _pmax_bind, doc="Sum over a mesh axis.")
"""Sum over a mesh axis."""

psum_invariant: Final = UnaryOp(
    "psum_invariant",
    _psum_invariant_params,
    _psum_invariant_params,
    doc="As `psum`, with a result known to be the same on every device.",
    path="lax.parallel.psum_invariant_p",
)
"""As `psum`, with a result known to be the same on every device."""

pure_callback: Final = MultiVariadicOp(
    "pure_callback",
    _pure_callback_params,
    _pure_callback_handler,
    _pure_callback_bind,
    doc="Calls a Python function without side effects, and gives what it returns.",
    path="callback.pure_callback_p",
)
"""Calls a Python function without side effects, and gives what it returns."""

pvary: Final = UnaryOp(
    "pvary",
    _psum_invariant_params,
    _psum_invariant_params,
    doc="The operand, marked as varying over mesh axes.",
    path="core.pvary_p",
)
"""The operand, marked as varying over mesh axes."""

qr: Final = MultiUnaryOp("qr", _qr_params, _qr_bind, doc="QR decomposition of a matrix.")
"""QR decomposition of a matrix."""

ragged_all_to_all: Final = VariadicOp(
    "ragged_all_to_all",
    _ragged_all_to_all_params,
    _ragged_all_to_all_handler,
    _ragged_all_to_all_bind,
    doc="Sends slices of different lengths between the devices of a mesh axis.",
)
"""Sends slices of different lengths between the devices of a mesh axis."""

ragged_dot_general: Final = TernaryOp(
    "ragged_dot_general",
    _ragged_dot_general_params,
    _ragged_dot_general_bind,
    doc="Product of arrays whose rows come in groups of different lengths.",
    path="lax.lax.ragged_dot_general_p",
)
"""Product of arrays whose rows come in groups of different lengths."""

random_bits: Final = UnaryOp(
    "random_bits", _random_bits_params, _random_bits_params, doc="Random bits from a key."
)
"""Random bits from a key."""

random_clone: Final = UnaryOp(
    "random_clone",
    _abs_params,
    _abs_params,
    doc="The same key, allowed to be used again.",
    path="random.core.random_clone_p",
)
"""The same key, allowed to be used again."""

random_fold_in: Final = BinaryOp(
    "random_fold_in", _abs_params, _abs_params, doc="A new key from a key and an integer."
)
"""A new key from a key and an integer."""

random_gamma: Final = BinaryOp(
    "random_gamma",
    _random_gamma_params,
    _random_gamma_params,
    doc="Gamma-distributed samples from a key.",
)
"""Gamma-distributed samples from a key."""

random_seed: Final = UnaryOp(
    "random_seed", _random_seed_params, _random_seed_params, doc="A key from an integer seed."
)
"""A key from an integer seed."""

random_split: Final = UnaryOp(
    "random_split", _random_split_params, _random_split_params, doc="Several new keys from one."
)
"""Several new keys from one."""

random_unwrap: Final = UnaryOp(
    "random_unwrap",
    _abs_params,
    _abs_params,
    doc="The bits of a key.",
    path="random.prng.random_unwrap_p",
)
"""The bits of a key."""

random_wrap: Final = UnaryOp(
    "random_wrap",
    _random_seed_params,
    _random_seed_params,
    doc="A key from its bits.",
    path="random.prng.random_wrap_p",
)
"""A key from its bits."""

real: Final = UnaryOp("real", _abs_params, _abs_params, doc="Real part, elementwise.")
"""Real part, elementwise."""

reduce: Final = MultiVariadicOp(
    "reduce",
    _reduce_params,
    _reduce_handler,
    _reduce_bind,
    doc="Reduces along axes by a function of two values.",
)
"""Reduces along axes by a function of two values."""

reduce_and: Final = UnaryOp(
    "reduce_and",
    _reduce_and_params,
    _reduce_and_params,
    doc="Whether all are true (or bitwise and) along axes.",
)
"""Whether all are true (or bitwise and) along axes."""

reduce_max: Final = UnaryOp(
    "reduce_max", _reduce_and_params, _reduce_and_params, doc="Largest element along axes."
)
"""Largest element along axes."""

reduce_min: Final = UnaryOp(
    "reduce_min", _reduce_and_params, _reduce_and_params, doc="Smallest element along axes."
)
"""Smallest element along axes."""

reduce_or: Final = UnaryOp(
    "reduce_or",
    _reduce_and_params,
    _reduce_and_params,
    doc="Whether any is true (or bitwise or) along axes.",
)
"""Whether any is true (or bitwise or) along axes."""

reduce_precision: Final = UnaryOp(
    "reduce_precision",
    _reduce_precision_params,
    _reduce_precision_params,
    doc="The operand rounded to fewer exponent and mantissa bits.",
)
"""The operand rounded to fewer exponent and mantissa bits."""

reduce_prod: Final = UnaryOp(
    "reduce_prod", _reduce_and_params, _reduce_and_params, doc="Product along axes."
)
"""Product along axes."""

reduce_scatter: Final = UnaryOp(
    "reduce_scatter",
    _reduce_scatter_params,
    _reduce_scatter_bind,
    doc="Sum over a mesh axis, each device keeping one part.",
    path="lax.parallel.reduce_scatter_p",
)
"""Sum over a mesh axis, each device keeping one part."""

reduce_sum: Final = UnaryOp(
    "reduce_sum", _reduce_and_params, _reduce_sum_bind, doc="Sum along axes."
)
"""Sum along axes."""

reduce_window: Final = MultiVariadicOp(
    "reduce_window",
    _reduce_window_params,
    _reduce_window_handler,
    _reduce_window_bind,
    doc="Reduces windows that slide over the operand by a function of two values.",
)
"""Reduces windows that slide over the operand by a function of two values."""

reduce_window_max: Final = UnaryOp(
    "reduce_window_max",
    _reduce_window_max_params,
    _reduce_window_max_params,
    doc="Largest element of each sliding window.",
)
"""Largest element of each sliding window."""

reduce_window_min: Final = UnaryOp(
    "reduce_window_min",
    _reduce_window_max_params,
    _reduce_window_max_params,
    doc="Smallest element of each sliding window.",
)
"""Smallest element of each sliding window."""

reduce_window_sum: Final = UnaryOp(
    "reduce_window_sum",
    _reduce_window_max_params,
    _reduce_window_max_params,
    doc="Sum of each sliding window.",
)
"""Sum of each sliding window."""

reduce_xor: Final = UnaryOp(
    "reduce_xor", _reduce_and_params, _reduce_and_params, doc="Bitwise exclusive or along axes."
)
"""Bitwise exclusive or along axes."""

regularized_incomplete_beta: Final = TernaryOp(
    "regularized_incomplete_beta",
    _abs_params,
    _abs_params,
    doc="Regularized incomplete beta function, elementwise.",
)
"""Regularized incomplete beta function, elementwise."""

rem: Final = BinaryOp(
    "rem",
    _abs_params,
    _abs_params,
    doc="Remainder of a division, with the sign of the first operand, elementwise.",
)
"""Remainder of a division, with the sign of the first operand, elementwise."""

remat: Final = HigherOrderOp(
    "remat2",
    _remat_params,
    _remat_handler,
    _remat_bind,
    doc="Calls a jaxpr whose values are computed again, not stored, for the derivative.",
    attribute="remat",
)
"""Calls a jaxpr whose values are computed again, not stored, for the derivative."""

reshape: Final = UnaryOp(
    "reshape",
    _reshape_params,
    _reshape_bind,
    doc="The same elements, in the same order, in another shape.",
)
"""The same elements, in the same order, in another shape."""

reshard: Final = UnaryOp(
    "reshard",
    _reshard_params,
    _reshard_params,
    doc="The operand with another sharding, in a mesh of explicit axes.",
    path="pjit.reshard_p",
)
"""The operand with another sharding, in a mesh of explicit axes."""

rev: Final = UnaryOp("rev", _rev_params, _rev_params, doc="The operand with axes reversed.")
"""The operand with axes reversed."""

rng_bit_generator: Final = MultiUnaryOp(
    "rng_bit_generator",
    _rng_bit_generator_params,
    _rng_bit_generator_bind,
    doc="Random bits and a new state from a state.",
)
"""Random bits and a new state from a state."""

rng_uniform: Final = BinaryOp(
    "rng_uniform",
    _random_split_params,
    _random_split_params,
    doc="Uniform samples from the backend's own stateful generator.",
)
"""Uniform samples from the backend's own stateful generator."""

round: Final = UnaryOp(
    "round", _round_params, _round_params, doc="The nearest integer, elementwise."
)
"""The nearest integer, elementwise."""

rsqrt: Final = UnaryOp(
    "rsqrt", _abs_params, _cbrt_bind, doc="One over the square root, elementwise."
)
"""One over the square root, elementwise."""

run_state: Final = HigherOrderOp(
    "run_state",
    _run_state_params,
    _run_state_handler,
    _run_state_bind,
    doc="Runs a jaxpr that works on mutable references.",
    path="state.discharge.run_state_p",
)
"""Runs a jaxpr that works on mutable references."""

scaled_dot: Final = QuaternaryOp(
    "scaled_dot",
    _scaled_dot_params,
    _scaled_dot_bind,
    doc="Product of two arrays of small floats, each with its scales.",
    path="lax.scaled_dot.scaled_dot_p",
)
"""Product of two arrays of small floats, each with its scales."""

scan: Final = HigherOrderOp(
    "scan",
    _scan_params,
    _scan_handler,
    _scan_bind,
    doc="A loop with a carry over the leading axis of its operands.",
)
"""A loop with a carry over the leading axis of its operands."""

scatter: Final = TernaryOp(
    "scatter",
    _scatter_params,
    _scatter_bind,
    doc="The operand with slices replaced at an array of indices.",
)
"""The operand with slices replaced at an array of indices."""

scatter_add: Final = TernaryOp(
    "scatter-add",
    _scatter_params,
    _scatter_bind,
    doc="The operand with slices added at an array of indices.",
    attribute="scatter_add",
)
"""The operand with slices added at an array of indices."""

scatter_max: Final = TernaryOp(
    "scatter-max",
    _scatter_params,
    _scatter_bind,
    doc="The operand with the larger kept at an array of indices.",
    attribute="scatter_max",
)
"""The operand with the larger kept at an array of indices."""

scatter_min: Final = TernaryOp(
    "scatter-min",
    _scatter_params,
    _scatter_bind,
    doc="The operand with the smaller kept at an array of indices.",
    attribute="scatter_min",
)
"""The operand with the smaller kept at an array of indices."""

scatter_mul: Final = TernaryOp(
    "scatter-mul",
    _scatter_params,
    _scatter_bind,
    doc="The operand with slices multiplied in at an array of indices.",
    attribute="scatter_mul",
)
"""The operand with slices multiplied in at an array of indices."""

scatter_sub: Final = TernaryOp(
    "scatter-sub",
    _scatter_params,
    _scatter_bind,
    doc="The operand with slices subtracted at an array of indices.",
    attribute="scatter_sub",
    path="lax.slicing.scatter_sub_p",
)
"""The operand with slices subtracted at an array of indices."""

schur: Final = MultiUnaryOp(
    "schur", _schur_params, _schur_bind, doc="Schur form of a matrix, and its vectors."
)
"""Schur form of a matrix, and its vectors."""

select_and_gather_add: Final = BinaryOp(
    "select_and_gather_add",
    _select_and_gather_add_params,
    _select_and_gather_add_params,
    doc="Values of the second operand where a window of the first has its largest or smallest.",
)
"""Values of the second operand where a window of the first has its largest or smallest."""

select_and_scatter: Final = TernaryOp(
    "select_and_scatter",
    _select_and_scatter_params,
    _select_and_scatter_params,
    doc="Adds each source value where its window of the operand is selected, by functions.",
)
"""Adds each source value where its window of the operand is selected, by functions."""

select_and_scatter_add: Final = BinaryOp(
    "select_and_scatter_add",
    _select_and_scatter_add_params,
    _select_and_scatter_add_params,
    doc="Adds each source value where its window of the operand is largest or smallest.",
)
"""Adds each source value where its window of the operand is largest or smallest."""

select_n: Final = VariadicOp(
    "select_n",
    _abs_params,
    _after_all_handler,
    _select_n_bind,
    doc="Elements of one of several arrays, as the first operand says which.",
)
"""Elements of one of several arrays, as the first operand says which."""

shard_map: Final = HigherOrderOp(
    "shard_map",
    _shard_map_params,
    _shard_map_handler,
    _shard_map_bind,
    doc="Maps a function over the shards of its operands.",
    path="shard_map.shard_map_p",
)
"""Maps a function over the shards of its operands."""

sharding_constraint: Final = UnaryOp(
    "sharding_constraint",
    _sharding_constraint_params,
    _sharding_constraint_bind,
    doc="The operand, constrained to a sharding.",
)
"""The operand, constrained to a sharding."""

shift_left: Final = BinaryOp(
    "shift_left", _abs_params, _abs_params, doc="Bits shifted to the left, elementwise."
)
"""Bits shifted to the left, elementwise."""

shift_right_arithmetic: Final = BinaryOp(
    "shift_right_arithmetic",
    _abs_params,
    _abs_params,
    doc="Bits shifted to the right, the sign kept, elementwise.",
)
"""Bits shifted to the right, the sign kept, elementwise."""

shift_right_logical: Final = BinaryOp(
    "shift_right_logical",
    _abs_params,
    _abs_params,
    doc="Bits shifted to the right, zeros filled in, elementwise.",
)
"""Bits shifted to the right, zeros filled in, elementwise."""

sign: Final = UnaryOp("sign", _abs_params, _abs_params, doc="Sign as -1, 0 or 1, elementwise.")
"""Sign as -1, 0 or 1, elementwise."""

sin: Final = UnaryOp("sin", _abs_params, _cbrt_bind, doc="Sine, elementwise.")
"""Sine, elementwise."""

sinh: Final = UnaryOp("sinh", _abs_params, _abs_params, doc="Hyperbolic sine, elementwise.")
"""Hyperbolic sine, elementwise."""

slice: Final = UnaryOp(
    "slice",
    _slice_params,
    _slice_bind,
    doc="A block of the operand, with start, limit and stride on each axis.",
)
"""A block of the operand, with start, limit and stride on each axis."""

sort: Final = MultiVariadicOp(
    "sort",
    _sort_params,
    _sort_handler,
    _sort_bind,
    doc="Operands sorted together along an axis; the first `num_keys` decide.",
)
"""Operands sorted together along an axis; the first `num_keys` decide."""

split: Final = MultiUnaryOp(
    "split",
    _split_params,
    _split_params,
    doc="The operand cut into parts along an axis.",
    path="lax.lax.split_p",
)
"""The operand cut into parts along an axis."""

sqrt: Final = UnaryOp("sqrt", _abs_params, _cbrt_bind, doc="Square root, elementwise.")
"""Square root, elementwise."""

square: Final = UnaryOp(
    "square", _abs_params, _abs_params, doc="The operand times itself, elementwise."
)
"""The operand times itself, elementwise."""

squeeze: Final = UnaryOp(
    "squeeze", _rev_params, _rev_params, doc="The operand without some axes of size one."
)
"""The operand without some axes of size one."""

stack: Final = VariadicOp(
    "stack",
    _stack_params,
    _stack_handler,
    _stack_bind,
    doc="Arrays joined along a new axis.",
    path="lax.lax.stack_p",
)
"""Arrays joined along a new axis."""

stop_gradient: Final = UnaryOp(
    "stop_gradient", _abs_params, _abs_params, doc="The operand, with no derivative."
)
"""The operand, with no derivative."""

sub: Final = BinaryOp("sub", _abs_params, _abs_params, doc="Difference of two arrays, elementwise.")
"""Difference of two arrays, elementwise."""

svd: Final = MultiUnaryOp(
    "svd",
    _svd_params,
    _svd_bind,
    doc="Singular values of a matrix, and its singular vectors where asked for.",
)
"""Singular values of a matrix, and its singular vectors where asked for."""

swap: Final = VariadicOp(
    "swap",
    _addupdate_params,
    _addupdate_handler,
    _addupdate_bind,
    doc="Writes to a mutable array reference, and gives what was there.",
)
"""Writes to a mutable array reference, and gives what was there."""

symmetric_product: Final = BinaryOp(
    "symmetric_product",
    _symmetric_product_params,
    _symmetric_product_params,
    doc="A matrix times its transpose, plus a symmetric matrix.",
    path="lax.linalg.symmetric_product_p",
)
"""A matrix times its transpose, plus a symmetric matrix."""

tan: Final = UnaryOp("tan", _abs_params, _cbrt_bind, doc="Tangent, elementwise.")
"""Tangent, elementwise."""

tanh: Final = UnaryOp("tanh", _abs_params, _cbrt_bind, doc="Hyperbolic tangent, elementwise.")
"""Hyperbolic tangent, elementwise."""

threefry2x32: Final = MultiQuaternaryOp(
    "threefry2x32",
    _abs_params,
    _abs_params,
    doc="The Threefry hash that JAX's default random numbers are made by.",
)
"""The Threefry hash that JAX's default random numbers are made by."""

tile: Final = UnaryOp(
    "tile",
    _tile_params,
    _tile_params,
    doc="The operand repeated along its axes.",
    path="lax.lax.tile_p",
)
"""The operand repeated along its axes."""

top_k: Final = MultiUnaryOp(
    "top_k", _top_k_params, _top_k_params, doc="The largest values along an axis and their indices."
)
"""The largest values along an axis and their indices."""

transpose: Final = UnaryOp(
    "transpose", _transpose_params, _transpose_params, doc="The operand with its axes permuted."
)
"""The operand with its axes permuted."""

triangular_solve: Final = BinaryOp(
    "triangular_solve",
    _triangular_solve_params,
    _triangular_solve_params,
    doc="Solves a triangular system.",
)
"""Solves a triangular system."""

tridiagonal: Final = MultiUnaryOp(
    "tridiagonal",
    _tridiagonal_params,
    _tridiagonal_params,
    doc="A symmetric matrix brought to tridiagonal form.",
)
"""A symmetric matrix brought to tridiagonal form."""

tridiagonal_solve: Final = QuaternaryOp(
    "tridiagonal_solve",
    _tridiagonal_solve_params,
    _tridiagonal_solve_params,
    doc="Solves a tridiagonal system.",
)
"""Solves a tridiagonal system."""

unstack: Final = MultiUnaryOp(
    "unstack",
    _stack_params,
    _stack_params,
    doc="The operand cut along an axis, which is dropped.",
    path="lax.lax.unstack_p",
)
"""The operand cut along an axis, which is dropped."""

while_: Final = HigherOrderOp(
    "while",
    _while_params,
    _while_handler,
    _while_bind,
    doc="A loop while a condition holds.",
    attribute="while_",
)
"""A loop while a condition holds."""

xor: Final = BinaryOp(
    "xor", _abs_params, _abs_params, doc="Bitwise or logical exclusive or, elementwise."
)
"""Bitwise or logical exclusive or, elementwise."""

zeta: Final = BinaryOp("zeta", _abs_params, _abs_params, doc="Hurwitz zeta function, elementwise.")
"""Hurwitz zeta function, elementwise."""

# What a jaxpr calls them.
add_any: Final = add_jaxvals
custom_linear_solve: Final = linear_solve
remat2: Final = remat
