"""Implicit matrices, and what `jax.vmap` makes of products with them and of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import DotDimensionNumbers, GatherDimensionNumbers, GatherScatterMode
from jaxtyping import Float, Integer

from typedqax import ops
from typedqax._array import ImplicitArray
from typedqax._aval import describe, is_array_like
from typedqax._declined import DECLINE, Declined
from typedqax._errors import UsageError, shown_argument
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue


class Matrix(ImplicitArray):
    """A matrix, of which `jax.vmap` makes stacks: arrays of it with more axes in front."""


def times_stack(
    x: Float[Array, "..."],
    w: Float[Matrix, "k *stack m n"],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "..."] | Declined:
    """`x @ w` for each of a stack, as a product under `jax.vmap` is: mapped over its first axis."""
    (x_axes, w_axes), (x_batch, w_batch) = dimension_numbers
    if 0 in w_axes:
        return DECLINE
    kept = x.ndim - len(x_axes)
    x_axis, out_axis = _mapped(x_batch, w_batch, kept)

    def dot(x: Array, w: Matrix) -> Array:
        contracted = _without(x_axis, x_axes), _without(0, w_axes)
        batch = _without(x_axis, x_batch), _without(0, w_batch)
        return ops.dot_general.bind(x, w, dimension_numbers=(contracted, batch), **params)

    product: Array = jax.vmap(dot, (x_axis, _stack_axes(w)), out_axis)(x, w)
    return product


def stack_times(
    w: Float[Matrix, "k *stack m n"],
    x: Float[Array, "..."],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "..."] | Declined:
    """`w @ x` for each of a stack, as a product under `jax.vmap` is: mapped over its first axis."""
    (w_axes, x_axes), (w_batch, x_batch) = dimension_numbers
    if 0 in w_axes:
        return DECLINE
    x_axis, out_axis = _mapped(x_batch, w_batch, len(w_batch))

    def dot(w: Matrix, x: Array) -> Array:
        contracted = _without(0, w_axes), _without(x_axis, x_axes)
        batch = _without(0, w_batch), _without(x_axis, x_batch)
        return ops.dot_general.bind(w, x, dimension_numbers=(contracted, batch), **params)

    product: Array = jax.vmap(dot, (_stack_axes(w), x_axis), out_axis)(w, x)
    return product


def _mapped(x_batch: Sequence[int], w_batch: Sequence[int], free: int) -> tuple[int | None, int]:
    """The axis of `x` that goes with the first of the stack, if any, and where it comes out.

    A batch axis comes out among the batch axes; one that `x` does not have comes out at `free`.
    """
    if 0 not in w_batch:
        return None, free
    place = list(w_batch).index(0)
    return x_batch[place], place


def _without(gone: int | None, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes as they are counted once one is gone."""
    if gone is None:
        return tuple(axes)
    return tuple(axis - (axis > gone) for axis in axes if axis != gone)


def _stack_axes(w: Matrix) -> Any:
    """Which leaves of `w` are stacked, as `in_axes`: a field may be shared by the whole stack."""
    return jax.tree.map(lambda leaf: 0 if leaf.ndim == w.ndim else None, w)


def refuse_no_matrix(maker: str, w: Any) -> None:
    """Refuse what cannot be made an implicit matrix of floats.

    Raises:
        UsageError: it is none; the text names what was to make one of it.
    """
    if not is_array_like(w):
        raise UsageError(f"{maker}({shown_argument(w)}, ...): give a matrix.")
    operand = describe(w)
    if len(operand.shape) != 2:
        stack = len(operand.shape) > 2
        advice = f"; for each of a stack, jax.vmap {maker}" if stack else ""
        raise UsageError(f"{maker}({operand}, ...): a matrix has 2 axes{advice}.")
    if not jnp.issubdtype(w.dtype, jnp.floating):
        raise UsageError(f"{maker}({operand}, ...): give a matrix of floats.")


def turned(leaf: Array) -> Array:
    """A matrix, or each of a stack, transposed."""
    *stack, m, n = range(leaf.ndim)
    return ops.transpose.bind(leaf, permutation=(*stack, n, m))


def turns(permutation: Sequence[int]) -> bool:
    """Whether a transpose exchanges the last two axes alone."""
    *stack, m, n = range(len(permutation))
    return tuple(permutation) == (*stack, n, m)


def row_of_each(
    w: Float[Matrix, "m n"],
    indices: Integer[Array, "*batch 2"],
    /,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: Any,
    **params: Any,
) -> Float[ArrayValue, "*batch 1 n"] | Declined:
    """`w[i]` for each of many `i`, as `jax.vmap` makes it of one: a lookup of whole rows.

    Of the two indices the second, at which a row begins, is 0 or taken for 0.
    """
    batch = indices.ndim - 1
    mapped = GatherDimensionNumbers(
        offset_dims=(batch, batch + 1), collapsed_slice_dims=(), start_index_map=(0, 1)
    )
    whole = tuple(slice_sizes) == (1, w.shape[1])
    if dimension_numbers != mapped or not whole or mode == GatherScatterMode.FILL_OR_DROP:
        return DECLINE
    lookup = GatherDimensionNumbers(
        offset_dims=(batch,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    found = ops.gather.bind(
        w,
        indices[..., :1],
        dimension_numbers=lookup,
        slice_sizes=tuple(slice_sizes),
        mode=mode,
        **params,
    )
    return jnp.expand_dims(found, -2)


MAPPED = HandlerTable(
    "mapped",
    ops.dot_general.to(times_stack),
    ops.dot_general.to(stack_times),
    ops.gather.to(row_of_each),
)
"""What `jax.vmap` makes of products and lookups."""
