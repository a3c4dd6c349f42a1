"""Tables: An op in a table, without a handler."""

import typedqax as tq
from typedqax import ops

# E[mypy]: arg-type: Argument 2 to "HandlerTable" has incompatible type "UnaryOp[[], []]"; expected "Rule | HandlerTable"
# E[pyright]: reportArgumentType: "UnaryOp[(), ()]" is not assignable to "HandlerTable"
TABLE = tq.HandlerTable("lora", ops.neg)
