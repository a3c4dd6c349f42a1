"""Classes: A field whose axes do not fit those of the others."""

import jax.numpy as jnp

from mistakes.right import Lora


def call() -> object:
    return Lora(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.zeros((5, 2)))
