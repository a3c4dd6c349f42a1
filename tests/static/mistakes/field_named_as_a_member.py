"""Classes: A field named as a member of arrays: `mean`."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Normal(tq.ImplicitArray):
    # E[mypy]: assignment: Incompatible types in assignment (expression has type "float"
    # E[pyright]: reportIncompatibleMethodOverride: "mean" overrides method of same name in class "Array" with incompatible type "float"
    mean: float = tq.aux_field()

    def materialize(self) -> Array:
        return jnp.full(self.shape, self.mean)
