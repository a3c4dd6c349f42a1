"""Facts about primitives that the generator cannot read from JAX: kept by hand.

Types are what JAX gives a handler, as narrow as that; a handler may of course annotate wider. What
JAX keeps to itself is an `object`, to be passed on. They are tested against values that JAX really
gives.
"""

from __future__ import annotations

from typing import Final

_SHARDING: Final = "jax.sharding.Sharding | None"
_PRECISION: Final = (
    "lax.Precision | tuple[lax.Precision, lax.Precision]"
    " | lax.DotAlgorithm | lax.DotAlgorithmPreset | None"
)
_GROUPS: Final = "tuple[tuple[int, ...], ...] | None"
_TREE: Final = "PyTreeDef"
_AXIS_NAMES: Final = "tuple[Hashable, ...]"
_PAIRS: Final = "tuple[tuple[int, int], ...]"

# Types by the name of the param, for every op that has it.
TYPES: Final[dict[str, str]] = {
    "accuracy": "lax.AccuracyMode | lax.Tolerance | None",
    "axes": "tuple[int, ...]",
    "axis_index_groups": _GROUPS,
    "body_jaxpr": "ClosedJaxpr",
    "call_jaxpr": "ClosedJaxpr",
    "cond_jaxpr": "ClosedJaxpr",
    "dst_sharding": "jax.sharding.Sharding",
    "layout": "Layout | None",
    "out_dtype": "np.dtype | None",
    "out_sharding": _SHARDING,
    "padding": _PAIRS,
    "precision": _PRECISION,
    "preferred_element_type": "np.dtype | None",
    "result_avals": "tuple[ShapedArray, ...]",
    "select_prim": "Primitive",
    "sharding": _SHARDING,
    "strides": "tuple[int, ...] | None",
    "tree": _TREE,
    "update_consts": "tuple[object, ...]",
    "update_jaxpr": "Jaxpr | None",
    "vmap_method": "str | None",
}

