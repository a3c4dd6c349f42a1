"""Classes: `shape=3`, a number."""

import jax.numpy as jnp

from mistakes.right import Zeros


def call() -> object:
    # E[mypy]: arg-type: Argument "shape" to "Zeros" has incompatible type "int"; expected "Sequence[int] | None"
    # E[pyright]: reportArgumentType: Type "Literal[3]" is not assignable to type "Sequence[int] | None"
    return Zeros(shape=3, dtype=jnp.float32)
