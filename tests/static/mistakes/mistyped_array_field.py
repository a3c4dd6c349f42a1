"""Classes: A path where an array is due."""

import jax.numpy as jnp

import typedqax as tq
from mistakes.right import TABLE, Lora


def call() -> object:
    # E[mypy]: arg-type: Argument 1 to "Lora" has incompatible type "str"; expected "Array"
    # E[pyright]: reportArgumentType: "Literal['weights.npz']" is not assignable to "Array"
    w = Lora("weights.npz", jnp.ones((3, 2)), jnp.zeros((4, 2)))
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(w)
