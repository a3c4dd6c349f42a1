"""Params: A param misspelt that has a default, beside `**params`."""

from typing import Any

from jax import Array, lax

import typedqax as tq
from mistakes.right import Lora, lora, x
from typedqax import ops


def product(
    x: Array,
    w: Lora,
    /,
    *,
    dimension_number: lax.DotDimensionNumbers | None = None,
    **params: Any,
) -> Array:
    return x @ w.w


TABLE = tq.HandlerTable("lora", ops.dot_general.to(product))


def call() -> object:
    return tq.use_implicit_args(lambda x, w: x @ w, handlers=TABLE)(x(), lora())