# Types of one op's params, where the name alone does not tell.
OP_TYPES: Final[dict[str, dict[str, str]]] = {
    "all_gather": {"axis_name": _AXIS_NAMES},
    "all_gather_invariant": {
        "all_gather_dimension": "int",
        "axis_name": _AXIS_NAMES,
        "axis_size": "int",
        "tiled": "bool",
    },
    "all_to_all": {"axis_name": "Hashable"},
    "axis_index": {"axis_name": "Hashable"},
    "call_exported": {"exported": "jax.export.Exported"},
    "check": {"debug": "bool", "err_tree": _TREE},
    "cond": {"branches": "tuple[ClosedJaxpr, ...]"},
    "conv_general_dilated": {"dimension_numbers": "lax.ConvDimensionNumbers"},
    "composite": {
        "attributes": "tuple[tuple[str, object], ...]",
        "jaxpr": "ClosedJaxpr",
        "name": "str",
        "version": "int",
    },
    "custom_lin": {
        "in_zeros": "list[bool]",
        "num_res": "int",
        "out_avals": "list[ShapedArray]",
        "symbolic_zeros": "bool",
    },
    "debug_callback": {"callback": "Callable[..., object]"},
    "debug_print": {"in_tree": _TREE, "static_args": "tuple[object, ...]"},
    "dot_general": {
        "dimension_numbers": (
            "tuple[tuple[tuple[int, ...], tuple[int, ...]],"
            " tuple[tuple[int, ...], tuple[int, ...]]]"
        )
    },
    "device_put": dict.fromkeys(("copy_semantics", "devices", "srcs"), "tuple[object, ...]"),
    "eig": {"implementation": "lax.linalg.EigImplementation | None"},
    "eigh": {
        "algorithm": "lax.linalg.EighImplementation | None",
        "subset_by_index": "tuple[int, int] | None",
    },
    "empty": {"dtype": "np.dtype"},
    "ffi_call": {
        "custom_call_api_version": "int",
        "has_side_effect": "bool",
        "target_name": "str",
    },
    "fft": {"fft_type": "lax.FftType"},
    "gather": {
        "dimension_numbers": "lax.GatherDimensionNumbers",
        "fill_value": "Any",
        "mode": "lax.GatherScatterMode",
    },
    "geqp3": {"use_magma": "bool | None"},
    "inspect_sharding": {"callback": "Callable[..., object]"},
    "io_callback": {"callback": "Callable[..., object]"},
    "jit": {
        "compiler_options_kvs": "tuple[tuple[str, object], ...]",
        "ctx_mesh": "jax.sharding.Mesh | jax.sharding.AbstractMesh",
        "donated_invars": "tuple[bool, ...]",
        "jaxpr": "ClosedJaxpr",
        **dict.fromkeys(
            ("in_layouts", "in_shardings", "out_layouts", "out_shardings"), "tuple[object, ...]"
        ),
    },
    "linear_call": {
        "callee": "ClosedJaxpr",
        "num_callee_consts": "int",
        "num_res": "int",
        "transpose_thunk": "Callable[..., object]",
    },
    "lu_pivots_to_permutation": {"permutation_size": "int"},
    "new_ref": {"kind": "str | None"},
    "platform_index": {"platforms": "tuple[tuple[str, ...] | None, ...]"},
    "pmax": {"axes": _AXIS_NAMES},
    "pmin": {"axes": _AXIS_NAMES},
    "ppermute": {"axis_name": _AXIS_NAMES, "perm": _PAIRS},
    "psum": {"axes": _AXIS_NAMES},
    "psum_invariant": {"axes": _AXIS_NAMES},
    "pure_callback": {"callback": "Callable[..., object]"},
    "pvary": {"axes": _AXIS_NAMES},
    "pad": {"padding_config": "tuple[tuple[int, int, int], ...]"},
    "qr": {"use_magma": "bool | None"},
    "ragged_all_to_all": {"axis_name": "Hashable"},
    "ragged_dot_general": {
        "group_offset": "Array | None",
        "ragged_dot_dimension_numbers": "lax.RaggedDotDimensionNumbers",
    },
    "reduce": {"computation": "Callable[..., object]", "jaxpr": "ClosedJaxpr"},
    "reduce_scatter": {"axis_name": _AXIS_NAMES},
    "reduce_window": {"consts": "tuple[object, ...]", "jaxpr": "Jaxpr"},
    "remat": {"jaxpr": "Jaxpr", "policy": "Callable[..., object] | None"},
    "reshape": {"dimensions": "tuple[int, ...] | None"},
    "rng_bit_generator": {"algorithm": "lax.RandomAlgorithm"},
    "round": {"rounding_method": "lax.RoundingMethod"},
    "run_state": {
        "is_initialized": "tuple[bool, ...]",
        "jaxpr": "Jaxpr",
        "which_linear": "tuple[bool, ...]",
    },
    "scan": {"jaxpr": "ClosedJaxpr"},
    "schur": {"select_callable": "Callable[..., object] | None"},
    "select_and_gather_add": dict.fromkeys(
        ("base_dilation", "window_dilation", "window_dimensions", "window_strides"),
        "tuple[int, ...]",
    ),
    "select_and_scatter": {
        "scatter_consts": "tuple[object, ...]",
        "scatter_jaxpr": "Jaxpr",
        "select_consts": "tuple[object, ...]",
        "select_jaxpr": "Jaxpr",
        "window_dimensions": "tuple[int, ...]",
        "window_strides": "tuple[int, ...]",
    },
    "sharding_constraint": {
        "context_mesh": "jax.sharding.Mesh | jax.sharding.AbstractMesh",
        "sharding": "jax.sharding.Sharding",
        "unconstrained_dims": "frozenset[int]",
    },
    "svd": {
        "algorithm": "lax.linalg.SvdAlgorithm | None",
        "full_matrices": "bool",
        "subset_by_index": "tuple[int, int] | None",
    },
    **{
        name: {
            "dimension_numbers": "lax.ScatterDimensionNumbers",
            "mode": "lax.GatherScatterMode",
        }
        for name in (
            "scatter",
            "scatter_add",
            "scatter_max",
            "scatter_min",
            "scatter_mul",
            "scatter_sub",
        )
    },
    "scaled_dot": {
        "dimension_numbers": (
            "tuple[tuple[tuple[int, ...], tuple[int, ...]],"
            " tuple[tuple[int, ...], tuple[int, ...]]]"
        )
    },
}

