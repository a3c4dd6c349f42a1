"""Results: A body without `return`."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


# E[mypy]: return: Missing return statement
# E[pyright]: reportReturnType: Function with declared return type "Lora" must return value on all code paths
def negated(w: Lora, /) -> Lora:
    Lora(-w.w, w.a, w.b, -w.alpha)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
