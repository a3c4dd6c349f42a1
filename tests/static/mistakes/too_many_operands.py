"""Operands: A handler of a unary op that takes two operands."""

from jax import Array

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Lora, y: Array, /) -> Lora:
    return w


# E[mypy]: arg-type: incompatible type "Callable[[Lora, Array], Lora]"
# E[pyright]: reportArgumentType: Function accepts too many positional parameters; expected 1 but received 2
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
