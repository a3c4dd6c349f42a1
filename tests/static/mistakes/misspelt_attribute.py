"""Classes: A field misspelt in a handler."""

import typedqax as tq
from mistakes.right import Lora, lora
from typedqax import ops


def negated(w: Lora, /) -> Lora:
    # E[mypy]: attr-defined: "Lora" has no attribute "ww"
    # E[pyright]: reportAttributeAccessIssue: Cannot access attribute "ww" for class "Lora"
    return Lora(-w.ww, w.a, w.b, -w.alpha)


TABLE = tq.HandlerTable("lora", ops.neg.to(negated))


def call() -> object:
    return tq.use_implicit_args(lambda w: -w, handlers=TABLE)(lora())
