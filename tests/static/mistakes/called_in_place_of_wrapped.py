"""Use: `use_implicit_args(f, x)` for `use_implicit_args(f)(x)`."""

from jax import Array

import typedqax as tq
from mistakes.right import lora


def twice(w: Array) -> Array:
    return 2.0 * w


def call() -> object:
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument types "Callable[[Array], Array]", "Lora"
    # E[pyright]: reportCallIssue: No overloads for "use_implicit_args" match the provided arguments
    return tq.use_implicit_args(twice, lora())
