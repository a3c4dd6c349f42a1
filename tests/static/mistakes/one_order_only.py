"""Annotations: A handler for one order of a commutative op."""

from jax import Array
from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def scaled(w: Lora, s: Float[Array, ""], /) -> Lora:
    return Lora(w.w * s, w.a * s, w.b)


TABLE = tq.HandlerTable("lora", ops.mul.to(scaled))


def call() -> object:
    return tq.use_implicit_args(lambda w: 2.0 * w, handlers=TABLE)(lora())
