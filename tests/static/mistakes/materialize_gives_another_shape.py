"""Classes: `materialize` that gives another shape than it says."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Diagonal(tq.ImplicitArray):
    entries: Float[Array, "n"]

    def materialize(self) -> Float[Array, "n n"]:
        return self.entries


def call() -> object:
    return tq.materialize(Diagonal(jnp.ones(3)))
