"""Tables: A group of ops whose params differ."""

from jax import Array

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def reduced(op: ops.UnaryOp, w: Lora, /, *, axes: tuple[int, ...]) -> Array:
    return op.bind(tq.materialize(w), axes=axes)


# E[mypy]: operator: Unsupported operand types for | ("UnaryOp[[NamedArg(tuple[int, ...], 'axes')], [NamedArg(tuple[int, ...], 'axes')]]" and "UnaryOp[[NamedArg(int,
# E[pyright]: reportOperatorIssue: Operator "|" not supported for types "UnaryOp[(*, axes: tuple[int, ...]), (*, axes: tuple[int, ...])]" and "UnaryOp[(*, axis: int, reverse: bool),
TABLE = tq.HandlerTable("lora", (ops.reduce_max | ops.cummax).to(reduced))
