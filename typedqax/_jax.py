"""JAX's own machinery, behind one typed door: the only file that imports `jax._src`.

What changed between JAX releases is named here by feature, with the release that changed it; the
rest of the library sees typed functions and never asks for a version.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

import jax
import numpy as np
from jax._src import array as _array
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import named_sharding as _named_sharding
from jax._src import shard_map as _shard_map
from jax._src import traceback_util as _traceback_util
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.source_info_util import Scope as _Scope
from jax._src.source_info_util import Transform as _Transform
from jax._src.source_info_util import is_user_filename as _is_users
from jax._src.source_info_util import user_frame as _user_frame
from jax._src.util import weakref_lru_cache as weakref_lru_cache
from jax.core import ShapedArray as ShapedArray
from jax.core import Trace as Trace
from jax.core import Tracer as Tracer
from jax.core import eval_jaxpr as eval_jaxpr
from jax.custom_derivatives import SymbolicZero as SymbolicZero
from jax.extend import linear_util as linear_util
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr as ClosedJaxpr
from jax.extend.core import Jaxpr as Jaxpr
from jax.extend.core import Primitive as Primitive
from jax.extend.core import TraceTag as TraceTag
from jax.extend.linear_util import WrappedFun as WrappedFun
from jax.interpreters.ad import Zero as Zero
from jax.interpreters.ad import instantiate_zeros as instantiate_zeros

from typedqax._errors import TypedQaxError

VERSION: str = jax.__version__
"""What this JAX calls itself, for people to read."""

UNSPECIFIED: Any = _named_sharding.UNSPECIFIED
"""What jit knows of a sharding that nobody gave."""

CONCRETE_ARRAY: type = _array.ArrayImpl
"""The one class of arrays that are no tracers."""

C = TypeVar("C", bound=Callable[..., Any])

if TYPE_CHECKING:
    AnyTracer: TypeAlias = Tracer[Any]  # generic over traces in new JAX only
else:
    AnyTracer = Tracer

Params: TypeAlias = Mapping[str, Any]
SourceInfo: TypeAlias = source_info_util.SourceInfo

# With a separator at the end: the names of other packages begin alike, such as jaxopt.
_JAX_PACKAGE = str(Path(jax.__file__).resolve().parent) + os.sep
_PACKAGE = str(Path(__file__).resolve().parent) + os.sep
_STDLIB = Path(contextlib.__file__).parent


def exclude_package_from_tracebacks() -> None:
    """Make JAX name the user's file, not this package, in HLO metadata and error traces."""
    source_info_util.register_exclusion(_PACKAGE)
    _traceback_util.register_exclusion(_PACKAGE)


