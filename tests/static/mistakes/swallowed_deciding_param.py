"""Params: `**_` where a param decides which numbers come out."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def turned(w: Lora, /, **_: object) -> Lora:
    return Lora(w.w.T, w.b, w.a, w.alpha)


TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))
