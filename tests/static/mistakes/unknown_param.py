"""Params: A param that the op does not have."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Lora, /, *, axis: int) -> Lora:
    return w


# E[mypy]: arg-type: incompatible type "def negated(Lora, /, *, axis: int) -> Lora"
# E[pyright]: reportArgumentType: Extra parameter "axis"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
