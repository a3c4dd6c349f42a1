"""Classes: A frozen dataclass."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

import typedqax as tq


# E[mypy]: none: mypy says it of the next line
# E[pyright]: reportGeneralTypeIssues: A frozen class cannot inherit from a class that is not frozen
@dataclass(frozen=True)
# E[mypy]: misc: Frozen dataclass cannot inherit from a non-frozen dataclass
# E[pyright]: none: pyright says it of the line before
class Scaled(tq.ImplicitArray):
    x: Array

    def materialize(self) -> Array:
        return self.x


def call() -> object:
    return tq.use_implicit_args(lambda x: -x)(Scaled(jnp.ones(3)))
