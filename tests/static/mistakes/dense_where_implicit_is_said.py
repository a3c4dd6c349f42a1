"""Use: A dense array for a function that says `Lora`."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import Lora


def merged(w: Lora) -> Array:
    return w.w + w.a @ w.b.T


def call() -> object:
    # E[mypy]: arg-type: Argument 1 to "merged" has incompatible type "Array"; expected "Lora"
    # E[pyright]: reportArgumentType: Argument of type "Array" cannot be assigned to parameter "w" of type "Lora" in function "merged"
    return tq.use_implicit_args(merged)(jnp.ones((3, 4)))
