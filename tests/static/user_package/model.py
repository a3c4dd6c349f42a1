"""A network on plain arrays, written before anyone thought of structured weights."""

# pyright: strict, reportUnknownMemberType=false

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


class Layer(NamedTuple):
    """An affine map."""

    weight: Float[Array, "m n"]
    bias: Float[Array, "n"]

    def __call__(self, x: Float[Array, "*b m"]) -> Float[Array, "*b n"]:
        return x @ self.weight + self.bias


class Network(NamedTuple):
    """Affine maps with a nonlinearity in between."""

    layers: tuple[Layer, ...]

    def __call__(self, x: Float[Array, "*b m"]) -> Float[Array, "*b n"]:
        for layer in self.layers[:-1]:
            x = jax.nn.gelu(layer(x))
        return self.layers[-1](x)


def squared_error(
    network: Network, x: Float[Array, "b m"], y: Float[Array, "b n"]
) -> Float[Array, ""]:
    return jnp.mean(jnp.square(network(x) - y))
