"""Classes: A generic class that holds another class than it says."""

from typing import Generic, TypeVar

from jax import Array

import typedqax as tq
from mistakes.right import Lora, zeros

Inner = TypeVar("Inner", bound=Array)


class Scaled(tq.ImplicitArray, Generic[Inner]):
    x: Inner
    factor: float = tq.aux_field(default=1.0)

    def materialize(self) -> Array:
        return self.factor * tq.materialize(self.x)


class ScaledLora(Scaled[Lora]):
    x: Lora


def call() -> object:
    # E[mypy]: arg-type: Argument 1 to "ScaledLora" has incompatible type "Zeros"; expected "Lora"
    # E[pyright]: reportArgumentType: Argument of type "Zeros" cannot be assigned to parameter "x" of type "Lora" in function "__init__"
    return ScaledLora(zeros())
