"""Results: A handler that prints and gives nothing."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> None:
    print("negated", w.shape)


# E[mypy]: type-var: Value of type variable "R" of "to" of "UnaryOp" cannot be "None"
# E[pyright]: reportArgumentType: Function return type "None" is incompatible with type "R@to"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
