"""Params: A param of the wrong type."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Lora, /, *, permutation: str) -> Lora:
    return Lora(w.w.T, w.b, w.a, w.alpha)


# E[mypy]: arg-type: incompatible type "def turned(Lora, /, *, permutation: str) -> Lora"
# E[pyright]: reportArgumentType: Keyword parameter "permutation" of type "tuple[int, ...]" is incompatible with type "str"
TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
