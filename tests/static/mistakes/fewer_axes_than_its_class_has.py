"""Operands: A handler for vectors of a class whose arrays are matrices."""

from jax import Array
from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Float[Lora, "n"], /) -> Float[Array, "n"]:
    return -w.materialize()


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
