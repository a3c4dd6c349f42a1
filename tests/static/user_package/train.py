"""Gradient descent on whatever the weights are made of."""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

import typedqax as tq
from user_package.circulant import Circulant
from user_package.low_rank import adapt
from user_package.model import Layer, Network, squared_error
from user_package.tables import STRUCTURED

loss = tq.use_implicit_args(squared_error, handlers=STRUCTURED)


@dataclass(frozen=True)
class Report:
    """What happened in a run."""

    losses: tuple[float, ...]
    parameters: int
    dense_parameters: int


def build(key: Key[Array, ""], width: int) -> Network:
    """A network with one structured weight of each kind."""
    first, second, third = jax.random.split(key, 3)
    circulant = Circulant.random(first, width)
    adapted = adapt(Circulant.random(second, width), third, rank=2)
    bias = jnp.zeros(width)
    return Network((Layer(circulant, bias), Layer(adapted, bias)))


def batches(key: Key[Array, ""], width: int, count: int) -> Iterator[tuple[Array, Array]]:
    """Inputs, and what a random circulant matrix makes of them."""
    key, of_target = jax.random.split(key)
    target = tq.materialize(Circulant.random(of_target, width))
    for step in range(count):
        x = jax.random.normal(jax.random.fold_in(key, step), (16, width))
        yield x, x @ target


def descend(parameter: Array, gradient: Array) -> Array:
    return parameter - 0.1 * gradient


@jax.jit
def step(network: Network, x: Float[Array, "b m"], y: Float[Array, "b n"]) -> tuple[Network, Array]:
    value, gradient = jax.value_and_grad(loss)(network, x, y)
    moved: Network = jax.tree.map(descend, network, gradient)
    return moved, value


def fit(seed: int = 0, width: int = 8, steps: int = 20) -> Report:
    """Train, and say how the loss fell and how many parameters there were."""
    key = jax.random.key(seed)
    network = build(key, width)
    losses: list[float] = []
    for x, y in batches(key, width, steps):
        network, value = step(network, x, y)
        losses.append(float(value))
    parameters = sum(int(leaf.size) for leaf in jax.tree.leaves(network))
    dense = sum(layer.weight.size + layer.bias.size for layer in network.layers)
    return Report(tuple(losses), parameters, dense)
