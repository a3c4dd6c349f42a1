"""`LoraMatrix`: a frozen matrix plus a trainable low-rank update, never added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import DotDimensionNumbers, GatherDimensionNumbers
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Float, Integer

from typedqax import ops
from typedqax._array import aux_field
from typedqax._declined import DECLINE, Declined
from typedqax._errors import UsageError, shown_argument
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue
from typedqax.arrays._matrix import MAPPED, Matrix, refuse_no_matrix, turned, turns


class LoraMatrix(Matrix):
    """The matrix `w + alpha * a @ b.T`, of the dtype of `w`.

    `alpha` multiplies the update as it is; for the convention of the LoRA paper's code give
    `alpha / rank`.

    >>> import jax, jax.numpy as jnp
    >>> import typedqax as tq
    >>> from typedqax.arrays import LORA, LoraMatrix
    >>> w = LoraMatrix(w=jnp.eye(2), a=jnp.array([[1.0], [0.0]]), b=jnp.array([[0.0], [1.0]]))
    >>> x = jnp.array([[3.0, 4.0]])
    >>> tq.use_implicit_args(lambda x, w: x @ w, handlers=LORA)(x, w).tolist()
    [[3.0, 7.0]]
    """

    w: Float[ArrayValue, "m n"]
    a: Float[ArrayValue, "m r"]
    b: Float[ArrayValue, "n r"]
    alpha: float = aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        """The sum, as one dense matrix."""
        a, b = factors(self)
        return self.w + self.alpha * a @ b.T

    @classmethod
    def around(
        cls, w: Float[ArrayValue, "m n"], *, rank: int, key: Array, alpha: float = 1.0
    ) -> LoraMatrix:
        """`w` with a fresh adapter that changes nothing yet: `a` is random, `b` is zero.

        Raises:
            UsageError: `w` is no matrix of floats, or `rank` is less than 1.

        >>> import jax, jax.numpy as jnp
        >>> from typedqax.arrays import LoraMatrix
        >>> fresh = LoraMatrix.around(jnp.ones((4, 6)), rank=2, key=jax.random.key(0))
        >>> bool((fresh.materialize() == 1).all())
        True
        """
        given: object = rank
        if not isinstance(given, (int, np.integer)) or given < 1:
            raise UsageError(
                f"LoraMatrix.around(..., rank={shown_argument(given)}): give 1 or more."
            )
        refuse_no_matrix("LoraMatrix.around", w)
        m, n = w.shape
        a = jax.random.normal(key, (m, rank), w.dtype) / np.sqrt(rank).astype(w.dtype)
        return cls(w=w, a=a, b=jnp.zeros((n, rank), w.dtype), alpha=alpha)


def factors(w: LoraMatrix) -> tuple[Array, Array]:
    """`a` and `b` in the dtype of the matrix; adapters are often kept wider than their base."""
    return w.a.astype(w.w.dtype), w.b.astype(w.w.dtype)


def contract(
    left: Array,
    right: Array,
    axes: tuple[int, int],
    precision: Any,
    dtype: Any,
    sharding: Any = None,
) -> Array:
    """The product of two arrays over one axis of each."""
    numbers = (((axes[0],), (axes[1],)), ((), ()))
    return ops.dot_general.bind(
        left,
        right,
        dimension_numbers=numbers,
        precision=precision,
        preferred_element_type=dtype,
        out_sharding=sharding,
    )


def over_rank(sharding: Any, ndim: int, axis: int) -> Any:
    """How a product with the near factor is split, of as many axes, of which one is the rank."""
    if sharding is None:
        return None
    split: list[Any] = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
    split[axis] = None
    return NamedSharding(sharding.mesh, PartitionSpec(*split))


def scaled(x: Array, alpha: float) -> Array:
    """`alpha * x`, without a multiplication by one."""
    return x if alpha == 1 else ops.mul.bind(x, jnp.asarray(alpha, x.dtype))


def times_lora(
    x: Float[Array, "..."],
    w: Float[LoraMatrix, "m n"],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Float[Array, "..."] | Declined:
    """`x @ w` over either axis of `w` and any axis of `x`, through the rank of the adapter."""
    (x_axes, w_axes), (batch, _) = dimension_numbers
    if len(x_axes) != 1 or batch:
        return DECLINE
    options = (precision, preferred_element_type)
    base = contract(x, w.w, (x_axes[0], w_axes[0]), *options, out_sharding)
    a, b = factors(w)
    near, far = (a, b) if w_axes[0] == 0 else (b, a)
    low = contract(x, near, (x_axes[0], 0), *options, over_rank(out_sharding, x.ndim, -1))
    low = scaled(low, w.alpha)
    return base + contract(low, far.astype(low.dtype), (low.ndim - 1, 1), *options, out_sharding)


def lora_times(
    w: Float[LoraMatrix, "m n"],
    x: Float[Array, "..."],
    /,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Float[Array, "..."] | Declined:
    """`w @ x` over either axis of `w` and any axis of `x`, through the rank of the adapter."""
    (w_axes, x_axes), (batch, _) = dimension_numbers
    if len(x_axes) != 1 or batch:
        return DECLINE
    options = (precision, preferred_element_type)
    base = contract(w.w, x, (w_axes[0], x_axes[0]), *options, out_sharding)
    a, b = factors(w)
    near, far = (a, b) if w_axes[0] == 0 else (b, a)
    low = contract(near, x, (0, x_axes[0]), *options, over_rank(out_sharding, x.ndim, 0))
    low = scaled(low, w.alpha)
    return base + contract(far.astype(low.dtype), low, (1, 0), *options, out_sharding)


def transpose(
    w: Float[LoraMatrix, "*stack m n"], /, *, permutation: Sequence[int]
) -> Float[LoraMatrix, "*stack n m"] | Declined:
    """The transposed matrix is the LoRA matrix with its factors exchanged."""
    if not turns(permutation):
        return DECLINE
    return LoraMatrix(w=turned(w.w), a=w.b, b=w.a, alpha=w.alpha)


def convert(
    w: Float[LoraMatrix, "*stack m n"], /, *, new_dtype: Any, weak_type: bool, **params: Any
) -> Float[LoraMatrix, "*stack m n"] | Declined:
    """Another floating dtype, leaf by leaf; an integer matrix has no low-rank update."""
    if not jnp.issubdtype(new_dtype, jnp.floating):
        return DECLINE

    def converted(leaf: Array) -> Array:
        return ops.convert_element_type.bind(leaf, new_dtype=new_dtype, weak_type=False, **params)

    return LoraMatrix(w=converted(w.w), a=converted(w.a), b=converted(w.b), alpha=w.alpha)


def multiply(
    w: Float[LoraMatrix, "*stack m n"], s: Float[Array, ""], /, **params: Any
) -> Float[LoraMatrix, "*stack m n"]:
    """A multiple of the matrix: of its base and of one of its factors."""
    base, a = ops.mul.bind(w.w, s, **params), ops.mul.bind(w.a, s.astype(w.a.dtype), **params)
    return LoraMatrix(w=base, a=a, b=w.b, alpha=w.alpha)


def divide(
    w: Float[LoraMatrix, "*stack m n"], s: Float[Array, ""], /, **params: Any
) -> Float[LoraMatrix, "*stack m n"]:
    """A fraction of the matrix: of its base and of one of its factors."""
    base, a = ops.div.bind(w.w, s, **params), ops.div.bind(w.a, s.astype(w.a.dtype), **params)
    return LoraMatrix(w=base, a=a, b=w.b, alpha=w.alpha)


def negate(w: Float[LoraMatrix, "*stack m n"], /) -> Float[LoraMatrix, "*stack m n"]:
    """The matrix with base and update negated."""
    return LoraMatrix(w=ops.neg.bind(w.w), a=ops.neg.bind(w.a), b=w.b, alpha=w.alpha)


def shift(
    w: Float[LoraMatrix, "m n"], x: Float[Array, "m n"], /, **params: Any
) -> Float[LoraMatrix, "m n"]:
    """A dense matrix is added to the base."""
    return LoraMatrix(w=ops.add.bind(w.w, x, **params), a=w.a, b=w.b, alpha=w.alpha)


def less(
    w: Float[LoraMatrix, "m n"], x: Float[Array, "m n"], /, **params: Any
) -> Float[LoraMatrix, "m n"]:
    """A dense matrix, such as a step of an optimizer, is subtracted from the base."""
    return LoraMatrix(w=ops.sub.bind(w.w, x, **params), a=w.a, b=w.b, alpha=w.alpha)


def less_lora(
    x: Float[Array, "m n"], w: Float[LoraMatrix, "m n"], /, **params: Any
) -> Float[LoraMatrix, "m n"]:
    """What a dense matrix is more than it, with the update negated."""
    base = ops.sub.bind(x, w.w, **params)
    return LoraMatrix(w=base, a=ops.neg.bind(w.a), b=w.b, alpha=w.alpha)


def rows(
    w: Float[LoraMatrix, "m n"],
    indices: Integer[Array, "*batch 1"],
    /,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    fill_value: Any = None,
    **params: Any,
) -> Float[Array, "*batch n"] | Declined:
    """Rows by index, as an embedding looks them up: only those rows are added up."""
    n = w.shape[1]
    lookup = GatherDimensionNumbers(
        offset_dims=(indices.ndim - 1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    if dimension_numbers != lookup or tuple(slice_sizes) != (1, n):
        return DECLINE
    a, b = factors(w)
    params["dimension_numbers"] = lookup
    base = ops.gather.bind(w.w, indices, slice_sizes=(1, n), fill_value=fill_value, **params)
    # A row that is out of bounds is the base's fill value alone.
    low = ops.gather.bind(a, indices, slice_sizes=(1, a.shape[1]), fill_value=0, **params)
    low = scaled(low, w.alpha)
    return base + contract(low, b, (low.ndim - 1, 1), None, None)


def part(
    w: Float[LoraMatrix, "m n"],
    /,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Float[LoraMatrix, "..."]:
    """Some rows and columns: the same rows of `a`, and as rows the same columns of `b`."""
    steps = strides or (1, 1)

    def cut(leaf: Array, axes: tuple[int, ...]) -> Array:
        whole = leaf.ndim - len(axes)
        return ops.slice.bind(
            leaf,
            start_indices=(*(start_indices[axis] for axis in axes), *(0,) * whole),
            limit_indices=(*(limit_indices[axis] for axis in axes), *leaf.shape[len(axes) :]),
            strides=(*(steps[axis] for axis in axes), *(1,) * whole),
        )

    return LoraMatrix(w=cut(w.w, (0, 1)), a=cut(w.a, (0,)), b=cut(w.b, (1,)), alpha=w.alpha)


def dynamic_part(
    w: Float[LoraMatrix, "m n"],
    row: Integer[Array, ""],
    column: Integer[Array, ""],
    /,
    *,
    slice_sizes: Sequence[int],
) -> Float[LoraMatrix, "..."]:
    """A block whose place is known at run time only."""
    rank, zero = w.a.shape[1], jnp.zeros((), row.dtype)
    height, width = slice_sizes
    return LoraMatrix(
        w=ops.dynamic_slice.bind(w.w, row, column, slice_sizes=(height, width)),
        a=ops.dynamic_slice.bind(w.a, row, zero, slice_sizes=(height, rank)),
        b=ops.dynamic_slice.bind(w.b, column, zero.astype(column.dtype), slice_sizes=(width, rank)),
        alpha=w.alpha,
    )


def single(w: Float[LoraMatrix, "m n"], /, *, dimensions: Sequence[int]) -> Float[Array, "..."]:
    """One row, column or entry of it: small enough to be added up."""
    return ops.squeeze.bind(w.materialize(), dimensions=tuple(dimensions))


def total(
    w: Float[LoraMatrix, "m n"], /, *, axes: Sequence[int], **params: Any
) -> Float[Array, "..."]:
    """Sums over rows, columns or both, without the matrix: the factors are summed first."""
    a, b = factors(w)
    base = ops.reduce_sum.bind(w.w, axes=tuple(axes), **params)
    left = ops.reduce_sum.bind(a, axes=(0,), **params) if 0 in axes else a
    right = ops.reduce_sum.bind(b, axes=(0,), **params) if 1 in axes else b
    return base + contract(
        scaled(left, w.alpha), right, (left.ndim - 1, right.ndim - 1), None, None
    )


LORA = HandlerTable(
    "lora",
    MAPPED,
    ops.dot_general.to(times_lora),
    ops.dot_general.to(lora_times),
    ops.transpose.to(transpose),
    ops.convert_element_type.to(convert),
    ops.mul.to(multiply, commutative=True),
    ops.div.to(divide),
    ops.neg.to(negate),
    ops.add.to(shift, commutative=True),
    ops.sub.to(less),
    ops.sub.to(less_lora),
    ops.gather.to(rows),
    ops.slice.to(part),
    ops.dynamic_slice.to(dynamic_part),
    ops.squeeze.to(single),
    ops.reduce_sum.to(total),
)
