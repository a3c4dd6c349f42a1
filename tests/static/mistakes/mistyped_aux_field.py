"""Classes: Text where a number is due, in auxiliary data."""

import jax.numpy as jnp

import typedqax as tq
from mistakes.right import TABLE, Lora


def call() -> object:
    # E[mypy]: arg-type: Argument 4 to "Lora" has incompatible type "str"; expected "float"
    # E[pyright]: reportArgumentType: "Literal['half']" is not assignable to "float"
    w = Lora(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.zeros((4, 2)), "half")
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(w)
