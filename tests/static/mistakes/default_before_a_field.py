"""Classes: A field without a default after one with."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Scaled(tq.ImplicitArray):
    factor: float = tq.aux_field(default=1.0)
    # E[mypy]: misc: Attributes without a default cannot follow attributes with one
    # E[pyright]: reportGeneralTypeIssues: Fields without default values cannot appear after fields with default values
    x: Array

    def materialize(self) -> Array:
        return self.factor * self.x


def call() -> object:
    # E[mypy]: call-arg: Too few arguments for "Scaled"
    # E[mypy]: arg-type: Argument 1 to "Scaled" has incompatible type "Array"; expected "float"
    # E[pyright]: reportCallIssue: Argument missing for parameter "x"
    return Scaled(jnp.ones(3))
