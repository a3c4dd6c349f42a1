"""Classes: A constructor's argument that is no field."""

import jax.numpy as jnp

from mistakes.right import Lora


def call() -> object:
    w = jnp.ones((3, 3))
    # E[mypy]: call-arg: Unexpected keyword argument "scale" for "Lora"
    # E[pyright]: reportCallIssue: No parameter named "scale"
    return Lora(w, w, w, scale=2.0)
