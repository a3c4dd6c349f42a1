"""Results: A handler that applies its own op to its own operands."""

from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> Array:
    return ops.neg.bind(w)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
