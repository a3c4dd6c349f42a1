"""Classes: `materialize` that gives text."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Named(tq.ImplicitArray):
    x: Array

    # E[mypy]: override: Return type "str" of "materialize" incompatible with return type "Array" in supertype "typedqax._array.ImplicitArray"
    # E[pyright]: reportIncompatibleMethodOverride: Method "materialize" overrides class "ImplicitArray" in an incompatible manner
    def materialize(self) -> str:
        return "x"


def call() -> object:
    return tq.use_implicit_args(lambda x: -x)(Named(jnp.ones(3)))
