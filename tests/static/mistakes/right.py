"""What the mistakes are made with, and what is right with it."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq
from typedqax import ops


class Lora(tq.ImplicitArray):
    """`w + alpha * a @ b.T`."""

    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a @ self.b.T


class Zeros(tq.ImplicitArray):
    """Nothing but zeros."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


def matmul(
    x: Float[Array, "*b m"],
    w: Float[Lora, "m n"],
    /,
    *,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "*b n"] | tq.Declined:
    if dimension_numbers != (((x.ndim - 1,), (0,)), ((), ())):
        return tq.DECLINE
    return x @ w.w + w.alpha * (x @ w.a) @ w.b.T


def negative(x: Lora, /) -> Lora:
    return Lora(-x.w, x.a, x.b, -x.alpha)


def plus(x: Lora, y: Array, /) -> Lora:
    return Lora(x.w + y, x.a, x.b, x.alpha)


TABLE = tq.HandlerTable(
    "lora", ops.dot_general.to(matmul), ops.neg.to(negative), ops.add.to(plus, commutative=True)
)


def lora() -> Lora:
    return Lora(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.zeros((4, 2)))


def zeros() -> Zeros:
    return Zeros(shape=(3, 4), dtype=jnp.float32)


def x() -> Float[Array, "2 3"]:
    return jnp.ones((2, 3))


def call() -> object:
    return tq.use_implicit_args(lambda x, w: x @ -w, handlers=TABLE)(x(), lora())
