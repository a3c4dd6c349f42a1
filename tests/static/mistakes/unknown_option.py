"""Tables: `priority=` for `precedence=`."""

import typedqax as tq
from mistakes.right import negative
from typedqax import ops

# E[mypy]: call-arg: Unexpected keyword argument "priority" for "to" of "UnaryOp"
# E[pyright]: reportCallIssue: No parameter named "priority"
TABLE = tq.HandlerTable("lora", ops.neg.to(negative, priority=1))
