"""Annotations: A handler that never runs: one of higher precedence takes all its calls."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, negative
from typedqax import ops


def square(w: Float[Lora, "n n"], /) -> Lora:
    return w


TABLE = tq.HandlerTable("lora", ops.neg.to(negative, precedence=1), ops.neg.to(square))
