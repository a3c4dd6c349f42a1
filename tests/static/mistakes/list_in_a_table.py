"""Tables: A list of rules in a table."""

import typedqax as tq
from mistakes.right import negative, plus
from typedqax import ops

# E[mypy]: arg-type: Argument 2 to "HandlerTable" has incompatible type "list[Rule]"; expected "Rule | HandlerTable"
# E[pyright]: reportArgumentType: "list[Rule]" is not assignable to "HandlerTable"
TABLE = tq.HandlerTable("lora", [ops.neg.to(negative), ops.add.to(plus)])
