"""What a checker says of code that is right: false alarms, each with the way around it."""

from dataclasses import InitVar, dataclass

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


@dataclass
class Quantized(tq.ImplicitArray):
    """Mypy forgets an InitVar when it meets an explicit `@dataclass`; leave the decorator out."""

    dense: InitVar[Float[Array, "m n"]]

    # E[mypy]: override: Signature of "__post_init__" incompatible with supertype "dataclass"
    # E[pyright]: none: pyright is right
    def __post_init__(self, dense: Array) -> None:
        self.q = jnp.round(dense).astype(jnp.int8)

    def materialize(self) -> Array:
        return self.q.astype(jnp.float32)


def constructed(dense: Array) -> None:
    # E[mypy]: call-arg: Too many positional arguments for "Quantized"
    # E[mypy]: arg-type: Argument 1 to "Quantized" has incompatible type "Array"
    # E[pyright]: none: pyright is right
    Quantized(dense)