def api_boundary(function: C) -> C:
    """`function`, whose `TypedQaxError`s end at a line of the user's.

    The frames of JAX and of this package are taken from their tracebacks, or hidden, as
    `JAX_TRACEBACK_FILTERING` says.
    """

    @functools.wraps(function)
    def ends_at_the_user(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypedQaxError as error:
            mode = _traceback_util._filtering_mode()
            if mode == "tracebackhide":
                _traceback_util._add_tracebackhide_to_hidden_frames(error.__traceback__)
            elif mode != "off":
                error.__traceback__ = _until_user(error.__traceback__)
            raise

    return cast(C, ends_at_the_user)


def transform_boundary(function: C) -> C:
    """As `api_boundary`, for what runs functions of the user's: JAX treats all errors so then."""
    return _traceback_util.api_boundary(api_boundary(function))


@functools.cache
def quick_compilation() -> dict[str, str | bool]:
    """Options with which XLA compiles in half the time, for what runs once on a few numbers."""
    wanted: dict[str, str | bool] = {
        "xla_backend_optimization_level": "0",
        "xla_llvm_disable_expensive_passes": True,
        "xla_cpu_use_fusion_emitters": False,
    }
    return {name: value for name, value in wanted.items() if _is_known({name: value})}


def _is_known(option: dict[str, str | bool]) -> bool:
    """Whether this XLA, which changes its options as it likes, has one."""
    try:
        jax.jit(lambda x: x).lower(np.float32(0)).compile(compiler_options=option)
    except jax.errors.JaxRuntimeError:
        return False
    return True


@contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Errors keep JAX's frames in the block: to look for those takes JAX longer than most calls."""
    with _config.traceback_filtering("off"):
        yield


def _until_user(trace: TracebackType | None) -> TracebackType | None:
    """The user's frames of a traceback, and what stands between them."""
    until: TracebackType | None = None
    for frame, line in reversed(list(traceback.walk_tb(trace))):
        filename = frame.f_code.co_filename
        if _is_own(filename) or (until and _traceback_util.include_filename(filename)):
            until = TracebackType(until, frame, frame.f_lasti, line)
    return until


def _is_own(filename: str) -> bool:
    if filename.startswith("<frozen "):
        return False
    return _traceback_util.include_filename(filename) and _is_users(filename)


def raised_at(error: BaseException) -> Frame | None:
    """The innermost frame of the user's in an error's traceback."""
    own = [
        Frame(each.filename, each.lineno or 0, each.name)
        for each in traceback.extract_tb(error.__traceback__)
        if _is_own(each.filename)
    ]
    return own[-1] if own else None


# --- traces --------------------------------------------------------------------------------------


def trace_context() -> Hashable:
    """All of JAX's configuration that decides what a function is traced to."""
    context: Hashable = _config.trace_context()
    return context


def current_trace() -> Trace:
    """The trace that primitives are bound to now."""
    trace: Trace = _core.trace_ctx.trace
    return trace


def around(trace: Trace) -> Iterator[Trace]:
    """The trace itself, and those that it is inside of, the innermost first."""
    each: Any = trace
    while each is not None:
        yield each
        each = getattr(each, "parent_trace", None)


def is_eager(trace: Trace) -> bool:
    """Whether what is bound to this trace runs at once."""
    return isinstance(trace, _core.EvalTrace)


def is_staging(trace: Trace | None) -> bool:
    """Whether this trace itself writes what is bound to it to a jaxpr."""
    return isinstance(trace, _partial_eval.DynamicJaxprTrace)


def is_staged(trace: Trace) -> bool:
    """Whether what is bound to this trace is written to a jaxpr, derivatives taken first or not."""
    return any(map(is_staging, around(trace)))


def under(trace: Trace) -> AbstractContextManager[None]:
    """Bind primitives to `trace` inside the block."""
    return _core.set_current_trace(trace)


def set_trace(trace: Trace) -> None:
    """Bind primitives to `trace` from here on."""
    _core.trace_ctx.set_trace(trace)


PASSING_TRACES: tuple[type, ...] = (_ad.JVPTrace, _ad.LinearizeTrace, _batching.BatchTrace)
"""The traces that pass on, unchanged, what is no tracer of theirs, and that JAX does not cache."""


@contextmanager
def without_trace() -> Iterator[Trace]:
    """Compute primitives in the block, whatever is being traced around it."""
    with _core.set_current_trace(_core.eval_trace):
        yield _core.eval_trace


def take_current_trace() -> AbstractContextManager[Trace]:
    """The current trace, set aside for the block so that nothing binds to it by accident."""
    return _core.take_current_trace()


def checks_leaks() -> bool:
    """Whether the user asked JAX to look for leaked tracers."""
    return bool(_config.check_tracer_leaks.value)


def ensure_no_leaks(trace: Trace) -> AbstractContextManager[None]:
    """Invalidate `trace` at the end of the block, and report any of its tracers still alive."""
    return _core.ensure_no_leaks(trace)


def cur_qdd(trace: Trace, value: Any) -> Any:
    """The quasi-dynamic data of a value of `trace`, such as what a box holds now."""
    return trace.cur_qdd(value)  # type: ignore[attr-defined]  # of every trace, not of the base


def bind_under(trace: Trace, primitive: Primitive, operands: Sequence[Any], params: Params) -> Any:
    """Apply `primitive` to operands of `trace` without asking the current trace."""
    avals = tuple(map(jax.typeof, operands))
    return primitive.bind_with_trace(trace, tuple(operands), avals, dict(params))


def bind(primitive: Primitive, operands: Sequence[Any], params: Params) -> Any:
    """Apply `primitive` under the current trace."""
    return primitive.bind(*operands, **params)


def bind_params(primitive: Primitive, params: Params) -> dict[str, Any]:
    """The params to bind again what an equation with `params` recorded."""
    return dict(primitive.get_bind_params(params))


_FORMER_HOMES: dict[str, str] = {"random.core": "random", "random.prng": "prng"}
"""Where modules of JAX were before 0.10.2."""


def primitive_at(path: str) -> Primitive:
    """The primitive at `path`: `'add_p'` is a public one, `'callback.pure_callback_p'` is not.

    Raises:
        ImportError: this JAX has no such module.
        AttributeError: its module has no such primitive.
    """
    module, _, attribute = path.rpartition(".")
    name = f"jax._src.{module}" if module else "jax.extend.core.primitives"
    try:
        home = importlib.import_module(name)
    except ModuleNotFoundError:
        if module not in _FORMER_HOMES:
            raise
        home = importlib.import_module(f"jax._src.{_FORMER_HOMES[module]}")
    primitive = getattr(home, attribute)
    if not isinstance(primitive, Primitive):
        raise TypeError(f"{home.__name__}.{attribute} is no primitive but {primitive!r}.")
    return primitive


def primitive_names() -> frozenset[str]:
    """The names of all primitives that can be compiled, differentiated or batched."""
    registries: list[Iterable[Primitive]] = [
        _mlir._lowerings,
        *_mlir._platform_specific_lowerings.values(),
        _ad.primitive_jvps,
        _batching.fancy_primitive_batchers,
    ]
    return frozenset(primitive.name for registry in registries for primitive in registry)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters


FORMER_PARAMS: dict[str, dict[str, str | None]] = {
    # By primitive: what a param of the newest JAX is called in this one, or None.
    "eig": {}
    if _takes(jax.lax.linalg.eig, "enable_eigvec_derivs")
    else {"enable_eigvec_derivs": None},
    "ragged_dot_general": {}
    if _takes(jax.lax.ragged_dot_general, "out_sharding")
    else {"out_sharding": None},
    "shard_map": {}
    if _takes(_shard_map._shard_map_staging, "newly_manual_axes")
    else {"newly_manual_axes": "manual_axes"},
}
"""Params that came with JAX 0.10.1 (`eig`, `ragged_dot_general`) and 0.10.2 (`shard_map`)."""


def params_here(primitive: str, params: Iterable[str]) -> dict[str, str]:
    """The params of the newest JAX that this one has too, each with its name here."""
    former = FORMER_PARAMS.get(primitive, {})
    names = {param: former.get(param, param) for param in params}
    return {param: name for param, name in names.items() if name is not None}


def canonicalize(value: Any) -> Any:
    """`value` as JAX passes it to a primitive (python scalars become typed literals)."""
    # Before JAX 0.10.2, tracers are left to `bind`.
    return value if isinstance(value, Tracer) else _dtypes.canonicalize_value(value)


_BIND_CANONICALIZES: bool = hasattr(_dtypes, "register_canonicalize_value_handler")
"""Whether `bind` canonicalizes every operand, ours too; before JAX 0.10.2 only numbers."""


def register_canonicalizer(cls: type, canonicalize_value: Callable[[Any], Any]) -> None:
    """Let `canonicalize_value` decide what a primitive sees of an instance of `cls`."""
    if _BIND_CANONICALIZES:
        _dtypes.register_canonicalize_value_handler(cls, canonicalize_value)
    else:
        _dtypes.canonicalize_value_handlers[cls] = canonicalize_value
        _let_bind_canonicalize(cls)


def _let_bind_canonicalize(cls: type) -> None:
    """Let `bind` canonicalize an instance of `cls` as it does a number.

    It has no hook for that. What asks later, as where an operand is staged, comes too late: a trace
    of a derivative would take what it does not know for a constant.
    """
    core: Any = _core  # what new JAX does not have
    for_others = core.canonicalize_value_dtype

    def canonicalize_operand(value: Any) -> Any:
        ours = issubclass(type(value), cls)
        return _dtypes.canonicalize_value(value) if ours else for_others(value)

    core.canonicalize_value_dtype = canonicalize_operand


def register_aval(cls: type, aval_of_value: Callable[[Any], ShapedArray]) -> None:
    """Let `jax.typeof` of an instance of `cls` be what `aval_of_value` says."""
    _core.pytype_aval_mappings[cls] = aval_of_value


_own_caches: Callable[[object], AbstractContextManager[None]] = jax.make_user_context(None)


def without_caches() -> AbstractContextManager[None]:
    """Trace everything anew in the block: nothing that JAX traced before it counts, or after."""
    return _own_caches(object())


# --- what equations carry ------------------------------------------------------------------------


class _Mark:
    """An element of JAX's name stack that adds nothing to any name, and holds an item."""

    __slots__ = ("item",)

    def __init__(self, item: object) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mark) and self.item == other.item

    def __hash__(self) -> int:
        return hash((_Mark, self.item))

    def wrap(self, stack: list[str]) -> None:
        """What a name stack asks of its elements, to write itself down."""


