"""Use: A lax function on an implicit array, outside of the transform."""

import jax

from mistakes.right import lora, x


def call() -> object:
    return jax.lax.dot(x(), lora())
