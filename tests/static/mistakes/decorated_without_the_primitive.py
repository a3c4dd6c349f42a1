"""Tables: A decorated handler that does not take the primitive first."""

import typedqax as tq
from mistakes.right import Lora


# E[mypy]: type-var: Value of type variable "F" of function cannot be "Callable[[Lora], Lora]"
# E[pyright]: reportArgumentType: Parameter 1: type "Primitive" is incompatible with type "Lora"
@tq.primitive_handler("neg")
def negated(w: Lora, /) -> Lora:
    return w
