"""Use: `use_implicit_args(f(x))` for `use_implicit_args(f)(x)`."""

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from mistakes.right import lora


def twice(w: Array) -> Array:
    return 2.0 * w


def call() -> object:
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument type "Array"
    # E[pyright]: reportArgumentType: Type "Array" is not assignable to type "(...) -> Any"
    return tq.use_implicit_args(twice(jnp.ones(3)))(lora())