# What `bind` takes where that is more than what handlers are given.
BIND_TYPES: Final[dict[str, dict[str, str]]] = {
    "dot_general": {"dimension_numbers": "lax.DotDimensionNumbers"},
    "scaled_dot": {"dimension_numbers": "lax.DotDimensionNumbers"},
}

# Params that some ops of a family have and their siblings have not, and that JAX leaves None unless
# told otherwise. They stay out of the typed signature, so that the plainest handler is right and
# the family can be grouped (`ops.mul | ops.div`, `ops.exp | ops.neg`). A handler that wants one
# gives it a default; one that does not name it declines where it is set.
UNTYPED: Final[dict[str, frozenset[str]]] = {
    "mul": frozenset({"out_dtype"}),
    "reduce_sum": frozenset({"out_sharding"}),
    **dict.fromkeys(
        (
            "cbrt",
            "cos",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log1p",
            "logistic",
            "rsqrt",
            "sin",
            "sqrt",
            "tan",
            "tanh",
        ),
        frozenset({"accuracy"}),
    ),
}

# Params as they stand in a jaxpr, and so in a handler, of ops that are bound in another form
# (their functions traced or not).
EQUATION_PARAMS: Final[dict[str, dict[str, str]]] = {
    "call": {"call_jaxpr": "Jaxpr"},
    "closed_call": {"call_jaxpr": "ClosedJaxpr"},
    "custom_jvp_call": {
        "call_jaxpr": "ClosedJaxpr",
        "jvp_jaxpr_fun": "object",
        "num_consts": "int",
        "symbolic_zeros": "bool",
    },
    "custom_vjp_call": {
        "bwd": "object",
        "call_jaxpr": "ClosedJaxpr",
        "fwd_jaxpr_thunk": "object",
        "num_consts": "int",
        "out_trees": "Callable[[], object]",
        "symbolic_zeros": "bool",
    },
    "custom_vmap_call": {
        "call": "ClosedJaxpr",
        "in_tree": _TREE,
        "out_tree": _TREE,
        "rule": "object",
    },
    "shard_map": {
        "check_vma": "bool",
        "in_specs": "tuple[jax.sharding.PartitionSpec, ...]",
        "jaxpr": "Jaxpr",
        "mesh": "jax.sharding.Mesh | jax.sharding.AbstractMesh",
        "newly_manual_axes": "frozenset[Hashable]",
        "out_specs": "tuple[jax.sharding.PartitionSpec, ...]",
    },
}

# Params that a TypedDict of the params may have or not.
SOMETIMES: Final[dict[str, dict[str, str]]] = {
    "cond": {"branches_platforms": "tuple[tuple[str, ...] | None, ...]"},
}

# Ops that carry a program: the transform takes these apart itself.
HIGHER_ORDER: Final[frozenset[str]] = frozenset(
    {
        "call",
        "closed_call",
        "cond",
        "custom_jvp_call",
        "custom_lin",
        "custom_vjp_call",
        "custom_vmap_call",
        "jit",
        "linear_call",
        "linear_solve",
        "remat",
        "run_state",
        "scan",
        "shard_map",
        "while",
    }
)

# Ops of any number of operands that the corpus has met with one number only.
VARIADIC: Final[frozenset[str]] = frozenset({"device_put", "reduce", "reduce_window"})

