"""Use: A lax function on an implicit array that is no argument."""

import jax

import typedqax as tq
from mistakes.right import lora, x


def call() -> object:
    w = lora()
    return tq.use_implicit_args(lambda x: jax.lax.dot(x, w))(x())