def carrying(item: object) -> AbstractContextManager[None]:
    """Let what is applied in the block carry `item`, in every jaxpr and transformation of it.

    It goes where `jax.named_scope` goes: an equation keeps it in its source information, which is
    in force again when the equation is evaluated, differentiated, batched or transposed.
    """
    names = source_info_util.current().name_stack
    stack: Any = (*names.stack, _Mark(item))  # it has `wrap`, which is all that is asked for
    return source_info_util.set_name_stack(type(names)(stack))


def carried() -> object:
    """The item of the innermost `carrying` in force; None without one."""
    elements: tuple[Any, ...] = source_info_util.current().name_stack.stack
    for element in reversed(elements):
        if type(element) is _Mark:
            return element.item
    return None


# What JAX traced or compiled under another value of one of these, in this thread, is not used. Its
# context managers end with a block; these are set until they are set again, and give what was so.
swap_policy: Callable[[object], object] = jax.make_user_context(None)._obj.swap_local
"""Says which policy is in force."""

swap_inside: Callable[[object], object] = jax.make_user_context(False)._obj.swap_local
"""Says whether a transform sees what is staged."""


# --- abstract values -----------------------------------------------------------------------------


def shaped_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ShapedArray:
    """The abstract value of a strongly typed array."""
    return ShapedArray(shape, dtype)


