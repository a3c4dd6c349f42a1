"""Results: A list where the op has one result."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> list[Lora]:
    return [Lora(-w.w, w.a, w.b, -w.alpha)]


# E[mypy]: type-var: Value of type variable "R" of "to" of "UnaryOp" cannot be "list[Lora]"
# E[pyright]: reportArgumentType: Function return type "list[Lora]" is incompatible with type "R@to"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
