"""Annotations: Two handlers for the same calls."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def first(w: Float[Lora, "m n"], /) -> Lora:
    return w


def second(w: Float[Lora, "rows columns"], /) -> Lora:
    return w


TABLE = tq.HandlerTable("lora", ops.neg.to(first), ops.neg.to(second))
