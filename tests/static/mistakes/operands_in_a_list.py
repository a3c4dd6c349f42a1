"""Operands: A handler of `concatenate` that takes the operands as a list."""

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def joined(parts: list[Lora], /, *, dimension: int) -> Lora:
    return parts[dimension]


# E[mypy]: arg-type: incompatible type "def joined(list[Lora], /, *, dimension: int) -> Lora"
# E[pyright]: reportCallIssue: No overloads for "to" match the provided arguments
# E[pyright]: reportArgumentType: Function accepts too few positional parameters; expected 4 but received 1
TABLE = tq.HandlerTable("lora", ops.concatenate.to(joined))
