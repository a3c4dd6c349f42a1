"""Sample calls of primitives: what a handler is tried on, for each primitive that is known here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from typedqax import ops
from typedqax._array import ImplicitArray
from typedqax._aval import describe
from typedqax._value import ArrayValue


@dataclass(frozen=True, slots=True)
class Sample:
    """A call of one primitive, with operands of which some are implicit.

    Attributes:
        primitive: its name.
        function: what applies it to the operands.
        operands: implicit arrays and dense ones.
        params: its params, as far as they matter to a reader.
        asked: whether somebody asked for this very call, so that it has to be possible.
    """

    primitive: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    params: str = ""
    asked: bool = False

    @property
    def direct(self) -> bool:
        """Whether it applies the primitive to the operands, and does nothing else."""
        return isinstance(self.function, _Bind)

    @property
    def size(self) -> int:
        """The number of elements of all operands."""
        return sum(int(np.prod(describe(each).shape, dtype=np.int64)) for each in self.operands)

    def __str__(self) -> str:
        shown = ", ".join(str(describe(each)) for each in self.operands)
        return f"{self.primitive}({shown}{', ' if self.params else ''}{self.params})"


def numbers(shape: Sequence[int], dtype: Any, seed: int = 0) -> jax.Array:
    """Dense numbers of either sign, none of them near zero, that differ from place to place."""
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(rng.choice([True, False], tuple(shape)))
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(1, 5, tuple(shape)), dtype)
    values = rng.uniform(0.5, 1.5, tuple(shape)) * rng.choice([-1.0, 1.0], tuple(shape))
    return jnp.asarray(values, dtype)


def samples(primitive: str, x: Any, others: Sequence[Any] = ()) -> Iterator[Sample]:
    """Calls of `primitive` on the implicit array `x`, some with `others` of its kind.

    Some of them JAX itself refuses, for the dtype or the shape of `x`.
    """
    op = ops.find(primitive)
    if op is None:
        return
    if op is ops.squeeze and 1 not in x.shape:
        for axis in range(x.ndim):
            yield Sample(primitive, _FirstAlong(axis), (x,), f"of a slice, dimensions=({axis},)")
        return
    for makers in (_MAKERS.get(op.attribute), _of_groups(op)):
        if makers is not None:
            for operands, params in makers(x, others):
                yield Sample(primitive, _Bind(op, params), operands, _shown(params))
            return


def sampled_primitives() -> list[str]:
    """The names of all primitives that there are samples of."""
    return [op.name for op in ops.listed() if op.attribute in _MAKERS or _of_groups(op)]


@dataclass(frozen=True, slots=True)
class _Bind:
    """An op with its params, as a function of the operands."""

    op: ops.AnyOp
    params: dict[str, Any]

    def __call__(self, *operands: Any) -> Any:
        return self.op.bind(*operands, **self.params)


@dataclass(frozen=True, slots=True)
class _FirstAlong:
    """The first of all slices along an axis."""

    axis: int

    def __call__(self, x: Any) -> Any:
        first = [1 if axis == self.axis else size for axis, size in enumerate(x.shape)]
        block = ops.slice.bind(x, start_indices=(0,) * x.ndim, limit_indices=tuple(first))
        return ops.squeeze.bind(block, dimensions=(self.axis,))


class Held(ImplicitArray, materialization="allow"):
    """An implicit array that no handler is written for: any class but the one that is tried."""

    held: Float[ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        """What is held."""
        return jnp.asarray(self.held)


def held_like(x: Any) -> list[Held]:
    """Implicit arrays of another class, of the shape of `x` and of its transpose."""
    shapes = dict.fromkeys([tuple(x.shape), tuple(reversed(x.shape))])
    return [Held(numbers(shape, x.dtype, 6)) for shape in shapes]


def _shown(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, 'name', value)}" for name, value in params.items())


_Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
_Maker: TypeAlias = Callable[[Any, Sequence[Any]], Iterator[_Call]]


def _of_groups(op: ops.AnyOp) -> _Maker | None:
    """The maker of what all members of a group have in common."""
    if op in ops.elementwise_unary:
        return _unary
    if op in ops.elementwise_binary:
        return _binary
    if op in ops.reductions:
        return _reduction
    if op in ops.cumulative:
        return _cumulative
    return None


# --- elementwise ---------------------------------------------------------------------------------


def _unary(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    yield (x,), {}


def _binary(x: Any, others: Sequence[Any]) -> Iterator[_Call]:
    scalar = numbers((), x.dtype, 1)
    yield (x, scalar), {}
    yield (scalar, x), {}
    dense = numbers(x.shape, x.dtype, 2)
    yield (x, dense), {}
    yield (dense, x), {}
    for other in (x, *others):
        if other.shape == x.shape:
            yield (x, other), {}
            yield (other, x), {}


def _integer_pow(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for power in (2, 3, -1):
        yield (x,), {"y": power}


def _reduce_precision(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    yield (x,), {"exponent_bits": 5, "mantissa_bits": 10}


def _round(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for method in (lax.RoundingMethod.TO_NEAREST_EVEN, lax.RoundingMethod.AWAY_FROM_ZERO):
        yield (x,), {"rounding_method": method}


def _convert(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for dtype in (jnp.float16, jnp.float32, jnp.bfloat16, jnp.int32):
        yield (x,), {"new_dtype": np.dtype(dtype), "weak_type": False}


def _select(x: Any, others: Sequence[Any]) -> Iterator[_Call]:
    dense = numbers(x.shape, x.dtype, 2)
    for which in (numbers(x.shape, jnp.bool_), jnp.asarray(True)):
        yield (which, x, dense), {}
        yield (which, dense, x), {}
        for other in (x, *others):
            yield (which, x, other), {}
    if x.dtype == jnp.bool_:
        yield (x, numbers(x.shape, jnp.float32, 1), numbers(x.shape, jnp.float32, 2)), {}


def _clamp(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    low, high = jnp.asarray(-1, x.dtype), jnp.asarray(1, x.dtype)
    yield (low, x, high), {}


# --- contractions --------------------------------------------------------------------------------


def _dot(x: Any, others: Sequence[Any]) -> Iterator[_Call]:
    nothing: tuple[int, ...] = ()

    def numbers_of(left: Any, right: Any, batch: Any = (nothing, nothing)) -> dict[str, Any]:
        return {"dimension_numbers": ((left, right), batch)}

    for axis in range(x.ndim):
        vector = numbers((x.shape[axis],), x.dtype, 1)
        rows = numbers((3, x.shape[axis]), x.dtype, 2)
        columns = numbers((x.shape[axis], 2), x.dtype, 3)
        stacked = numbers((2, 3, x.shape[axis]), x.dtype, 4)
        for dense, own in ((vector, 0), (rows, 1), (columns, 0), (stacked, 2)):
            yield (dense, x), numbers_of((own,), (axis,))
            yield (x, dense), numbers_of((axis,), (own,))
        wide = numbers_of((1,), (axis,)) | {"preferred_element_type": np.dtype(jnp.float32)}
        yield (rows, x), wide
    if x.ndim > 2:  # for each of a stack, as a product under vmap is
        rows = numbers((x.shape[0], 4, x.shape[1]), x.dtype, 2)
        columns = numbers((x.shape[0], x.shape[2], 4), x.dtype, 3)
        yield (rows, x), numbers_of((2,), (1,), ((0,), (0,)))
        yield (x, columns), numbers_of((2,), (1,), ((0,), (0,)))
    if x.ndim > 1:
        like = numbers(x.shape, x.dtype, 5)
        everything = tuple(range(x.ndim))
        for pair in ((x, like), (like, x)):
            yield pair, numbers_of(everything, everything)
            yield pair, numbers_of((1,), (1,), ((0,), (0,)))
            yield pair, numbers_of(nothing, nothing)
    for other in (x, *others):
        for left, right, batch in _contractions(x.shape, other.shape):
            yield (x, other), numbers_of(left, right, batch)
        if type(other) is not type(x):
            for left, right, batch in _contractions(other.shape, x.shape):
                yield (other, x), numbers_of(left, right, batch)


_Axes: TypeAlias = tuple[int, ...]


def _contractions(
    x: tuple[int, ...], y: tuple[int, ...]
) -> Iterator[tuple[_Axes, _Axes, tuple[_Axes, _Axes]]]:
    """Contracting and batch axes of two shapes: those first that differ most from each other.

    A diagonal matrix by another is the same for whichever one axis of each is contracted; but not
    where all are, or none.
    """
    none: tuple[_Axes, _Axes] = ((), ())
    single = [(i, j) for i, size in enumerate(x) for j, other in enumerate(y) if size == other]
    single.sort(key=lambda pair: pair != (len(x) - 1, 0))  # as `x @ y` is, first of all
    for i, j in single[:1]:
        yield (i,), (j,), none
    everything = tuple(range(len(x)))
    if len(x) > 1 and x == y:
        yield everything, everything, none
    yield (), (), none
    if len(x) > 1 and x == y[::-1]:
        yield everything, everything[::-1], none
    if len(x) > 1 and len(y) > 1 and x[:2] == y[:2]:
        yield (1,), (1,), ((0,), (0,))
        yield (), (), ((0,), (0,))
    for i, j in single[1:]:
        yield (i,), (j,), none


def _convolution(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    rank = x.ndim - 2
    if rank < 1:
        return
    same = tuple(range(x.ndim))
    params = {
        "window_strides": (1,) * rank,
        "padding": ((1, 1),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "dimension_numbers": lax.ConvDimensionNumbers(same, same, same),
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    kernel = numbers((2, x.shape[1], *(2,) * rank), x.dtype, 1)
    image = numbers((2, x.shape[1], *(max(4, size) for size in x.shape[2:])), x.dtype, 2)
    yield (x, kernel), params
    yield (image, x), params


# --- structure -----------------------------------------------------------------------------------


def _transpose(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for permutation in itertools.islice(itertools.permutations(range(x.ndim)), 6):
        yield (x,), {"permutation": permutation}


def _reshape(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    shapes = [(x.size,), (*x.shape, 1), (1, *x.shape), tuple(reversed(x.shape)), x.shape]
    for shape in dict.fromkeys(shapes):
        yield (x,), {"new_sizes": shape, "dimensions": None, "sharding": None}


def _broadcast(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    axes = tuple(range(x.ndim))
    ahead = tuple(axis + 1 for axis in axes)
    for shape, dimensions in (
        ((3, *x.shape), ahead),
        ((*x.shape, 1), axes),
        ((1, *x.shape), ahead),
        (x.shape, axes),
    ):
        yield (x,), {"shape": shape, "broadcast_dimensions": dimensions, "sharding": None}


def _squeeze(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis, size in enumerate(x.shape):
        if size == 1:
            yield (x,), {"dimensions": (axis,)}


def _rev(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis in range(x.ndim):
        yield (x,), {"dimensions": (axis,)}


def _tile(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    yield (x,), {"reps": (2,) * x.ndim}


def _slice(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    shape, rank = x.shape, x.ndim
    start, steps = (0,) * rank, (2,) * rank
    yield (x,), {"start_indices": start, "limit_indices": shape, "strides": steps}
    for axis in range(rank):
        first = (*shape[:axis], 1, *shape[axis + 1 :])
        later = (*start[:axis], 1, *start[axis + 1 :])
        yield (x,), {"start_indices": start, "limit_indices": first, "strides": None}
        yield (x,), {"start_indices": later, "limit_indices": shape, "strides": None}


def _dynamic_slice(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    places = [jnp.asarray(min(1, size - 1), jnp.int32) for size in x.shape]
    yield (x, *places), {"slice_sizes": tuple(max(1, size - 1) for size in x.shape)}
    if x.ndim:
        yield (x, *places), {"slice_sizes": (1, *x.shape[1:])}


def _dynamic_update(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    places = [jnp.asarray(0, jnp.int32) for _ in x.shape]
    part = numbers([max(1, size - 1) for size in x.shape], x.dtype, 1)
    yield (x, part, *places), {}
    yield (numbers([size + 1 for size in x.shape], x.dtype, 1), x, *places), {}


def _gather(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    if not x.ndim:
        return
    modes = lax.GatherScatterMode
    last = x.shape[0] - 1
    for indices, mode in (
        (jnp.asarray([[last], [0], [last]], jnp.int32), modes.PROMISE_IN_BOUNDS),
        (jnp.asarray([[[0], [last]]], jnp.int32), modes.CLIP),
        (jnp.asarray([[0], [last + 1]], jnp.int32), modes.FILL_OR_DROP),
        (jnp.asarray([last], jnp.int32), modes.PROMISE_IN_BOUNDS),
    ):
        batch = indices.ndim - 1
        yield (
            (x, indices),
            {
                "dimension_numbers": lax.GatherDimensionNumbers(
                    offset_dims=tuple(range(batch, batch + x.ndim - 1)),
                    collapsed_slice_dims=(0,),
                    start_index_map=(0,),
                ),
                "slice_sizes": (1, *x.shape[1:]),
                "indices_are_sorted": False,
                "unique_indices": False,
                "mode": mode,
                "fill_value": np.nan if jnp.issubdtype(x.dtype, jnp.inexact) else 0,
            },
        )
    if x.ndim == 2:  # as vmap makes it of `w[i]`: where each column begins is an index too
        of_rows = lax.GatherDimensionNumbers(
            offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)
        )
        yield (
            (x, jnp.asarray([[last, 0], [0, 0], [last + 1, 0]], jnp.int32)),
            {
                "dimension_numbers": of_rows,
                "slice_sizes": (1, x.shape[1]),
                "indices_are_sorted": False,
                "unique_indices": False,
                "mode": modes.CLIP,
                "fill_value": None,
            },
        )


def _concatenate(x: Any, others: Sequence[Any]) -> Iterator[_Call]:
    dense = numbers(x.shape, x.dtype, 1)
    for axis in range(x.ndim):
        yield (x, dense), {"dimension": axis}
        yield (dense, x), {"dimension": axis}
        for other in (x, *others):
            yield (x, other), {"dimension": axis}


def _pad(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for value in (0, 1):
        yield (
            (x, jnp.asarray(value, x.dtype)),
            {"padding_config": ((1, 2, 0),) * x.ndim},
        )


def _split(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis, size in enumerate(x.shape):
        if size > 1:
            yield (x,), {"sizes": (1, size - 1), "axis": axis}


# --- reductions ----------------------------------------------------------------------------------


def _reduction(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis in range(x.ndim):
        yield (x,), {"axes": (axis,)}
    yield (x,), {"axes": tuple(range(x.ndim))}


def _arg_reduction(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis in range(x.ndim):
        yield (x,), {"axes": (axis,), "index_dtype": np.dtype(jnp.int32)}


def _cumulative(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis in range(x.ndim):
        for reverse in (False, True):
            yield (x,), {"axis": axis, "reverse": reverse}


def _sort(x: Any, _: Sequence[Any]) -> Iterator[_Call]:
    for axis in range(x.ndim):
        yield (x,), {"dimension": axis, "is_stable": True, "num_keys": 1}


_MAKERS: dict[str, _Maker] = {
    "integer_pow": _integer_pow,
    "reduce_precision": _reduce_precision,
    "round": _round,
    "convert_element_type": _convert,
    "copy_p": _unary,
    "select_n": _select,
    "clamp": _clamp,
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast_in_dim": _broadcast,
    "squeeze": _squeeze,
    "rev": _rev,
    "tile": _tile,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    "concatenate": _concatenate,
    "pad": _pad,
    "split": _split,
    "argmax": _arg_reduction,
    "argmin": _arg_reduction,
    "sort": _sort,
}
