"""Classes: A default that is not of the field's type."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Scaled(tq.ImplicitArray):
    x: Array
    # E[mypy]: assignment: Incompatible types in assignment (expression has type "str", variable has type "float")
    # E[pyright]: reportAssignmentType: Type "str" is not assignable to declared type "float"
    factor: float = tq.aux_field(default="one")

    def materialize(self) -> Array:
        return self.factor * self.x


def call() -> object:
    return tq.materialize(Scaled(jnp.ones(3)))
