"""Annotations: A jaxtyping annotation without a shape."""

from jaxtyping import Float

import typedqax as tq
from mistakes.right import Lora
from typedqax import ops


# E[mypy]: valid-type: Annotated[...] must have exactly one type argument and at least one annotation
# E[pyright]: reportInvalidTypeForm: Expected one type argument and one or more annotations for "Annotated"
def negated(w: Float[Lora], /) -> Lora:
    # E[mypy]: no-any-return: Returning Any from function declared to return "Lora"
    # E[pyright]: none: what cannot be read is of any type
    return w


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))
