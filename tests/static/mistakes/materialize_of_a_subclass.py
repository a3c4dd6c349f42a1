"""Classes: A subclass with another `materialize` than the handlers of its base compute."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


class Gated(Lora):
    def materialize(self) -> Float[Array, "m n"]:
        return jnp.tanh(super().materialize())


def negated(w: Lora, /) -> Lora:
    return Lora(-w.w, -w.a, w.b)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    w = lora()
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(Gated(w.w, w.a, w.b))
