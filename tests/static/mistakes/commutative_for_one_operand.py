"""Tables: `commutative=True` for an op of one operand."""

import typedqax as tq
from mistakes.right import negative
from typedqax import ops

# E[mypy]: call-arg: Unexpected keyword argument "commutative" for "to" of "UnaryOp"
# E[pyright]: reportCallIssue: No parameter named "commutative"
TABLE = tq.HandlerTable("lora", ops.neg.to(negative, commutative=True))
