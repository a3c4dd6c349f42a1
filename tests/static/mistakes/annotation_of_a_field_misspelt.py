"""Classes: The class in a field's annotation misspelt."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Scaled(tq.ImplicitArray):
    # E[mypy]: name-defined: Name "Arry" is not defined; did you mean "Array"?
    # E[pyright]: reportUndefinedVariable: "Arry" is not defined
    x: "Float[Arry, 'n']"

    def materialize(self) -> Array:
        # E[mypy]: no-any-return: Returning Any from function declared to return "Array"
        # E[pyright]: none: what is not defined is of any type
        return self.x


def call() -> object:
    return Scaled(jnp.ones(3))
