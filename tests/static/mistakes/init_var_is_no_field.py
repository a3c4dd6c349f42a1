"""Classes: `self.` of an InitVar."""

import dataclasses
from dataclasses import InitVar

import jax.numpy as jnp
from jax import Array

import typedqax as tq


class Rounded(tq.ImplicitArray):
    dense: InitVar[Array]
    q: Array = dataclasses.field(init=False)

    def __post_init__(self, dense: Array) -> None:
        self.q = jnp.round(dense)

    def materialize(self) -> Array:
        # E[mypy]: attr-defined: "Rounded" has no attribute "dense"
        # E[pyright]: reportAttributeAccessIssue: Cannot access attribute "dense" for class "Rounded*"
        return self.q.astype(self.dense.dtype)


def call() -> object:
    return tq.materialize(Rounded(jnp.ones(3)))
