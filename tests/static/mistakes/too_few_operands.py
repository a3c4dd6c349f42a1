"""Operands: A handler of a binary op that takes one operand."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def scaled(w: Lora, /) -> Lora:
    return w


# E[mypy]: arg-type: incompatible type "Callable[[Lora], Lora]"
# E[pyright]: reportArgumentType: Function accepts too few positional parameters; expected 2 but received 1
TABLE = tq.HandlerTable("lora", ops.mul.to(scaled))
