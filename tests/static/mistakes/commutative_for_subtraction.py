"""Tables: `commutative=True` for an op that is not commutative."""

from jax import Array

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def minus(x: Lora, y: Array, /) -> Lora:
    return Lora(x.w - y, x.a, x.b, x.alpha)


TABLE = tq.HandlerTable("lora", ops.sub.to(minus, commutative=True))
