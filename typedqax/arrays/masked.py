"""`MaskedArray`: an array some of whose entries are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import DotDimensionNumbers
from jax.typing import ArrayLike
from jaxtyping import Bool, Integer, Shaped

from typedqax import _jax, ops
from typedqax._array import ImplicitArray
from typedqax._table import HandlerTable
from typedqax._value import ArrayValue, is_value


class MaskedArray(ImplicitArray, materialization="error"):
    """`value` where `mask` is true; elsewhere the entry is missing.

    What is computed from a missing entry is missing: a sum over an axis is there only where every
    summand is, so `jnp.mean` and all else that is built of sums is never wrong. To leave missing
    entries out instead, say with what they are to be replaced: `x.filled(0.0).sum() / x.count()`.
    A dense array cannot say that an entry is missing, so a masked array becomes one only when it is
    told to: by `filled`, or by `materialize`, which puts zeros.

    >>> import jax.numpy as jnp
    >>> import typedqax as tq
    >>> from typedqax.arrays import MASKED, MaskedArray
    >>> x = MaskedArray(value=jnp.array([1.0, 2.0, 9.0]), mask=jnp.array([True, True, False]))
    >>> y = tq.use_implicit_args(lambda x: 2 * x + 1, handlers=MASKED)(x)
    >>> y.filled(-1.0).tolist(), y.count().item()
    ([3.0, 5.0, -1.0], 2)
    >>> total = tq.use_implicit_args(jnp.sum, handlers=MASKED)(x)
    >>> bool(total.mask)
    False
    """

    value: Shaped[ArrayValue, "*shape"]
    mask: Bool[ArrayValue, "*shape"]

    def materialize(self) -> Shaped[Array, "..."]:
        """The values, and zero where an entry is missing."""
        return self.filled(0)

    def filled(self, fill: ArrayLike) -> Array:
        """The values, and `fill` where an entry is missing."""
        return jnp.where(self.mask, self.value, jnp.asarray(fill, self.value.dtype))

    def count(self, axis: int | tuple[int, ...] | None = None) -> Array:
        """How many entries there are that are not missing."""
        return jnp.sum(self.mask, axis=axis)


def mask_of(x: ArrayValue) -> ArrayValue | None:
    """Where `x` is there; None: everywhere."""
    return x.mask if isinstance(x, MaskedArray) else None


def value_of(x: ArrayValue) -> ArrayValue:
    """The entries of `x`, whatever stands where one is missing."""
    return x.value if isinstance(x, MaskedArray) else x


def unary(op: ops.UnaryOp, x: MaskedArray, /, **params: Any) -> MaskedArray:
    """A function of each entry: the same ones are missing."""
    return MaskedArray(value=op.bind(x.value, **params), mask=x.mask)


def combine(op: ops.BinaryOp, x: ArrayValue, y: ArrayValue, **params: Any) -> MaskedArray:
    """A function of two entries: missing where either is."""
    value = op.bind(value_of(x), value_of(y), **params)
    masks = [jnp.broadcast_to(m, value.shape) for v in (x, y) if (m := mask_of(v)) is not None]
    return MaskedArray(value=value, mask=masks[0] if len(masks) == 1 else masks[0] & masks[1])


def binary(op: ops.BinaryOp, x: MaskedArray, y: MaskedArray, /, **params: Any) -> MaskedArray:
    """Two masked arrays, entry by entry."""
    return combine(op, x, y, **params)


def binary_left(op: ops.BinaryOp, x: MaskedArray, y: ArrayValue, /, **params: Any) -> MaskedArray:
    """A masked array and one of which nothing is missing."""
    return combine(op, x, y, **params)


def binary_right(op: ops.BinaryOp, x: ArrayValue, y: MaskedArray, /, **params: Any) -> MaskedArray:
    """An array of which nothing is missing and a masked one."""
    return combine(op, x, y, **params)


def structural(op: ops.UnaryOp, x: MaskedArray, /, **params: Any) -> MaskedArray:
    """Entries moved, cut or repeated take with them whether they are missing."""
    return MaskedArray(value=op.bind(x.value, **params), mask=op.bind(x.mask, **params))


def convert(x: MaskedArray, /, **params: Any) -> MaskedArray:
    """Another dtype for the values."""
    return MaskedArray(value=ops.convert_element_type.bind(x.value, **params), mask=x.mask)


def reduce(
    op: ops.UnaryOp, x: MaskedArray, /, *, axes: Sequence[int], **params: Any
) -> MaskedArray:
    """The sum, product or extremum, which is there if all that it is taken of is."""
    axes = tuple(axes)
    return MaskedArray(
        value=op.bind(x.value, axes=axes, **params), mask=ops.reduce_and.bind(x.mask, axes=axes)
    )


def accumulate(op: ops.UnaryOp, x: MaskedArray, /, *, axis: int, reverse: bool) -> MaskedArray:
    """Running sums, products and extrema: missing from the first missing entry on."""
    there = ops.cummin.bind(x.mask.astype(jnp.int8), axis=axis, reverse=reverse)
    return MaskedArray(
        value=op.bind(x.value, axis=axis, reverse=reverse), mask=there.astype(jnp.bool_)
    )


def contract(
    x: ArrayValue, y: ArrayValue, dimension_numbers: DotDimensionNumbers, **params: Any
) -> MaskedArray:
    """A contraction: an entry is missing if any product in its sum is."""

    def missing(present: ArrayValue, other: ArrayValue, *, flip: bool) -> Array:
        operands = jnp.logical_not(present).astype(jnp.float32), jnp.ones(other.shape, jnp.float32)
        ordered = operands[::-1] if flip else operands
        sharding = params.get("out_sharding")
        return (
            ops.dot_general.bind(
                *ordered, dimension_numbers=dimension_numbers, out_sharding=sharding
            )
            > 0
        )

    value = ops.dot_general.bind(
        value_of(x), value_of(y), dimension_numbers=dimension_numbers, **params
    )
    mask = jnp.ones(value.shape, jnp.bool_)
    if (m := mask_of(x)) is not None:
        mask &= ~missing(m, y, flip=False)
    if (m := mask_of(y)) is not None:
        mask &= ~missing(m, x, flip=True)
    if _jax.splits_in_types() and not is_value(value):
        mask = _jax.resplit(mask, _jax.split_of(jax.typeof(value)))
    return MaskedArray(value=value, mask=mask)


def product(
    x: MaskedArray, y: MaskedArray, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> MaskedArray:
    """A contraction of two masked arrays."""
    return contract(x, y, dimension_numbers, **params)


def product_left(
    x: MaskedArray, y: ArrayValue, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> MaskedArray:
    """A contraction of a masked array with one of which nothing is missing."""
    return contract(x, y, dimension_numbers, **params)


def product_right(
    x: ArrayValue, y: MaskedArray, /, *, dimension_numbers: DotDimensionNumbers, **params: Any
) -> MaskedArray:
    """A contraction of an array of which nothing is missing with a masked one."""
    return contract(x, y, dimension_numbers, **params)


def mask_or_all(x: ArrayValue) -> ArrayValue:
    """Where `x` is there, as an array in any case."""
    mask = mask_of(x)
    return jnp.ones(x.shape, jnp.bool_) if mask is None else mask


def choose(which: Shaped[Array, "..."], /, *cases: MaskedArray | Array) -> MaskedArray:
    """A choice between entries, as `jnp.where` makes it: only the chosen one can be missing."""
    return MaskedArray(
        value=ops.select_n.bind(which, *map(value_of, cases)),
        mask=ops.select_n.bind(which, *map(mask_or_all, cases)),
    )


def join(*parts: MaskedArray | Array, dimension: int) -> MaskedArray:
    """Arrays one after the other."""
    return MaskedArray(
        value=ops.concatenate.bind(*map(value_of, parts), dimension=dimension),
        mask=ops.concatenate.bind(*map(mask_or_all, parts), dimension=dimension),
    )


def block(x: MaskedArray, /, *starts: Integer[Array, ""], **params: Any) -> MaskedArray:
    """A block whose place is known at run time only."""
    return MaskedArray(
        value=ops.dynamic_slice.bind(x.value, *starts, **params),
        mask=ops.dynamic_slice.bind(x.mask, *starts, **params),
    )


def lookup(
    x: MaskedArray, indices: Integer[Array, "..."], /, *, fill_value: Any = None, **params: Any
) -> MaskedArray:
    """Entries by index; those out of bounds are missing."""
    return MaskedArray(
        value=ops.gather.bind(x.value, indices, fill_value=fill_value, **params),
        mask=ops.gather.bind(x.mask, indices, fill_value=False, **params),
    )


MASKED = HandlerTable(
    "masked",
    ops.elementwise_unary.to(unary),
    ops.elementwise_binary.to(binary),
    ops.elementwise_binary.to(binary_left),
    ops.elementwise_binary.to(binary_right),
    ops.convert_element_type.to(convert),
    ops.structural.to(structural),
    ops.reductions.to(reduce),
    ops.cumulative.to(accumulate),
    ops.dot_general.to(product),
    ops.dot_general.to(product_left),
    ops.dot_general.to(product_right),
    ops.select_n.to(choose),
    ops.concatenate.to(join),
    ops.dynamic_slice.to(block),
    ops.gather.to(lookup),
)
