"""Classes: A shape that cannot be read, in a field."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Scaled(tq.ImplicitArray):
    x: Float[Array, "n ]"]

    def materialize(self) -> Array:
        return self.x


def call() -> object:
    return Scaled(jnp.ones(3))