def is_plain_array(aval: Any) -> bool:
    """Whether `aval` is that of an array, and not of a ref or the like."""
    return isinstance(aval, ShapedArray)


def canonical_shape(shape: Sequence[Any]) -> tuple[Any, ...]:
    """A shape as JAX writes it: a tuple of ints, or of symbolic sizes."""
    return tuple(_core.canonicalize_shape(tuple(shape)))


def short_aval(shape: Sequence[Any], dtype: Any) -> str:
    """A shape and dtype as JAX prints them, `f32[3,4]`."""
    name = dtype_name(dtype)  # JAX takes a float0 for numpy's void
    short = name if name == "float0" else _dtypes.short_dtype_name(dtype)
    return f"{short}[{','.join(map(str, shape))}]"


def wide_types() -> bool:
    """Whether 64-bit types are enabled."""
    return bool(_config.enable_x64.value)


def strong(aval: Any) -> Any:
    """`aval` without weak type."""
    return aval.update(weak_type=False) if getattr(aval, "weak_type", False) else aval


def strongly_typed(array: Any) -> Any:
    """`array` as an array of JAX's, without weak type; a float0 has nothing to convert."""
    if not isinstance(array, jax.Array) and array.dtype != jax.dtypes.float0:
        array = jax.numpy.asarray(array)
    aval = jax.typeof(array)
    if getattr(aval, "weak_type", False):
        return jax.lax.convert_element_type(array, aval.dtype)
    return array


def canonical_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype as JAX has it: 32 bits wide unless x64 is enabled; an extended one as it is.

    Raises:
        TypeError: it is none.
    """
    if _dtypes.issubdtype(dtype, _dtypes.extended):
        extended: np.dtype[Any] = dtype
        return extended
    canonical: np.dtype[Any] = _dtypes.canonicalize_dtype(np.dtype(dtype))
    return canonical


def dtype_name(dtype: Any) -> str:
    """The name a dtype is dispatched by: `'float32'`, `'bfloat16'`, `'key<fry>'`, `'float0'`."""
    if isinstance(dtype, np.dtype) and dtype.names == ("float0",):
        return "float0"
    return str(dtype.name if hasattr(dtype, "name") else dtype)


def varying_axes(aval: Any) -> frozenset[Any]:
    """The mesh axes of a `shard_map` over which an array differs (none for a ref)."""
    kinds = getattr(aval, "mat", None)
    return frozenset(getattr(kinds, "varying", None) or ())


def varying_as(aval: Any, tree: Any) -> Any:
    """`aval` of what is made of the leaves of `tree`: it differs over the mesh axes they do."""
    if not _config._check_vma.value:
        return aval
    kinds = [kind for kind in map(type_of, jax.tree.leaves(tree)) if varying_axes(kind)]
    if not kinds:
        return aval
    mesh, axes = kinds[0].sharding.mesh, frozenset[Any]().union(*map(varying_axes, kinds))
    return aval.update(sharding=_unsplit(mesh, aval.shape), manual_axis_type=_vary_over(axes))


def type_of(leaf: Any) -> Any:
    """The abstract value of a leaf, which may be abstract itself."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return ShapedArray(leaf.shape, leaf.dtype)
    return leaf if isinstance(leaf, ShapedArray) else jax.typeof(leaf)


def of_shape(aval: Any, shape: tuple[Any, ...]) -> Any:
    """`aval` with another shape; it differs over the same axes of a mesh."""
    varies = bool(varying_axes(aval))
    return aval.update(
        shape=shape, sharding=_unsplit(aval.sharding.mesh, shape) if varies else None
    )


def _unsplit(mesh: Any, shape: tuple[Any, ...]) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*[None] * len(shape)))


def _vary_over(axes: frozenset[Any]) -> Any:
    return type(_core.empty_mat)(varying=axes)


# Before JAX 0.10.1 it has another name.
_vary_alike: Callable[..., Sequence[Any]] = getattr(
    _core,
    "auto_insert_reshard" if hasattr(_core, "auto_insert_reshard") else "standard_insert_pvary",
)


def varying_alike(operands: Sequence[Any]) -> Sequence[Any]:
    """The operands, varying over the same axes of a `shard_map`, as JAX's functions make them."""
    return _vary_alike(*operands) if _config._check_vma.value else operands


