"""Use: An argument left out of a call of a transformed function."""

from jax import Array

import typedqax as tq
from mistakes.right import lora


def product(x: Array, w: Array) -> Array:
    return x @ w


def call() -> object:
    # E[mypy]: call-arg: Missing positional argument "w" in call to "product"
    # E[pyright]: reportCallIssue: Argument missing for parameter "w"
    return tq.use_implicit_args(product)(lora())
