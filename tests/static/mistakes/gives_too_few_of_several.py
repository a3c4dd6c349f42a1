"""Results: A list of one where the op has two results."""

import jax
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def largest(w: Lora, /, *, k: int, axis: int) -> list[Array]:
    return [ops.top_k.bind(w.w, k=k, axis=axis)[0]]


TABLE = tq.HandlerTable("lora", ops.top_k.to(largest))


def call() -> object:
    return tq.use_implicit_args(lambda w: jax.lax.top_k(w, 1), handlers=TABLE)(lora())
