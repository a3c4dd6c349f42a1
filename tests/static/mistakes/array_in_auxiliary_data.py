"""Classes: An array in auxiliary data."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Scaled(tq.ImplicitArray):
    x: Float[Array, "n"]
    scale: Array = tq.aux_field()

    def materialize(self) -> Float[Array, "n"]:
        return self.x * self.scale


def call() -> object:
    return Scaled(jnp.ones(3), jnp.float32(2))
