"""Tables: A group of a binary and a unary op."""

from typedqax import ops

# E[mypy]: operator: Unsupported operand types for | ("BinaryOp[[], []]" and "UnaryOp[[], []]")
# E[pyright]: reportOperatorIssue: Operator "|" not supported for types "BinaryOp[(), ()]" and "UnaryOp[(), ()]"
SIGNS = ops.sub | ops.neg
