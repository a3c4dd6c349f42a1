"""Lambdas, which have no types of their own, inside other transforms.

Not under pyright's strict mode, which says of any lambda that its arguments are unknown.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from typing_extensions import assert_type

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


def lambdas_may_be_transformed(lora: Lora, x: Array) -> None:
    tq.use_implicit_args(lambda w: w * 2)(lora)
    jax.jit(tq.use_implicit_args(lambda w, y: w @ y))(lora, x)
    jax.vmap(tq.use_implicit_args(lambda w: w * 2))(lora)
    jax.grad(tq.use_implicit_args(lambda w: jnp.sum(w**2)))(lora)
    assert_type(tq.use_implicit_args(lambda: lora)(), Lora)
