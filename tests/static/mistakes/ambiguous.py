"""Annotations: Two handlers that both take a call, neither more specific."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def left(x: Lora, y: tq.ArrayValue, /) -> Lora:
    return Lora(x.w * y, x.a, x.b)


def right(x: tq.ArrayValue, y: Lora, /) -> Lora:
    return Lora(y.w * x, y.a, y.b)


TABLE = tq.HandlerTable("lora", ops.mul.to(left), ops.mul.to(right))
