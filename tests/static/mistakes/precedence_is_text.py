"""Tables: `precedence="high"`."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def negated(w: Lora, /) -> Lora:
    return Lora(-w.w, w.a, w.b, -w.alpha)


# E[mypy]: arg-type: Argument "precedence" to "to" of "UnaryOp" has incompatible type "str"; expected "int"
# E[pyright]: reportArgumentType: "Literal['high']" is not assignable to "int"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated, precedence="high"))
