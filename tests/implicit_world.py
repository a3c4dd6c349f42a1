"""The implicit arrays, handlers and functions that the tests of the transform speak of.

What an array stands for is computed here by numpy from the numbers it was made of, never by its own
`materialize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Shaped

import typedqax as tq
from typedqax import ops


def numbers(seed: int, *shape: int) -> Array:
    """Numbers that no two places share, of either sign, none of them near zero."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape), jnp.float32)


def close(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """Both pytrees have the same structure, dtypes, shapes and, so far as float32 goes, numbers."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.asarray(a).dtype == jnp.asarray(b).dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


def transformed(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The transform of `f`, to a type checker a function of anything (a lambda has no types)."""
    made: Callable[..., Any] = tq.use_implicit_args(f, **options)
    return made


# --- classes ------------------------------------------------------------------------------------


class LoraMatrix(tq.ImplicitArray, materialization="allow"):
    """A matrix and its low-rank update."""

    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a @ self.b.T


class Zeros(tq.ImplicitArray, materialization="allow"):
    """Zeros, without a leaf of their own."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class Scaled(tq.ImplicitArray, materialization="allow"):
    """An array and a factor that is an array too."""

    x: Float[tq.ArrayValue, "*s"]
    factor: Float[tq.ArrayValue, ""]

    def materialize(self) -> Float[Array, "*s"]:
        return self.x * self.factor


class Plain(tq.ImplicitArray, materialization="allow"):
    """A dense array in a box that no handler knows."""

    inside: tq.ArrayValue

    def materialize(self) -> Array:
        return self.inside


class Rows(tq.ImplicitArray, materialization="allow"):
    """A row, repeated: its shape is not that of any leaf."""

    row: Float[tq.ArrayValue, "n"]
    count: int = tq.aux_field(kw_only=True)

    def materialize(self) -> Float[Array, "m n"]:
        return jnp.broadcast_to(self.row, (self.count, self.row.shape[0]))


# --- handlers -----------------------------------------------------------------------------------


def times_lora(
    x: Float[Array, "*b m"],
    w: Float[LoraMatrix, "m n"],
    /,
    *,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "*b n"] | tq.Declined:
    if dimension_numbers != (((x.ndim - 1,), (0,)), ((), ())):
        return tq.DECLINE
    return x @ w.w + w.alpha * (x @ w.a) @ w.b.T


def transpose_lora(
    w: Float[LoraMatrix, "m n"], /, *, permutation: tuple[int, ...]
) -> Float[LoraMatrix, "n m"] | tq.Declined:
    if permutation != (1, 0):
        return tq.DECLINE
    return LoraMatrix(w.w.T, w.b, w.a, w.alpha)


def scale_lora(
    op: ops.BinaryOp, w: LoraMatrix, s: Float[Array, ""], /, **params: Any
) -> LoraMatrix:
    return LoraMatrix(op.bind(w.w, s, **params), op.bind(w.a, s, **params), w.b, w.alpha)


def zeros_unary(op: ops.UnaryOp, z: Zeros, /, **params: Any) -> Zeros:
    out = op.out_aval(z, **params)
    return Zeros(shape=out.shape, dtype=out.dtype)


def zeros_times(z: Zeros, x: Shaped[tq.ArrayValue, "..."], /, **params: Any) -> Zeros:
    out = ops.mul.out_aval(z, x, **params)
    return Zeros(shape=out.shape, dtype=out.dtype)


def negate_scaled(x: Scaled, /) -> Scaled:
    return Scaled(x.x, -x.factor)


def scale_scaled(x: Scaled, s: Float[Array, ""], /) -> Scaled:
    return Scaled(x.x, x.factor * s)


TABLE = tq.HandlerTable(
    "world",
    ops.dot_general.to(times_lora),
    ops.transpose.to(transpose_lora),
    (ops.mul | ops.div).to(scale_lora),
    (ops.neg | ops.sin | ops.tanh | ops.sign).to(zeros_unary),
    ops.mul.to(zeros_times, commutative=True),
    ops.neg.to(negate_scaled),
    ops.mul.to(scale_scaled, commutative=True),
)


# --- values, and what they stand for -------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A way to make an implicit array of shape (3, 4), and by numpy what it stands for.

    Attributes:
        make: the leaves that `build` takes, from a seed.
        build: the implicit array over these leaves.
        meaning: the dense array, of the same leaves.
    """

    make: Callable[[int], tuple[Array, ...]]
    build: Callable[..., Any]
    meaning: Callable[..., Array]

    def both(self, seed: int = 0) -> tuple[Any, Array]:
        """The implicit array, and the dense one that it stands for."""
        leaves = self.make(seed)
        return self.build(*leaves), self.meaning(*leaves)


def lora_leaves(seed: int) -> tuple[Array, ...]:
    return numbers(seed, 3, 4), numbers(seed + 1, 3, 2), numbers(seed + 2, 4, 2)


def lora_meaning(w: Array, a: Array, b: Array) -> Array:
    return w + 0.5 * jnp.einsum("mr,nr->mn", a, b)


CASES = {
    "lora": Case(lora_leaves, lambda w, a, b: LoraMatrix(w, a, b, 0.5), lora_meaning),
    "zeros": Case(
        lambda _: (), lambda: Zeros(shape=(3, 4), dtype=jnp.float32), lambda: jnp.zeros((3, 4))
    ),
    "scaled": Case(
        lambda seed: (numbers(seed, 3, 4), numbers(seed + 1)),
        Scaled,
        lambda x, factor: jnp.multiply(x, jnp.broadcast_to(factor, x.shape)),
    ),
    "plain": Case(lambda seed: (numbers(seed, 3, 4),), Plain, lambda x: x),
    "rows": Case(
        lambda seed: (numbers(seed, 4),),
        lambda row: Rows(row, count=3),
        lambda row: jnp.stack([row] * 3),
    ),
    "nested": Case(
        lambda seed: (numbers(seed + 3, 3, 4), numbers(seed + 4), *lora_leaves(seed)[1:]),
        lambda w, s, a, b: LoraMatrix(Scaled(Plain(w), s), Plain(a), b, 0.5),
        lambda w, s, a, b: lora_meaning(jnp.multiply(w, jnp.broadcast_to(s, w.shape)), a, b),
    ),
}
