"""A frozen matrix of any kind plus a trainable one of low rank."""

# pyright: strict, reportUnknownMemberType=false

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

import typedqax as tq
from typedqax import ops

# An `Array` to type checkers; at run time, an implicit array too.
Base = TypeVar("Base", bound=tq.ArrayValue)


@dataclass
class LowRank(tq.ImplicitArray, Generic[Base], materialization="allow"):
    """`base + alpha * a @ b`; the base may be implicit itself."""

    base: Float[Base, "m n"]
    a: Float[Array, "m r"]
    b: Float[Array, "r n"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return tq.materialize(self.base) + self.alpha * self.a @ self.b

    @property
    def rank(self) -> int:
        return self.a.shape[-1]


def adapt(base: Base, key: Key[Array, ""], rank: int, alpha: float = 1.0) -> LowRank[Base]:
    """`base` with an update that starts at zero."""
    m, n = base.shape
    a = jax.random.normal(key, (m, rank)) / rank**0.5
    return LowRank(base, a, jnp.zeros((rank, n)), alpha)


def matmul(
    x: Float[Array, "*b m"],
    w: Float[LowRank[Any], "m n"],
    /,
    *,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "*b n"] | tq.Declined:
    """Two thin products beside that of the base, which has handlers of its own."""
    if dimension_numbers != (((x.ndim - 1,), (0,)), ((), ())):
        return tq.DECLINE
    dense: Array = x @ w.base
    return dense + w.alpha * (x @ w.a) @ w.b


LOW_RANK = tq.HandlerTable("low_rank", ops.dot_general.to(matmul))
