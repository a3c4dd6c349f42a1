"""Tables: A table without a name."""

import typedqax as tq
from mistakes.right import negative
from typedqax import ops

# E[mypy]: arg-type: Argument 1 to "HandlerTable" has incompatible type "Rule"; expected "str"
# E[pyright]: reportArgumentType: Argument of type "Rule" cannot be assigned to parameter "name" of type "str" in function "__init__"
TABLE = tq.HandlerTable(ops.neg.to(negative))
