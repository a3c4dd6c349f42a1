"""Params: A param named as jnp.transpose names it: `axes`."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Lora, /, *, axes: tuple[int, ...]) -> Lora:
    return Lora(w.w.T, w.b, w.a, w.alpha)


# E[mypy]: arg-type: incompatible type "def turned(Lora, /, *, axes: tuple[int, ...]) -> Lora"
# E[pyright]: reportArgumentType: Missing keyword parameter "permutation"
TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
