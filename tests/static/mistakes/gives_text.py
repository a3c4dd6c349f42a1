"""Results: A handler that gives text."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> str:
    return "negated"


# E[mypy]: type-var: Value of type variable "R" of "to" of "UnaryOp" cannot be "str"
# E[pyright]: reportArgumentType: Function return type "str" is incompatible with type "R@to"
TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
