"""Tables: `@primitive_handler` without saying of what."""

from typing import Any

import typedqax as tq
from mistakes.right import Lora


# E[mypy]: arg-type: Argument 1 to "primitive_handler" has incompatible type "Callable[[Any, Lora], Lora]"
# E[pyright]: reportArgumentType: "FunctionType" is not assignable to "Sequence[One]"
@tq.primitive_handler
def negated(primitive: Any, w: Lora, /) -> Lora:
    return w
