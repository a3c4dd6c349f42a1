"""Annotations: Axes separated by a comma."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Float[Lora, "m,n"], /) -> Lora:
    return w


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
