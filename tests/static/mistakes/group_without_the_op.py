"""Tables: A group's handler that does not take the op first."""

from jax import Array
from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


def scaled(w: Lora, s: Float[Array, ""], /) -> Lora:
    return Lora(w.w * s, w.a * s, w.b)


# E[mypy]: arg-type: incompatible type "Callable[[Lora, Array], Lora]"
# E[pyright]: reportArgumentType: Function accepts too few positional parameters; expected 3 but received 2
TABLE = tq.HandlerTable("lora", (ops.mul | ops.div).to(scaled))
