"""Operands: An operand annotated `str`."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: str, /) -> Lora:
    print(w)
    return lora()


# E[mypy]: type-var: Value of type variable "X" of "to" of "UnaryOp" cannot be "str"
# E[pyright]: reportArgumentType: Parameter 1: type "X@to" is incompatible with type "str"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
