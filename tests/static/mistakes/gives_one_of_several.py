"""Results: One array where the op has several results."""

import jax
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def largest(w: Lora, /, *, k: int, axis: int) -> Array:
    return w.w.max(axis)


# E[mypy]: type-var: Value of type variable "Rs" of "to" of "MultiUnaryOp" cannot be "Array"
# E[pyright]: reportArgumentType: Function return type "Array" is incompatible with type "Rs@to"
TABLE = tq.HandlerTable("lora", ops.top_k.to(largest))


def call() -> object:
    return tq.use_implicit_args(lambda w: jax.lax.top_k(w, 1), handlers=TABLE)(lora())
