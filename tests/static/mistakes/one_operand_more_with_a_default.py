"""Operands: An operand more than the op has, with a default."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Lora, times: int = 1, /) -> Lora:
    return w


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