def float_bits(dtype: Any) -> tuple[int, int] | None:
    """The bits of the exponent and of the mantissa of a floating dtype; None of any other."""
    if not _dtypes.issubdtype(dtype, np.floating):
        return None
    info: Any = _dtypes.finfo(dtype)
    return int(info.nexp), int(info.nmant)


def out_avals(primitive: Primitive, avals: Sequence[Any], params: Params) -> list[Any] | None:
    """What `primitive` would give for operands of these avals; None where it has no own rule."""
    avals = _avals_varying_alike(avals)
    try:
        result, _ = _partial_eval._cached_abstract_eval(primitive, *avals, **params)
    except TypeError:  # an unhashable param: ask without the cache, and let a real error show
        if _hashable(params):
            raise
        result, _ = primitive.abstract_eval(*avals, **params)
    except NotImplementedError:
        return None  # call-like primitives have no rule of their own
    return list(result) if primitive.multiple_results else [result]


def _avals_varying_alike(avals: Sequence[Any]) -> Sequence[Any]:
    """As `varying_alike`: a primitive insists that its operands agree on that."""
    varying = [aval for aval in avals if varying_axes(aval)]
    if not varying:
        return avals
    mesh, axes = varying[0].sharding.mesh, frozenset[Any]().union(*map(varying_axes, varying))
    return [
        aval
        if varying_axes(aval) == axes
        else aval.update(sharding=_unsplit(mesh, aval.shape), manual_axis_type=_vary_over(axes))
        for aval in avals
    ]


def varying_as_due(
    results: Sequence[Any], primitive: Primitive, avals: Sequence[Any], params: Params
) -> list[Any]:
    """These results of `primitive`, varying over the axes of a `shard_map` that its own would.

    The leaves of a result that a handler made of nothing, as zeros are, vary over none.
    """
    due = out_avals(primitive, avals, params) or [None] * len(results)
    return [
        _varying_over(each, varying_axes(aval)) for each, aval in zip(results, due, strict=True)
    ]


def varying_as_leaves(result: Any, value: Any) -> Any:
    """`result`, which is computed from `value`, varying over the axes that its leaves do."""
    if not checks_varying():
        return result
    leaves = map(jax.typeof, jax.tree.leaves(value))
    return _varying_over(result, frozenset[Any]().union(*map(varying_axes, leaves)))


def _varying_over(tree: Any, axes: frozenset[Any]) -> Any:
    known = {id(leaf): varying_axes(jax.typeof(leaf)) for leaf in jax.tree.leaves(tree)}
    if axes <= frozenset[Any]().union(*known.values()):
        return tree

    def vary(leaf: Any) -> Any:
        missing = sorted(axes - known[id(leaf)])
        return jax.lax.pcast(leaf, tuple(missing), to="varying") if missing else leaf

    return jax.tree.map(vary, tree)


def splits_in_types() -> bool:
    """Whether types say how arrays are split over a mesh: one with explicit axes is in force."""
    mesh = _config.abstract_mesh_context_manager.value  # asked for each implicit array
    return mesh is not None and jax.sharding.AxisType.Explicit in mesh.axis_types


def split_of(aval: Any) -> tuple[Any, ...]:
    """The mesh axes over which each axis of an array is split, as its type says."""
    return tuple(aval.sharding.spec)


def is_split(aval: Any) -> bool:
    """Whether its type says that an array is split."""
    return any(axes is not None for axes in split_of(aval))


def type_split_as(aval: Any, split: tuple[Any, ...]) -> Any:
    """`aval` of an array that is split so over the mesh in force."""
    mesh = jax.sharding.get_abstract_mesh()
    spec = jax.sharding.PartitionSpec(*split)
    return aval.update(sharding=jax.sharding.NamedSharding(mesh, spec))


def resplit(array: Any, split: tuple[Any, ...]) -> Any:
    """`array`, split so; the array itself if it is."""
    if split_of(jax.typeof(array)) == split:
        return array
    spec = jax.sharding.PartitionSpec(*split)
    return jax.sharding.reshard(jax.numpy.asarray(array), spec)


def checks_varying() -> bool:
    """Whether JAX checks over which axes of a `shard_map` an array varies."""
    return bool(_config._check_vma.value)


def _hashable(params: Params) -> bool:
    try:
        hash(tuple(params.values()))
    except TypeError:
        return False
    return True


# --- jaxprs --------------------------------------------------------------------------------------


class TracedJaxpr(NamedTuple):
    """A function traced to a jaxpr over leaves, and the constants it closed over."""

    jaxpr: Jaxpr
    consts: list[Any]


