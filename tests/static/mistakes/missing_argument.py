"""Classes: A field left out of the constructor."""

import jax.numpy as jnp

from mistakes.right import Lora


def call() -> object:
    # E[mypy]: call-arg: Missing positional argument "b" in call to "Lora"
    # E[pyright]: reportCallIssue: Argument missing for parameter "b"
    return Lora(jnp.ones((3, 4)), jnp.ones((3, 2)))
