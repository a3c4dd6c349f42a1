"""Results: A result of another dtype than the op's."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> Array:
    return tq.materialize(w).astype(jnp.bfloat16)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
