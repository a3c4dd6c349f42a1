"""Tables: A function in a table, without its op."""

import typedqax as tq
from mistakes.right import negative

# E[mypy]: arg-type: Argument 2 to "HandlerTable" has incompatible type "Callable[[Lora], Lora]"; expected "Rule | HandlerTable"
# E[pyright]: reportArgumentType: "FunctionType" is not assignable to "HandlerTable"
TABLE = tq.HandlerTable("lora", negative)
