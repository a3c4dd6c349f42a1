"""Tables: The result of a handler in place of the handler."""

import typedqax as tq
from mistakes.right import lora, negative
from typedqax import ops

# E[mypy]: arg-type: incompatible type "Lora"
# E[pyright]: reportArgumentType: Argument of type "Lora" cannot be assigned to parameter "handler" of type "(X@to) -> R@to" in function "to"
TABLE = tq.HandlerTable("lora", ops.neg.to(negative(lora())))
