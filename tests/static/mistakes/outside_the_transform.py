"""Use: A jnp function on an implicit array, outside `use_implicit_args`."""

import jax.numpy as jnp

from mistakes.right import lora


def call() -> object:
    return jnp.tanh(lora())