def trace_to_jaxpr(
    function: Callable[..., Sequence[Any]], avals: Sequence[Any], debug_info: Any
) -> TracedJaxpr:
    """Trace a flat function at `avals`; `debug_info` names where it came from."""
    wrapped = linear_util.wrap_init(function, debug_info=debug_info.with_unknown_names())
    jaxpr, _, consts = _partial_eval.trace_to_jaxpr_dynamic(wrapped, list(avals))
    return TracedJaxpr(jaxpr, list(consts))


def jaxprs_in(params: Params) -> Iterator[Jaxpr]:
    """The jaxprs among these params, closed ones opened."""
    found: Iterator[Jaxpr] = _core.jaxprs_in_params(params)
    return found


def close_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> ClosedJaxpr:
    """`jaxpr` with its constants; without any, the same object each time."""
    if not consts:
        closed: ClosedJaxpr = _partial_eval.close_jaxpr(jaxpr)
        return closed
    return ClosedJaxpr(jaxpr, list(consts))


def hoist_consts(jaxpr: ClosedJaxpr) -> Jaxpr:
    """An open jaxpr that takes the constants of `jaxpr` as leading operands."""
    hoisted: Jaxpr = _partial_eval.convert_constvars_jaxpr(jaxpr.jaxpr)
    return hoisted


def with_invars(jaxpr: Jaxpr, invars: Sequence[Any]) -> Jaxpr:
    """`jaxpr` with its operands in another order."""
    debug_info = jaxpr.debug_info.with_unknown_names()
    replaced: Jaxpr = jaxpr.replace(invars=list(invars), debug_info=debug_info)
    return replaced


