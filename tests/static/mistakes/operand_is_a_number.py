"""Operands: The scalar operand of a handler annotated `float`; it is an array of no axes."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def scaled(w: Lora, factor: float, /) -> Lora:
    return Lora(w.w, w.a, w.b, w.alpha * factor)


# E[mypy]: type-var: Value of type variable "Y" of "to" of "BinaryOp" cannot be "float"
# E[pyright]: reportArgumentType: Parameter 2: type "Y@to" is incompatible with type "float"
TABLE = tq.HandlerTable("lora", ops.mul.to(scaled))
