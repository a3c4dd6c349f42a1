"""Use: No handler, where dense is forbidden."""

import jax.numpy as jnp

import typedqax as tq
from mistakes.right import lora


def call() -> object:
    with tq.materialization("error"):
        return tq.use_implicit_args(jnp.tanh)(lora())
