"""Classes: A generic class of something that is no array."""

from typing import Generic, TypeVar

from jax import Array

import typedqax as tq

Inner = TypeVar("Inner", bound=Array)


class Scaled(tq.ImplicitArray, Generic[Inner]):
    x: Inner

    def materialize(self) -> Array:
        return self.x


# E[mypy]: type-var: Type argument "int" of "Scaled" must be a subtype of "Array"
# E[pyright]: reportInvalidTypeArguments: Type "int" cannot be assigned to type variable "Inner@Scaled"
class ScaledNumber(Scaled[int]):
    pass


def call() -> object:
    return tq.materialize(ScaledNumber(3))
