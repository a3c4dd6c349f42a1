"""Results: A result that is not what the handler's own annotation says."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Float[Lora, "m n"], /, *, permutation: tuple[int, ...]) -> Float[Lora, "m n"]:
    return Lora(w.w.T, w.b, w.a, w.alpha)


TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
