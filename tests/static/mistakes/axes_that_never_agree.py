"""Classes: Fields whose axes can never agree."""

from jax import Array
from jaxtyping import Float

import typedqax as tq


class Trapezoid(tq.ImplicitArray):
    above: Float[Array, "m-n"]
    below: Float[Array, "n-m-1"]
    middle: Float[Array, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.middle
