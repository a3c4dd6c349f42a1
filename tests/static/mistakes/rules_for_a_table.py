"""Use: `handlers=` a list of rules."""

from jax import Array

import typedqax as tq
from mistakes.right import lora, negative
from typedqax import ops


def minus(w: Array) -> Array:
    return -w


def call() -> object:
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument types "Callable[[Array], Array]", "list[Rule]"
    # E[pyright]: reportArgumentType: Type "list[Rule]" is not assignable to type "HandlerTable | None"
    return tq.use_implicit_args(minus, handlers=[ops.neg.to(negative)])(lora())
