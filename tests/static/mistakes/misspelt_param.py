"""Params: A param misspelt: `dimension_number`."""

from typing import Any

from jax import Array, lax

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def product(
    x: Array, w: Lora, /, *, dimension_number: lax.DotDimensionNumbers, **params: Any
) -> Array:
    return x @ w.w


# E[mypy]: arg-type: incompatible type "def product(Array, Lora, /, *, dimension_number: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
# E[pyright]: reportArgumentType: Extra parameter "dimension_number"
TABLE = tq.HandlerTable("lora", ops.dot_general.to(product))