def with_blank_names(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """`jaxpr` with an empty name for each operand, where nothing is known of their names.

    Before JAX 0.10.2, the derivative of a while loop adds names of its own to those of the test.
    """
    inner = jaxpr.jaxpr
    debug_info = inner.debug_info._replace(arg_names=("",) * len(inner.invars))
    return ClosedJaxpr(inner.replace(debug_info=debug_info), list(jaxpr.consts))


def with_leading_consts(jaxpr: Jaxpr, count: int) -> Jaxpr:
    """`jaxpr` whose first `count` operands are constants, after those that it has."""
    constvars = [*jaxpr.constvars, *jaxpr.invars[:count]]
    debug_info = jaxpr.debug_info.with_unknown_names()
    replaced: Jaxpr = jaxpr.replace(
        constvars=constvars, invars=jaxpr.invars[count:], debug_info=debug_info
    )
    return replaced


def is_defined_in_jax(debug_info: Any) -> bool:
    """Whether the function that `debug_info` names is part of JAX itself."""
    filename = getattr(debug_info, "func_filename", None)
    return filename is not None and filename.startswith(_JAX_PACKAGE)


def zeros_of(aval: Any) -> Any:
    """The zero of a tangent's abstract value."""
    return instantiate_zeros(Zero(aval))


def jaxpr_debug_info(jaxpr: Jaxpr | ClosedJaxpr) -> Any:
    """Where the function behind a jaxpr was defined."""
    inner: Any = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return inner.debug_info


def inner_function(primitive: Primitive, params: Params) -> str:
    """The function that a primitive holds, in a word or two; empty for one of JAX's own."""
    name = primitive.name
    if name == "jit":
        inner = is_defined_in_jax(jaxpr_debug_info(params["jaxpr"]))
        return "" if inner else f"jit({params['name']})"
    if name == "scan":
        return f"scan of {params['length']}"
    return {"remat2": "checkpoint"}.get(name, name)


def jit_inlines(params: Params) -> bool:
    """Whether a `jit` equation is to be inlined when traced (an enum from JAX 0.11 on)."""
    inline = params["inline"]
    return inline if isinstance(inline, bool) else str(getattr(inline, "name", "")) == "JAXPR"


def transform_wrapped(
    transformation: Callable[..., Any], function: WrappedFun, *static: Any
) -> WrappedFun:
    """`function` with one more transformation; its result stores stay for JAX to reset."""
    wrapped: WrappedFun = linear_util.transformation2(transformation)(function, *static)
    return wrapped


def transform_wrapped_with_aux(
    transformation: Callable[..., Any], function: WrappedFun, *static: Any
) -> tuple[WrappedFun, Callable[[], Any]]:
    """As `transform_wrapped`; the transformation also stores what a later call gives back."""
    wrapped: tuple[WrappedFun, Callable[[], Any]] = linear_util.transformation_with_aux2(
        transformation
    )(function, *static, use_eq_store=True)
    return wrapped


def function_info(function: WrappedFun) -> str:
    """The name and place of a function, as `'relu at .../functions.py:71'`."""
    return str(function.debug_info.func_src_info)


def unnamed(function: WrappedFun) -> WrappedFun:
    """`function` without argument names, for when the number of its arguments changes."""
    result: WrappedFun = function.with_unknown_names()
    return result


# --- where user code is --------------------------------------------------------------------------


class Frame(NamedTuple):
    """A place in the user's code."""

    file: str
    line: int
    function: str

    @classmethod
    def of(cls, frame: FrameType) -> Frame:
        """Where a running frame is."""
        return cls(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)


def source_info() -> SourceInfo:
    """Where the primitive being processed was called from; cheap, to be read later."""
    return source_info_util.current()


def source_info_of_python() -> SourceInfo:
    """As `source_info`, where JAX's record of the stack may end before the user's code.

    It ends where a function starts that JAX stages: in `jnp.tanh`, say, no line is the user's.
    Python's own frames go on; the innermost of the user's stands in place of JAX's record then.
    """
    info = source_info_util.current()
    if _user_frame(info.traceback) is not None:
        return info
    own: Any = Frame.of(running_frame())
    return info.replace(traceback=own)


def called_from(caller: SourceInfo, inner: SourceInfo) -> SourceInfo:
    """The line of `caller`, and the scopes of both, for what is in an inner function."""
    outside, inside = caller.name_stack, inner.name_stack
    if inside.stack[: len(outside.stack)] != outside.stack:
        inside = outside + inside
    return caller.replace(name_stack=inside)


def name_scopes(info: SourceInfo) -> tuple[str, ...]:
    """The names of `jax.named_scope` that a source info is in, from the outermost on."""
    names = [each.name for each in info.name_stack.stack if isinstance(each, _Scope)]
    return tuple([part for name in names for part in name.split("/")])


def name_scope(info: SourceInfo) -> str:
    """The `jax.named_scope` path of a source info, as `'layer/attention'`."""
    return "/".join(name_scopes(info))


def in_transpose(info: SourceInfo) -> bool:
    """Whether JAX was transposing what stands there: the backward pass of a derivative."""
    return any(
        isinstance(each, _Transform) and each.name == "transpose" for each in info.name_stack.stack
    )


def transposed_primitive(info: SourceInfo) -> str | None:
    """The name of the primitive that JAX is transposing at `info`, which has to be current.

    A transpose rule runs in the context of the equation that it is for, and JAX keeps the equation
    itself nowhere but in its own frame. None where that frame is not found.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _ad.__file__ and "eqn" in frame.f_code.co_varnames:
            equation: Any = frame.f_locals.get("eqn")
            source = getattr(equation, "source_info", None)
            if source is not None and source.traceback is info.traceback:
                name = str(equation.primitive.name)
                return "custom_vjp_call" if name == "custom_lin" else name
        frame = frame.f_back
    return None


def user_frame(info: SourceInfo) -> Frame | None:
    """The user's innermost frame in a source info."""
    record: object = info.traceback
    if isinstance(record, Frame):
        return record
    frame = _user_frame(info.traceback)
    return None if frame is None else Frame(frame.file_name, frame.start_line, frame.function_name)


def running_frame() -> FrameType:
    """The user's innermost frame that is running now, whatever JAX evaluates for it.

    Not by what JAX takes for the user's: to it, packages that are installed into the folder of the
    standard library itself are a part of that.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_passed(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def calling_frame() -> FrameType:
    """The frame that called the function that asks, which may be an `api_boundary`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        (_JAX_PACKAGE, __file__)
    ):
        frame = frame.f_back
    return frame


def _is_passed(filename: str) -> bool:
    foreign = filename.startswith((_JAX_PACKAGE, _PACKAGE, "<frozen "))
    return foreign or Path(filename).parent == _STDLIB


_EXAMPLES = str(Path(_JAX_PACKAGE, "example_libraries")) + os.sep
"""Programs that come with JAX, and call it as others do."""

_PUBLIC_TREES = str(Path(_JAX_PACKAGE, "_src", "tree.py"))
_TREES = (str(Path(_JAX_PACKAGE, "_src", "tree_util.py")), _PUBLIC_TREES)

_RULES_CALLERS = frozenset({"_flatten_jvp", "_flatten_fwd", "_flatten_bwd"})
"""What calls a derivative rule of the user's, and flattens its result."""

_TAKE_ARRAYS: Mapping[str, frozenset[str] | None] = {
    str(Path(_JAX_PACKAGE, "_src", file)): None if names is None else frozenset(names.split())
    for file, names in {
        "api.py": "grad value_and_grad fwd_and_bwd vjp _vjp jvp _jvp linearize jacfwd jacrev "
        "linear_transpose vmap _std_basis _jacfwd_unravel _jacrev_unravel "
        "_unravel_array_into_pytree VJP _vjp3_callable _vjp3_bwd "
        "_lift_linearized",
        "custom_derivatives.py": "custom_jvp custom_vjp linear_call " + " ".join(_RULES_CALLERS),
        "custom_batching.py": "custom_vmap",
        "lax/parallel.py": None,
        "pjit.py": "reshard with_sharding_constraint",
        "lax/control_flow/loops.py": "associative_scan",
        "flatten_util.py": None,
        "scipy/sparse/linalg.py": None,
    }.items()
}
"""The functions of JAX to which the leaves of arguments and results are numbers they work on."""

