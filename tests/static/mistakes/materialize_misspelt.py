"""Classes: `materialise`."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Scaled(tq.ImplicitArray):
    x: Array

    def materialise(self) -> Array:
        return self.x


def call() -> object:
    # E[mypy]: abstract: Cannot instantiate abstract class "Scaled" with abstract attribute "materialize"
    # E[pyright]: reportAbstractUsage: Cannot instantiate abstract class "Scaled"
    return Scaled(jnp.ones(3))
