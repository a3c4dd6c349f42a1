"""Annotations: An axis of the result that no operand binds."""

from jax import Array
from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Float[Lora, "m n"], /) -> Float[Array, "m k"]:
    return -tq.materialize(w)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
