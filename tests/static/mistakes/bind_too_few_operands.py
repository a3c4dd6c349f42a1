"""Bodies: An operand too few in `bind`."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def plus_twice(w: Lora, y: Array, /) -> Lora:
    # E[mypy]: call-arg: Too few arguments for "bind" of "BinaryOp"
    # E[pyright]: reportCallIssue: Expected 1 more positional argument
    return Lora(ops.add.bind(w.w), w.a, w.b)


TABLE = tq.HandlerTable("lora", ops.add.to(plus_twice))


def call() -> object:
    return tq.use_implicit_args(lambda w: w + jnp.ones((3, 4)), handlers=TABLE)(lora())
