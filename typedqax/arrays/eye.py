"""`Eye`: the identity matrix, stored as its size and dtype alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import DotDimensionNumbers
from jax.typing import DTypeLike
from jaxtyping import Float, Shaped

from typedqax import ops
from typedqax._array import ImplicitArray
from typedqax._declined import DECLINE, Declined
from typedqax._errors import UsageError, shown_argument
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue


class Eye(ImplicitArray):
    """The identity of `size` rows: multiplying by it costs nothing.

    Its zeros are symbolic: in a product with it, an infinity or NaN stays in its own entry.

    >>> import jax.numpy as jnp
    >>> import typedqax as tq
    >>> from typedqax.arrays import EYE, Eye
    >>> x = jnp.arange(6.0).reshape(2, 3)
    >>> tq.use_implicit_args(lambda x, e: x @ e, handlers=EYE)(x, Eye(3)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """

    # Of no bytes: it holds the size and the dtype where transformations of JAX see and stack them.
    extent: Shaped[ArrayValue, "n 0"]

    def __init__(self, size: int, dtype: DTypeLike = jnp.float32) -> None:
        super().__init__()
        given: object = size
        if not isinstance(given, (int, np.integer)) or given < 0:
            raise UsageError(f"Eye({shown_argument(given)}): give the number of its rows.")
        extent: Any = np.zeros((size, 0), jnp.dtype(dtype))
        self.extent = extent

    def materialize(self) -> Shaped[Array, "n n"]:
        """The ones and zeros, in memory."""
        return jnp.eye(self.extent.shape[0], dtype=self.extent.dtype)


# What is stacked is no longer one matrix, and the handlers are for one.
Identity: TypeAlias = Shaped[Eye, "n n"]


def moved(x: ArrayValue, axis: int, to: int, dtype: Any) -> ArrayValue:
    """`x` with one axis moved, in another dtype; itself where nothing changes."""
    order = [other for other in range(x.ndim) if other != axis]
    order.insert(to, axis)
    if order != list(range(x.ndim)):
        x = ops.transpose.bind(x, permutation=tuple(order))
    return x if x.dtype == dtype else x.astype(dtype)


def eye_times(
    e: Identity, x: Array, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> ArrayValue | Declined:
    """`I @ x`: the contracted axis of `x` becomes the first."""
    (contracted, axes), (batch, _) = dimension_numbers
    if len(contracted) != 1 or batch:
        return DECLINE
    out = ops.dot_general.out_aval(e, x, dimension_numbers=dimension_numbers, **params)
    return moved(x, axes[0], 0, out.dtype)


def times_eye(
    x: Array, e: Identity, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> ArrayValue | Declined:
    """`x @ I`: the contracted axis of `x` becomes the last."""
    (axes, contracted), (batch, _) = dimension_numbers
    if len(contracted) != 1 or batch:
        return DECLINE
    out = ops.dot_general.out_aval(x, e, dimension_numbers=dimension_numbers, **params)
    return moved(x, axes[0], x.ndim - 1, out.dtype)


def eye_times_eye(
    e: Identity, f: Identity, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> Eye | Declined:
    """`I @ I` is `I`."""
    (contracted, _), (batch, _) = dimension_numbers
    if len(contracted) != 1 or batch:
        return DECLINE
    out = ops.dot_general.out_aval(e, f, dimension_numbers=dimension_numbers, **params)
    return Eye(out.shape[0], out.dtype)


def eye_times_implicit(
    e: Identity, x: ImplicitArray, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> ArrayValue | Declined:
    """`I @ x` for any implicit `x` whose own table says nothing of identities."""
    return eye_times(e, x, dimension_numbers=dimension_numbers, **params)


def implicit_times_eye(
    x: ImplicitArray, e: Identity, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> ArrayValue | Declined:
    """`x @ I` for any implicit `x` whose own table says nothing of identities."""
    return times_eye(x, e, dimension_numbers=dimension_numbers, **params)


def transpose(e: Identity, /, *, permutation: Sequence[int]) -> Eye:
    """The identity is its own transpose."""
    return e


def convert(e: Identity, /, *, new_dtype: DTypeLike, **params: Any) -> Eye:
    """The identity in another dtype."""
    return Eye(e.shape[0], new_dtype)


def diagonal_part(e: Identity, x: Float[Array, "n n"], /, **params: Any) -> Float[Array, "n n"]:
    """The elementwise product keeps the diagonal of the other matrix."""
    return jnp.diag(jnp.diagonal(x))


def same(e: Identity, f: Identity, /, **params: Any) -> Eye:
    """The elementwise product of an identity with itself."""
    return e


# Below the rules of Zeros for whatever they meet: zeros times I are zeros. Two identities whose
# product is no single contraction are declined by both, in this order.
LEFT, RIGHT = -2, -3

EYE = HandlerTable(
    "eye",
    ops.dot_general.to(eye_times),
    ops.dot_general.to(times_eye),
    ops.dot_general.to(eye_times_eye),
    ops.dot_general.to(eye_times_implicit, precedence=LEFT),
    ops.dot_general.to(implicit_times_eye, precedence=RIGHT),
    ops.transpose.to(transpose),
    ops.convert_element_type.to(convert),
    ops.mul.to(diagonal_part, commutative=True),
    ops.mul.to(same),
)
