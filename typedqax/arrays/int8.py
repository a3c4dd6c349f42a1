"""`Int8Matrix`: a matrix of bytes with one scale per row, column or matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.lax import DotDimensionNumbers, GatherDimensionNumbers, GatherScatterMode
from jaxtyping import Float, Int8, Integer

from typedqax import ops
from typedqax._declined import DECLINE, Declined
from typedqax._errors import UsageError, shown_argument
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue
from typedqax.arrays._matrix import MAPPED, Matrix, refuse_no_matrix, turned, turns


class Int8Matrix(Matrix):
    """The matrix `values * scale`, of the dtype of `scale`.

    The scale has an axis of one along every axis that shares it: `(1, n)` is a scale per column.
    So a transpose cannot confuse the two axes: it turns the scale with the values.

    >>> import jax.numpy as jnp
    >>> import typedqax as tq
    >>> from typedqax.arrays import INT8, Int8Matrix
    >>> w = Int8Matrix.quantize(jnp.array([[1.0, 50.0], [-2.0, 100.0]]), axis=0)
    >>> w
    Int8Matrix f32[2,2](values=i8[2,2], scale=f32[1,2])
    >>> y = tq.use_implicit_args(lambda x, w: x @ w, handlers=INT8)(jnp.ones((1, 2)), w)
    >>> bool(jnp.allclose(y, jnp.array([[-1.0, 150.0]]), rtol=0.01))
    True
    """

    values: Int8[ArrayValue, "m n"]
    scale: Float[ArrayValue, "#m #n"]

    def materialize(self) -> Float[Array, "m n"]:
        """The products, in the dtype of the scale."""
        return self.values.astype(self.scale.dtype) * self.scale

    @classmethod
    def quantize(cls, w: Float[Array, "m n"], *, axis: int | None) -> Int8Matrix:
        """The nearest such matrix to `w`, with one scale for all entries along `axis`.

        A scale is exact along the axis that a product contracts: for `x @ w` that is `axis=0`,
        a scale per column. `axis=None` is one scale for the whole matrix.

        Raises:
            UsageError: `w` is no matrix of floats, or has no such axis.
        """
        refuse_no_matrix("Int8Matrix.quantize", w)
        if axis not in (None, 0, 1, -1, -2):
            raise UsageError(
                f"Int8Matrix.quantize(..., axis={shown_argument(axis)}): a matrix has the axes 0 "
                f"and 1; None is for both."
            )
        largest = jnp.max(jnp.abs(w), axis=axis, keepdims=True)
        scale = jnp.where(largest == 0, jnp.ones_like(largest), largest / 127)
        return cls(values=jnp.round(w / scale).astype(jnp.int8), scale=scale)


def contract(
    x: Array,
    w: Int8Matrix,
    x_axis: int,
    w_axis: int,
    dot: Callable[[Array, Array], Array],
    kept: int,
) -> Array | Declined:
    """The product of `x` and `w` by `dot`, where the axis of `w` that is kept comes out at `kept`.

    The scale is applied where it is exact: after the product, or to `x` where it varies along the
    contracted axis.
    """
    values = w.values.astype(w.dtype)
    if w.scale.shape[w_axis] == 1:
        y = dot(x, values)
        return y * along(w.scale, kept % y.ndim, y)
    if w.scale.shape[1 - w_axis] == 1:
        return dot(x * along(w.scale, x_axis, x), values)
    return DECLINE


def along(scale: Array, axis: int, x: Array) -> Array:
    """The entries of `scale`, shaped to multiply `x` along one axis, in its dtype."""
    shape = [1] * x.ndim
    shape[axis] = scale.size
    return scale.reshape(shape).astype(x.dtype)


def times_int8(
    x: Float[Array, "..."],
    w: Float[Int8Matrix, "m n"],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "..."] | Declined:
    """`x @ w` over either axis of `w` and any axis of `x`."""
    (x_axes, w_axes), (batch, _) = dimension_numbers
    if len(x_axes) != 1 or batch:
        return DECLINE

    def dot(x: Array, values: Array) -> Array:
        return ops.dot_general.bind(x, values, dimension_numbers=dimension_numbers, **params)

    return contract(x, w, x_axes[0], w_axes[0], dot, kept=-1)


def int8_times(
    w: Float[Int8Matrix, "m n"],
    x: Float[Array, "..."],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "..."] | Declined:
    """`w @ x` over either axis of `w` and any axis of `x`."""
    (w_axes, x_axes), (batch, _) = dimension_numbers
    if len(x_axes) != 1 or batch:
        return DECLINE

    def dot(x: Array, values: Array) -> Array:
        return ops.dot_general.bind(values, x, dimension_numbers=dimension_numbers, **params)

    return contract(x, w, x_axes[0], w_axes[0], dot, kept=0)


def transpose(
    w: Float[Int8Matrix, "*stack m n"], /, *, permutation: Sequence[int]
) -> Float[Int8Matrix, "*stack n m"] | Declined:
    """The values and the scale turn together."""
    if not turns(permutation):
        return DECLINE
    return Int8Matrix(values=turned(w.values), scale=turned(w.scale))


def convert(
    w: Float[Int8Matrix, "*stack m n"], /, *, new_dtype: Any, **params: Any
) -> Float[Int8Matrix, "*stack m n"] | Declined:
    """Another floating dtype is another dtype of the scale."""
    if not jnp.issubdtype(new_dtype, jnp.floating):
        return DECLINE
    return Int8Matrix(values=w.values, scale=w.scale.astype(new_dtype))


def multiply(
    w: Float[Int8Matrix, "*stack m n"], s: Float[Array, ""], /, **params: Any
) -> Float[Int8Matrix, "*stack m n"]:
    """A multiple of the matrix is a multiple of its scale."""
    return Int8Matrix(values=w.values, scale=ops.mul.bind(w.scale, s, **params))


def divide(
    w: Float[Int8Matrix, "*stack m n"], s: Float[Array, ""], /, **params: Any
) -> Float[Int8Matrix, "*stack m n"]:
    """A fraction of the matrix is a fraction of its scale."""
    return Int8Matrix(values=w.values, scale=ops.div.bind(w.scale, s, **params))


def negate(w: Float[Int8Matrix, "*stack m n"], /) -> Float[Int8Matrix, "*stack m n"]:
    """The matrix of the negated scale."""
    return Int8Matrix(values=w.values, scale=ops.neg.bind(w.scale))


def part(
    w: Float[Int8Matrix, "m n"],
    /,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Float[Int8Matrix, "..."]:
    """Some rows and columns of the values, and of the scale where it varies."""
    steps = strides or (1, 1)
    index = tuple(map(slice, start_indices, limit_indices, steps))
    own = tuple(
        slice(None) if size == 1 else i for size, i in zip(w.scale.shape, index, strict=True)
    )
    return Int8Matrix(values=w.values[index], scale=w.scale[own])


def rows(
    w: Float[Int8Matrix, "m n"],
    indices: Integer[Array, "*batch 1"],
    /,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: Any,
    fill_value: Any = None,
    **params: Any,
) -> Float[Array, "*batch n"] | Declined:
    """Rows by index, as an embedding looks them up: only those rows become floating."""
    m, n = w.shape
    lookup = GatherDimensionNumbers(
        offset_dims=(indices.ndim - 1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    if dimension_numbers != lookup or tuple(slice_sizes) != (1, n):
        return DECLINE
    index = jnp.squeeze(indices, -1)

    def of(leaf: Array) -> Array:
        return leaf if leaf.shape[0] == 1 != m else jnp.take(leaf, index, axis=0, mode="clip")

    values, factor = of(w.values), of(w.scale)
    if factor.ndim != values.ndim:
        factor = factor.reshape((1,) * (values.ndim - 1) + (-1,))
    found = values.astype(w.dtype) * factor
    if GatherScatterMode.from_any(mode) != GatherScatterMode.FILL_OR_DROP:
        return found
    fill = jnp.asarray(jnp.nan if fill_value is None else fill_value, w.dtype)
    return jnp.where(((index >= 0) & (index < m))[..., None], found, fill)


INT8 = HandlerTable(
    "int8",
    MAPPED,
    ops.dot_general.to(times_int8),
    ops.dot_general.to(int8_times),
    ops.transpose.to(transpose),
    ops.convert_element_type.to(convert),
    ops.mul.to(multiply, commutative=True),
    ops.div.to(divide),
    ops.neg.to(negate),
    ops.slice.to(part),
    ops.gather.to(rows),
)
