"""Use: A rule installed in place of a table."""

import typedqax as tq
from mistakes.right import negative
from typedqax import ops

# E[mypy]: arg-type: Argument 1 to "install" has incompatible type "Rule"; expected "HandlerTable"
# E[pyright]: reportArgumentType: Argument of type "Rule" cannot be assigned to parameter "table" of type "HandlerTable" in function "install"
tq.install(ops.neg.to(negative))
