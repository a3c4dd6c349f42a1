"""Classes: An array as the default of a field."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Bias(tq.ImplicitArray):
    b: Float[Array, "n"] = jnp.zeros(3)

    def materialize(self) -> Float[Array, "n"]:
        return self.b


def call() -> object:
    return Bias()
