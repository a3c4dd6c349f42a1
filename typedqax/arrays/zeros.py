"""`Zeros`: an array of zeros, stored as its shape and dtype alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.lax import GatherScatterMode
from jaxtyping import Integer, Shaped

from typedqax import ops
from typedqax._array import ImplicitArray
from typedqax._declined import DECLINE, Declined
from typedqax._errors import UsageError
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue


class Zeros(ImplicitArray):
    """An array of zeros: `Zeros(shape=(2, 3), dtype=jnp.float32)`.

    The zeros are symbolic: a product with them is zero whatever the other factor holds, infinity
    and NaN included, and a sum with them is the other operand, whose zeros keep their sign.

    >>> import jax.numpy as jnp
    >>> import typedqax as tq
    >>> from typedqax.arrays import ZEROS, Zeros
    >>> bias = Zeros(shape=(3,), dtype=jnp.float32)
    >>> tq.use_implicit_args(lambda x, b: x + b, handlers=ZEROS)(jnp.arange(3.0), bias).tolist()
    [0.0, 1.0, 2.0]
    >>> tq.use_implicit_args(jnp.sin, handlers=ZEROS)(bias)
    Zeros f32[3]()
    """

    def materialize(self) -> Shaped[Array, "..."]:
        """The zeros, in memory."""
        return jnp.zeros(self.shape, self.dtype)


def zeros_from(op: ops.AnyOp, *operands: Any, **params: Any) -> Zeros:
    """Zeros of the shape and dtype that `op` gives."""
    out = op.out_aval(*operands, **params)
    if isinstance(out, list):
        raise UsageError(f"zeros_from({op!r}, ...): it gives a list of arrays, and zeros are one.")
    return Zeros(shape=out.shape, dtype=out.dtype)


FIX_ZERO = frozenset(
    [
        *(ops.abs, ops.neg, ops.sign, ops.sqrt, ops.cbrt, ops.square, ops.expm1, ops.log1p),
        *(ops.sin, ops.tan, ops.asin, ops.atan, ops.sinh, ops.tanh, ops.asinh, ops.atanh),
        *(ops.ceil, ops.floor, ops.round, ops.reduce_precision, ops.copy, ops.stop_gradient),
        *(ops.conj, ops.imag, ops.real, ops.erf, ops.erf_inv, ops.population_count),
    ]
)


def elementwise(op: ops.UnaryOp, z: Zeros, /, **params: Any) -> ArrayValue:
    """A function of zeros is its value at zero, everywhere: zeros again where that is zero."""
    if op in FIX_ZERO:
        return zeros_from(op, z, **params)
    return jnp.broadcast_to(op.bind(jnp.zeros((), z.dtype), **params), z.shape)


def structural(op: ops.UnaryOp, z: Zeros, /, **params: Any) -> Zeros:
    """Zeros moved, cut, repeated or converted are zeros."""
    return zeros_from(op, z, **params)


def convert(z: Zeros, /, **params: Any) -> Zeros:
    """Zeros of another dtype."""
    return zeros_from(ops.convert_element_type, z, **params)


def times(z: Zeros, x: Array | Zeros, /, **params: Any) -> Zeros:
    """Zero times anything."""
    return zeros_from(ops.mul, z, x, **params)


def times_implicit(z: Zeros, x: ImplicitArray, /, **params: Any) -> Zeros:
    """Zero times any implicit array whose own table says nothing of zeros."""
    return zeros_from(ops.mul, z, x, **params)


def divided(z: Zeros, x: Array, /, **params: Any) -> Zeros:
    """Zero divided by anything but zeros."""
    return zeros_from(ops.div, z, x, **params)


def plus(op: ops.BinaryOp, z: Zeros, x: ArrayValue, /, **params: Any) -> ArrayValue:
    """The other operand, in the shape and dtype of the sum: what is smaller is repeated."""
    out = op.out_aval(z, x, **params)
    if x.shape != out.shape:
        axes = tuple(range(len(out.shape) - x.ndim, len(out.shape)))
        x = ops.broadcast_in_dim.bind(x, shape=out.shape, broadcast_dimensions=axes)
    return x if x.dtype == out.dtype else x.astype(out.dtype)


def plus_zeros(op: ops.BinaryOp, z: Zeros, x: Zeros, /, **params: Any) -> Zeros:
    """No more than zeros."""
    return zeros_from(op, z, x, **params)


def minus(z: Zeros, x: Array, /, **params: Any) -> Array:
    """The other operand with its sign turned."""
    return jnp.negative(plus(ops.sub, z, x, **params))


def less_zeros(x: ArrayValue, z: Zeros, /, **params: Any) -> ArrayValue:
    """The other operand as it is."""
    return plus(ops.sub, z, x, **params)


def as_scalar(
    op: ops.BinaryOp, x: Array | Zeros, y: Array | Zeros, /, **params: Any
) -> Shaped[Array, "..."]:
    """Any other function of two arrays, with one zero in place of the zeros."""
    out = op.out_aval(x, y, **params)
    x, y = (jnp.zeros((), v.dtype) if isinstance(v, Zeros) else v for v in (x, y))
    return jnp.broadcast_to(op.bind(x, y, **params), out.shape)


def reduce(op: ops.UnaryOp, z: Zeros, /, *, axes: Sequence[int], **params: Any) -> Zeros | Declined:
    """The sum, product or extremum of zeros; of no elements at all it may be something else."""
    if any(z.shape[axis] == 0 for axis in axes):
        return DECLINE
    return zeros_from(op, z, axes=tuple(axes), **params)


def accumulate(op: ops.UnaryOp, z: Zeros, /, **params: Any) -> Zeros:
    """Running sums, products and extrema of zeros."""
    return zeros_from(op, z, **params)


def product(x: Array | Zeros, y: Array | Zeros, /, **params: Any) -> Zeros:
    """A contraction with zeros."""
    return zeros_from(ops.dot_general, x, y, **params)


def zeros_times(x: Zeros, y: ImplicitArray, /, **params: Any) -> Zeros:
    """A contraction of zeros with any implicit array whose own table says nothing of zeros."""
    return zeros_from(ops.dot_general, x, y, **params)


def times_zeros(x: ImplicitArray, y: Zeros, /, **params: Any) -> Zeros:
    """A contraction with zeros of any implicit array whose own table says nothing of zeros."""
    return zeros_from(ops.dot_general, x, y, **params)


def choose(which: Shaped[Array, "..."], /, *cases: Zeros) -> Zeros:
    """A choice between zeros."""
    return zeros_from(ops.select_n, which, *cases)


def block(z: Zeros, /, *starts: Integer[Array, ""], **params: Any) -> Zeros:
    """A block whose place is known at run time only."""
    return zeros_from(ops.dynamic_slice, z, *starts, **params)


def lookup(
    z: Zeros, indices: Integer[Array, "..."], /, *, mode: Any, fill_value: Any, **params: Any
) -> Zeros | Declined:
    """Entries by index, unless those out of bounds are to be filled with something else."""
    if GatherScatterMode.from_any(mode) == GatherScatterMode.FILL_OR_DROP and fill_value != 0:
        return DECLINE
    return zeros_from(ops.gather, z, indices, mode=mode, fill_value=fill_value, **params)


def join(*parts: Zeros, dimension: int) -> Zeros:
    """Zeros one after the other."""
    return zeros_from(ops.concatenate, *parts, dimension=dimension)


# An implicit array that Zeros meets may have its own rule for zeros: then that rule wins.
IMPLICIT = -1

OTHERS = ops.BinaryGroup[...](
    "binary functions without rules of their own for either side",
    *(op for op in ops.elementwise_binary if op not in (ops.add, ops.add_any, ops.mul, ops.sub)),
)

ZEROS = HandlerTable(
    "zeros",
    ops.elementwise_unary.to(elementwise),
    ops.convert_element_type.to(convert),
    ops.structural.to(structural),
    ops.mul.to(times, commutative=True),
    ops.mul.to(times_implicit, commutative=True, precedence=IMPLICIT),
    ops.div.to(divided),
    (ops.add | ops.add_any).to(plus, commutative=True, precedence=IMPLICIT),
    (ops.add | ops.add_any).to(plus_zeros),
    ops.sub.to(minus),
    ops.sub.to(less_zeros, precedence=IMPLICIT),
    OTHERS.to(as_scalar, precedence=2 * IMPLICIT),
    ops.reductions.to(reduce),
    # cumlogsumexp is not among them: n zeros give log n.
    (ops.cummax | ops.cummin | ops.cumprod | ops.cumsum).to(accumulate),
    ops.dot_general.to(product),
    ops.dot_general.to(zeros_times, precedence=IMPLICIT),
    ops.dot_general.to(times_zeros, precedence=IMPLICIT),
    ops.select_n.to(choose),
    ops.dynamic_slice.to(block),
    ops.gather.to(lookup),
    ops.concatenate.to(join),
)
