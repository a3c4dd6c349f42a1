"""Operands: A handler whose operands are all dense: no call can reach it."""

from jax import Array

import typedqax as tq
from typedqax import ops


def product(x: Array, y: Array, /) -> Array:
    return x * y


TABLE = tq.HandlerTable("lora", ops.mul.to(product))
