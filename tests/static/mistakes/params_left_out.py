"""Params: A handler that takes none of the op's params."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Lora, /) -> Lora:
    return Lora(w.w.T, w.b, w.a, w.alpha)


# E[mypy]: arg-type: incompatible type "Callable[[Lora], Lora]"
# E[pyright]: reportArgumentType: Missing keyword parameter "permutation"
TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
