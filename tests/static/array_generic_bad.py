"""Mistakes with arrays that hold other arrays."""

from typing import Generic, TypeVar

from jax import Array

import typedqax as tq

Inner = TypeVar("Inner", bound=Array)


class Lora(tq.ImplicitArray):
    w: Array

    def materialize(self) -> Array:
        return self.w


class Zeros(tq.ImplicitArray):
    def materialize(self) -> Array:
        raise RuntimeError


class Scaled(tq.ImplicitArray, Generic[Inner]):
    x: Inner
    factor: float = tq.aux_field(default=1.0)

    def materialize(self) -> Array:
        return self.x * self.factor


class ScaledLora(Scaled[Lora]):
    pass


def wants_a_scaled_lora(x: Scaled[Lora]) -> None: ...


def calls(lora: Lora, zeros: Zeros) -> None:
    # E[mypy]: type-var: Value of type variable "Inner" of "Scaled" cannot be "int"
    # E[pyright]: reportArgumentType: "Literal[3]" is not assignable to "Array"
    Scaled(3, 2.0)
    # E[mypy]: arg-type: Argument 1 to "Scaled" has incompatible type "Zeros"; expected "Lora"
    # E[pyright]: reportArgumentType: "Zeros" is not the same as "Lora"
    wants_a_scaled_lora(Scaled(zeros))
    # E[mypy]: arg-type: Argument 1 to "ScaledLora" has incompatible type "Zeros"; expected "Lora"
    # E[pyright]: reportArgumentType: "Zeros" is not assignable to "Lora"
    ScaledLora(zeros)
    # E[mypy]: attr-defined: "Zeros" has no attribute "w"
    # E[pyright]: reportAttributeAccessIssue: Attribute "w" is unknown
    Scaled(zeros).x.w


# E[mypy]: type-var: Type argument "int" of "Scaled" must be a subtype of "Array"
# E[pyright]: reportInvalidTypeArguments: "int" is not assignable to "Array"
class ScaledInt(Scaled[int]):
    pass
