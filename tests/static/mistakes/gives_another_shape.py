"""Results: A result of another shape than the op's."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Float[Lora, "m n"], /, *, permutation: tuple[int, ...]) -> Lora:
    return w


TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
