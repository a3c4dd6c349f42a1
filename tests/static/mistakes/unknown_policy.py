"""Use: A policy that there is not."""

import jax.numpy as jnp

import typedqax as tq
from mistakes.right import lora


def call() -> object:
    # E[mypy]: arg-type: Argument 1 to "materialization" has incompatible type "Literal['never']"; expected "Literal['warn', 'allow', 'error']"
    # E[pyright]: reportArgumentType: "Literal['never']" is not assignable to type "Literal['error']"
    with tq.materialization("never"):
        return tq.use_implicit_args(jnp.tanh)(lora())
