"""Classes: `materialize` with an argument."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Scaled(tq.ImplicitArray):
    x: Float[Array, "n"]

    # E[mypy]: override: Signature of "materialize" incompatible with supertype "typedqax._array.ImplicitArray"
    # E[pyright]: reportIncompatibleMethodOverride: Method "materialize" overrides class "ImplicitArray" in an incompatible manner
    def materialize(self, factor: float) -> Float[Array, "n"]:
        return factor * self.x


def call() -> object:
    return tq.use_implicit_args(lambda x: -x)(Scaled(jnp.ones(3)))
