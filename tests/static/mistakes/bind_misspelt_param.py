"""Bodies: A param misspelt in `bind`."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def turned(w: Lora, /, *, permutation: tuple[int, ...]) -> Lora:
    # E[mypy]: call-arg: Unexpected keyword argument "permutations" for "bind" of "UnaryOp"; did you mean "permutation"?
    # E[pyright]: reportCallIssue: Argument missing for parameter "permutation"
    # E[pyright]: reportCallIssue: No parameter named "permutations"
    return Lora(ops.transpose.bind(w.w, permutations=permutation), w.b, w.a)


TABLE = tq.HandlerTable("lora", ops.transpose.to(turned))


def call() -> object:
    return tq.use_implicit_args(lambda w: w.T, handlers=TABLE)(lora())
