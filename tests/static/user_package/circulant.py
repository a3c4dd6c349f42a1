"""Circulant matrices: each row is the one above it, turned by one place."""

# pyright: strict, reportUnknownMemberType=false

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

import typedqax as tq
from typedqax import ops


class Circulant(tq.ImplicitArray):
    """The matrix whose first row is `row`; products by FFT."""

    row: Float[Array, "n"]

    def compute_shape(self) -> tuple[int, int]:
        return (self.row.shape[-1], self.row.shape[-1])

    def materialize(self) -> Float[Array, "n n"]:
        n = self.row.shape[0]
        index = jnp.arange(n)
        return self.row[jnp.mod(index[None, :] - index[:, None], n)]

    @classmethod
    def random(cls, key: Key[Array, ""], n: int) -> "Circulant":
        return cls(jax.random.normal(key, (n,)) / n**0.5)


def convolve(x: Float[Array, "*b n"], row: Float[Array, "n"]) -> Float[Array, "*b n"]:
    """The circular convolution along the last axis."""
    n = row.shape[0]
    spectrum = jnp.fft.rfft(x) * jnp.fft.rfft(row).reshape((1,) * (x.ndim - 1) + (-1,))
    return jnp.fft.irfft(spectrum, n).astype(x.dtype)


def matmul(
    x: Float[Array, "*b n"],
    w: Float[Circulant, "n n"],
    /,
    *,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "*b n"] | tq.Declined:
    """`x @ w`, in n log n."""
    if dimension_numbers != (((x.ndim - 1,), (0,)), ((), ())):
        return tq.DECLINE
    return convolve(x, w.row)


def transpose(w: Float[Circulant, "n n"], /, *, permutation: tuple[int, ...]) -> Circulant:
    """Turned around; the other permutation of two axes is no change."""
    return Circulant(jnp.roll(w.row[::-1], 1)) if permutation == (1, 0) else w


def scale(
    op: ops.BinaryOp, w: Float[Circulant, "n n"], s: Float[Array, ""], /, **params: Any
) -> Float[Circulant, "n n"]:
    return Circulant(op.bind(w.row, s, **params))


def scaled_by(
    s: Float[Array, ""], w: Float[Circulant, "n n"], /, **params: Any
) -> Float[Circulant, "n n"]:
    return Circulant(ops.mul.bind(s, w.row, **params))


def combine(
    op: ops.BinaryOp, a: Float[Circulant, "n n"], b: Float[Circulant, "n n"], /, **params: Any
) -> Float[Circulant, "n n"]:
    return Circulant(op.bind(a.row, b.row, **params))


CIRCULANT = tq.HandlerTable(
    "circulant",
    ops.dot_general.to(matmul),
    ops.transpose.to(transpose),
    (ops.mul | ops.div).to(scale),
    ops.mul.to(scaled_by),
    (ops.add | ops.sub).to(combine),
)
