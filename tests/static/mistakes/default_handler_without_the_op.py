"""Bodies: `default_handler` without saying of what."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def plus_one(w: Lora, y: Array, /) -> Array:
    # E[mypy]: no-any-return: Returning Any from function declared to return "Array"
    # E[mypy]: call-overload: No overload variant of "default_handler" matches argument types "Lora", "Array"
    # E[pyright]: reportCallIssue: No overloads for "default_handler" match the provided arguments
    # E[pyright]: reportArgumentType: "primitive" is not present
    return tq.default_handler(w, y)


TABLE = tq.HandlerTable("lora", ops.add.to(plus_one))


def call() -> object:
    return tq.use_implicit_args(lambda w: w + jnp.ones((3, 4)), handlers=TABLE)(lora())
