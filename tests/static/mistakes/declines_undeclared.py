"""Results: `return tq.DECLINE` from a handler that does not say that it may decline."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def plus(w: Lora, y: Array, /) -> Lora:
    if y.ndim != 2:
        # E[mypy]: return-value: Incompatible return value type (got "Declined", expected "Lora")
        # E[pyright]: reportReturnType: Type "Literal[Declined.DECLINE]" is not assignable to return type "Lora"
        return tq.DECLINE
    return Lora(w.w + y, w.a, w.b, w.alpha)


TABLE = tq.HandlerTable("lora", ops.add.to(plus))


def call() -> object:
    return tq.use_implicit_args(lambda w: w + jnp.ones(()), handlers=TABLE)(lora())