_CALL_FOR_OTHERS = frozenset(
    str(Path(_JAX_PACKAGE, "_src", file))
    for file in (
        "api_util.py", "linear_util.py", "core.py", "util.py", "traceback_util.py",
        "interpreters/ad.py", "interpreters/batching.py", "interpreters/partial_eval.py",
    )
)  # fmt: skip
"""Where a function of the user's is called for one of those, and its result is flattened."""


class Flattening(NamedTuple):
    """Who in JAX flattens a pytree.

    Attributes:
        function: the function of JAX that the user called.
        of_result: whether it is the result of the user's function, and not an argument.
        axes: those that vmap was told to map, for arguments or for results.
        trees: those that `jax.tree.map` was given, if that is it.
    """

    function: str
    of_result: bool
    axes: Any
    trees: tuple[Any, ...] = ()


def flattens_for() -> Flattening | None:
    """Who flattens a pytree now, if its leaves are numbers to that function of JAX.

    JAX has no hook that says so; its frames do. None for what only passes leaves on, as jit and
    loops do. To whoever calls `jax.tree` itself (a norm, an optimizer) they are numbers.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    trees: tuple[Any, ...] = ()
    public = False
    while frame is not None and frame.f_code.co_filename in _TREES:
        public = frame.f_code.co_filename == _PUBLIC_TREES
        if "rest" in frame.f_code.co_varnames:
            trees = (frame.f_locals.get("tree"), *frame.f_locals.get("rest", ()))
        frame = frame.f_back
    if frame is None:
        return None
    own = frame.f_code
    if (
        own.co_filename.startswith(_EXAMPLES)
        or not own.co_filename.startswith((_JAX_PACKAGE, _PACKAGE))
        or (public and own.co_filename in _CALL_FOR_OTHERS)  # `jax.jit(jax.tree.map)`
    ):
        return Flattening("tree", False, None, trees)
    of_result = own.co_name in _RULES_CALLERS or (
        own.co_filename in _CALL_FOR_OTHERS
        # Before JAX 0.10.2, api_util flattens arguments too, for their names.
        and (not own.co_filename.endswith("api_util.py") or own.co_name.startswith("flatten"))
    )
    found: str | None = None
    axes: Any = None
    while frame is not None and frame.f_code.co_filename.startswith((_JAX_PACKAGE, _PACKAGE)):
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname.split(".", 1)[0]
        names = _TAKE_ARRAYS.get(file, ())
        if names is None or name in names:
            found = name  # the outermost is what the user called: grad calls vjp
            if axes is None:
                axes = frame.f_locals.get("out_axes" if of_result else "in_axes")
        elif found is None and not (
            of_result and (file in _CALL_FOR_OTHERS or file.startswith(_PACKAGE))
        ):
            return None
        frame = frame.f_back
    return None if found is None else Flattening(found, of_result, axes)


_OPERATORS = str(Path(_JAX_PACKAGE, "_src", "numpy", "array_methods.py"))


def asked_by_operator() -> bool:
    """Whether an operator of `jax.Array` asks, which leaves it to the other operand if told no."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == _OPERATORS


def needs_numbers() -> str | None:
    """The function of JAX that asks for a tracer's numbers; None if it asks whether there are any.

    It asks both in the same way, by `to_concrete_value`, which calls this.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "to_concrete_value":
        frame = frame.f_back  # a tracer of JAX's own asks for what it holds
    if frame is None or frame.f_code is not _core.concrete_or_error.__code__:
        return None
    asking = frame.f_code
    while frame is not None and frame.f_code.co_filename.startswith(_JAX_PACKAGE):
        if frame.f_code.co_filename != _traceback_util.__file__:  # what is around public functions
            asking = frame.f_code
        frame = frame.f_back
    return f"jax.{'numpy.' if 'numpy' in asking.co_filename else ''}{asking.co_name}"


def is_concrete(value: Any) -> bool:
    """Whether `value` has numbers already."""
    return bool(_core.is_concrete(value))


def concrete_value(value: Any) -> Any:
    """The numbers of `value`, which has them already."""
    return _core.to_concrete_value(value)


def is_traced(values: Iterable[Any]) -> bool:
    """Whether any of `values` is a tracer."""
    return any(isinstance(value, Tracer) for value in values)
