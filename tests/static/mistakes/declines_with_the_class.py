"""Results: `return tq.Declined`, the class, where `tq.DECLINE` is meant."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> Lora | tq.Declined:
    # E[mypy]: return-value: Incompatible return value type (got "type[Declined]", expected "Lora | Declined")
    # E[pyright]: reportReturnType: Type "type[Declined]" is not assignable to return type "Lora | Declined"
    return tq.Declined


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