# Primitives that `jax.extend.core.primitives` leaves out and ordinary programs contain, by
# attribute; where JAX keeps them.
NOT_PUBLIC: Final[dict[str, str]] = {
    "addupdate": "state.primitives.addupdate_p",
    "all_gather_invariant": "lax.parallel.all_gather_invariant_p",
    "call_exported": "export._export.call_exported_p",
    "check": "checkify.check_p",
    "cholesky_update": "lax.linalg.cholesky_update_p",
    "composite": "lax.lax.composite_p",
    "custom_vmap_call": "custom_batching.custom_vmap_p",
    "dce_sink": "lax.lax.dce_sink_p",
    "debug_callback": "debugging.debug_callback_p",
    "debug_print": "debugging.debug_print_p",
    "empty": "lax.lax.empty_p",
    "ffi_call": "ffi.ffi_call_p",
    "freeze": "core.freeze_p",
    "geqp3": "lax.linalg.geqp3_p",
    "geqrf": "lax.linalg.geqrf_p",
    "inspect_sharding": "debugging.inspect_sharding_p",
    "io_callback": "callback.io_callback_p",
    "layout_constraint": "pjit.layout_constraint_p",
    "linear_call": "custom_derivatives.linear_call_p",
    "lu_pivots_to_permutation": "lax.linalg.lu_pivots_to_permutation_p",
    "mulhi": "lax.lax.mulhi_p",
    "new_ref": "core.ref_p",
    "optimization_barrier": "lax.lax.optimization_barrier_p",
    "ormqr": "lax.linalg.ormqr_p",
    "platform_index": "lax.control_flow.conditionals.platform_index_p",
    "psum_invariant": "lax.parallel.psum_invariant_p",
    "pure_callback": "callback.pure_callback_p",
    "pvary": "core.pvary_p",
    "ragged_dot_general": "lax.lax.ragged_dot_general_p",
    "random_clone": "random.core.random_clone_p",
    "random_unwrap": "random.prng.random_unwrap_p",
    "random_wrap": "random.prng.random_wrap_p",
    "reduce_scatter": "lax.parallel.reduce_scatter_p",
    "reshard": "pjit.reshard_p",
    "run_state": "state.discharge.run_state_p",
    "scaled_dot": "lax.scaled_dot.scaled_dot_p",
    "scatter_sub": "lax.slicing.scatter_sub_p",
    "shard_map": "shard_map.shard_map_p",
    "split": "lax.lax.split_p",
    "stack": "lax.lax.stack_p",
    "symmetric_product": "lax.linalg.symmetric_product_p",
    "tile": "lax.lax.tile_p",
    "unstack": "lax.lax.unstack_p",
}

# A line on each, in a user's words.
DOCS: Final[dict[str, str]] = {
    "abs": "Absolute value, elementwise.",
    "acos": "Arc cosine, elementwise.",
    "acosh": "Inverse hyperbolic cosine, elementwise.",
    "add": "Sum of two arrays, elementwise.",
    "add_jaxvals": (
        "Sum of two cotangents: what differentiation writes where a value is used twice."
    ),
    "addupdate": "Adds to a mutable array reference.",
    "after_all": "A token that comes after all the given tokens.",
    "all_gather": "The operand of every device along a mesh axis, gathered into one array.",
    "all_gather_invariant": "As `all_gather`, with a result known to be the same on every device.",
    "all_to_all": "Scatters one array axis over a mesh axis and gathers another.",
    "and": "Bitwise or logical and, elementwise.",
    "approx_top_k": (
        "The largest or smallest values along an axis and their indices, approximately."
    ),
    "argmax": "Index of the largest element along an axis.",
    "argmin": "Index of the smallest element along an axis.",
    "asin": "Arc sine, elementwise.",
    "asinh": "Inverse hyperbolic sine, elementwise.",
    "atan": "Arc tangent, elementwise.",
    "atan2": "Angle of the point (y, x), elementwise.",
    "atanh": "Inverse hyperbolic tangent, elementwise.",
    "axis_index": "The index of this device along a mesh axis.",
    "bessel_i0e": "Exponentially scaled modified Bessel function of order 0, elementwise.",
    "bessel_i1e": "Exponentially scaled modified Bessel function of order 1, elementwise.",
    "bitcast_convert_type": "The same bits read as another dtype.",
    "broadcast_in_dim": (
        "The operand in a larger shape; `broadcast_dimensions` says where its axes go."
    ),
    "call": "Calls a function in the middle of a trace.",
    "call_exported": "Calls a function that `jax.export` serialized.",
    "cbrt": "Cube root, elementwise.",
    "ceil": "Smallest integer not below, elementwise.",
    "check": "Raises inside `checkify` if an error has happened.",
    "cholesky": "Cholesky factor of a symmetric positive definite matrix.",
    "cholesky_update": "Cholesky factor of a matrix after a rank-one update.",
    "clamp": "The middle operand, kept between the first and the last, elementwise.",
    "closed_call": "Calls a closed jaxpr.",
    "clz": "Number of leading zero bits, elementwise.",
    "complex": "Complex numbers from real and imaginary parts.",
    "composite": "Calls a jaxpr under a name that a compiler may replace whole.",
    "concatenate": "Arrays joined along an axis that they have.",
    "cond": "One of several branches, chosen by the first operand.",
    "conj": "Complex conjugate, elementwise.",
    "conv_general_dilated": (
        "Convolution of an image by a kernel, with strides, padding, dilation and groups."
    ),
    "convert_element_type": "The operand in another dtype.",
    "copy": "The same values in a new buffer.",
    "cos": "Cosine, elementwise.",
    "cosh": "Hyperbolic cosine, elementwise.",
    "create_token": "A token that comes after nothing.",
    "cumlogsumexp": "Running log of the sum of exponentials along an axis.",
    "cummax": "Running maximum along an axis.",
    "cummin": "Running minimum along an axis.",
    "cumprod": "Running product along an axis.",
    "cumsum": "Running sum along an axis.",
    "custom_jvp_call": "Calls a function that has its own jvp rule.",
    "custom_lin": (
        "The linear part of a function that has its own vjp rule, while it is linearized."
    ),
    "custom_vjp_call": "Calls a function that has its own vjp rule.",
    "custom_vmap_call": "Calls a function that has its own vmap rule.",
    "dce_sink": "Keeps a value from being removed as unused.",
    "debug_callback": "Calls Python for debugging, without a result.",
    "debug_print": "Prints values while the program runs.",
    "device_put": "The operands on other devices, or with another sharding.",
    "digamma": "Derivative of the log of the gamma function, elementwise.",
    "div": "Quotient of two arrays, elementwise; rounds towards zero on integers.",
    "dot_general": "Product of two arrays, summed over contracting axes, batch axes apart.",
    "dynamic_slice": "A block of the operand that starts at indices known only at run time.",
    "dynamic_update_slice": "The operand with a block replaced, at indices known only at run time.",
    "eig": "Eigenvalues, and left and right eigenvectors, of a general matrix.",
    "eigh": "Eigenvectors and eigenvalues of a symmetric matrix.",
    "empty": "An array of a given shape whose values are not set.",
    "empty2": "An array whose values are not set.",
    "eq": "Whether equal, elementwise.",
    "eq_to": "Whether equal in the total order of floats, elementwise.",
    "erf": "Error function, elementwise.",
    "erf_inv": "Inverse of the error function, elementwise.",
    "erfc": "Complement of the error function, elementwise.",
    "exp": "Exponential, elementwise.",
    "exp2": "Two to the power of, elementwise.",
    "expm1": "Exponential minus one, exact near zero, elementwise.",
    "ffi_call": "Calls a function of a foreign library.",
    "fft": "Discrete Fourier transform over the last axes.",
    "floor": "Largest integer not above, elementwise.",
    "freeze": "The value of a mutable array reference that is no longer used.",
    "gather": "Slices of the operand at an array of indices.",
    "ge": "Whether greater or equal, elementwise.",
    "geqp3": "QR factors of a matrix with column pivoting, as LAPACK stores them.",
    "geqrf": "QR factors of a matrix, as LAPACK stores them.",
    "get": "Reads from a mutable array reference.",
    "gt": "Whether greater, elementwise.",
    "hessenberg": "Upper Hessenberg form of a matrix, as reflectors and their scales.",
    "householder_product": "Product of Householder reflectors.",
    "igamma": "Lower regularized incomplete gamma function, elementwise.",
    "igamma_grad_a": "Derivative of `igamma` in its first operand, elementwise.",
    "igammac": "Upper regularized incomplete gamma function, elementwise.",
    "imag": "Imaginary part, elementwise.",
    "inspect_sharding": "Calls Python with the sharding that the compiler chose.",
    "integer_pow": "The operand to a fixed integer power, elementwise.",
    "io_callback": "Calls Python, with its side effects, and gives what it returns.",
    "iota": "Counts from zero along an axis.",
    "is_finite": "Whether neither infinite nor nan, elementwise.",
    "jit": "Calls a compiled function.",
    "layout_constraint": "The operand, constrained to a layout in memory.",
    "le": "Whether less or equal, elementwise.",
    "le_to": "Whether less or equal in the total order of floats, elementwise.",
    "lgamma": "Log of the absolute value of the gamma function, elementwise.",
    "linear_call": "Calls a linear function that has its own transpose.",
    "linear_solve": "Solves a linear system given by functions, with a derivative of its own.",
    "log": "Natural logarithm, elementwise.",
    "log1p": "Log of one plus, exact near zero, elementwise.",
    "logistic": "Logistic sigmoid, elementwise.",
    "lt": "Whether less, elementwise.",
    "lt_to": "Whether less in the total order of floats, elementwise.",
    "lu": "LU factors, pivots and permutation of a matrix.",
    "lu_pivots_to_permutation": "The permutation that a sequence of row swaps makes.",
    "max": "The larger of two, elementwise.",
    "min": "The smaller of two, elementwise.",
    "mul": "Product of two arrays, elementwise.",
    "mulhi": "The upper half of the product of two integers, elementwise.",
    "name": "The operand, with a name that checkpoint policies can ask for.",
    "ne": "Whether not equal, elementwise.",
    "neg": "The operand with the opposite sign, elementwise.",
    "new_ref": "A mutable array reference with a first value.",
    "nextafter": "The next float after the first operand towards the second, elementwise.",
    "not": "Bitwise or logical not, elementwise.",
    "optimization_barrier": "The operands; the compiler moves nothing across.",
    "or": "Bitwise or logical or, elementwise.",
    "ormqr": "A matrix multiplied by the Q of a QR decomposition, as LAPACK stores it.",
    "pad": "The operand with padding around and between its elements.",
    "platform_index": (
        "Index of the platform that the program is compiled for, among the given ones."
    ),
    "pmax": "Largest over a mesh axis.",
    "pmin": "Smallest over a mesh axis.",
    "polygamma": "Derivatives of the log of the gamma function, elementwise.",
    "population_count": "Number of bits that are set, elementwise.",
    "pow": "The first operand to the power of the second, elementwise.",
    "ppermute": "Sends each device's operand to another along a mesh axis.",
    "psum": "Sum over a mesh axis.",
    "psum_invariant": "As `psum`, with a result known to be the same on every device.",
    "pure_callback": "Calls a Python function without side effects, and gives what it returns.",
    "pvary": "The operand, marked as varying over mesh axes.",
    "qr": "QR decomposition of a matrix.",
    "ragged_all_to_all": "Sends slices of different lengths between the devices of a mesh axis.",
    "ragged_dot_general": "Product of arrays whose rows come in groups of different lengths.",
    "random_bits": "Random bits from a key.",
    "random_clone": "The same key, allowed to be used again.",
    "random_fold_in": "A new key from a key and an integer.",
    "random_gamma": "Gamma-distributed samples from a key.",
    "random_seed": "A key from an integer seed.",
    "random_split": "Several new keys from one.",
    "random_unwrap": "The bits of a key.",
    "random_wrap": "A key from its bits.",
    "real": "Real part, elementwise.",
    "reduce": "Reduces along axes by a function of two values.",
    "reduce_and": "Whether all are true (or bitwise and) along axes.",
    "reduce_max": "Largest element along axes.",
    "reduce_min": "Smallest element along axes.",
    "reduce_or": "Whether any is true (or bitwise or) along axes.",
    "reduce_precision": "The operand rounded to fewer exponent and mantissa bits.",
    "reduce_prod": "Product along axes.",
    "reduce_scatter": "Sum over a mesh axis, each device keeping one part.",
    "reduce_sum": "Sum along axes.",
    "reduce_window": "Reduces windows that slide over the operand by a function of two values.",
    "reduce_window_max": "Largest element of each sliding window.",
    "reduce_window_min": "Smallest element of each sliding window.",
    "reduce_window_sum": "Sum of each sliding window.",
    "reduce_xor": "Bitwise exclusive or along axes.",
    "regularized_incomplete_beta": "Regularized incomplete beta function, elementwise.",
    "rem": "Remainder of a division, with the sign of the first operand, elementwise.",
    "remat": "Calls a jaxpr whose values are computed again, not stored, for the derivative.",
    "reshape": "The same elements, in the same order, in another shape.",
    "reshard": "The operand with another sharding, in a mesh of explicit axes.",
    "rev": "The operand with axes reversed.",
    "rng_bit_generator": "Random bits and a new state from a state.",
    "rng_uniform": "Uniform samples from the backend's own stateful generator.",
    "round": "The nearest integer, elementwise.",
    "rsqrt": "One over the square root, elementwise.",
    "run_state": "Runs a jaxpr that works on mutable references.",
    "scaled_dot": "Product of two arrays of small floats, each with its scales.",
    "scan": "A loop with a carry over the leading axis of its operands.",
    "scatter": "The operand with slices replaced at an array of indices.",
    "scatter_add": "The operand with slices added at an array of indices.",
    "scatter_max": "The operand with the larger kept at an array of indices.",
    "scatter_min": "The operand with the smaller kept at an array of indices.",
    "scatter_mul": "The operand with slices multiplied in at an array of indices.",
    "scatter_sub": "The operand with slices subtracted at an array of indices.",
    "schur": "Schur form of a matrix, and its vectors.",
    "select_and_gather_add": (
        "Values of the second operand where a window of the first has its largest or smallest."
    ),
    "select_and_scatter": (
        "Adds each source value where its window of the operand is selected, by functions."
    ),
    "select_and_scatter_add": (
        "Adds each source value where its window of the operand is largest or smallest."
    ),
    "select_n": "Elements of one of several arrays, as the first operand says which.",
    "shard_map": "Maps a function over the shards of its operands.",
    "sharding_constraint": "The operand, constrained to a sharding.",
    "shift_left": "Bits shifted to the left, elementwise.",
    "shift_right_arithmetic": "Bits shifted to the right, the sign kept, elementwise.",
    "shift_right_logical": "Bits shifted to the right, zeros filled in, elementwise.",
    "sign": "Sign as -1, 0 or 1, elementwise.",
    "sin": "Sine, elementwise.",
    "sinh": "Hyperbolic sine, elementwise.",
    "slice": "A block of the operand, with start, limit and stride on each axis.",
    "sort": "Operands sorted together along an axis; the first `num_keys` decide.",
    "split": "The operand cut into parts along an axis.",
    "sqrt": "Square root, elementwise.",
    "square": "The operand times itself, elementwise.",
    "squeeze": "The operand without some axes of size one.",
    "stack": "Arrays joined along a new axis.",
    "stop_gradient": "The operand, with no derivative.",
    "sub": "Difference of two arrays, elementwise.",
    "svd": "Singular values of a matrix, and its singular vectors where asked for.",
    "swap": "Writes to a mutable array reference, and gives what was there.",
    "symmetric_product": "A matrix times its transpose, plus a symmetric matrix.",
    "tan": "Tangent, elementwise.",
    "tanh": "Hyperbolic tangent, elementwise.",
    "threefry2x32": "The Threefry hash that JAX's default random numbers are made by.",
    "tile": "The operand repeated along its axes.",
    "top_k": "The largest values along an axis and their indices.",
    "transpose": "The operand with its axes permuted.",
    "triangular_solve": "Solves a triangular system.",
    "tridiagonal": "A symmetric matrix brought to tridiagonal form.",
    "tridiagonal_solve": "Solves a tridiagonal system.",
    "unstack": "The operand cut along an axis, which is dropped.",
    "while": "A loop while a condition holds.",
    "xor": "Bitwise or logical exclusive or, elementwise.",
    "zeta": "Hurwitz zeta function, elementwise.",
}
